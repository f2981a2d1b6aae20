"""The repositories of the storage port, on SQL."""
