"""wfcore in a product on Flask: the users of its sessions, sync views, and the API beside them in one ASGI server.

    automation = FlaskAutomation(DATABASE, principal=principal_of, tools=[send_refund])
    automation.install(app)
    asgi = automation.asgi(app, "/automation")

`principal_of(core)` returns the principal of the current request of Flask: `session`, `g` and the current user of
Flask-Login are those of that request. Views use `automation.core`, a `wfcore.SyncCore`; under WSGI and in commands it
opens when it is first used.
"""

from collections.abc import Callable, Mapping
from typing import Any

import wfcore
from wfcore.extras import needs_extra

with needs_extra("server", "`wfcore.contrib.flask`", beside="flask"):
    from flask import Flask, Response, request
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import Headers
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp
    from werkzeug.test import EnvironBuilder

    from wfcore.contrib.starlette import Ready, refusal
    from wfcore.contrib.sync_automation import SyncAutomation

__all__ = ["FlaskAutomation"]

CurrentUser = Callable[[wfcore.Core | wfcore.SyncCore], wfcore.Principal | None]
"""The principal of the current request of Flask, or None for a 401."""


class FlaskAutomation(SyncAutomation):
    """One core for the process.

    `database` is that of `wfcore.open`. `principal` is called for each request, within its context. `ready` is awaited
    once for each core, before its first use. `http` are options of `wfcore.http.app`, `options` of `wfcore.open`.
    Nothing is opened yet.
    """

    def __init__(
        self,
        database: Any,
        *,
        principal: CurrentUser,
        ready: Ready | None = None,
        http: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._current = principal
        self._app: Flask | None = None
        super().__init__(database, authenticate=self._by_session, ready=ready, http=http, options=options)

    def install(self, app: Flask) -> None:
        """Let views answer errors of wfcore with their status and their JSON, as the mounted API does."""
        self._app = app
        app.register_error_handler(wfcore.WfcoreError, _response_to)

    def principal(self) -> wfcore.Principal:
        """The principal of the current request, for views. Raises Unauthenticated."""
        found = self._current(self.core)
        if found is None:
            raise wfcore.Unauthenticated("sign in first")
        return found

    def same_site(self) -> None:
        """For `before_request`: refuse a request that changes something and comes from a page of another site.

        Raises Forbidden with `info.reason` `cross_site`. Flask has no such protection of its own.
        """
        self._served.site.check_same_site(request.method, Headers(dict(request.headers)))

    def asgi(self, app: Flask, path: str = "/automation") -> ASGIApp:
        """The application of Flask with wfcore mounted at `path`, for an ASGI server that supports lifespans.

        `path` begins with a slash. Views run in threads. The core opens with the lifespan, and `core` is then the same
        one.
        """
        with needs_extra("server", "`FlaskAutomation.asgi`", beside="a2wsgi"):
            from a2wsgi import WSGIMiddleware
        self._app = app
        application: Any = app  # a2wsgi has types of its own for WSGI and ASGI
        served: Any = WSGIMiddleware(application)
        return self._beside(served, path)

    async def _by_session(self, core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
        return await run_in_threadpool(self._in_context, core, connection)

    def _in_context(self, core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
        """The principal of a request of the mounted API, in a context of Flask with its session."""
        assert self._app is not None  # noqa: S101  (`asgi` has mounted the API)
        with self._app.request_context(_environ_of(connection)):
            return self._current(core)


def _environ_of(connection: HTTPConnection) -> dict[str, Any]:
    """A request without its body, as WSGI describes it: bytes are the characters with their numbers (PEP 3333)."""
    scope = connection.scope
    environ = EnvironBuilder(method=scope["method"], headers=connection.headers.items()).get_environ()
    environ["wsgi.url_scheme"] = scope["scheme"]
    environ["PATH_INFO"] = scope["path"].encode().decode("latin-1")
    environ["QUERY_STRING"] = scope["query_string"].decode("latin-1")
    return environ


def _response_to(error: wfcore.WfcoreError) -> Response:
    found = refusal(error, request.headers.get("X-Request-Id"))
    return Response(bytes(found.body), found.status_code, dict(found.headers))
