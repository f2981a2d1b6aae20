"""Outbound requests on behalf of customers: the address guard, the client behind it, and the tool `core.http`."""
