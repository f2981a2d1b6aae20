"""Lines of stdin, read without blocking the event loop."""

import asyncio
import os
import termios
from typing import Final

CHUNK: Final = 2**16


class Lines:
    """Lines of a terminal, a pipe or a file, without line ends. Invalid UTF-8 is replaced."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = False

    async def next(self) -> str | None:
        """The next line; None after the last."""
        while b"\n" not in self._buffer and not self._ended:
            await self._readable()
            read = os.read(self._descriptor, CHUNK)
            self._buffer += read
            self._ended = not read
        line, _, rest = self._buffer.partition(b"\n")
        if self._ended and not self._buffer:
            return None
        self._buffer = rest
        return line.decode(errors="replace").removesuffix("\r")

    def discard_typed_ahead(self) -> None:
        """Discard what was typed or pasted at a terminal, so that a pasted line cannot answer a later prompt.

        The lines of a pipe or a file are kept.
        """
        if os.isatty(self._descriptor):
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            self._buffer = b""

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:  # a regular file is always readable
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
