"""The lines that come in on stdin, waited for without holding up what else this process does."""

import asyncio
import os
import termios
from typing import Final

CHUNK: Final = 2**16


class Lines:
    """Lines of a terminal, a pipe or a file, without their ends. What is no UTF-8 is replaced."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = b""
        self._ended = False

    async def next(self) -> str | None:
        """The next line; None after the last."""
        while b"\n" not in self._held and not self._ended:
            await self._readable()
            read = os.read(self._descriptor, CHUNK)
            self._held += read
            self._ended = not read
        line, _, rest = self._held.partition(b"\n")
        if self._ended and not self._held:
            return None
        self._held = rest
        return line.decode(errors="replace").removesuffix("\r")

    def forget(self) -> None:
        """Drop what was typed or pasted ahead at a terminal: no line of a pasted text answers a question behind it.

        A pipe or a file keeps its lines.
        """
        if os.isatty(self._descriptor):
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            self._held = b""

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:  # a regular file is always readable, and nothing to wait for
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
