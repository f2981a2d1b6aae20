"""The progress that a tool reports during its call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from wfcore.ports.faults import ClaimLost
from wfcore.ports.system import Clock

Report = tuple[float | None, float | None, str]
"""`progress`, `total` and `message`, as in `ToolCall.progress`."""

Publish = Callable[[float | None, float | None, str], Awaitable[None]]

INTERVAL: Final = 1.0
"""Seconds between two reports of one call that are published."""

log = logging.getLogger("wfcore.progress")


class ProgressReports(Struct, eq=False):
    """Publishes the reports of one call: the first one at once, then the latest of each interval, and the last one.

    `task` publishes, once there is a report: most calls have none. It is created on the event loop `loop`.
    """

    publish: Publish
    clock: Clock
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None] | None = None
    latest: Report | None = None
    pause: asyncio.Event | None = None
    has_ended: bool = False

    def report(self, *report: *Report) -> None:
        """Called by the tool, on the event loop or in any thread. Reports after the call are ignored."""
        if self.has_ended:
            return
        self.latest = report
        if self._is_on_loop():
            self._begin()
        else:
            self.loop.call_soon_threadsafe(self._begin)

    def _is_on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    async def end(self) -> None:
        """Publish the latest report, if that was not done. Raises ClaimLost when the worker lost the execution."""
        if self.latest is not None:
            self._begin()  # a thread can end before the event loop has seen its report
        self.has_ended = True
        if self.task is not None and self.pause is not None:
            self.pause.set()
            await self.task

    def _begin(self) -> None:
        if self.task is None and not self.has_ended:
            self.pause = asyncio.Event()
            self.task = self.loop.create_task(self._publish_all(self.pause))

    async def _publish_all(self, pause: asyncio.Event) -> None:
        """Publish until the call has ended; a report that cannot be stored does not fail its call."""
        while True:
            if self.latest is not None:
                report, self.latest = self.latest, None
                try:
                    await self.publish(*report)
                except ClaimLost:
                    raise
                except Exception:
                    log.warning("a report of progress was not stored", exc_info=True)
            if self.has_ended and self.latest is None:
                return
            cancel = self.clock.call_later(INTERVAL, pause.set)
            await pause.wait()
            cancel()
            if not self.has_ended:
                pause.clear()
