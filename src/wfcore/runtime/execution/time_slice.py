"""Time on the event loop and timers that sessions share, and the time and the timer of each."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from wfcore.ports.system import Clock
from wfcore.runtime.common.loop_slice import loop_slice

HOUR: Final = 3_600_000
"""Milliseconds from which on a moment is far, and within which far moments share one timer."""


class TimeSlice:
    """A cooperative yield for sessions that never wait.

    If neither tools nor the journal ever wait, one session can run from one millisecond to the next and block the loop.
    It then yields once a millisecond. A session that waits, as for a server's commit, does not yield beside that.
    Sessions that take turns share the slice of the loop.
    """

    def __init__(self) -> None:
        self._since = 0
        self._session: object = None
        self._has_turned = False
        """Whether the event loop had a turn since then, as far as it is known."""

    def is_due(self, session: object, now: int) -> bool:
        """Whether neither another session nor the event loop had a turn since an earlier millisecond."""
        if self._session is not session:
            self._since, self._session, self._has_turned = now, session, False
        elif self._has_turned and self._since != now:
            self._begin(now)
        return self._since != now

    async def take(self, session: object, now: int) -> None:
        """Yield to the event loop if it is due, or if other sessions have used up the slice of the loop's turn."""
        if self._session is not session:
            self._since, self._session, self._has_turned = now, session, False
            await loop_slice().take()
        elif self.is_due(session, now):
            await asyncio.sleep(0)
            self._begin(now)

    def _begin(self, now: int) -> None:
        self._since, self._has_turned = now, False
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._has_turned = True


class ExecutionTime:
    """The time of one execution: the wall time, but it never goes backwards.

    After the wall clock was set back, it continues by monotonic time until the wall clock has caught up.
    """

    __slots__ = ("_clock", "_latest", "_measured_at")

    def __init__(self, clock: Clock, at: int) -> None:
        """`at`: the time of the last entry in the journal, which a process with a faster clock can have written."""
        self._clock = clock
        self._latest = at
        self._measured_at = clock.monotonic()

    def now(self) -> int:
        """Milliseconds since the Unix epoch."""
        wall = self._clock.now()
        if wall == self._latest:  # read again within a millisecond: the next reading counts what has passed
            return wall
        measured_at = self._clock.monotonic()
        self._latest = max(wall, self._latest + measured_at - self._measured_at)
        self._measured_at = measured_at
        return self._latest

    def reach(self, at: int) -> None:
        """Another process wrote an entry of this time: no later entry is earlier."""
        self._latest = max(self._latest, at)


class _Hour(NamedTuple):
    """What is called in an hour, and what cancels the timer for it."""

    callbacks: dict[Callable[[], None], None]
    cancel: Callable[[], object]


class SharedTimers:
    """Timers of all sessions. Nearly all far ones are cancelled: those of one hour share one timer of the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hours: dict[int, _Hour] = {}

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back when so many seconds have passed, or up to an hour earlier if they are more. Returns what cancels
        the call.
        """
        if seconds * 1000 < HOUR:
            return self._clock.call_later(seconds, callback)
        now = self._clock.monotonic()
        hour = int(now + seconds * 1000) // HOUR
        found = self._hours.get(hour)
        if found is None:
            cancel = self._clock.call_later((hour * HOUR - now) / 1000, partial(self._expire, hour))
            found = self._hours[hour] = _Hour({}, cancel)
        found.callbacks[callback] = None
        return partial(found.callbacks.pop, callback, None)

    def close(self) -> None:
        """Cancel the timers of all hours: an event loop can go on for long after a core on it was closed."""
        for hour in self._hours.values():
            hour.cancel()
        self._hours.clear()

    def _expire(self, hour: int) -> None:
        callbacks = self._hours.pop(hour).callbacks
        while callbacks:  # a callback can cancel others
            callbacks.popitem()[0]()


class MomentTimer:
    """Calls back at one moment of an execution, in epoch milliseconds, even if the wall clock is set back meanwhile.

    It stays set as long as the moment does not change.
    """

    def __init__(self, timers: SharedTimers, time: ExecutionTime) -> None:
        self._timers = timers
        self._time = time
        self._set: tuple[int, Callable[[], object]] | None = None
        self.is_set = False
        """Written by the timer only."""

    def set(self, moment: int | None, callback: Callable[[], None]) -> None:
        """Call back at this moment instead; None: never. The callback is kept no longer than the timer is set."""
        if self._set is not None:
            if self._set[0] == moment:
                return
            self._set[1]()
            self._set = None
        if moment is not None:
            seconds = (moment - self._time.now()) / 1000
            self._set = moment, self._timers.call_later(seconds, partial(self._expire, moment, callback))
        self.is_set = moment is not None

    def _expire(self, moment: int, callback: Callable[[], None]) -> None:
        self._set, self.is_set = None, False
        if moment > self._time.now():  # `call_later` may be early
            self.set(moment, callback)
        else:
            callback()
