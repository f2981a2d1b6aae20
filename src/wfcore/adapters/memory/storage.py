"""The port `Storage` in dicts.

A transaction works on a copy of the organization, which takes the original's place when it ends well. Readers
have a copy too, so nobody has to wait for them, nor they for anybody.
"""

import asyncio
import string
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import datetime
from typing import Final

import attrs

from wfcore.adapters.memory.answers import AnswerKey, MemoryAnswers
from wfcore.adapters.memory.audit import AuditLog, MemoryAudit
from wfcore.adapters.memory.interfaces import InterfaceKey, MemoryInterfaces
from wfcore.adapters.memory.org_rows import MemoryOrgRows
from wfcore.adapters.memory.schedules import MemorySchedules
from wfcore.adapters.memory.webhooks import MemoryWebhooks
from wfcore.domain.access import Principal, Role, derive, grants
from wfcore.domain.connections import Connection
from wfcore.domain.context_items import ContextItem
from wfcore.domain.errors import NotFound, Unavailable
from wfcore.domain.interfaces import Interface
from wfcore.domain.lifecycle import Status
from wfcore.domain.ownership import is_offered_to
from wfcore.domain.resources import Kind, Resource, Variation
from wfcore.ports.audit import AuditRow
from wfcore.ports.schedules import DueTimer, Timer
from wfcore.ports.storage import AccessToken, Duplicate, Group, Kept, Member, Organization, Stale
from wfcore.ports.webhooks import FoundWebhook, WebhookRow

_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

Pinned = Callable[[str], bool]
"""Whether an execution has pinned the variation of this id."""


@attrs.define
class Shelf:
    """The resources of one kind of one organization."""

    last_id: int = 0
    rows: dict[int, Resource] = attrs.Factory(dict)
    slugs: set[str] = attrs.Factory(set)
    variations: dict[tuple[int, str], Variation] = attrs.Factory(dict)

    def copy(self) -> "Shelf":
        return Shelf(self.last_id, dict(self.rows), set(self.slugs), dict(self.variations))


@attrs.define
class Tenant:
    """Everything of one organization. The values are frozen, so a copy of the dicts is a copy of all."""

    shelves: dict[Kind, Shelf] = attrs.Factory(lambda: {kind: Shelf() for kind in Kind})
    members: dict[str, Member] = attrs.Factory(dict)
    groups: dict[str, Group] = attrs.Factory(dict)
    tokens: dict[str, AccessToken] = attrs.Factory(dict)
    interfaces: dict[InterfaceKey, Interface] = attrs.Factory(dict)
    answers: dict[AnswerKey, Kept] = attrs.Factory(dict)
    timers: dict[int, Timer] = attrs.Factory(dict)
    webhooks: dict[int, WebhookRow] = attrs.Factory(dict)
    context_items: dict[str, ContextItem] = attrs.Factory(dict)
    connections: dict[str, Connection] = attrs.Factory(dict)

    def copy(self) -> "Tenant":
        shelves = {kind: shelf.copy() for kind, shelf in self.shelves.items()}
        people = (dict(self.members), dict(self.groups), dict(self.tokens))
        return Tenant(
            shelves,
            *people,
            dict(self.interfaces),
            dict(self.answers),
            timers=dict(self.timers),
            webhooks=dict(self.webhooks),
            context_items=dict(self.context_items),
            connections=dict(self.connections),
        )


