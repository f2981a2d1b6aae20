"""A clock that jumps and ids that count: with these a test never sleeps and always reads the same."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from wfcore.domain.kernel.ids import ALPHABET

NOON: Final = 1_767_268_800_000
"""2026-01-01T12:00:00Z, where the fake clock starts unless told otherwise."""


class FakeClock:
    """`wfcore.ports.system.Clock` that stands still until a test moves it."""

    def __init__(self, now: int = NOON) -> None:
        self._now = now
        self._order = count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved that far. No time at all: only let others have a turn."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self._awake(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        awake = self._awake(seconds)
        awake.add_done_callback(lambda done: None if done.cancelled() else callback())
        return awake.cancel

    def _awake(self, seconds: float) -> asyncio.Future[None]:
        """Done once the clock has been moved that far."""
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + round(seconds * 1000), next(self._order), awake))
        return awake

    def advance(self, seconds: float) -> None:
        """Move on. Who is due by then wakes up, the earliest first, in the next turn of the event loop."""
        self._now += round(seconds * 1000)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, awake = heapq.heappop(self._sleepers)
            if not awake.done():
                awake.set_result(None)

    @property
    def next_alarm(self) -> float | None:
        """Seconds until the first sleeper is due; None when nobody sleeps."""
        due = [due for due, _, awake in self._sleepers if not awake.done()]
        return (min(due) - self._now) / 1000 if due else None


class SequentialIds:
    """`wfcore.ports.system.Ids` that count from 1: not secret, but never the same twice."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def uuid(self) -> str:
        return f"00000000-0000-7000-8000-{next(self._numbers):012x}"

    def token(self, length: int) -> str:
        """The next number in base 62. ValueError when it no longer fits into `length` characters."""
        number, digits = next(self._numbers), ""
        for _ in range(length):
            number, digit = divmod(number, len(ALPHABET))
            digits = ALPHABET[digit] + digits
        if number:
            raise ValueError(f"there are no more tokens of length `{length}`")
        return digits
