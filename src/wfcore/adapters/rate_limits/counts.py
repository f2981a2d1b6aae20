"""The counts of one process, which it also uses while shared ones cannot be reached."""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Rate, RateLimiter

log = logging.getLogger("wfcore.limits")

RETRY_AFTER: Final = 5_000
"""Milliseconds for which counts that could not be reached are not used."""


def monotonic_ms() -> int:
    return monotonic_ns() // 1_000_000


@attrs.define(eq=False)
class _Events:
    """The times of the latest events of a key, in milliseconds."""

    times: deque[int] = attrs.field(factory=deque)
    idle_at: int = 0
    """When none of them counts any more."""


class MemoryRateLimiter:
    """Implements the port `RateLimiter` with the times of the events, for one process."""

    def __init__(self, *, now: Callable[[], int] = monotonic_ms) -> None:
        self._now = now
        self._events: OrderedDict[str, _Events] = OrderedDict()

    def __len__(self) -> int:
        """How many keys have events that count."""
        return len(self._events)

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        now = self._now()
        self._drop_idle(now)
        waits = [self._wait(rate, now) for rate in rates]
        if not any(waits):
            for rate in rates:
                events = self._events.setdefault(rate.key, _Events())
                events.times.append(now)
                events.idle_at = now + rate.seconds * 1000
                self._events.move_to_end(rate.key)
        return waits

    async def close(self) -> None:
        pass

    def _wait(self, rate: Rate, now: int) -> int:
        """Milliseconds until one more event is admitted."""
        length = rate.seconds * 1000
        events = self._events.get(rate.key)
        if events is None:
            return 0
        while events.times and events.times[0] <= now - length:
            events.times.popleft()
        return events.times[0] + length - now if len(events.times) >= rate.count else 0

    def _drop_idle(self, now: int) -> None:
        """Drop keys without events that count, as far as those with older events are."""
        while self._events:
            key, events = next(iter(self._events.items()))
            if events.idle_at > now:
                return
            del self._events[key]


class SharedRateLimiter:
    """Uses the counts of `shared`; while they cannot be reached, this process counts for itself."""

    def __init__(self, shared: RateLimiter, *, now: Callable[[], int] = monotonic_ms) -> None:
        self._shared = shared
        self._now = now
        self._own = MemoryRateLimiter(now=now)
        self._away_until = 0

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        if self._now() >= self._away_until:
            try:
                return await self._shared.admit(rates)
            except Unavailable as error:
                log.warning("shared rate limits cannot be reached: this process counts for itself: %s", error)
                self._away_until = self._now() + RETRY_AFTER
        return await self._own.admit(rates)

    async def close(self) -> None:
        await self._shared.close()