@attrs.frozen
class MemoryResources:
    """Implements the port `Resources` on one shelf."""

    shelf: Shelf
    pinned: Pinned

    async def next_id(self) -> int:
        self.shelf.last_id += 1
        return self.shelf.last_id

    async def slugs_taken(self, slugs: Collection[str]) -> set[str]:
        return self.shelf.slugs.intersection(slugs)

    async def add(self, resource: Resource) -> None:
        if resource.id in self.shelf.rows or resource.slug in self.shelf.slugs:
            raise Duplicate("resources")
        self.shelf.rows[resource.id] = resource
        self.shelf.slugs.add(resource.slug)

    async def get(self, id: int) -> Resource | None:
        return self.shelf.rows.get(id)

    async def save(self, old: Resource, new: Resource) -> None:
        current = self.shelf.rows.get(old.id)
        if current is None or current.revision != old.revision:
            raise Stale(f"{old.kind} {old.id}")
        self.shelf.rows[old.id] = new

    async def page(
        self,
        principal: Principal,
        *,
        limit: int,
        after: int = 0,
        status: str | None = None,
        query: str | None = None,
    ) -> list[Resource]:
        found = (
            resource
            for number, resource in sorted(self.shelf.rows.items())
            if number > after
            and _has_status(resource, status)
            and _contains(resource, query)
            and _may_see(principal, resource, status)
        )
        return [resource for resource, _ in zip(found, range(limit), strict=False)]

    async def offered_to(self, user_id: str) -> list[Resource]:
        return [resource for _, resource in sorted(self.shelf.rows.items()) if is_offered_to(user_id, resource)]

    async def add_variation(self, id: int, variation: Variation) -> None:
        if (id, variation.id) in self.shelf.variations:
            raise Duplicate("variations")
        self.shelf.variations[id, variation.id] = deepcopy(variation)

    async def save_variation(self, id: int, variation: Variation) -> None:
        current = self.shelf.variations.get((id, variation.id))
        if current is None:
            raise Stale(f"variation {variation.id}")
        self.shelf.variations[id, variation.id] = attrs.evolve(
            current, deployed_at=variation.deployed_at, deployed_by=variation.deployed_by
        )

    async def drop_variation(self, id: int, variation_id: str) -> None:
        current = self.shelf.variations.get((id, variation_id))
        if current and current.deployed_at is None and not self.pinned(variation_id):
            del self.shelf.variations[id, variation_id]

    async def variation(self, id: int, variation_id: str) -> Variation | None:
        return deepcopy(self.shelf.variations.get((id, variation_id)))

    async def variations(
        self,
        id: int,
        *,
        limit: int,
        before: str | None = None,
    ) -> list[Variation]:
        deployed = [
            (variation.deployed_at, variation.id)
            for (owner, _), variation in self.shelf.variations.items()
            if owner == id and variation.deployed_at is not None
        ]
        deployed.sort(reverse=True)
        if before is not None:
            deployed = _behind(deployed, before)
        return [deepcopy(self.shelf.variations[id, name]) for _, name in deployed[:limit]]


def _has_status(resource: Resource, status: str | None) -> bool:
    return resource.status != Status.DELETED if status is None else resource.status == status


def _contains(resource: Resource, query: str | None) -> bool:
    if query is None:
        return True
    wanted = query.translate(_ASCII_LOWER)
    return any(wanted in text.translate(_ASCII_LOWER) for text in (resource.name, resource.slug))


def _may_see(principal: Principal, resource: Resource, status: str | None) -> bool:
    access = derive(principal, resource.access)
    return access.can_manage if status == Status.DELETED else access.visible


def _behind(deployed: list[tuple[datetime, str]], before: str) -> list[tuple[datetime, str]]:
    """What comes after the variation `before`; nothing when it is not there."""
    places = [place for place, (_, name) in enumerate(deployed) if name == before]
    return deployed[places[0] + 1 :] if places else []


