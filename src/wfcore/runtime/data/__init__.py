"""Data of an organization as a whole: retention, export, erasure."""
