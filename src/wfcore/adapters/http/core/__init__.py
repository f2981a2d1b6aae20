"""The ASGI application: authentication, request parsing, responses, streams."""
