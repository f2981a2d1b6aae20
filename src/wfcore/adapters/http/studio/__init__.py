"""The studio: the built pages and custom elements of `studio/`, and the routes that serve them."""

from wfcore.adapters.http.studio.branding import Studio

__all__ = ["Studio"]
