"""The system clock, the clock of a server, and random ids."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import uuid_utils

from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.kernel.ids import ALPHABET

log = logging.getLogger(__name__)

ReadClock = Callable[[], Awaitable[int]]
"""Returns the wall time of a server in epoch milliseconds, or raises Unavailable."""

READ_INTERVAL: Final = 5.0
"""Seconds between two readings of a server's clock."""

LARGEST_DIFFERENCE: Final = 5_000
"""Milliseconds by which the clocks of this machine and of the server can differ without a warning."""


class SystemClock:
    """Implements the port `Clock` with the clocks of the machine and timers of the event loop."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        return asyncio.get_running_loop().call_later(seconds, callback).cancel


class ServerClock(SystemClock):
    """The wall time of a server that several processes use, so that all of them have the same.

    Between two readings it continues by monotonic time: a step of the clock of this machine has no effect, and a step
    of the clock of the server has one within `READ_INTERVAL`.
    """

    def __init__(self, read: ReadClock) -> None:
        self._read = read
        self._offset = super().now() - self.monotonic()

    def now(self) -> int:
        return self.monotonic() + self._offset

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Read the clock of the server, and again from time to time until the end. Raises Unavailable at first."""
        await self.read()
        self._compare()
        reading = asyncio.create_task(self._read_again())
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def read(self) -> None:
        """Set the time as far as a reading requires it: the server read its clock at some time during the call.

        So the time of a server on this machine changes nothing, however long the call takes.
        """
        began = self.monotonic()
        server = await self._read()
        earliest, latest = server - self.monotonic() - 1, server - began + 1  # times are rounded to milliseconds
        self._offset = min(max(self._offset, earliest), latest)

    async def _read_again(self) -> None:
        while True:
            await self.sleep(READ_INTERVAL)
            try:
                await self.read()
            except Unavailable:
                pass  # who needs the server reports it
            except Exception:
                log.exception("the clock of the database server could not be read")

    def _compare(self) -> None:
        ahead = super().now() - self.now()
        if abs(ahead) > LARGEST_DIFFERENCE:
            log.warning(
                "the clock of this machine is %d seconds %s that of the database server, which is used: "
                "synchronize the clocks",
                round(abs(ahead) / 1000),
                "ahead of" if ahead > 0 else "behind",
            )


class RandomIds:
    """Implements the port `Ids` with the operating system's random source."""

    def uuid(self) -> str:
        return str(uuid_utils.uuid7())

    def token(self, length: int) -> str:
        return "".join(secrets.choice(ALPHABET) for _ in range(length))
