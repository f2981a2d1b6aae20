"""The HTTP adapter: both APIs of the interface as one ASGI application. It translates; use cases hold every rule."""

from wfcore.extras import needs_extra

with needs_extra("server", "the HTTP interface"):
    from wfcore.adapters.http.application import app
    from wfcore.adapters.http.studio.branding import Studio

__all__ = ["Studio", "app"]
