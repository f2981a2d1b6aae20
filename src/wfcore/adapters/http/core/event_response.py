"""The ASGI response of an event stream.

An idle stream is two tasks: one waits for events, one for the disconnection of the client. Heartbeats, stalls and the
end of the server are found by one timer for all streams of an event loop.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final
from weakref import WeakKeyDictionary

from sse_starlette.sse import AppStatus
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

MOST_SECONDS: Final = 0.5
"""Seconds between two looks at all streams; shorter if a stream has shorter times."""
HEADERS: Final = {"Cache-Control": "no-store", "Connection": "keep-alive", "X-Accel-Buffering": "no"}
HEARTBEAT: Final = b":\n\n"

CLOSES: Final = "wfcore.closes"
"""The key of a scope's `state` after whose response the server closes the connection: its caller lost a right."""

OnDisconnect = Callable[[Message], Awaitable[None]]
"""Awaited when the client disconnects before the end of the stream."""


class Stalled(TimeoutError):
    """The client does not read."""


class EventResponse(Response):
    """Sends chunks until they end, the client disconnects or stalls, or the server ends; a heartbeat when it is idle.

    Raises Stalled when a chunk is not read within `stall_seconds`.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        headers: Mapping[str, str] | None,
        on_disconnect: OnDisconnect | None,
        heartbeat_seconds: float,
        stall_seconds: float,
    ) -> None:
        self.status_code, self.background = 200, None
        self.init_headers({**(headers or {}), **HEADERS})
        self.seconds: Final = min(MOST_SECONDS, heartbeat_seconds, stall_seconds)
        self.on_begin: Callable[[], Awaitable[Any]] | None = None
        """Awaited before the first chunk; `on_end` is called with its result."""
        self.on_end: Callable[[Any], None] | None = None
        self._chunks = chunks
        self._on_disconnect = on_disconnect
        self._heartbeat_seconds = heartbeat_seconds
        self._stall_seconds = stall_seconds
        self._sent_at = 0.0
        self._sending_since: float | None = None
        self._error: Stalled | None = None
        self._last = b""
        self._is_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send, self._task = send, asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await self._stream(receive)
        if self._last:
            scope.setdefault("state", {})[CLOSES] = True
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, receive: Receive) -> None:
        self._sent_at = self._loop.time()
        timer = _timers.setdefault(self._loop, _Timer())
        listening = self._loop.create_task(self._listen(receive))
        timer.add(self)
        try:
            await self._send_chunks()
        except asyncio.CancelledError:
            if not self._is_ended or (self._task is not None and self._task.uncancel()):
                raise
            if self._last:
                await self._send_one(self._last)
        finally:
            timer.remove(self)
            listening.cancel()
        if self._error is not None:
            raise self._error

    async def _send_chunks(self) -> None:
        begun = None if self.on_begin is None else await self.on_begin()
        try:
            async with aclosing(self._chunks):
                async for chunk in self._chunks:
                    await self._send_one(chunk)
        finally:
            if self.on_end is not None:
                self.on_end(begun)

    async def _send_one(self, chunk: bytes) -> None:
        self._sending_since = self._loop.time()
        try:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            self._sending_since, self._sent_at = None, self._loop.time()

    async def _listen(self, receive: Receive) -> None:
        """End when the client disconnects."""
        while (message := await receive())["type"] != "http.disconnect":
            pass
        if self._on_disconnect is not None:
            await self._on_disconnect(message)
        self.end()

    def end(self, error: Stalled | None = None, last: bytes = b"") -> None:
        """End the stream without the rest of its chunks: with `last` instead, or with an error."""
        if not self._is_ended and self._task is not None:
            self._is_ended, self._error, self._last = True, error, last
            self._task.cancel()

    def look(self, now: float, *, is_exiting: bool) -> None:
        """What the time demands. Called from time to time."""
        if is_exiting:
            self.end()
        elif self._sending_since is not None:
            if now - self._sending_since >= self._stall_seconds:
                self.end(Stalled("the client does not read"))
        elif now - self._sent_at >= self._heartbeat_seconds:
            beating = self._loop.create_task(self._send_one(HEARTBEAT))
            beating.add_done_callback(_without_error)


def _without_error(task: "asyncio.Task[None]") -> None:
    """A connection that is lost also ends the stream."""
    if not task.cancelled():
        task.exception()


class _Timer:
    """Looks at all streams of one event loop, as long as there are any. It must not refer to the loop otherwise: its
    value in `_timers` would keep a closed loop.
    """

    def __init__(self) -> None:
        self._streams = set[EventResponse]()
        self._handle: asyncio.TimerHandle | None = None

    def add(self, stream: EventResponse) -> None:
        self._streams.add(stream)
        if self._handle is None or stream.seconds < MOST_SECONDS:
            self._schedule(stream.seconds)

    def remove(self, stream: EventResponse) -> None:
        self._streams.discard(stream)
        if not self._streams and self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self, seconds: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        now, is_exiting = asyncio.get_running_loop().time(), _is_exiting()
        for stream in tuple(self._streams):
            stream.look(now, is_exiting=is_exiting)
        self._schedule(min(stream.seconds for stream in self._streams))


_timers = WeakKeyDictionary[asyncio.AbstractEventLoop, _Timer]()


def _is_exiting() -> bool:
    """Whether the server of this process ends. uvicorn waits for its streams, and its handler of SIGTERM is a method of
    the server; sse-starlette, which MCP needs, has its own mark.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return AppStatus.should_exit or bool(getattr(server, "should_exit", False))
