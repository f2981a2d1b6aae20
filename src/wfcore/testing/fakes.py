"""A manual clock and sequential ids: tests that use them never sleep and are deterministic."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from wfcore.domain.kernel.ids import ALPHABET

if TYPE_CHECKING:
    from wfcore.ports.journal import Journal

NOON: Final = 1_767_268_800_000
"""2026-01-01T12:00:00Z, the default start of the fake clock, in epoch milliseconds."""


class FakeClock:
    """`wfcore.ports.system.Clock` that stands still until a test advances it.

    `step` sets the wall time back or forward, as an operator or a time server does. Timers wait by monotonic time.
    """

    def __init__(self, now: int = NOON) -> None:
        self._now = now
        self._elapsed = 0
        self._order = count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has advanced by `seconds`. With 0 or less, yield to the event loop once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self._awake(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        awake = self._awake(seconds)
        awake.add_done_callback(lambda done: None if done.cancelled() else callback())
        return awake.cancel

    def _awake(self, seconds: float) -> asyncio.Future[None]:
        """A future that is done once the clock has advanced by `seconds`."""
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + round(seconds * 1000), next(self._order), awake))
        return awake

    def advance(self, seconds: float) -> None:
        """Advance both times. Due sleepers wake up, the earliest first, in the next iteration of the loop."""
        self._now += round(seconds * 1000)
        self._elapsed += round(seconds * 1000)
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, awake = heapq.heappop(self._sleepers)
            if not awake.done():
                awake.set_result(None)

    def step(self, seconds: float) -> None:
        """Set the wall time forward, or back with a negative number. No sleeper wakes up."""
        self._now += round(seconds * 1000)

    @property
    def next_timer(self) -> float | None:
        """Seconds until the first sleeper is due; None without sleepers."""
        due = [due for due, _, awake in self._sleepers if not awake.done()]
        return (min(due) - self._elapsed) / 1000 if due else None


class SequentialIds:
    """`wfcore.ports.system.Ids` that count from 1: not secret, but unique."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def uuid(self) -> str:
        return f"00000000-0000-7000-8000-{next(self._numbers):012x}"

    def token(self, length: int) -> str:
        """The next number in base 62, as `length` characters.

        Raises ValueError if the number has more digits.
        """
        number, digits = next(self._numbers), ""
        for _ in range(length):
            number, digit = divmod(number, len(ALPHABET))
            digits = ALPHABET[digit] + digits
        if number:
            raise ValueError(f"all tokens of length `{length}` are used")
        return digits


def journal_in_memory() -> "Journal":
    """A journal in memory, in which every organization exists."""
    from wfcore.adapters.inmemory.journal.journal import MemoryJournal

    return MemoryJournal()
