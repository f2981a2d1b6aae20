"""The tables, and the differences between the SQL dialects."""
