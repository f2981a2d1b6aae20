"""Rows on a server, its streams and lists, and on the start of a process."""
