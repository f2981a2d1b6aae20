"""The stores in an SQL database."""
