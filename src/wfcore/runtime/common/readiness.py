"""Readiness: whether the store responds, has this release's schema, and takes writes."""

import asyncio
from typing import Final

from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock

FRESH: Final = 1_000
"""Milliseconds for which the outcome of a write is valid: probes cannot cause more writes than that."""
PATIENCE: Final = 3.0
"""Seconds after which a store whose write has not ended is not ready."""


class Readiness:
    """Checks the store. Concurrent checks share one write."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._write: asyncio.Task[str | None] | None = None
        self._began = 0

    async def problem(self) -> str | None:
        """Why the store is not ready; None when it is."""
        return await self._storage.check() or await self._write_problem()

    async def _write_problem(self) -> str | None:
        now = self._clock.monotonic()
        if self._write is None or (self._write.done() and now - self._began >= FRESH):
            self._began, self._write = now, asyncio.create_task(self._storage.check_writes())
        done, _ = await asyncio.wait([self._write], timeout=PATIENCE)
        return self._write.result() if done else f"a write has not ended within {PATIENCE:g} seconds"
