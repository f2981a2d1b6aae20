"""Publishes changes to the feed once they are committed: a storage and a journal that report what they write."""

from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.run.entries import turns_of
from wfcore.domain.run.state import Interrupt
from wfcore.ports.changes import KINDS, ChangeFeed, FeedChange, What, interrupt_change, run_change
from wfcore.ports.journal import Append, Claimed, Execution, ExecutionRef, Journal, NewExecution, PlainAppend
from wfcore.ports.maintenance import Expiring, Maintenance, Pruned
from wfcore.ports.repositories.audit import AuditRow
from wfcore.ports.storage import Storage

if TYPE_CHECKING:
    from wfcore.domain.run.machine.machine import Machine

MOST_OPEN = 10_000
"""The most open interrupts of one execution that are compared."""

MOST_KNOWN = 10_000
"""The most executions whose rows are kept."""


def publishing_storage(storage: Storage, feed: ChangeFeed) -> Storage:
    """The same storage, whose transactions and whose maintenance publish what they changed."""
    return _PublishingStorage(storage, feed)


def publishing_journal(journal: Journal, feed: ChangeFeed) -> Journal:
    """The same journal, whose appends publish the runs and the interrupts that they changed."""
    return _PublishingJournal(journal, feed)


def publish_claimed(feed: ChangeFeed, execution: Execution, machine: "Machine") -> None:
    """Publish the open turn of an execution that a worker has claimed: a queued run is a running one now.

    Claims do not read run ids. Whoever drives the execution has them.
    """
    if machine.turn_open and feed.has_followers(execution.ref.org):
        feed.publish(execution.ref.org, [_run_change(execution, machine.run_id, "changed")])


class _PublishingStorage:
    def __init__(self, storage: Storage, feed: ChangeFeed) -> None:
        self._storage = storage
        self._feed = feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    @property
    def maintenance(self) -> "_PublishingMaintenance":
        return _PublishingMaintenance(self._storage.maintenance, self._feed)

    @asynccontextmanager
    async def transaction(self, org: str) -> AsyncIterator[Any]:
        noted = _Noted()
        async with self._storage.transaction(org) as work:
            yield _NotingWork(work, noted)
        if noted.changes:
            self._feed.publish(org, list(noted.changes.values()))


class _PublishingMaintenance:
    def __init__(self, maintenance: Maintenance, feed: ChangeFeed) -> None:
        self._maintenance = maintenance
        self._feed = feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._maintenance, name)

    async def prune(self, org: str, kind: Expiring, before: int, *, limit: int) -> Pruned:
        pruned = await self._maintenance.prune(org, kind, before, limit=limit)
        self._publish(org, pruned.changes)
        return pruned

    async def remove_execution(self, org: str, id: int) -> Sequence[FeedChange]:
        return self._publish(org, await self._maintenance.remove_execution(org, id))

    async def remove_resource(self, org: str, kind: Kind, id: int) -> Sequence[FeedChange]:
        return self._publish(org, await self._maintenance.remove_resource(org, kind, id))

    def _publish(self, org: str, changes: Sequence[FeedChange]) -> Sequence[FeedChange]:
        if changes:
            self._feed.publish(org, changes)
        return changes


class _Noted:
    """The resources that a transaction changed, each once: of several changes the one that says most."""

    def __init__(self) -> None:
        self.changes: dict[tuple[str, str | int], FeedChange] = {}

    def note(self, kind: str, id: str | int, what: What, subjects: tuple[str, ...] = ()) -> None:
        known = self.changes.get((kind, id))
        if known is None or known.what == "changed":
            self.changes[kind, id] = FeedChange(kind, id, what, subjects=subjects)

    def note_audited(self, row: AuditRow) -> None:
        """What is audited has changed."""
        if row.kind in KINDS:
            is_number = row.kind in (Kind.WORKFLOW, Kind.SKILL)
            members = [row.details[side] for side in ("from", "to")] if row.kind == "delegation" else []
            seen_by = tuple(f"u:{user}" for user in members)
            self.note(row.kind, int(row.resource_id) if is_number else row.resource_id, _what(row.action), seen_by)


def _what(action: str) -> What:
    """The change of an audited action, such as `workflow.deploy`."""
    match action.rpartition(".")[2]:
        case "create":
            return "created"
        case "delete" | "erase":
            return "deleted"
        case "deploy":
            return "deployed"
    return "changed"


class _Noting:
    """A part of a unit of work; methods of subclasses note what is written."""

    def __init__(self, inner: Any, noted: _Noted) -> None:
        self._inner = inner
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _NotingWork(_Noting):
    @property
    def audit(self) -> "_NotingAudit":
        return _NotingAudit(self._inner.audit, self._noted)

    @property
    def workflows(self) -> "_NotingResources":
        return self.resources(Kind.WORKFLOW)

    @property
    def skills(self) -> "_NotingResources":
        return self.resources(Kind.SKILL)

    @property
    def connections(self) -> "_NotingConnections":
        return _NotingConnections(self._inner.connections, self._noted)

    @property
    def connection_grants(self) -> "_NotingGrants":
        return _NotingGrants(self._inner.connection_grants, self._noted)

    def resources(self, kind: Kind) -> "_NotingResources":
        return _NotingResources(self._inner.resources(kind), self._noted)


