"""The HTTP interface, to be mounted into an application: `app.mount("/automation", wfcore.http.app(core))`."""

from wfcore.adapters.http import Studio, app

__all__ = ["Studio", "app"]
