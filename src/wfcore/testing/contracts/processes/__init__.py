"""Contracts of what several processes share beside the store."""
