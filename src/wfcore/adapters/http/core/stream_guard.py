"""Ends an open stream when its caller loses the right to read it, with a comment line as its last bytes."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import anyio

from wfcore.adapters.http.core.sse import EventStream
from wfcore.domain.resources.access import Principal
from wfcore.runtime.runs.open_streams import OpenStreams

ENDED: Final = b": the stream ended because its caller can no longer read it\n\n"


class StreamGuard:
    """Watches every stream that the application sends."""

    def __init__(self, streams: OpenStreams) -> None:
        self._streams = streams

    def guard(self, me: Principal, response: EventStream) -> None:
        """Let the stream end with the caller's right to read it."""
        response.body_iterator = self._until_lost(me, response)

    async def _until_lost(self, me: Principal, response: EventStream) -> AsyncIterator[bytes]:
        waiting = _Waiting()
        stream = await self._streams.add(me, response.shown, waiting.end)
        try:
            async with aclosing(response.chunks) as chunks:
                while (chunk := await waiting.next(chunks)) is not None:
                    yield chunk
            if waiting.is_lost:
                yield ENDED
        finally:
            self._streams.remove(stream)


class _Waiting:
    """The wait for the next chunk, which `end` interrupts."""

    def __init__(self) -> None:
        self.is_lost = False
        self._scope: anyio.CancelScope | None = None

    def end(self) -> None:
        self.is_lost = True
        if self._scope is not None:
            self._scope.cancel()

    async def next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        """The next chunk; None at the end, and once the right is lost."""
        chunk = None
        if not self.is_lost:
            with anyio.CancelScope() as self._scope:
                chunk = await anext(chunks, None)
            self._scope = None
        return None if self.is_lost else chunk
