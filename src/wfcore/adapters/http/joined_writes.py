"""A transport that joins what is written in one turn of the event loop, because each write to a socket costs as much as
many steps of Python: uvicorn writes the head, each part of the body and the end of a response one by one.
"""

import asyncio
from typing import Any, Final

LARGE: Final = 2**16
"""Bytes that are written at once, so that the buffer of the transport shows a client that does not read."""


class JoinedWrites(asyncio.Transport):
    """The part of a transport that uvicorn uses. What was written leaves with `flush`, at the latest in the next turn
    of the loop, and before the transport ends.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts = list[bytes]()
        self._size = 0
        self._is_planned = False

    def write(self, data: Any) -> None:
        if not data:
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size >= LARGE:
            self.flush()
        elif not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._flush_as_planned)

    def flush(self) -> None:
        """Write what was collected."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._transport.write(data)

    def _flush_as_planned(self) -> None:
        self._is_planned = False
        self.flush()

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._parts.clear()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
