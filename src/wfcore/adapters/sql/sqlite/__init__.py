"""SQLite: connections, transactions, group commit."""
