"""Readiness: whether the store responds, has this release's schema, and takes writes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock

T = TypeVar("T")

FRESH: Final = 1_000
"""Milliseconds for which the outcome of a write is valid: probes cannot cause more writes than that."""
PATIENCE: Final = 3.0
"""Seconds for which a probe waits for a call of the store."""


class SharedCall(Generic[T]):
    """A call of the store, one at a time, for which everybody waits for a limited time.

    A call that hangs goes on, because some cannot be interrupted; no other one begins beside it.
    """

    def __init__(self, call: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._call = call
        self._task: asyncio.Task[T] | None = None

    @property
    def is_over(self) -> bool:
        return self._task is None or self._task.done()

    async def result(self, *, again: bool = True) -> T:
        """Its result; that of the last call if it is not to be called `again`. TimeoutError after `PATIENCE`."""
        task = self._task
        if task is None or (task.done() and again):
            task = self._task = asyncio.create_task(self._call())
            task.add_done_callback(_seen)
        done, _ = await asyncio.wait([task], timeout=PATIENCE)  # meanwhile another caller can begin the next one
        if not done:
            raise TimeoutError
        return task.result()


def _seen(task: asyncio.Task[Any]) -> None:
    """An error that nobody waits for any more is not reported as unseen."""
    if not task.cancelled():
        task.exception()


class Readiness:
    """Checks the store. Concurrent checks share one read and one write."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._clock = clock
        self._storage = storage
        self._read = SharedCall(self._schema_problem)
        self._write = SharedCall(storage.check_writes)
        self._began: int | None = None

    async def problem(self) -> str | None:
        """Why the store is not ready; None when it is."""
        try:
            found = await self._read.result()
        except TimeoutError:
            return f"a read has not ended within {PATIENCE:g} seconds"
        return found or await self._write_problem()

    async def _schema_problem(self) -> str | None:
        return await self._storage.check()

    async def _write_problem(self) -> str | None:
        now = self._clock.monotonic()
        is_old = self._began is None or now - self._began >= FRESH
        if is_old and self._write.is_over:
            self._began = now
        try:
            return await self._write.result(again=is_old)
        except TimeoutError:
            return f"a write has not ended within {PATIENCE:g} seconds"
