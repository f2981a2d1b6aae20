"""The port `Storage` in dicts.

A transaction works on a copy of the organization, which replaces the original on commit. Readers have a copy too, so
that readers and writers never wait for each other.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from operator import attrgetter
from typing import TypeVar

import attrs

from wfcore.adapters.inmemory.audit import AuditLog, MemoryAudit
from wfcore.adapters.inmemory.directory import MemoryDirectory
from wfcore.adapters.inmemory.hooks import DeliveryLog, MemoryDeliveries, RegisteredHandlers
from wfcore.adapters.inmemory.idempotency import MemoryIdempotency
from wfcore.adapters.inmemory.interfaces import MemoryInterfaces
from wfcore.adapters.inmemory.organization_records import MemoryDelegations, MemoryRecords
from wfcore.adapters.inmemory.postings import MemoryPostings
from wfcore.adapters.inmemory.resources import MemoryResources, Pinned
from wfcore.adapters.inmemory.tenant import Tenant
from wfcore.adapters.inmemory.triggers import MemorySchedules, MemoryWebhooks
from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.kernel.errors import closed, unknown_organization
from wfcore.domain.kernel.ids import hash_secret
from wfcore.domain.kernel.sharing import in_turn
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import AccessToken, Member, Organization
from wfcore.domain.projections.notices import Notice
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.rules.policies import Policy
from wfcore.ports.journal import RunRow
from wfcore.ports.maintenance import Maintenance
from wfcore.ports.repositories.audit import AuditRow
from wfcore.ports.repositories.hooks import DueDelivery
from wfcore.ports.repositories.postings import DuePosting, Posting
from wfcore.ports.repositories.schedules import DueTimer
from wfcore.ports.repositories.webhooks import FoundWebhook
from wfcore.ports.storage import Duplicate, FoundInterface

T = TypeVar("T")

FindRun = Callable[[str, str], Awaitable[RunRow | None]]
"""Finds a run by its organization and its id."""


async def _no_run(org: str, run_id: str) -> None:
    """The default `find_run`: without a journal there are no runs."""


@attrs.frozen
class MemoryUnitOfWork:
    """Implements the port `UnitOfWork` on one tenant."""

    tenant: Tenant
    pinned: Pinned
    audit: MemoryAudit
    deliveries: MemoryDeliveries

    @property
    def workflows(self) -> MemoryResources:
        return self.resources(Kind.WORKFLOW)

    @property
    def skills(self) -> MemoryResources:
        return self.resources(Kind.SKILL)

    @property
    def directory(self) -> MemoryDirectory:
        return MemoryDirectory(self.tenant)

    @property
    def interfaces(self) -> MemoryInterfaces:
        return MemoryInterfaces(self.tenant.interfaces)

    @property
    def hooks(self) -> MemoryRecords[Hook]:
        return MemoryRecords(self.tenant.hooks)

    @property
    def context_items(self) -> MemoryRecords[ContextItem]:
        return MemoryRecords(self.tenant.context_items)

    @property
    def connections(self) -> MemoryRecords[Connection]:
        return MemoryRecords(self.tenant.connections)

    @property
    def delegations(self) -> MemoryDelegations:
        return MemoryDelegations(self.tenant.delegations)

    @property
    def connection_grants(self) -> MemoryRecords[ConnectionGrant]:
        return MemoryRecords(self.tenant.connection_grants)

    @property
    def policies(self) -> MemoryRecords[Policy]:
        return MemoryRecords(self.tenant.policies)

    @property
    def erasures(self) -> MemoryRecords[Erasure]:
        return MemoryRecords(self.tenant.erasures)

    @property
    def idempotency(self) -> MemoryIdempotency:
        return MemoryIdempotency(self.tenant.idempotency)

    @property
    def schedules(self) -> MemorySchedules:
        return MemorySchedules(self.tenant.timers)

    @property
    def webhooks(self) -> MemoryWebhooks:
        return MemoryWebhooks(self.tenant.webhooks)

    @property
    def postings(self) -> MemoryPostings:
        return MemoryPostings(self.tenant.postings)

    def resources(self, kind: Kind) -> MemoryResources:
        return MemoryResources(self.tenant.resource_tables[kind], self.pinned)


class MemoryStorage:
    """Implements the port `Storage`.

    `pinned` returns whether an execution still needs a draft, `find_run` returns a run, `close_journal` closes the
    journal: all come from the journal. Who opens both sets `maintenance`.
    """

    maintenance: Maintenance

    def __init__(
        self,
        pinned: Pinned = lambda _: False,
        find_run: FindRun = _no_run,
        close_journal: Callable[[], None] = lambda: None,
    ) -> None:
        self._pinned = pinned
        self._find_run = find_run
        self._close_journal = close_journal
        self._lock = asyncio.Lock()
        self._organizations: dict[str, Organization] = {}
        self._tenants: dict[str, Tenant] = {}
        self._logs: defaultdict[str, AuditLog] = defaultdict(AuditLog)
        self._handlers = RegisteredHandlers()
        self._deliveries: defaultdict[str, DeliveryLog] = defaultdict(lambda: DeliveryLog(self._handlers))
        self._closed = False

    @asynccontextmanager
    async def transaction(self, org: str) -> AsyncIterator[MemoryUnitOfWork]:
        async with self._lock:
            draft, audit = self._tenant(org).copy(), MemoryAudit(self._logs[org])
            deliveries = MemoryDeliveries(self._deliveries[org])
            yield MemoryUnitOfWork(draft, self._pinned, audit, deliveries)
            self._tenants[org] = draft
            audit.commit()
            deliveries.commit()

    @asynccontextmanager
    async def reading(self, org: str) -> AsyncIterator[MemoryUnitOfWork]:
        tenant, audit = self._tenant(org).copy(), MemoryAudit(self._logs[org])
        yield MemoryUnitOfWork(tenant, self._pinned, audit, MemoryDeliveries(self._deliveries[org]))

    def add_audit_rows(self, org: str, rows: Iterable[AuditRow]) -> None:
        """Append audit rows without a transaction, for the in-memory journal."""
        self._logs[org].extend(rows)

    def add_notices(self, org: str, notices: Iterable[Notice]) -> None:
        """Add deliveries without a transaction, for the in-memory journal."""
        self._deliveries[org].add(notices)

    async def due_deliveries(self, now: int, *, handler: str = "", limit: int) -> list[DueDelivery]:
        self._check_open()
        due = [
            (row.next_at, number, DueDelivery(org, row.id))
            for org, log in self._deliveries.items()
            for number, row in log.rows.items()
            if row.handler == handler and row.next_at is not None and row.next_at <= now
        ]
        due.sort(key=lambda found: found[:2])
        if len(due) >= limit:
            due = in_turn(due, lambda found: (found[2].org, found[0] == 0))
        return _shared([one for *_, one in due], limit)

    async def register_handler(self, name: str, events: Collection[str]) -> None:
        self._check_open()
        self._handlers.events.pop(name, None)
        if events:
            self._handlers.events[name] = frozenset(events)
            return
        for log in self._deliveries.values():
            log.rows = {number: row for number, row in log.rows.items() if row.handler != name}

    async def within(self, connection: object) -> "MemoryStorage":
        raise ValueError("`connection` is to another database: wfcore's is in memory")

    async def find_resource(self, org: str, kind: Kind, id: int) -> Resource | None:
        self._check_open()
        tenant = self._tenants.get(org)
        return tenant.resource_tables[kind].rows.get(id) if tenant else None

    async def resource_names(self, org: str, kind: Kind, ids: Collection[int]) -> Mapping[int, str]:
        self._check_open()
        tenant = self._tenants.get(org)
        rows = tenant.resource_tables[kind].rows if tenant else {}
        return {number: rows[number].name for number in ids if number in rows}

    async def member_names(self, org: str, user_ids: Collection[str]) -> Mapping[str, str | None]:
        self._check_open()
        tenant = self._tenants.get(org)
        members = tenant.members if tenant else {}
        return {user: members[user].name for user in user_ids if user in members}

    async def is_delegate(self, org: str, user_id: str) -> bool:
        self._check_open()
        tenant = self._tenants.get(org)
        return tenant is not None and any(row.to_user == user_id for row in tenant.delegations.values())

    async def credential(self, org: str, prefix: str) -> tuple[AccessToken, Member] | None:
        self._check_open()
        tenant = self._tenants.get(org)
        token = tenant.tokens.get(prefix) if tenant else None
        member = tenant.members.get(token.user_id) if tenant and token else None
        return (token, member) if token and member else None

    def has_organization(self, org: str) -> bool:
        """Whether the organization exists. The in-memory journal calls this before an execution begins."""
        return org in self._tenants

    def may_use(self, org: str, principal: Principal, kind: str, id: int) -> bool:
        """Whether the principal can use this resource; a deleted one exists only for its managers.

        The in-memory journal calls this for its lists.
        """
        tenant = self._tenants.get(org)
        resource = tenant.resource_tables[Kind(kind)].rows.get(id) if tenant and kind in list(Kind) else None
        if resource is None:
            return False
        access = derive(principal, resource.access)
        return access.can_use and (access.can_manage or resource.status is not Status.DELETED)

    def _tenant(self, org: str) -> Tenant:
        self._check_open()
        if org not in self._tenants:
            raise unknown_organization(org)
        return self._tenants[org]

    async def due_timers(self, now: int, *, limit: int) -> list[DueTimer]:
        self._check_open()
        due = [
            (timer.next_at, DueTimer(org, number))
            for org, tenant in self._tenants.items()
            for number, timer in tenant.timers.items()
            if timer.next_at is not None and timer.next_at <= now
        ]
        ordered = [one for _, one in sorted(due, key=lambda pair: pair[0])]
        return _shared(ordered, limit)

    def public_id(self, org: str, id: str) -> str:
        return id

    async def find_webhook(self, id: str) -> FoundWebhook | None:
        self._check_open()
        digest = hash_secret(id)
        found = (
            FoundWebhook(org, row)
            for org, tenant in self._tenants.items()
            for row in tenant.webhooks.values()
            if row.digest == digest
        )
        return next(found, None)

    async def due_postings(self, now: int, *, limit: int) -> list[DuePosting]:
        self._check_open()
        pending = [
            (row.next_at, DuePosting(org, row.id), row)
            for org, tenant in self._tenants.items()
            for row in tenant.postings.values()
            if row.next_at is not None and row.next_at <= now
        ]
        ordered = sorted(pending, key=lambda one: one[0])
        return _shared([due for _, due, row in ordered if await self._is_deliverable(due.org, row)], limit)

    async def _is_deliverable(self, org: str, posting: Posting) -> bool:
        row = await self._find_run(org, posting.run_id)
        if row is None or row.status.under_way:
            return False
        return row.resumed_by is not None or posting.reported is not row.status

    async def find_interface(self, id: str) -> FoundInterface | None:
        self._check_open()
        found = (
            FoundInterface(org, deepcopy(row))
            for org, tenant in self._tenants.items()
            for row in tenant.interfaces.values()
            if row.id == id
        )
        return next(found, None)

    async def add_organization(self, organization: Organization) -> None:
        self._check_open()
        if organization.uuid in self._organizations:
            raise Duplicate("organizations")
        self._organizations[organization.uuid] = organization
        self._tenants[organization.uuid] = Tenant(
            organization.name, max_concurrent_runs=organization.max_concurrent_runs
        )

    async def organization(self, uuid: str) -> Organization | None:
        self._check_open()
        return self._organization(uuid) if uuid in self._tenants else None

    async def organizations(self, *, limit: int, after: str = "") -> list[Organization]:
        self._check_open()
        names = sorted(name for name in self._organizations if name > after)
        return [self._organization(name) for name in names[:limit]]

    def _organization(self, uuid: str) -> Organization:
        tenant = self._tenants[uuid]
        return attrs.evolve(self._organizations[uuid], name=tenant.name, max_concurrent_runs=tenant.max_concurrent_runs)

    def run_limit(self, org: str, workflow: int | None) -> int | None:
        """The limit of the organization, or of one of its workflows, for a journal in memory."""
        tenant = self._tenants.get(org)
        if tenant is None:
            return None
        return tenant.max_concurrent_runs if workflow is None else tenant.workflow_limits.get(workflow)

    async def upgrade(self) -> None:
        self._check_open()

    async def check(self) -> str | None:
        return closed().message if self._closed else None

    async def check_writes(self) -> str | None:
        return await self.check()

    async def schema_differences(self) -> list[str]:
        return []

    async def close(self) -> None:
        """Wait for the active transaction, then refuse every call, also those of the journal."""
        async with self._lock:
            self._closed = True
            self._close_journal()

    def _check_open(self) -> None:
        if self._closed:
            raise closed()


def _shared(due: list[T], limit: int) -> list[T]:
    """At most `limit`, in the order of the ports; with more than that, organizations have the same share."""
    return due if len(due) < limit else in_turn(due, attrgetter("org"))[:limit]
