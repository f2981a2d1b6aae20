"""Plugs for the ports, and the doors: HTTP and the command line."""
