"""The clock of the machine, and its random ids."""

import asyncio
import secrets
import time
from collections.abc import Callable

import uuid_utils

from wfcore.domain.kernel.ids import ALPHABET


class SystemClock:
    """`wfcore.ports.system.Clock`."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def alarm(self, seconds: float, ring: Callable[[], None]) -> Callable[[], object]:
        return asyncio.get_running_loop().call_later(seconds, ring).cancel


class RandomIds:
    """`wfcore.ports.system.Ids`: unique because random, from the operating system's source."""

    def uuid(self) -> str:
        return str(uuid_utils.uuid7())

    def token(self, length: int) -> str:
        return "".join(secrets.choice(ALPHABET) for _ in range(length))
