"""The HTTP door: both APIs of the interface as one ASGI application. It translates; every rule is a use case's."""

from wfcore.adapters.http.application import app

__all__ = ["app"]
