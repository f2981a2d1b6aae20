"""wfcore in a product on Starlette: opened with the application, mounted, and with the product's users.

    automation = Automation("sqlite:///app.db", principal=principal_of, tools=[send_refund])
    app = Starlette(lifespan=automation.lifespan, routes=[automation.mount("/automation")])

`principal_of(core, connection)` returns the principal of a request, from the sessions of the product, or None.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import wfcore
from wfcore.extras import needs_extra

with needs_extra("server", "`wfcore.contrib.starlette`"):
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.routing import Mount
    from starlette.types import ASGIApp, Receive, Scope, Send

    from wfcore.adapters.http.core.origins import Site
    from wfcore.adapters.http.core.responses import error_response, for_client, safe_request_id

__all__ = ["Automation", "Principals", "Ready"]

Principals = Callable[[wfcore.Core, HTTPConnection], wfcore.Principal | Awaitable[wfcore.Principal | None] | None]
"""The principal of a request, or None for a 401; sync or async."""
Ready = Callable[[wfcore.Core], Awaitable[None]]
"""Called when the core is open, before the application serves: creates workflows, registers handlers."""


class Automation:
    """One core for the life of an application. `http` are options of `wfcore.http.app`, `options` of `wfcore.open`."""

    def __init__(
        self,
        database: Any = "sqlite:///wfcore.db",
        *,
        principal: Principals,
        ready: Ready | None = None,
        http: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._database = database
        self._principal = principal
        self._ready = ready
        self._http = dict(http or {})
        self._options = options
        self.site = Site(self._http.get("allowed_hosts", ()), self._http.get("browser_origins", ()))
        self._core: wfcore.Core | None = None
        self._served: ASGIApp | None = None

    @property
    def core(self) -> wfcore.Core:
        """The open core. Raises RuntimeError before the application starts, and after it ends."""
        if self._core is None:
            raise RuntimeError("wfcore is not open: pass `automation.lifespan` to the application")
        return self._core

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Open the core until the application ends; also to be entered in a lifespan of the product's own."""
        async with wfcore.open(self._database, **self._options) as core:
            self._core, self._served = core, wfcore.http.app(core, authenticate=self._authenticate, **self._http)
            try:
                if self._ready is not None:
                    await self._ready(core)
                yield
            finally:
                self._core = self._served = None

    def mount(self, path: str = "/automation") -> Mount:
        """The route with both APIs and the studio."""
        return Mount(path, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._served is None:
            raise RuntimeError("wfcore is not open: pass `automation.lifespan` to the application")
        await self._served(scope, receive, send)

    # For the product's own routes

    async def principal(self, request: Request) -> wfcore.Principal:
        """The principal of a request. Raises Unauthenticated."""
        found = await self._authenticate(request)
        if found is None:
            raise wfcore.Unauthenticated("sign in first")
        return found

    async def same_site(self, request: Request) -> None:
        """Refuse a request that changes something and comes from a page of another site, as the mounted API does.

        Raises Forbidden with `info.reason` `cross_site`.
        """
        self.site.check_same_site(request.method, request.headers)

    async def error(self, request: Request, error: Exception) -> Response:
        """The response to an error of wfcore: the handler for `wfcore.WfcoreError` in `exception_handlers`."""
        if not isinstance(error, wfcore.WfcoreError):
            raise error
        return refusal(error, request.headers.get("X-Request-Id"))

    async def _authenticate(self, connection: HTTPConnection) -> wfcore.Principal | None:
        found = self._principal(self.core, connection)
        return await found if inspect.isawaitable(found) else found


def refusal(error: wfcore.WfcoreError, request_id: str | None) -> Response:
    """What the mounted API responds to the error of a request that has this id, or none."""
    known = safe_request_id(request_id) or str(uuid4())
    response = error_response(for_client(error, known), known)
    response.headers["X-Request-Id"] = known
    return response
