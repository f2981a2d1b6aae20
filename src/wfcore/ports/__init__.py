"""Protocols that adapters implement; their docstrings are the contract."""
