"""Periodic work: each process polls for due work, concurrently with other processes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.beat")

POLL_INTERVAL: Final = 1.0
"""Seconds between two polls."""


class Poller:
    """Polls from `start` to `stop`. A failed poll (a full disk, a locked database) is logged; the next one retries."""

    def __init__(
        self, clock: Clock, poll: Callable[[], Awaitable[object]], what: str, interval: float = POLL_INTERVAL
    ) -> None:
        """`what` names the polled work in log messages. `interval` is in seconds."""
        self._clock = clock
        self._poll = poll
        self._what = what
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
            except Exception:
                log.exception("polling for %s failed", self._what)
            await self._clock.sleep(self._interval)
