"""wfcore in a product on Django: the users of its sessions, sync views, and the API beside them in one ASGI server.

    automation = DjangoAutomation(DATABASE, principal=principal_of, tools=[send_refund])  # in a module of the product
    application = automation.asgi(get_asgi_application(), "/automation")  # in asgi.py

`principal_of(core, user)` returns the principal of a user of Django. Views use `automation.core`, a `wfcore.SyncCore`;
under WSGI and in management commands it opens when it is first used.
"""

import atexit
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import wfcore
from wfcore.extras import needs_extra
from wfcore.synchronous import EventLoop

with needs_extra("server", "`wfcore.contrib.django`", beside="django"):
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
    from django.conf import settings
    from django.contrib.auth import get_user
    from django.core.exceptions import PermissionDenied
    from django.db import close_old_connections
    from django.http import HttpRequest, HttpResponse
    from django.utils.module_loading import import_string
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection
    from starlette.routing import Mount
    from starlette.types import ASGIApp

    from wfcore.contrib.starlette import Automation, Ready, refusal

__all__ = ["DjangoAutomation", "ErrorMiddleware", "database"]

# A core closes with the help of threads, so it must close before Python stops its executors. `atexit` is after that;
# the function of `threading` is private, but executors have used it since Python 3.9.
_at_exit = getattr(threading, "_register_atexit", atexit.register)

_preparing: ContextVar[bool] = ContextVar("wfcore_preparing", default=False)

Users = Callable[[wfcore.Core | wfcore.SyncCore, Any], wfcore.Principal | None]
"""The principal of an active user of Django, or None for a 401."""


class DjangoAutomation:
    """One core for the process.

    `database` is that of `wfcore.open`. `principal` is called for each request with the core and an active user of
    Django; None is a 401 of the API, and PermissionDenied in a view. `ready` is awaited once for each core, before its
    first use. `http` are options of `wfcore.http.app`, `options` of `wfcore.open`. Nothing is opened yet.
    """

    def __init__(
        self,
        database: Any,
        *,
        principal: Users,
        ready: Ready | None = None,
        http: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._users = principal
        self._ready = ready
        self._open = partial(wfcore.open_sync, database, **options)
        self._served = Automation(database, principal=self._by_session, ready=self._prepare, http=http, **options)
        self._core: wfcore.SyncCore | None = None
        self._stack = ExitStack()
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def core(self) -> wfcore.SyncCore:
        """The core for sync code: that of the ASGI server, else one that this opens until the process ends.

        A process that forked later gets one of its own. Raises RuntimeError in `ready`, which receives a core.
        """
        if _preparing.get():
            raise RuntimeError("`automation.core` opens after `ready`: use the core that `ready` receives")
        with self._lock:
            if self._core is None or self._process != os.getpid():
                self._core, self._process = self._opened(), os.getpid()
                _at_exit(self._close_at_exit)
            return self._core

    def _opened(self) -> wfcore.SyncCore:
        """A core for which `ready` has been called. If it fails, the core is closed again."""
        with ExitStack() as opening:
            core = opening.enter_context(self._open())
            core.call(self._prepare)
            self._stack.enter_context(opening.pop_all())
        return core

    async def _prepare(self, core: wfcore.Core) -> None:
        if self._ready is not None:
            token = _preparing.set(True)
            try:
                await self._ready(core)
            finally:
                _preparing.reset(token)

    def close(self) -> None:
        """Close a core that `core` has opened; a later use opens it again."""
        with self._lock:
            self._core = None
            self._stack.close()

    def _close_at_exit(self) -> None:
        """Active runs get their time to reach a durable point. A core of the process that forked is not this one's."""
        with suppress(RuntimeError):
            self.close()

    def principal(self, request: HttpRequest) -> wfcore.Principal:
        """The principal of a request, for views.

        Raises PermissionDenied, which Django answers with 403, for a user who is not signed in or not active, and for
        one without a principal.
        """
        found = self._principal(self.core, request.user)
        if found is None:
            raise PermissionDenied("sign in first")
        return found

    def asgi(self, application: ASGIApp, path: str = "/automation") -> ASGIApp:
        """The application of Django with wfcore mounted at `path`, for an ASGI server that supports lifespans.

        Views of Django have its own protection against requests of other sites (`CsrfViewMiddleware`); the API at
        `path`, which begins with a slash, has that of wfcore. The core opens with the lifespan, and `core` is then the
        same one.
        """
        return Starlette(routes=[self._served.mount(path), Mount("/", application)], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        async with EventLoop() as loop, self._served.lifespan(app):
            self._core, self._process = wfcore.SyncCore(self._served.core, loop), os.getpid()
            try:
                yield
            finally:
                self._core = None

    async def _by_session(self, core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
        key = connection.cookies.get(settings.SESSION_COOKIE_NAME)
        return None if key is None else await sync_to_async(self._of_session)(core, key)

    def _of_session(self, core: wfcore.Core, key: str) -> wfcore.Principal | None:
        request = HttpRequest()
        request.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(key)
        return self._principal(core, get_user(request))

    def _principal(self, core: "wfcore.Core | wfcore.SyncCore", user: Any) -> wfcore.Principal | None:
        return self._users(core, user) if user.is_authenticated and user.is_active else None


class ErrorMiddleware:
    """For `MIDDLEWARE`: an error of wfcore in a view gets its status and its JSON, as in the mounted API.

    Its `X-Request-Id` is that of the request, if that is a sane one, or new. Other errors are those of Django.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, wfcore.WfcoreError):
            return None
        found = refusal(error, request.headers.get("X-Request-Id"))
        return HttpResponse(found.body, status=found.status_code, headers=found.headers)


def database() -> Iterator[None]:
    """For `Annotated[None, wfcore.Provide(database)]`: a tool leaves no connection of Django open in its thread."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
