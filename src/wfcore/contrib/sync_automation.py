"""One core for the sync code of a product, whether an ASGI server, a WSGI server or a command runs it."""

import atexit
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import wfcore
from wfcore.extras import needs_extra
from wfcore.synchronous import EventLoop

with needs_extra("server", "`wfcore.contrib.sync_automation`"):
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.types import ASGIApp

    from wfcore.contrib.starlette import Automation, Principals, Ready

__all__ = ["SyncAutomation"]

# A core closes with the help of threads, so it must close before Python stops its executors. `atexit` is after that;
# the function of `threading` is private, but executors have used it since Python 3.9.
_at_exit = getattr(threading, "_register_atexit", atexit.register)

_preparing: ContextVar[bool] = ContextVar("wfcore_preparing", default=False)


class SyncAutomation:
    """One core for the process. Nothing is opened yet."""

    def __init__(
        self,
        database: Any,
        *,
        authenticate: Principals,
        ready: Ready | None,
        http: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        """`database` and `options` are those of `wfcore.open`, `http` those of `wfcore.http.app`. `authenticate` finds
        the principal of a request of the mounted API. `ready` is awaited once for each core, before its first use.
        """
        self._ready = ready
        self._open = partial(wfcore.open_sync, database, **options)
        self._served = Automation(database, principal=authenticate, ready=self._prepare, http=http, **options)
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

    def close(self) -> None:
        """Close a core that `core` has opened; a later use opens it again."""
        with self._lock:
            self._core = None
            self._stack.close()

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

    def _close_at_exit(self) -> None:
        """Active runs get their time to reach a durable point. A core of the process that forked is not this one's."""
        with suppress(RuntimeError):
            self.close()

    def _beside(self, application: ASGIApp, path: str) -> ASGIApp:
        """The application of the product, with wfcore mounted at `path`. The core opens with the lifespan."""
        return Starlette(routes=[self._served.mount(path), Mount("/", application)], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        async with EventLoop() as loop, self._served.lifespan(app):
            self._core, self._process = wfcore.SyncCore(self._served.core, loop), os.getpid()
            try:
                yield
            finally:
                self._core = None
