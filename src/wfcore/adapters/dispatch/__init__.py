"""The dispatcher of executions, the hub of event streams, and the notifications between processes."""
