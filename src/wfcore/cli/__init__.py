"""The command line (interface of its own: see docs/running.md)."""
