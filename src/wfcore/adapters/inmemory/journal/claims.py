"""Who works on which execution: workers, their claims, and the limits of organizations."""

import heapq
from collections.abc import Callable, Collection

import attrs
from msgspec import structs

from wfcore.adapters.inmemory.journal.run_reads import MemoryRunReads, StoredExecution, Usable, row_of
from wfcore.adapters.inmemory.journal.slots import MemorySlots
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.effects import CallSlot
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, Claimed, ExecutionProgress, ExecutionRef, Holder, JournalConflict, RunRow

RunLimit = Callable[[str, int | None], int | None]
"""Returns the limit of concurrent runs of an organization, or of its workflow of this id; None for no limit."""


@attrs.define(eq=False)
class _Worker:
    host: str
    pid: int
    beats: int


class MemoryClaims(MemoryRunReads):
    """The methods of the port `Journal` on workers and their claims.

    `run_limit` returns the limit of an organization, or of one of its workflows.
    """

    def __init__(self, usable: Usable, run_limit: RunLimit) -> None:
        super().__init__(usable)
        self._run_limit = run_limit
        self._limited: set[str] = set()
        self._due: dict[str, list[tuple[int, int]]] = {}
        self._slots = MemorySlots()
        self._admitted: list[ExecutionRef] = []
        self._workers: dict[int, _Worker] = {}
        self._registered: dict[int, tuple[str, int]] = {}

    async def register(self, host: str, pid: int, worker: int | None = None) -> int:
        worker = len(self._registered) + 1 if worker is None else worker
        self._registered[worker] = host, pid
        self._workers[worker] = _Worker(host, pid, 0)
        return worker

    async def heartbeat(self, worker: int) -> None:
        self._record_heartbeat(worker)

    async def holders(self) -> list[Holder]:
        holding = sorted({stored.claimed_by for stored in self._executions.values() if stored.claimed_by is not None})
        nobody = _Worker("", 0, 0)
        found = [(number, self._workers.get(number, nobody)) for number in holding]
        return [Holder(number, worker.host, worker.pid, worker.beats) for number, worker in found]

    async def held_by(self, worker: int) -> list[ExecutionRef]:
        return [stored.row.ref for stored in self._executions.values() if stored.claimed_by == worker]

    async def release(self, worker: int) -> int:
        self._workers.pop(worker, None)
        holding = [stored for stored in self._executions.values() if stored.claimed_by == worker]
        for stored in holding:
            self._set_claim(stored, 0, None)
        return len(holding)

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        claimed: list[ExecutionRef] = []
        while len(claimed) < limit and (heads := [head for head in self._claimable() if head[0] <= now]):
            for _, number, org in heads[: limit - len(claimed)]:
                stored = self._executions[number]
                self._claim(stored, worker, now)
                claimed.append(stored.row.ref)
                self._due[org] = self._due.pop(org)
        if claimed:
            self._record_heartbeat(worker)
        return claimed

    async def claim(self, execution: ExecutionRef, worker: int, now: int) -> Claimed | None:
        stored = self._find(execution)
        if stored is None or stored.claimed_by is not None or stored.wake_at is None or stored.wake_at > now:
            return None
        if self._is_full(stored):
            return None
        self._claim(stored, worker, now)
        return Claimed(row_of(stored), list(stored.entries))

    async def take_slot(self, execution: ExecutionRef, attempt: str, slot: CallSlot, holder: int | None) -> int:
        stored = self._find(execution)
        if stored is None or holder is None or stored.claimed_by != holder:
            raise JournalConflict("the claim is lost")
        return self._slots.take(execution, attempt, slot)

    def take_admitted(self) -> list[ExecutionRef]:
        found, self._admitted = self._admitted, []
        return found

    def _free_slots(self, execution: ExecutionRef, kept: Collection[str] = ()) -> None:
        for ref in self._slots.free(execution, kept):
            stored = self._executions.get(ref.id)
            if stored is not None and stored.claimed_by is None and stored.wake_at is not None:
                self._set_claim(stored, 0, None)
            self._admitted.append(ref)

    async def progress(self, execution: ExecutionRef) -> ExecutionProgress:
        stored = self._find(execution)
        if stored is None:
            raise NotFound
        status = self._runs[execution.org][stored.runs[-1]].status
        return ExecutionProgress(stored.row.kind, stored.row.resource_id, status, stored.claimed_by, stored.wake_at)

    def may_be_limited(self, org: str) -> bool:
        return org in self._limited

    async def next_wake(self) -> int | None:
        return min((at for at, *_ in self._claimable()), default=None)

    async def due_since(self, now: int) -> int | None:
        wake_at, number, org = min(self._claimable(), default=(now + 1, 0, ""))
        if wake_at > now:
            return None
        return wake_at or self._runs[org][self._executions[number].runs[-1]].updated_at

    def _set_claim(self, stored: StoredExecution, wake_at: int | None, claimed_by: int | None) -> None:
        stored.wake_at, stored.claimed_by = wake_at, claimed_by
        if wake_at is not None and claimed_by is None:
            heapq.heappush(self._due.setdefault(stored.row.ref.org, []), (wake_at, stored.row.ref.id))

    def _claimable(self) -> list[tuple[int, int, str]]:
        """What is due next in each organization, within the limits: time, execution, organization. The one claimed last
        comes last.
        """
        heads = []
        for org, heap in list(self._due.items()):
            while heap and not self._waits_for(*heap[0]):
                heapq.heappop(heap)
            if not heap:
                del self._due[org]
            elif not self._is_full(self._executions[heap[0][1]]):
                heads.append((*heap[0], org))
            else:
                others = (due for due in sorted(heap) if self._waits_for(*due))
                heads += [(*due, org) for due in others if not self._is_full(self._executions[due[1]])][:1]
        return heads

    def _limits(self, stored: StoredExecution) -> list[tuple[int, int | None]]:
        """The limits for the execution, each with its workflow; None for that of the organization."""
        org, workflow = stored.row.ref.org, _workflow_of(stored)
        among = {None, workflow}
        found = [(most, one) for one in among if (most := self._run_limit(org, one)) is not None]
        if found:
            self._limited.add(org)
        return found

    def _is_full(self, stored: StoredExecution) -> bool:
        """Whether a claim of the execution would pass a limit."""
        return any(most <= self._count_claims(stored.row.ref.org, workflow) for most, workflow in self._limits(stored))

    def _count_claims(self, org: str, workflow: int | None) -> int:
        """The claims of the organization, or of one of its workflows."""
        claimed = (one for one in self._executions.values() if one.claimed_by is not None and one.row.ref.org == org)
        return sum(workflow in (None, _workflow_of(one)) for one in claimed)

    def _without_claim(self, stored: StoredExecution, append: Append) -> Append:
        """The append without a claim, and with a queued run, where a limit holds."""
        if append.claimed_by is None or not self._limits(stored):
            return append
        queued = None if append.new_run is None else append.new_run.queued()
        return structs.replace(append, claimed_by=None, new_run=queued)

    def _waits_for(self, wake_at: int, number: int) -> bool:
        """False for an outdated element of a heap."""
        stored = self._executions.get(number)
        return stored is not None and stored.claimed_by is None and stored.wake_at == wake_at

    def _claim(self, stored: StoredExecution, worker: int, now: int) -> None:
        """Claim the execution. Its queued run becomes a running one."""
        stored.claimed_by = worker
        stored.epoch += 1
        runs = self._runs[stored.row.ref.org]
        for run in [runs[run_id] for run_id in stored.runs]:
            if run.status == RunStatus.queued:
                self._put_run(structs.replace(run, status=RunStatus.running, updated_at=now))

    def _record_heartbeat(self, worker: int) -> None:
        """Record a sign of life; a worker that others released as dead is registered again."""
        known = self._workers.setdefault(worker, _Worker(*self._registered.get(worker, ("", 0)), 0))
        known.beats += 1

    def _put_run(self, run: RunRow) -> None:
        self._runs.setdefault(run.execution.org, {})[run.id] = run


def _workflow_of(stored: StoredExecution) -> int | None:
    """The workflow that the execution runs; None for a skill or the assistant."""
    return stored.row.resource_id if stored.row.kind == "workflow" else None
