"""The system clock, and random ids."""

import asyncio
import secrets
import time
from collections.abc import Callable

import uuid_utils

from wfcore.domain.kernel.ids import ALPHABET


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


class RandomIds:
    """Implements the port `Ids` with the operating system's random source."""

    def uuid(self) -> str:
        return str(uuid_utils.uuid7())

    def token(self, length: int) -> str:
        return "".join(secrets.choice(ALPHABET) for _ in range(length))
