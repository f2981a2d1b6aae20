"""Time on the event loop that sessions share, and the timer of each."""

import asyncio
from collections.abc import Callable
from functools import partial

from wfcore.ports.system import Clock


class TimeSlice:
    """A cooperative yield for sessions that never wait.

    If neither tools nor the journal ever wait, one session can run from one millisecond to the next and block the loop.
    It then yields once a millisecond. Where sessions take turns anyway, none has to.
    """

    def __init__(self) -> None:
        self._since = 0
        self._session: object = None

    def is_due(self, session: object, now: int) -> bool:
        """Whether no other session has run since an earlier millisecond."""
        if self._session is not session:
            self._since, self._session = now, session
        return self._since != now

    async def take(self, session: object, now: int) -> None:
        """Yield to the event loop if it is due."""
        if self.is_due(session, now):
            self._since = now
            await asyncio.sleep(0)


class MomentTimer:
    """Calls back at one moment, in epoch milliseconds. It stays set as long as the moment does not change."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._set: tuple[int, Callable[[], object]] | None = None

    @property
    def is_set(self) -> bool:
        return self._set is not None

    def set(self, moment: int | None) -> None:
        """Call back at this moment instead; None: never."""
        if self._set is not None:
            if self._set[0] == moment:
                return
            self._set[1]()
            self._set = None
        if moment is not None:
            seconds = (moment - self._clock.now()) / 1000
            self._set = moment, self._clock.call_later(seconds, partial(self._expire, moment))

    def _expire(self, moment: int) -> None:
        self._set = None
        if moment > self._clock.now():  # `call_later` may be early, and the moment is not there yet
            self.set(moment)
        else:
            self._callback()
