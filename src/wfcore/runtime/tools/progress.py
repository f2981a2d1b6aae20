"""The progress that a tool reports during its call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wfcore.ports.faults import ClaimLost
from wfcore.ports.system import Clock

Report = tuple[float | None, float | None, str]
"""`progress`, `total` and `message`, as in `ToolCall.progress`."""

Publish = Callable[[float | None, float | None, str], Awaitable[None]]

INTERVAL: Final = 1.0
"""Seconds between two reports of one call that are published."""

log = logging.getLogger("wfcore.progress")


class ProgressReports:
    """Publishes the reports of one call: the first one at once, then the latest of each interval, and the last one."""

    task: asyncio.Task[None] | None = None
    """It publishes, once there is a report: most calls have none."""

    _latest: Report | None = None
    _pause: asyncio.Event
    _has_ended = False

    def __init__(self, publish: Publish, clock: Clock) -> None:
        self._publish = publish
        self._clock = clock
        self._loop = asyncio.get_running_loop()

    def report(self, *report: *Report) -> None:
        """Called by the tool, on the event loop or in any thread. Reports after the call are ignored."""
        if self._is_on_loop():
            self._note(report)
        else:
            self._loop.call_soon_threadsafe(self._note, report)

    def _is_on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def end(self) -> None:
        """Publish the latest report, if that was not done. Raises ClaimLost when the worker lost the execution."""
        self._has_ended = True
        if self.task is not None:
            self._pause.set()
            await self.task

    def _note(self, report: Report) -> None:
        if self._has_ended:
            return
        self._latest = report
        if self.task is None:
            self._pause = asyncio.Event()
            self.task = self._loop.create_task(self._publish_all())

    async def _publish_all(self) -> None:
        """Publish until the call has ended; a report that cannot be stored does not fail its call."""
        while True:
            if self._latest is not None:
                report, self._latest = self._latest, None
                try:
                    await self._publish(*report)
                except ClaimLost:
                    raise
                except Exception:
                    log.warning("a report of progress was not stored", exc_info=True)
            if self._has_ended and self._latest is None:
                return
            cancel = self._clock.call_later(INTERVAL, self._pause.set)
            await self._pause.wait()
            cancel()
            if not self._has_ended:
                self._pause.clear()
