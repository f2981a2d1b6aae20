"""Contracts of a storage and its journal together."""
