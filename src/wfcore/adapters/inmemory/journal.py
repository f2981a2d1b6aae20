"""The port `Journal` in dicts. No method suspends, so no two calls interleave."""

import heapq
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import attrs
from msgspec import structs

from wfcore.adapters.inmemory.conversations import MemoryConversations
from wfcore.adapters.inmemory.usage import MemoryUsage, MemoryVerdicts
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.projections.notices import Notice
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.journal import (
    HOUR,
    Append,
    Execution,
    ExecutionProgress,
    ExecutionRef,
    Holder,
    JournalConflict,
    NewExecution,
    OpenInterrupt,
    RunChange,
    RunCount,
    RunExists,
    RunFilter,
    RunRow,
)
from wfcore.ports.repositories.audit import AuditRow
from wfcore.ports.repositories.inbox import approvers_of, closed_interrupts

Usable = Callable[[str, Principal, str, int], bool]
"""Returns whether a principal of an organization can use the resource of a kind and id."""

AddAuditRows = Callable[[str, Iterable[AuditRow]], None]
"""Appends rows to an organization's audit."""

AddNotices = Callable[[str, Iterable[Notice]], None]
"""Adds deliveries of an organization's events."""


@attrs.define(eq=False)
class StoredExecution:
    """The current state of an execution."""

    row: Execution
    entries: list[Entry]
    wake_at: int | None = None
    claimed_by: int | None = None
    epoch: int = 0
    runs: list[str] = attrs.field(factory=list)
    interrupts: dict[str, tuple[int, Interrupt]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Worker:
    host: str
    pid: int
    beats: int


class MemoryJournal:
    """Implements the port `Journal` for tests and first steps; its content is lost with the process.

    `org_exists` returns whether an organization exists (by default always), `usable` whether a principal can use a
    resource (by default always), `add_audit_rows` receives the rows of the audit, `add_notices` the notices,
    `max_concurrent_runs` returns the limit of an organization (by default none).
    """

    def __init__(
        self,
        *,
        org_exists: Callable[[str], bool] = lambda _: True,
        usable: Usable = lambda *_: True,
        add_audit_rows: AddAuditRows = lambda *_: None,
        add_notices: AddNotices = lambda *_: None,
        max_concurrent_runs: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self.durable = False
        self.conversations = MemoryConversations(usable)
        self.usage = MemoryUsage()
        self.verdicts = MemoryVerdicts()
        self._org_exists = org_exists
        self._usable = usable
        self._add_audit_rows = add_audit_rows
        self._add_notices = add_notices
        self._max_concurrent_runs = max_concurrent_runs
        self._executions: dict[int, StoredExecution] = {}
        self._runs: dict[str, dict[str, RunRow]] = {}
        self._due: dict[str, list[tuple[int, int]]] = {}
        self._workers: dict[int, _Worker] = {}
        self._registered: dict[int, tuple[str, int]] = {}
        self._pinned: set[str] = set()
        self._closed: list[OpenInterrupt] = []
        self._last_run = self._last_key = self._last_execution = 0
        self._deleted: set[tuple[str, str]] = set()
        self._deleted_at: dict[tuple[str, str], int] = {}
        """When the deleted runs had ended."""

    def pinned(self, variation_id: str) -> bool:
        """Whether an execution runs this variation, which must then be kept."""
        return variation_id in self._pinned

    # Executions and their entries

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        run = append.new_run
        if not self._org_exists(new.org):
            raise NotFound(f"unknown organization `{new.org}`")
        if run is None or append.expected or append.holder is not None:
            raise ValueError("the first append of an execution must have a new run, `expected` 0 and no holder")
        ref = ExecutionRef(new.org, self._last_execution + 1)
        append = self._without_claim(new.org, append)
        stored = StoredExecution(new.row(ref, run.id, 0, None), [], epoch=int(append.claimed_by is not None))
        self._check(new.org, stored, append)
        self._executions[ref.id] = stored
        self._last_execution = ref.id
        if new.variation_id is not None:
            self._pinned.add(new.variation_id)
        self._write(stored, append)
        self._set_claim(stored, 0 if append.wakes else append.wake_at, append.claimed_by)
        return _row(stored)

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        stored = self._check(execution.org, self._find(execution), append)
        append = self._without_claim(execution.org, append)
        self._write(stored, append)
        if append.updates_claim:
            self._set_claim(stored, append.wake_at, append.claimed_by)
            stored.epoch += append.claimed_by is not None
        if append.wakes:
            self._set_claim(stored, 0, stored.claimed_by)
        return stored.epoch if append.updates_claim and append.claimed_by is not None else None

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        stored = self._check(execution.org, self._find(execution), Append(length, ()))
        if stored.claimed_by is not None:
            raise JournalConflict("a worker holds the execution")
        for run_id in stored.runs:
            run = self._runs[execution.org].pop(run_id)
            self._deleted.add((execution.org, run_id))
            self._deleted_at[execution.org, run_id] = run.finished_at or run.updated_at
        self._closed = [one for one in self._closed if one.execution.ref != execution]
        del self._executions[execution.id]
        self.verdicts.delete(execution)
        if audit:
            self._add_audit_rows(execution.org, audit)

    async def is_deleted(self, org: str, run_id: str) -> bool:
        return (org, run_id) in self._deleted

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        stored = self._find(execution)
        return stored.entries[after:] if stored else []

    async def damaged(self, on_read: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        for _ in self._executions:
            on_read()
        return
        yield ""  # nothing that is kept in memory is damaged

    async def within(self, connection: object) -> "MemoryJournal":
        raise ValueError("`connection` is to another database: wfcore's is in memory")

    async def execution(self, execution: ExecutionRef) -> Execution:
        stored = self._find(execution)
        if stored is None:
            raise NotFound
        return _row(stored)

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        found = {ref: self._find(ref) for ref in executions}
        return {ref: len(stored.entries) for ref, stored in found.items() if stored}

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
        where: RunFilter = RunFilter(),  # noqa: B008  (immutable)
        principal: Principal | None = None,
    ) -> list[RunRow]:
        found = [
            run
            for run in self._runs.get(org, {}).values()
            if (before is None or run.key < before)
            and _matches(run, where)
            and (principal is None or self._may_see(org, principal, run))
        ]
        return sorted(found, key=lambda run: run.key, reverse=True)[:limit]

    async def count_runs(self, org: str, *, since: int, until: int, principal: Principal) -> list[RunCount]:
        period = RunFilter(since=since, until=until)
        found = await self.list_runs(org, limit=len(self._runs.get(org, {})), where=period, principal=principal)
        keys = Counter((run.status, run.kind, run.resource_id, run.created_at // HOUR * HOUR) for run in found)
        return [RunCount(*key, count) for key, count in keys.items()]

    async def inbox(
        self, principal: Principal, *, limit: int, before: int, decided: bool = False, workflow: int | None = None
    ) -> list[OpenInterrupt]:
        stored = self._executions.values()
        opened = [OpenInterrupt(one, "", each.row, key) for each in stored for key, one in each.interrupts.values()]
        found = [
            structs.replace(item, run_id=self._find_known(item).runs[-1], execution=_row(self._find_known(item)))
            for item in (self._closed if decided else opened)
            if item.execution.ref.org == principal.org_uuid
            and item.key < before
            and (workflow is None or (item.execution.kind, item.execution.resource_id) == ("workflow", workflow))
            and self._sees(principal, item)
        ]
        return sorted(found, key=lambda row: row.key, reverse=True)[:limit]

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        stored = self._executions.values() if of is None else filter(None, map(self._find, dict.fromkeys(of)))
        found = [
            OpenInterrupt(interrupt, one.runs[-1], _row(one), key)
            for one in stored
            if one.row.ref.org == org
            for key, interrupt in one.interrupts.values()
            if key > after
        ]
        return sorted(found, key=lambda row: row.key)[:limit]

    # Who works on what

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
        while len(claimed) < limit and (orgs := [org for at, _, org in self._claimable() if at <= now]):
            for org in orgs[: limit - len(claimed)]:
                stored = self._executions[self._due[org][0][1]]
                self._claim(stored, worker, now)
                claimed.append(stored.row.ref)
                self._due[org] = self._due.pop(org)
        if claimed:
            self._record_heartbeat(worker)
        return claimed

    async def claim(self, execution: ExecutionRef, worker: int, now: int) -> bool:
        stored = self._find(execution)
        if stored is None or stored.claimed_by is not None or stored.wake_at is None or stored.wake_at > now:
            return False
        if self._is_full(execution.org):
            return False
        self._claim(stored, worker, now)
        return True

    async def progress(self, execution: ExecutionRef) -> ExecutionProgress:
        stored = self._find(execution)
        if stored is None:
            raise NotFound
        status = self._runs[execution.org][stored.runs[-1]].status
        return ExecutionProgress(stored.row.kind, stored.row.resource_id, status, stored.claimed_by, stored.wake_at)

    def may_be_limited(self, org: str) -> bool:
        return self._max_concurrent_runs(org) is not None

    async def next_wake(self) -> int | None:
        return min((at for at, *_ in self._claimable()), default=None)

    async def due_since(self, now: int) -> int | None:
        wake_at, number, org = min(self._claimable(), default=(now + 1, 0, ""))
        if wake_at > now:
            return None
        return wake_at or self._runs[org][self._executions[number].runs[-1]].updated_at

    # One transaction

    def _check(self, org: str, stored: StoredExecution | None, append: Append) -> StoredExecution:
        """Raise the errors of `append`, in order of precedence, before anything has changed."""
        if append.new_run and (
            append.new_run.id in self._runs.get(org, {}) or (org, append.new_run.id) in self._deleted
        ):
            raise RunExists(f"run `{append.new_run.id}` already exists")
        if stored is None or len(stored.entries) != append.expected or append.holder not in (None, stored.claimed_by):
            raise JournalConflict("the journal does not have the expected length, or the claim is lost")
        own = stored.runs if append.new_run is None else [*stored.runs, append.new_run.id]
        for change in append.changes:
            if change.id not in own:
                raise NotFound(f"the execution has no run `{change.id}`")
        return stored

    def _write(self, stored: StoredExecution, append: Append) -> None:
        stored.entries.extend(append.entries)
        if append.new_run:
            self._last_run += 1
            if append.new_run.variation_id is not None:
                self._pinned.add(append.new_run.variation_id)
            self._put_run(append.new_run.row(stored.row, self._last_run))
            stored.runs.append(append.new_run.id)
        for change in append.changes:
            if change.variation_id is not None:
                self._pinned.add(change.variation_id)
            self._put_run(_changed(self._runs[stored.row.ref.org][change.id], change))
        if append.interrupts is not None:
            self._replace_interrupts(stored, append.interrupts, append.entries)
        if append.messages:
            self.conversations.add(stored.row, append.messages)
        if append.usage:
            first = self._runs[stored.row.ref.org][stored.runs[0]]
            self.usage.add(stored.row, append.usage, first.origin)
        if append.verdict is not None:
            self.verdicts.put(stored.row, append.verdict)
        if append.audit:
            self._add_audit_rows(stored.row.ref.org, append.audit)
        if append.notices:
            self._add_notices(stored.row.ref.org, append.notices)

    def _put_run(self, run: RunRow) -> None:
        self._runs.setdefault(run.execution.org, {})[run.id] = run

    def _replace_interrupts(
        self, stored: StoredExecution, interrupts: Sequence[Interrupt], entries: Sequence[Entry]
    ) -> None:
        """Replace the open interrupts. One that was open before keeps its key, and so its position in the inbox."""
        before, stored.interrupts = stored.interrupts, {}
        opened = {name: interrupt for name, (_, interrupt) in before.items()}
        for one in closed_interrupts(opened, interrupts, entries):
            key = before[one.interrupt.id][0]
            self._closed.append(OpenInterrupt(one.interrupt, "", stored.row, key, one.decision, one.at))
        for interrupt in interrupts:
            self._last_key += interrupt.id not in before
            key, _ = before.get(interrupt.id, (self._last_key, None))
            stored.interrupts[interrupt.id] = key, interrupt

    def _set_claim(self, stored: StoredExecution, wake_at: int | None, claimed_by: int | None) -> None:
        stored.wake_at, stored.claimed_by = wake_at, claimed_by
        if wake_at is not None and claimed_by is None:
            heapq.heappush(self._due.setdefault(stored.row.ref.org, []), (wake_at, stored.row.ref.id))

    # Looking

    def _find(self, execution: ExecutionRef) -> StoredExecution | None:
        stored = self._executions.get(execution.id)
        return stored if stored and stored.row.ref == execution else None

    def _heads(self) -> list[tuple[int, int, str]]:
        """What is due next in each organization: time, execution, organization. The one claimed last comes last."""
        for org, heap in list(self._due.items()):
            while heap and not self._waits_for(*heap[0]):
                heapq.heappop(heap)
            if not heap:
                del self._due[org]
        return [(*heap[0], org) for org, heap in self._due.items()]

    def _claimable(self) -> list[tuple[int, int, str]]:
        """The heads of organizations below their limits."""
        return [head for head in self._heads() if not self._is_full(head[2])]

    def _is_full(self, org: str) -> bool:
        """Whether the organization has as many claims as its limit allows."""
        most = self._max_concurrent_runs(org)
        if most is None:
            return False
        return most <= sum(
            1 for one in self._executions.values() if one.claimed_by is not None and one.row.ref.org == org
        )

    def _without_claim(self, org: str, append: Append) -> Append:
        """The append without a claim, and with a queued run, for an organization with a limit."""
        if append.claimed_by is None or self._max_concurrent_runs(org) is None:
            return append
        queued = None if append.new_run is None else append.new_run.queued()
        return structs.replace(append, claimed_by=None, new_run=queued)

    def _waits_for(self, wake_at: int, number: int) -> bool:
        """False for an outdated element of a heap."""
        stored = self._executions.get(number)
        return stored is not None and stored.claimed_by is None and stored.wake_at == wake_at

    def _find_known(self, item: OpenInterrupt) -> StoredExecution:
        return self._executions[item.execution.ref.id]

    def _sees(self, principal: Principal, item: OpenInterrupt) -> bool:
        execution = item.execution
        subjects = approvers_of(item.interrupt, execution.kind, execution.resource_id, execution.user_id)
        if not principal.subjects.isdisjoint(subjects):
            return True
        if item.decision and any(vote.by.user_id == principal.user_id for vote in item.interrupt.answers):
            return True
        if item.interrupt.named or execution.resource_id is None:
            return False
        return self._usable(principal.org_uuid, principal, execution.kind, execution.resource_id)

    def _may_see(self, org: str, principal: Principal, run: RunRow) -> bool:
        if principal.org_uuid != org:
            return False
        if run.resource_id is None:
            return run.root_user_id == principal.user_id
        return self._usable(org, principal, run.kind, run.resource_id)

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


def _row(stored: StoredExecution) -> Execution:
    return structs.replace(stored.row, length=len(stored.entries), claimed_by=stored.claimed_by, epoch=stored.epoch)


def _matches(run: RunRow, where: RunFilter) -> bool:
    wanted = attrs.asdict(where, recurse=False)
    since, until, starter = wanted.pop("since"), wanted.pop("until"), wanted.pop("started_by")
    return (
        all(value is None or getattr(run, name) == value for name, value in wanted.items())
        and (since is None or run.created_at >= since)
        and (until is None or run.created_at < until)
        and (starter is None or (run.user_id == starter and run.started_by != "system"))
    )


def _changed(run: RunRow, change: RunChange) -> RunRow:
    """The run after the change. `finished_at` is set when the status ends the turn or an ended status changes."""
    finished = None if change.status.under_way else change.at
    return structs.replace(
        run,
        status=change.status,
        updated_at=change.at,
        result=run.result if change.result is None else change.result,
        resumed_by=run.resumed_by if change.resumed_by is None else change.resumed_by,
        retried_by=run.retried_by if change.retried_by is None else change.retried_by,
        finished_at=run.finished_at if change.status == run.status else finished,
        variation_id=run.variation_id if change.variation_id is None else change.variation_id,
        is_draft=run.is_draft and change.variation_id is None,
    )
