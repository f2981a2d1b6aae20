"""Periodic work: each process polls for due work, concurrently with other processes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wfcore.ports.faults import Outage
from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.beat")

POLL_INTERVAL: Final = 1.0
"""Seconds between two polls."""

TOLERANCE: Final = 2_000
"""Milliseconds that the wall clock can lose between two polls without having been set back."""

LATEST: Final = 2**45
"""A time after every due time, in epoch milliseconds."""

ALL: Final = 100_000
"""The most rows whose due times are checked after a wall clock that was ahead."""

CHECK_INTERVAL: Final = 3_600_000
"""Milliseconds between two checks of all due times: a process beside this one, whose clock is ahead, can set them."""


class Poller:
    """Polls from `start` to `stop`. A failed poll (a full disk, a locked database) is logged; the next one retries."""

    def __init__(
        self,
        clock: Clock,
        outage: Outage,
        poll: Callable[[], Awaitable[object]],
        what: str,
        interval: float = POLL_INTERVAL,
    ) -> None:
        """`what` names the polled work in log messages. `interval` is in seconds."""
        self._clock = clock
        self._outage = outage
        self._poll = poll
        self._failure = f"polling for {what} failed"
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        """Cancel the polling. Interrupted work stays due."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _loop(self) -> None:
        while True:
            try:
                await self._poll()
            except Exception as error:  # noqa: BLE001 - logged
                is_frequent = self._interval <= POLL_INTERVAL  # a rare poll would learn late that an outage is over
                log_as = self._outage.failed_again if is_frequent else self._outage.failed
                log_as(log, self._failure, error)
            else:
                self._outage.worked(log, self._failure)
            await self._clock.sleep(self._interval)


class SetBacks:
    """Whether the wall clock of this process was set back between two polls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        """Wall time and monotonic time of the last poll."""

    def since(self) -> int | None:
        """The time of the last poll by the present wall clock (epoch milliseconds), if that was set back; else None."""
        now, before = (self._clock.now(), self._clock.monotonic()), self._seen
        self._seen = now
        if before is None or now[0] - before[0] >= now[1] - before[1] - TOLERANCE:
            return None
        return now[0] - (now[1] - before[1])
