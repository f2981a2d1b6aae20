"""The port `Maintenance` on a database."""
