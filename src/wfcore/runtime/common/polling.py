"""Work that nobody asks for: a process looks for it again and again, beside others that do the same."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.beat")

BEAT: Final = 1.0
"""Seconds between two looks."""


class Poller:
    """Looks from `start` to `stop`. A look that fails (a full disk, a locked database) is told, and the next one tries
    again.
    """

    def __init__(self, clock: Clock, look: Callable[[], Awaitable[object]], what: str) -> None:
        """`what` it looks for, as the log tells it."""
        self._clock = clock
        self._look = look
        self._what = what
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        """What was begun is whole, or will be found due again."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _go_on(self) -> None:
        while True:
            try:
                await self._look()
            except Exception:
                log.exception("a look for %s failed", self._what)
            await self._clock.sleep(BEAT)
