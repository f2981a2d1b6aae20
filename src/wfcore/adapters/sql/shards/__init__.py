"""Several PostgreSQL databases: where organizations are, and how one moves from one database to another."""