@attrs.frozen
class MemoryDirectory:
    """Implements the port `Directory` on one tenant."""

    tenant: Tenant

    async def add_member(self, member: Member) -> None:
        self.tenant.members[member.user_id] = member

    async def member(self, user_id: str) -> Member | None:
        return self.tenant.members.get(user_id)

    async def member_by_email(self, email: str) -> Member | None:
        found = (member for _, member in sorted(self.tenant.members.items()) if member.email == email)
        return next(found, None)

    async def members(
        self, *, limit: int, after: str = "", group: str | None = None, role: Role | None = None
    ) -> list[Member]:
        found = [
            member
            for name, member in sorted(self.tenant.members.items())
            if name > after and (group is None or group in member.groups) and role in (None, member.role)
        ]
        return found[:limit]

    async def remove_member(self, user_id: str) -> None:
        self.tenant.members.pop(user_id, None)

    async def add_group(self, group: Group) -> None:
        if group.id in self.tenant.groups:
            raise Duplicate("groups")
        self.tenant.groups[group.id] = group

    async def groups(
        self, ids: Collection[str] | None = None, *, limit: int | None = None, after: str = ""
    ) -> list[Group]:
        known = self.tenant.groups
        names = sorted(name for name in (known if ids is None else known.keys() & set(ids)) if name > after)
        return [known[name] for name in names[:limit]]

    async def rename_group(self, group: Group) -> None:
        if group.id in self.tenant.groups:
            self.tenant.groups[group.id] = group

    async def remove_group(self, id: str) -> None:
        self.tenant.groups.pop(id, None)
        for name, member in self.tenant.members.items():
            self.tenant.members[name] = attrs.evolve(member, groups=member.groups - {id})

    async def unmanaged(self, subjects: Collection[str], *, limit: int) -> list[tuple[Kind, int]]:
        found = [
            (kind, number)
            for kind, shelf in sorted(self.tenant.shelves.items())
            for number, resource in sorted(shelf.rows.items())
            if resource.status != Status.DELETED
            and not (managers := _managers(resource)).isdisjoint(subjects)
            and managers.isdisjoint(self._everybody(resource.org_uuid))
        ]
        return found[:limit]

    def _everybody(self, org: str) -> set[str]:
        """Every subject that somebody answers to."""
        found = {f"g:{org}"}
        for member in self.tenant.members.values():
            found |= {f"u:{member.user_id}", *(f"g:{group}" for group in member.groups)}
            if member.email and member.email_verified:
                found.add(f"e:{member.email}")
        return found

    async def add_token(self, token: AccessToken) -> None:
        if token.prefix in self.tenant.tokens:
            raise Duplicate("tokens")
        self.tenant.tokens[token.prefix] = token

    async def token(self, prefix: str) -> AccessToken | None:
        return self.tenant.tokens.get(prefix)

    async def tokens(self, user_id: str, *, limit: int, after: str = "") -> list[AccessToken]:
        names = sorted(name for name, token in self.tenant.tokens.items() if token.user_id == user_id and name > after)
        return [self.tenant.tokens[name] for name in names[:limit]]

    async def revoke_tokens(self, user_id: str, at: datetime) -> None:
        for prefix in [name for name, token in self.tenant.tokens.items() if token.user_id == user_id]:
            await self.revoke_token(prefix, at)

    async def revoke_token(self, prefix: str, at: datetime) -> None:
        token = self.tenant.tokens.get(prefix)
        if token and token.revoked_at is None:
            self.tenant.tokens[prefix] = attrs.evolve(token, revoked_at=at)


def _managers(resource: Resource) -> set[str]:
    return {grant.subject for grant in grants(resource.access) if grant.manage}


@attrs.frozen
class MemoryUnitOfWork:
    """Implements the port `UnitOfWork` on one tenant."""

    tenant: Tenant
    pinned: Pinned
    audit: MemoryAudit

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
    def context_items(self) -> MemoryOrgRows[ContextItem]:
        return MemoryOrgRows(self.tenant.context_items)

    @property
    def connections(self) -> MemoryOrgRows[Connection]:
        return MemoryOrgRows(self.tenant.connections)

    @property
    def answers(self) -> MemoryAnswers:
        return MemoryAnswers(self.tenant.answers)

    @property
    def schedules(self) -> MemorySchedules:
        return MemorySchedules(self.tenant.timers)

    @property
    def webhooks(self) -> MemoryWebhooks:
        return MemoryWebhooks(self.tenant.webhooks)

    def resources(self, kind: Kind) -> MemoryResources:
        return MemoryResources(self.tenant.shelves[kind], self.pinned)


