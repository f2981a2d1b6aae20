"""The port `Maintenance` in dicts: it works on the rows of a storage and of its journal, as a part of both."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from enum import Enum
from functools import partial
from typing import Any, TypeVar, cast

import attrs
import msgspec

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.journal.run_reads import StoredExecution
from wfcore.adapters.inmemory.resources import ResourceTable
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.inmemory.tenant import Tenant
from wfcore.domain.json.codec import from_ms
from wfcore.domain.kernel.errors import unknown_organization
from wfcore.domain.people.erasure import Substitution
from wfcore.domain.resources.access import grants
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.run.entries import Opened
from wfcore.domain.run.state import RunStatus
from wfcore.ports.changes import FeedChange, interrupt_change, resource_removed, run_change
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.maintenance import EXPIRING, NOTHING, Expiring, PersonalExecution, Pruned, Rewriting, Sizes
from wfcore.ports.repositories.conversations import Conversation

T = TypeVar("T")

Removal = Callable[[], list[FeedChange] | None]
"""Deletes one thing that is too old. Returns the changes, if it has some."""

BEFORE_ALL = 0
"""A time before everything, in epoch milliseconds."""

ENDED = frozenset({RunStatus.done, RunStatus.error, RunStatus.cancelled})


@attrs.frozen
class MemoryMaintenance:
    """Implements the port `Maintenance`."""

    storage: MemoryStorage
    journal: MemoryJournal

    async def count(self, org: str, kind: Expiring, before: int, without: Mapping[Expiring, int] = NOTHING) -> int:
        if kind == "deleted":
            gone = {stored.row.ref for stored in self._ended(org, without.get("runs", BEFORE_ALL))}
            return len(list(self._all_unused(self._tenant(org), org, before, gone)))
        return len(list(self._old(org, kind, before)))

    async def prune(self, org: str, kind: Expiring, before: int, *, limit: int) -> Pruned:
        async with self.storage._lock:
            found = list(self._old(org, kind, before))[:limit]
            return Pruned(len(found), [change for removal in found for change in removal() or ()])

    async def texts(self, org: str, without: Mapping[Expiring, int] = NOTHING) -> AsyncIterator[Sequence[str]]:
        before = {kind: without.get(kind, BEFORE_ALL) for kind in EXPIRING}
        tenant = attrs.evolve(self._tenant(org).copy(), erasures={})
        gone = {stored.row.ref for stored in self._ended(org, before["runs"])}
        for resource, refs in self._all_unused(tenant, org, before["deleted"], gone):
            self._remove_resource(tenant, resource, ())
            gone.update(refs)
        log = [row for row in self.storage._logs[org].rows if row.at >= from_ms(before["audit"])]
        old = set(self._old_deliveries(org, before["runs"]))
        deliveries = [one for number, one in self.storage._deliveries[org].rows.items() if number not in old]
        yield list(texts_in([tenant, log, deliveries]))
        own = [one for one in self.journal._executions.values() if one.row.ref.org == org and one.row.ref not in gone]
        yield list(texts_in([[one.entries, one.interrupts, one.row] for one in own]))
        closed = [one for one in self.journal._closed if one.execution.ref.org == org and one.execution.ref not in gone]
        runs = [run for run in self.journal._runs.get(org, {}).values() if run.execution not in gone]
        yield list(texts_in([runs, closed]))
        stale = {row.key for row in self._stale(org, before["conversations"])}
        threads = [one for one in self.journal.conversations._conversations.values() if one.row.org == org]
        yield list(texts_in([[one.row, one.messages] for one in threads if one.row.key not in stale]))

    async def remove_organization(self, org: str) -> bool:
        async with self.storage._lock:
            storage, journal = self.storage, self.journal
            known = storage._organizations.pop(org, None)
            storage._tenants.pop(org, None)
            storage._logs.pop(org, None)
            storage._deliveries.pop(org, None)
            for ref in [stored.row.ref for stored in journal._executions.values() if stored.row.ref.org == org]:
                self._remove_execution(ref)
            for conversation in list(journal.conversations._conversations.values()):
                if conversation.row.org == org:
                    await journal.conversations.remove(conversation.row)
            journal._runs.pop(org, None)
            journal._deleted = {pair for pair in journal._deleted if pair[0] != org}
            journal.usage._calls = [call for call in journal.usage._calls if call.execution.ref.org != org]
            return known is not None

    def _tenant(self, org: str) -> Tenant:
        if org not in self.storage._tenants:
            raise unknown_organization(org)
        return self.storage._tenants[org]

    def _old(self, org: str, kind: Expiring, before: int) -> Iterator[Removal]:
        tenant = self._tenant(org)
        match kind:
            case "runs":
                yield from self._old_runs(org, before)
            case "conversations":
                yield from (partial(self._forget, row) for row in self._stale(org, before))
            case "audit":
                log = self.storage._logs[org]
                yield from (partial(log.remove, row) for row in list(log.rows) if row.at < from_ms(before))
            case "deleted":
                for resource, own in self._unused(tenant, org, before):
                    yield partial(self._remove_resource, tenant, resource, own)

    def _stale(self, org: str, before: int) -> Iterator[Conversation]:
        """The conversations that are too old."""
        for stored in list(self.journal.conversations._conversations.values()):
            if stored.row.org == org and stored.row.updated_at < before and not self._continues(stored.row):
                yield stored.row

    def _ended(self, org: str, before: int) -> Iterator[StoredExecution]:
        """The executions that are too old."""
        for stored in list(self.journal._executions.values()):
            last = self.journal._runs[stored.row.ref.org][stored.runs[-1]]
            is_free = stored.claimed_by is None and stored.wake_at is None
            if last.execution.org == org and last.status in ENDED and is_free and (last.finished_at or before) < before:
                yield stored

    def _old_deliveries(self, org: str, before: int) -> Iterator[int]:
        """The numbers of the deliveries that are too old."""
        for number, delivery in list(self.storage._deliveries[org].rows.items()):
            if delivery.next_at is None and delivery.notice.at < before:
                yield number

    def _old_runs(self, org: str, before: int) -> Iterator[Removal]:
        yield from (partial(self._remove_execution, stored.row.ref) for stored in self._ended(org, before))
        for pair in [pair for pair, at in self.journal._deleted_at.items() if pair[0] == org and at < before]:
            yield partial(self._remove_id, pair)
        rows = self.storage._deliveries[org].rows
        yield from (partial(rows.__delitem__, number) for number in self._old_deliveries(org, before))

    def _continues(self, row: Conversation) -> bool:
        """Whether an execution of the conversation has not ended."""
        own = [
            stored
            for stored in self.journal._executions.values()
            if (stored.row.ref.org, stored.row.thread_id, stored.row.user_id) == (row.org, row.thread_id, row.user_id)
        ]
        return any(self.journal._runs[row.org][stored.runs[-1]].status not in ENDED for stored in own)

    def _forget(self, row: Conversation) -> None:
        self.journal.conversations.forget(row)

    def _remove_id(self, pair: tuple[str, str]) -> None:
        self.journal._deleted.discard(pair)
        self.journal._deleted_at.pop(pair, None)

    def _remove_execution(self, ref: ExecutionRef) -> list[FeedChange]:
        journal, tenant = self.journal, self.storage._tenants.get(ref.org)
        stored = journal._executions.pop(ref.id)
        for run_id in stored.runs:
            journal._runs[ref.org].pop(run_id, None)
        journal._closed = [one for one in journal._closed if one.execution.ref != ref]
        journal.verdicts.delete(ref)
        if tenant is not None:
            tenant.postings = {name: row for name, row in tenant.postings.items() if row.run_id not in stored.runs}
        target = stored.row.kind, stored.row.resource_id, stored.row.user_id
        changes = [run_change(run_id, "deleted", *target) for run_id in stored.runs]
        return changes + [interrupt_change(one, "deleted", *target) for _, one in stored.interrupts.values()]

    def _all_unused(
        self, tenant: Tenant, org: str, before: int, gone: AbstractSet[ExecutionRef]
    ) -> list[tuple[Resource, list[ExecutionRef]]]:
        """The deleted resources that are too old once these executions are gone, and then those of the resources."""
        found = list(self._unused(tenant, org, before, gone))
        while True:
            every = {*gone}.union(*(refs for _, refs in found))
            more = list(self._unused(tenant, org, before, every))
            if len(more) == len(found):
                return found
            found = more

    def _unused(
        self, tenant: Tenant, org: str, before: int, gone: AbstractSet[ExecutionRef] = frozenset()
    ) -> Iterator[tuple[Resource, list[ExecutionRef]]]:
        """The deleted resources that are too old when these executions are gone, with all executions of their own."""
        stored_ones = self.journal._executions.values()
        own = [stored for stored in stored_ones if stored.row.ref.org == org and stored.row.ref not in gone]
        opened = {
            (entry.variation_id, stored.row.kind, stored.row.resource_id)
            for stored in own
            for entry in stored.entries
            if isinstance(entry, Opened)
        }
        for table in tenant.resource_tables.values():
            for resource in list(table.rows.values()):
                variations = {name for number, name in table.variations if number == resource.id}
                is_old = resource.deleted_at is not None and resource.deleted_at < from_ms(before)
                called = {name for name, *by in opened if by != [resource.kind, resource.id]}
                if is_old and resource.status == Status.DELETED and called.isdisjoint(variations):
                    found = self._executions_of(org, resource)
                    if all(self.journal._runs[org][run].status in ENDED for _, run in found):
                        yield resource, [ref for ref, _ in found]

    def _executions_of(self, org: str, resource: Resource) -> list[tuple[ExecutionRef, str]]:
        """The executions of a resource, each with its last run."""
        return [
            (stored.row.ref, stored.runs[-1])
            for stored in self.journal._executions.values()
            if (stored.row.ref.org, stored.row.kind, stored.row.resource_id) == (org, resource.kind, resource.id)
        ]

    def _remove_resource(self, tenant: Tenant, resource: Resource, own: Sequence[ExecutionRef]) -> list[FeedChange]:
        runs = [change for ref in own for change in self._remove_execution(ref)]
        table = tenant.resource_tables[resource.kind]
        del table.rows[resource.id]
        table.slugs.discard(resource.slug)
        table.variations = {key: one for key, one in table.variations.items() if key[0] != resource.id}
        place = resource.kind, resource.id
        tenant.interfaces = {key: one for key, one in tenant.interfaces.items() if key[:2] != place}
        if resource.kind is Kind.WORKFLOW:
            tenant.timers.pop(resource.id, None)
            tenant.webhooks.pop(resource.id, None)
        seen_by = [(one.subject, one.use, one.manage) for one in grants(resource.access)]
        return resource_removed(resource.kind.value, resource.id, seen_by, runs)

    async def sizes(self, org: str | None = None, user_id: str | None = None) -> Sizes:
        def own(row_org: str, row_user: str | None) -> bool:
            return org in (None, row_org) and user_id in (None, row_user)

        journal, logs = self.journal, self.storage._logs
        executions = [one.row for one in journal._executions.values()]
        runs = [run for rows in journal._runs.values() for run in rows.values()]
        threads = [one for one in journal.conversations._conversations.values() if own(one.row.org, one.row.user_id)]
        return Sizes(
            sum(own(row.ref.org, row.user_id) for row in executions),
            sum(own(run.execution.org, run.user_id) for run in runs),
            sum(len(one.messages) for one in threads),
            sum(own(name, row.user_id) for name, log in logs.items() for row in log.rows),
        )

    # The erasure of a person

    async def erasures(self) -> Sequence[tuple[str, str]]:
        return [(org, name) for org, tenant in self.storage._tenants.items() for name in tenant.erasures]

    async def executions_of(self, org: str, user_id: str) -> Sequence[PersonalExecution]:
        stored = [one for one in self.journal._executions.values() if one.row.ref.org == org]
        runs = self.journal._runs.get(org, {})
        own = {one.row.ref.id for one in stored if one.row.user_id == user_id}
        new = own
        while new:
            ids = {run.id for run in runs.values() if run.execution.id in new}
            new = {run.execution.id for run in runs.values() if run.forked_from in ids} - own
            own |= new
        took_part = {run.execution.id for run in runs.values() if run.user_id == user_id}
        return [PersonalExecution(number, number in own) for number in sorted(own | took_part)]

    async def remove_execution(self, org: str, id: int) -> Sequence[FeedChange]:
        async with self.storage._lock:
            stored = self.journal._executions.get(id)
            if stored is not None and stored.row.ref.org == org:
                return self._remove_execution(stored.row.ref)
            return ()

    async def remove_resource(self, org: str, kind: Kind, id: int) -> Sequence[FeedChange]:
        async with self.storage._lock:
            tenant = self._tenant(org)
            resource = tenant.resource_tables[kind].rows.get(id)
            if resource is None:
                return ()
            own = [ref for ref, _ in self._executions_of(org, resource)]
            return self._remove_resource(tenant, resource, own)

    async def forget_user(self, org: str, user_id: str) -> None:
        async with self.storage._lock:
            tenant, conversations = self._tenant(org), self.journal.conversations
            for stored in list(conversations._conversations.values()):
                if (stored.row.org, stored.row.user_id) == (org, user_id):
                    conversations.forget(stored.row)
            tenant.idempotency = {key: one for key, one in tenant.idempotency.items() if key[1] != user_id}
            tenant.tokens = {key: one for key, one in tenant.tokens.items() if one.user_id != user_id}
            grants = tenant.connection_grants.items()
            tenant.connection_grants = {key: one for key, one in grants if one.user_id != user_id}

    async def numbers(self, org: str, kind: Kind) -> Sequence[int]:
        return sorted(self._tenant(org).resource_tables[kind].rows)

    async def conversations(
        self, org: str, user_id: str | None, *, limit: int, after: Conversation | None = None
    ) -> Sequence[Conversation]:
        rows = [stored.row for stored in self.journal.conversations._conversations.values()]
        own = [row for row in rows if row.org == org and user_id in (None, row.user_id)]
        found = sorted((row.thread_id, row.user_id, row.key, row) for row in own)
        first = ("", "") if after is None else (after.thread_id, after.user_id)
        return [row for *place, _, row in found if tuple(place) > first][:limit]

    async def rewrite(self, org: str, change: Substitution, on_read: Callable[[], None] = lambda: None) -> Rewriting:
        async with self.storage._lock:
            tenant, storage, journal = self._tenant(org), self.storage, self.journal
            changed = with_texts(tenant, change.text)
            for kind, table in changed.resource_tables.items():
                _count_revisions(tenant.resource_tables[kind], table)
            storage._tenants[org] = attrs.evolve(
                changed, members=tenant.members, tokens=tenant.tokens, erasures=tenant.erasures
            )
            storage._logs[org].rows = with_texts(storage._logs[org].rows, change.text)
            storage._deliveries[org].rows = with_texts(storage._deliveries[org].rows, change.text)
            journal._runs[org] = with_texts(journal._runs.get(org, {}), change.text)
            calls = [(one, one.execution.ref.org == org) for one in journal.usage._calls]
            journal.usage._calls = [with_texts(one, change.text) if own else one for one, own in calls]
            for stored in journal.conversations._conversations.values():
                if stored.row.org == org:
                    stored.messages = with_texts(stored.messages, change.text)
            held = 0
            for own in self._executions_in(org):
                held += not self._rewrite(own, change)
                on_read()
            return Rewriting(held)  # no other process has read the variations

    async def rewrite_execution(self, org: str, id: int, change: Substitution, length: int) -> bool:
        async with self.storage._lock:
            stored = self.journal._executions.get(id)
            if stored is None or stored.row.ref.org != org or len(stored.entries) != length:
                return False
            if not self._rewrite(stored, change):
                return False
            runs = self.journal._runs[org]
            for run_id in stored.runs:
                runs[run_id] = with_texts(runs[run_id], change.text)
            return True

    async def scrub(self) -> None:
        """There are no files."""

    def _executions_in(self, org: str) -> list[StoredExecution]:
        return [stored for stored in self.journal._executions.values() if stored.row.ref.org == org]

    def _rewrite(self, stored: StoredExecution, change: Substitution) -> bool:
        if stored.claimed_by is not None:
            return not any(map(change.concerns, texts_in(stored.entries)))
        stored.row = with_texts(stored.row, change.text)
        stored.entries, stored.snapshot = with_texts(stored.entries, change.text), None
        stored.interrupts = with_texts(stored.interrupts, change.text)
        journal = self.journal
        own = [one.execution.ref == stored.row.ref for one in journal._closed]
        journal._closed = [
            with_texts(one, change.text) if mine else one for one, mine in zip(journal._closed, own, strict=True)
        ]
        return True


def _count_revisions(before: ResourceTable, after: ResourceTable) -> None:
    """Give the resources that have other texts, or whose variations have, the next revision."""
    rewritten = {number for number, row in after.rows.items() if row != before.rows[number]}
    rewritten |= {key[0] for key, one in after.variations.items() if one != before.variations.get(key)}
    for number in rewritten:
        after.rows[number] = attrs.evolve(after.rows[number], revision=after.rows[number].revision + 1)


def texts_in(value: object) -> Iterator[str]:
    """Every text in a value, however deep; the keys of mappings too."""
    match value:
        case str():
            yield str(value)
        case Mapping():
            for item in value.items():
                yield from texts_in(item)
        case msgspec.Struct():
            yield from texts_in([getattr(value, name) for name in value.__struct_fields__])
        case bytes():
            return
        case Sequence() | AbstractSet():
            for one in value:
                yield from texts_in(one)
        case _ if attrs.has(kind := type(value)):
            yield from texts_in([getattr(value, field.name) for field in attrs.fields(kind)])


def with_texts(value: T, change: Callable[[str], str]) -> T:
    """A copy of the value with `change` of every text in it, however deep."""
    return cast("T", _changed(value, change))


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case Enum():
            return value
        case str():
            return change(value)
        case dict():
            return {_changed(key, change): _changed(one, change) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return type(value)(_changed(one, change) for one in value)
        case msgspec.Struct():
            fields = {name: _changed(getattr(value, name), change) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case _ if attrs.has(kind := type(value)):
            twin = copy(value)
            for field in attrs.fields(kind):
                object.__setattr__(twin, field.name, _changed(getattr(value, field.name), change))
            return twin
    return value
