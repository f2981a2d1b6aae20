"""A dispatcher for a process that follows one execution, and can lack the tools of others."""

from wfcore.adapters.dispatch.embedded import EmbeddedDispatcher
from wfcore.ports.journal import ExecutionRef, Journal
from wfcore.ports.system import Clock


class OneExecutionDispatcher(EmbeddedDispatcher):
    """Drives this execution when it is due and no worker holds it, and no other one."""

    def __init__(self, journal: Journal, clock: Clock, execution: ExecutionRef) -> None:
        super().__init__(journal, clock, concurrency=1)
        self._execution = execution

    async def _is_something_due(self) -> bool:
        due = await self._due()
        return due is not None and due <= self._clock.now()

    async def _claim_due(self, worker: int, free: int) -> list[ExecutionRef]:
        claimed = await self._journal.claim(self._execution, worker, self._clock.now())
        return [] if claimed is None else [self._execution]

    async def _next_round_at(self) -> int:
        """A claim that a limit refused is tried again at the next heartbeat."""
        due, now = await self._due(), self._clock.now()
        return (
            self._next_beat if due is None or due <= now else min(self._next_beat, self._clock.monotonic() + due - now)
        )

    async def _due(self) -> int | None:
        found = await self._journal.progress(self._execution)
        return found.wake_at if found.claimed_by is None else None
