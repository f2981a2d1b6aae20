"""PostgreSQL: connections, transactions, group commit, pipeline mode."""
