"""The reads of runs, of their executions and of their interrupts."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy

import attrs
from msgspec import structs

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.state import Interrupt
from wfcore.ports.journal import (
    HOUR,
    Claimed,
    Execution,
    ExecutionRef,
    InboxFilter,
    OpenInterrupt,
    RunCount,
    RunFilter,
    RunRow,
)
from wfcore.ports.repositories.inbox import approvers_of

Usable = Callable[[str, Principal, str, int], bool]
"""Returns whether a principal of an organization can use the resource of a kind and id."""


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
    snapshot: tuple[int, bytes] | None = None


class MemoryRunReads:
    """The methods of the port `Journal` that only read. `usable` returns whether a principal can use a resource."""

    def __init__(self, usable: Usable) -> None:
        self._usable = usable
        self._executions: dict[int, StoredExecution] = {}
        self._runs: dict[str, dict[str, RunRow]] = {}
        self._closed: list[OpenInterrupt] = []

    async def execution(self, execution: ExecutionRef) -> Execution:
        stored = self._find(execution)
        if stored is None:
            raise NotFound
        return row_of(stored)

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        found = {ref: self._find(ref) for ref in executions}
        return {ref: len(stored.entries) for ref, stored in found.items() if stored}

    async def with_entries(self, executions: Sequence[ExecutionRef]) -> list[Claimed]:
        found = map(self._find, executions)
        return [Claimed(row_of(stored), list(stored.entries)) for stored in found if stored]

    async def find_run(self, org: str, run_id: str) -> RunRow | None:
        run = self._runs.get(org, {}).get(run_id)
        return None if run is None else _apart(run)

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
        return [_apart(run) for run in sorted(found, key=lambda run: run.key, reverse=True)[:limit]]

    async def count_runs(self, org: str, *, since: int, until: int, principal: Principal) -> list[RunCount]:
        period = RunFilter(since=since, until=until)
        found = await self.list_runs(org, limit=len(self._runs.get(org, {})), where=period, principal=principal)
        keys = Counter((run.status, run.kind, run.resource_id, run.created_at // HOUR * HOUR) for run in found)
        return [RunCount(*key, count) for key, count in keys.items()]

    async def inbox(
        self,
        principal: Principal,
        *,
        limit: int,
        decided: bool = False,
        where: InboxFilter = InboxFilter(),  # noqa: B008  (immutable)
    ) -> list[int]:
        found = [
            item.key
            for item in self._all(principal.org_uuid, decided=decided)
            if (decided or not _is_done(item, where)) and _is_of(item, where.workflows) and self._sees(principal, item)
        ]
        return sorted(found, reverse=True)[:limit]

    async def interrupts_at(self, org: str, keys: Sequence[int], *, decided: bool = False) -> list[OpenInterrupt]:
        found = {item.key: item for item in self._all(org, decided=decided)}
        return [self._up_to_date(found[key]) for key in sorted(set(keys), reverse=True) if key in found]

    async def deadlines(self, org: str, keys: Sequence[int], *, decided: bool = False) -> dict[int, int]:
        found = {item.key: item.interrupt.expires_at for item in self._all(org, decided=decided)}
        wanted = {key: at for key in set(keys) if (at := found.get(key)) is not None}
        return {key: wanted[key] for key in sorted(wanted, key=lambda key: (wanted[key], -key))}

    async def find_interrupts(
        self, principal: Principal, ids: Collection[str]
    ) -> dict[str, tuple[OpenInterrupt, bool]]:
        found = dict[str, tuple[OpenInterrupt, bool]]()
        org, closed = principal.org_uuid, self._all(principal.org_uuid, decided=True)
        of_org = [*sorted(closed, key=lambda item: item.key), *self._all(org, decided=False)]
        seen = {item.execution.ref for item in of_org if self._sees(principal, item)}
        for item in of_org:
            execution = item.execution
            can_use = self._may_use(org, principal, execution.kind, execution.resource_id, execution.user_id)
            if item.interrupt.id in ids and (can_use or execution.ref in seen):
                found[item.interrupt.id] = self._up_to_date(item), can_use
        return found

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        stored = self._executions.values() if of is None else filter(None, map(self._find, dict.fromkeys(of)))
        found = [
            OpenInterrupt(interrupt, one.runs[-1], row_of(one), key)
            for one in stored
            if one.row.ref.org == org
            for key, interrupt in one.interrupts.values()
            if key > after
        ]
        return sorted(found, key=lambda row: row.key)[:limit]

    def _find(self, execution: ExecutionRef) -> StoredExecution | None:
        stored = self._executions.get(execution.id)
        return stored if stored and stored.row.ref == execution else None

    def _all(self, org: str, *, decided: bool) -> list[OpenInterrupt]:
        """The open or closed interrupts of an organization, without their runs."""
        return [item for item in (self._closed if decided else self._opened()) if item.execution.ref.org == org]

    def _opened(self) -> list[OpenInterrupt]:
        """The open interrupts, without their runs."""
        stored = self._executions.values()
        return [OpenInterrupt(one, "", each.row, key) for each in stored for key, one in each.interrupts.values()]

    def _up_to_date(self, item: OpenInterrupt) -> OpenInterrupt:
        """The item with the latest run and the row of its execution now."""
        stored = self._executions[item.execution.ref.id]
        return structs.replace(item, run_id=stored.runs[-1], execution=row_of(stored))

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
        return self._may_use(org, principal, run.kind, run.resource_id, run.root_user_id)

    def _may_use(self, org: str, principal: Principal, kind: str, resource_id: int | None, starter: str) -> bool:
        """Whether the principal can use the target of an execution; one without a resource is its starter's."""
        if resource_id is None:
            return starter == principal.user_id
        return self._usable(org, principal, kind, resource_id)


def _is_done(item: OpenInterrupt, where: InboxFilter) -> bool:
    """Whether the users of the filter cannot decide the interrupt although they see it, or it has expired."""
    expires = item.interrupt.expires_at
    if expires is not None and expires <= where.now:
        return True
    return not where.undecided_by.isdisjoint(item.interrupt.barred(item.execution.user_id))


def _is_of(item: OpenInterrupt, workflows: Collection[int] | None) -> bool:
    return workflows is None or (item.execution.kind == "workflow" and item.execution.resource_id in workflows)


def row_of(stored: StoredExecution) -> Execution:
    return structs.replace(stored.row, length=len(stored.entries), claimed_by=stored.claimed_by, epoch=stored.epoch)


def _apart(run: RunRow) -> RunRow:
    """The run with a result of its own: a caller that changes it does not change what is stored."""
    return structs.replace(run, result=deepcopy(run.result)) if run.result else run


def _matches(run: RunRow, where: RunFilter) -> bool:
    wanted = attrs.asdict(where, recurse=False)
    since, until, starter = wanted.pop("since"), wanted.pop("until"), wanted.pop("started_by")
    return (
        all(value is None or getattr(run, name) == value for name, value in wanted.items())
        and (since is None or run.created_at >= since)
        and (until is None or run.created_at < until)
        and (starter is None or (run.user_id == starter and run.started_by != "system"))
    )
