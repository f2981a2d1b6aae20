"""The tables, and what differs between the dialects of SQL."""
