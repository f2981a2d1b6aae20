"""Requests into the world on behalf of customers: the guard, the client behind it, and the tool `core.http`."""