class MemoryStorage:
    """Implements the port `Storage`. `pinned` tells which drafts an execution still needs."""

    def __init__(self, pinned: Pinned = lambda _: False) -> None:
        self._pinned = pinned
        self._lock = asyncio.Lock()
        self._organizations: dict[str, Organization] = {}
        self._tenants: dict[str, Tenant] = {}
        self._logs: defaultdict[str, AuditLog] = defaultdict(AuditLog)
        self._closed = False

    @asynccontextmanager
    async def transaction(self, org: str) -> AsyncIterator[MemoryUnitOfWork]:
        async with self._lock:
            draft, audit = self._tenant(org).copy(), MemoryAudit(self._logs[org])
            yield MemoryUnitOfWork(draft, self._pinned, audit)
            self._tenants[org] = draft
            audit.commit()

    @asynccontextmanager
    async def reading(self, org: str) -> AsyncIterator[MemoryUnitOfWork]:
        yield MemoryUnitOfWork(self._tenant(org).copy(), self._pinned, MemoryAudit(self._logs[org]))

    def note(self, org: str, rows: Iterable[AuditRow]) -> None:
        """Write rows of the audit down at once: those that the in-memory journal has."""
        self._logs[org].extend(rows)

    async def peek(self, org: str, kind: Kind, id: int) -> Resource | None:
        self._refuse_closed()
        tenant = self._tenants.get(org)
        return tenant.shelves[kind].rows.get(id) if tenant else None

    async def credential(self, org: str, prefix: str) -> tuple[AccessToken, Member] | None:
        self._refuse_closed()
        tenant = self._tenants.get(org)
        token = tenant.tokens.get(prefix) if tenant else None
        member = tenant.members.get(token.user_id) if tenant and token else None
        return (token, member) if token and member else None

    def may_use(self, org: str, principal: Principal, kind: str, id: int) -> bool:
        """Whether the principal may use this resource: what the in-memory journal asks to list runs."""
        tenant = self._tenants.get(org)
        resource = tenant.shelves[Kind(kind)].rows.get(id) if tenant and kind in list(Kind) else None
        return resource is not None and derive(principal, resource.access).can_use

    def _tenant(self, org: str) -> Tenant:
        self._refuse_closed()
        if org not in self._tenants:
            raise NotFound
        return self._tenants[org]

    async def due_timers(self, now: int, *, limit: int) -> list[DueTimer]:
        self._refuse_closed()
        due = [
            (timer.next_at, DueTimer(org, number))
            for org, tenant in self._tenants.items()
            for number, timer in tenant.timers.items()
            if timer.next_at is not None and timer.next_at <= now
        ]
        return [one for _, one in sorted(due, key=lambda pair: pair[0])[:limit]]

    async def find_webhook(self, digest: str) -> FoundWebhook | None:
        self._refuse_closed()
        found = (
            FoundWebhook(org, row)
            for org, tenant in self._tenants.items()
            for row in tenant.webhooks.values()
            if row.digest == digest
        )
        return next(found, None)

    async def add_organization(self, organization: Organization) -> None:
        self._refuse_closed()
        if organization.uuid in self._organizations:
            raise Duplicate("organizations")
        self._organizations[organization.uuid] = organization
        self._tenants[organization.uuid] = Tenant()

    async def organization(self, uuid: str) -> Organization | None:
        self._refuse_closed()
        return self._organizations.get(uuid)

    async def organizations(self, *, limit: int, after: str = "") -> list[Organization]:
        self._refuse_closed()
        names = sorted(name for name in self._organizations if name > after)
        return [self._organizations[name] for name in names[:limit]]

    async def upgrade(self) -> None:
        self._refuse_closed()

    async def check(self) -> str | None:
        return "the store is closed" if self._closed else None

    async def close(self) -> None:
        """Wait for the transaction under way, then refuse everything."""
        async with self._lock:
            self._closed = True

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")