class _NotingAudit(_Noting):
    async def add(self, row: AuditRow) -> None:
        await self._inner.add(row)
        self._noted.note_audited(row)


class _NotingResources(_Noting):
    async def add(self, resource: Resource) -> None:
        await self._inner.add(resource)
        self._noted.note(resource.kind.value, resource.id, "created")

    async def save(self, old: Resource, new: Resource) -> None:
        """Edits of a draft are not audited, but they are changes; nor is the deletion by an erasure."""
        await self._inner.save(old, new)
        is_deletion = new.status is Status.DELETED is not old.status
        self._noted.note(new.kind.value, new.id, "deleted" if is_deletion else "changed")


class _NotingConnections(_Noting):
    async def save(self, row: Connection) -> None:
        """What the use of a connection shows about it is not audited, but its status changes."""
        await self._inner.save(row)
        self._noted.note("connection", row.id, "changed")


class _NotingGrants(_Noting):
    async def save(self, row: ConnectionGrant) -> None:
        """The status of a connection is that of its tokens."""
        await self._inner.save(row)
        self._noted.note("connection", row.connection_id, "changed")


class _PublishingJournal:
    def __init__(self, journal: Journal, feed: ChangeFeed) -> None:
        self._journal = journal
        self._feed = feed
        self._known: dict[ExecutionRef, Execution] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        begun = await self._journal.begin(new, append)
        if self._feed.has_followers(new.org):
            self._know(begun)
            self._feed.publish(new.org, _changes(append, new, {}))
        return begun

    async def execution(self, execution: ExecutionRef) -> Execution:
        return self._know(await self._journal.execution(execution))

    async def with_entries(self, executions: Sequence[ExecutionRef]) -> list[Claimed]:
        found = await self._journal.with_entries(executions)
        for claimed in found:
            self._know(claimed.execution)
        return found

    async def claim(self, execution: ExecutionRef, worker: int, now: int) -> Claimed | None:
        claimed = await self._journal.claim(execution, worker, now)
        if claimed is not None:
            self._know(claimed.execution)
        return claimed

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        """An execution that can be deleted has ended, so that it has no open interrupt."""
        if not self._feed.has_followers(execution.org):
            await self._journal.delete(execution, length, audit)
            return
        row = self._known.get(execution) or await self.execution(execution)
        turns = turns_of(await self._journal.read(execution))
        await self._journal.delete(execution, length, audit)
        self._feed.publish(execution.org, [_run_change(row, one, "deleted") for one in turns])

    def _know(self, execution: Execution) -> Execution:
        """Whoever appends has read, claimed or begun the execution before. What a change shows of it stays the same."""
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[execution.ref] = execution
        return execution

    def append(self, execution: ExecutionRef, append: Append) -> Coroutine[Any, Any, int | None]:
        """No coroutine of its own where nothing is published: that is nearly always so."""
        if type(append) is PlainAppend:
            return self._journal.append(execution, append)
        changes = append.new_run or append.changes or append.interrupts is not None
        if changes and self._feed.has_followers(execution.org):
            return self._append(execution, append)
        return self._journal.append(execution, append)

    async def _append(self, execution: ExecutionRef, append: Append) -> int | None:
        before = dict[str, Interrupt]()
        if append.interrupts is not None:
            waiting = await self._journal.open_interrupts(execution.org, limit=MOST_OPEN, of=[execution])
            before = {one.interrupt.id: one.interrupt for one in waiting}
        row = self._known.get(execution) or await self.execution(execution)
        epoch = await self._journal.append(execution, append)
        self._feed.publish(execution.org, _changes(append, row, before))
        return epoch


def _changes(append: Append, target: NewExecution | Execution, before: dict[str, Interrupt]) -> list[FeedChange]:
    """The runs and interrupts that an append changed. `before` are the interrupts that were open."""

    def interrupt(one: Interrupt, what: What) -> FeedChange:
        return interrupt_change(one, what, target.kind, target.resource_id, target.user_id)

    changes = [_run_change(target, append.new_run.id, "created")] if append.new_run else []
    changes += [_run_change(target, one.id, "changed") for one in append.changes]
    if append.interrupts is not None:
        after = {one.id: one for one in append.interrupts}
        changes += [interrupt(one, "created") for name, one in after.items() if name not in before]
        changes += [interrupt(one, "changed") for name, one in after.items() if one != before.get(name, one)]
        changes += [interrupt(one, "resolved") for name, one in before.items() if name not in after]
    return changes


def _run_change(target: NewExecution | Execution, id: str, what: What) -> FeedChange:
    return run_change(id, what, target.kind, target.resource_id, target.user_id)
