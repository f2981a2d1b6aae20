"""Dispatchers of executions, and the notifications between processes."""
