"""The journal in dicts, under the contract of the durable one. Nothing suspends, so nothing interleaves."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from wfcore.adapters.inmemory.conversations import MemoryConversations
from wfcore.adapters.inmemory.usage import MemoryUsage
from wfcore.domain.agents.prices import Price
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.audit import AuditRow, decision_rows
from wfcore.ports.conversations import message_records
from wfcore.ports.journal import (
    Append,
    Execution,
    ExecutionRef,
    Holder,
    JournalConflict,
    NewExecution,
    OpenInterrupt,
    RunChange,
    RunExists,
    RunRow,
)
from wfcore.ports.usage import usage_records

Usable = Callable[[str, Principal, str, int], bool]
"""Whether, in an organization, a principal may use the resource of a kind and id."""

Note = Callable[[str, Iterable[AuditRow]], None]
"""Writes rows into an organization's audit."""


@attrs.define(eq=False)
class _Held:
    """An execution as it is now."""

    row: Execution
    entries: list[Entry]
    wake_at: int | None = None
    claimed_by: int | None = None
    runs: list[str] = attrs.field(factory=list)
    interrupts: dict[str, tuple[int, Interrupt]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Worker:
    host: str
    pid: int
    seen_at: int


class MemoryJournal:
    """`wfcore.ports.journal.Journal` for tests and quick starts; it is gone with the process.

    `knows` tells which organizations there are (by default all), `usable` who may use what (by default
    everybody everything of the organization), `note` takes the decisions that are to be audited, `prices` are those of
    models by name.
    """

    def __init__(
        self,
        *,
        knows: Callable[[str], bool] = lambda _: True,
        usable: Usable = lambda *_: True,
        note: Note = lambda *_: None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self.durable = False
        self.conversations = MemoryConversations(usable)
        self.usage = MemoryUsage(prices or {})
        self._knows = knows
        self._usable = usable
        self._note = note
        self._held: dict[int, _Held] = {}
        self._runs: dict[str, dict[str, RunRow]] = {}
        self._due: list[tuple[int, int]] = []
        self._workers: dict[int, _Worker] = {}
        self._registered: dict[int, tuple[str, int]] = {}
        self._pinned: set[str] = set()
        self._last_run = self._last_key = 0

    def pinned(self, variation_id: str) -> bool:
        """Whether an execution runs this variation, so that it has to be kept."""
        return variation_id in self._pinned

    # Executions and their entries

    async def begin(self, new: NewExecution, append: Append) -> ExecutionRef:
        run = append.new_run
        if not self._knows(new.org):
            raise NotFound(f"there is no organization `{new.org}`")
        if run is None or append.expected or append.holder is not None:
            raise ValueError("an execution begins with a run, an empty journal and no holder")
        ref = ExecutionRef(new.org, len(self._held) + 1)
        row = Execution(ref, new.kind, new.resource_id, new.variation_id, new.user_id, new.thread_id, run.id, 0)
        held = _Held(row, [], claimed_by=append.claimed_by)
        self._check(new.org, held, append)
        self._held[ref.id] = held
        if new.variation_id is not None:
            self._pinned.add(new.variation_id)
        self._write(held, append)
        self._move(held, 0 if append.wakes else append.wake_at, append.claimed_by)
        return ref

    async def append(self, execution: ExecutionRef, append: Append) -> None:
        held = self._check(execution.org, self._find(execution), append)
        if noted := decision_rows(append.entries):
            self._note(execution.org, [attrs.evolve(row, resource_id=held.runs[-1]) for row in noted])
        self._write(held, append)
        if append.updates_claim:
            self._move(held, append.wake_at, append.claimed_by)
        if append.wakes:
            self._move(held, 0, held.claimed_by)

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        held = self._find(execution)
        return held.entries[after:] if held else []

    async def execution(self, execution: ExecutionRef) -> Execution:
        held = self._find(execution)
        if held is None:
            raise NotFound
        return _row(held)

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        found = {ref: self._find(ref) for ref in executions}
        return {ref: len(held.entries) for ref, held in found.items() if held}

    # Runs and interrupts

    async def find_run(self, org: str, run_id: str) -> RunRow | None:
        return self._runs.get(org, {}).get(run_id)

    async def find_turn(self, org: str, run_id: str) -> tuple[RunRow, Execution] | None:
        run = await self.find_run(org, run_id)
        return None if run is None else (run, await self.execution(run.execution))

    async def list_runs(
        self,
        org: str,
        *,
        limit: int,
        before: int | None = None,
        status: RunStatus | None = None,
        resource: tuple[str, int] | None = None,
        principal: Principal | None = None,
    ) -> list[RunRow]:
        found = [
            run
            for run in self._runs.get(org, {}).values()
            if (before is None or run.key < before)
            and (status is None or run.status == status)
            and (resource is None or (run.kind, run.resource_id) == resource)
            and (principal is None or self._may_see(org, principal, run))
        ]
        return sorted(found, key=lambda run: run.key, reverse=True)[:limit]

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        held = self._held.values() if of is None else filter(None, map(self._find, dict.fromkeys(of)))
        found = [
            OpenInterrupt(interrupt, one.runs[-1], _row(one), key)
            for one in held
            if one.row.ref.org == org
            for key, interrupt in one.interrupts.values()
            if key > after
        ]
        return sorted(found, key=lambda row: row.key)[:limit]

    # Who works on what

    async def register(self, host: str, pid: int, now: int) -> int:
        worker = len(self._registered) + 1
        self._registered[worker] = host, pid
        self._see(worker, now)
        return worker

    async def heartbeat(self, worker: int, now: int) -> None:
        self._see(worker, now)

    async def holders(self) -> list[Holder]:
        holding = sorted({held.claimed_by for held in self._held.values() if held.claimed_by is not None})
        nobody = _Worker("", 0, 0)
        found = [(number, self._workers.get(number, nobody)) for number in holding]
        return [Holder(number, worker.host, worker.pid, worker.seen_at) for number, worker in found]

    async def held_by(self, worker: int) -> list[ExecutionRef]:
        return [held.row.ref for held in self._held.values() if held.claimed_by == worker]

    async def release(self, worker: int) -> int:
        self._workers.pop(worker, None)
        holding = [held for held in self._held.values() if held.claimed_by == worker]
        for held in holding:
            self._move(held, 0, None)
        return len(holding)

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        claimed: list[ExecutionRef] = []
        while len(claimed) < limit and (held := self._next_due()) and self._due[0][0] <= now:
            held.claimed_by = worker
            claimed.append(held.row.ref)
            self._begin_runs(held, now)
        if claimed:
            self._see(worker, now)
        return claimed

    async def next_wake(self) -> int | None:
        return self._due[0][0] if self._next_due() else None

    # One transaction

    def _check(self, org: str, held: _Held | None, append: Append) -> _Held:
        """Raise before anything has changed: what `append` may meet, in the order in which it matters."""
        if append.new_run and append.new_run.id in self._runs.get(org, {}):
            raise RunExists(f"there is a run `{append.new_run.id}` already")
        if held is None or len(held.entries) != append.expected or append.holder not in (None, held.claimed_by):
            raise JournalConflict("the journal is not as long as the writer thought, or the claim is gone")
        own = held.runs if append.new_run is None else [*held.runs, append.new_run.id]
        for change in append.changes:
            if change.id not in own:
                raise NotFound(f"the execution has no run `{change.id}`")
        return held

    def _write(self, held: _Held, append: Append) -> None:
        held.entries.extend(append.entries)
        if append.new_run:
            self._last_run += 1
            self._put_run(append.new_run.row(held.row, self._last_run))
            held.runs.append(append.new_run.id)
        for change in append.changes:
            self._put_run(_changed(self._runs[held.row.ref.org][change.id], change))
        if append.interrupts is not None:
            self._replace_interrupts(held, append.interrupts)
        if append.records:
            self.conversations.add(held.row, message_records(append.records))
            self.usage.add(held.row, usage_records(append.records))

    def _put_run(self, run: RunRow) -> None:
        self._runs.setdefault(run.execution.org, {})[run.id] = run

    def _replace_interrupts(self, held: _Held, interrupts: Iterable[Interrupt]) -> None:
        """One that was open before keeps its key, and so its place in the inbox."""
        before, held.interrupts = held.interrupts, {}
        for interrupt in interrupts:
            self._last_key += interrupt.id not in before
            key, _ = before.get(interrupt.id, (self._last_key, None))
            held.interrupts[interrupt.id] = key, interrupt

    def _move(self, held: _Held, wake_at: int | None, claimed_by: int | None) -> None:
        held.wake_at, held.claimed_by = wake_at, claimed_by
        if wake_at is not None and claimed_by is None:
            heapq.heappush(self._due, (wake_at, held.row.ref.id))

    # Looking

    def _find(self, execution: ExecutionRef) -> _Held | None:
        held = self._held.get(execution.id)
        return held if held and held.row.ref == execution else None

    def _next_due(self) -> _Held | None:
        """The execution at the head of the heap, once what has been overtaken is gone from there."""
        while self._due:
            wake_at, number = self._due[0]
            held = self._held[number]
            if held.claimed_by is None and held.wake_at == wake_at:
                return held
            heapq.heappop(self._due)
        return None

    def _may_see(self, org: str, principal: Principal, run: RunRow) -> bool:
        if principal.org_uuid != org:
            return False
        if run.user_id == principal.user_id:
            return True
        return run.resource_id is not None and self._usable(org, principal, run.kind, run.resource_id)

    def _begin_runs(self, held: _Held, now: int) -> None:
        runs = self._runs[held.row.ref.org]
        for run in [runs[run_id] for run_id in held.runs]:
            if run.status == RunStatus.queued:
                self._put_run(attrs.evolve(run, status=RunStatus.running, updated_at=now))

    def _see(self, worker: int, now: int) -> None:
        """The worker is alive, and registered whatever others thought of it."""
        known = self._workers.setdefault(worker, _Worker(*self._registered.get(worker, ("", 0)), now))
        known.seen_at = max(known.seen_at, now)


def _row(held: _Held) -> Execution:
    return attrs.evolve(held.row, length=len(held.entries), claimed_by=held.claimed_by)


def _changed(run: RunRow, change: RunChange) -> RunRow:
    """A turn finished when its status first said that it is not under way, and again when that changes."""
    finished = None if change.status.under_way else change.at
    return attrs.evolve(
        run,
        status=change.status,
        updated_at=change.at,
        result=run.result if change.result is None else change.result,
        resumed_by=run.resumed_by if change.resumed_by is None else change.resumed_by,
        finished_at=run.finished_at if change.status == run.status else finished,
    )
