"""Where organizations, members, tokens, workflows and skills are kept.

One unit of work per use case. A repository belongs to one organization from its construction: no call without a
tenant exists. JSON is kept verbatim: what is read is equal to what was written, key order included. Times are
aware datetimes in UTC with millisecond precision.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeVar

import attrs

from wfcore.domain.agents.connections import Connection
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import AccessToken, Group, Member, Organization
from wfcore.domain.resources.access import Principal, Role
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.ports.audit import AuditRepository
from wfcore.ports.postings import DuePosting, PostingRepository
from wfcore.ports.schedules import DueTimer, ScheduleRepository
from wfcore.ports.webhooks import FoundWebhook, WebhookRepository


class Duplicate(Exception):
    """What has to be unique is there already. Nothing was written."""


class Stale(Exception):
    """The row was changed by somebody else since it was read. Nothing was written."""


@attrs.frozen
class FoundInterface:
    """Whose interface it is."""

    org: str
    row: Interface


@attrs.frozen
class IdempotencyRecord:
    """The kept answer to a create: what its key was used for, and the answer."""

    fingerprint: str
    answer: JSON


class ResourceRepository(Protocol):
    """The workflows, or the skills, of one organization."""

    async def next_id(self) -> int:
        """The next number of this kind, counted from 1. Never given twice, not even after a rollback of the caller's
        choice to delete; a rolled back transaction may give it again."""
        ...

    async def slugs_taken(self, slugs: Collection[str]) -> set[str]:
        """Which of these slugs resources of this kind have."""
        ...

    async def add(self, resource: Resource) -> None:
        """`Duplicate` when id or slug is taken."""
        ...

    async def get(self, id: int) -> Resource | None: ...

    async def save(self, old: Resource, new: Resource) -> None:
        """Replace the row that was read as `old`. `Stale` when it has changed since. The grants follow the access."""
        ...

    async def page(
        self, principal: Principal, *, limit: int, after: int = 0, status: str | None = None, query: str | None = None
    ) -> list[Resource]:
        """Those the principal may use or manage, by id ascending, ids greater than `after`, at most `limit`.

        `status` None: all but the deleted ones. `deleted`: only those the principal may manage. `query`: name or
        slug contains it, ASCII letters in either case.
        """
        ...

    async def offered_to(self, user_id: str) -> list[Resource]:
        """Those whose ownership a pending transfer offers to this user, deleted ones too, by id ascending."""
        ...

    async def add_variation(self, id: int, variation: Variation) -> None: ...

    async def save_variation(self, id: int, variation: Variation) -> None:
        """Replace what may change of a variation: `deployed_at`."""
        ...

    async def drop_variation(self, id: int, variation_id: str) -> None:
        """Forget a draft, unless an execution has pinned it."""
        ...

    async def variation(self, id: int, variation_id: str) -> Variation | None: ...

    async def variations(self, id: int, *, limit: int, before: str | None = None) -> list[Variation]:
        """The deployed ones, latest deployment first."""
        ...


class DirectoryRepository(Protocol):
    """Members, groups and tokens of one organization."""

    async def add_member(self, member: Member) -> None:
        """Add, or replace the member of the same user id."""
        ...

    async def member(self, user_id: str) -> Member | None: ...

    async def member_by_email(self, email: str) -> Member | None: ...

    async def members(
        self, *, limit: int, after: str = "", group: str | None = None, role: Role | None = None
    ) -> list[Member]:
        """By user id, ascending; those in this group, those of this role."""
        ...

    async def remove_member(self, user_id: str) -> None:
        """Forget the member, and which groups it was in."""
        ...

    async def add_group(self, group: Group) -> None:
        """`Duplicate` when the id is taken."""
        ...

    async def groups(
        self, ids: Collection[str] | None = None, *, limit: int | None = None, after: str = ""
    ) -> list[Group]:
        """All groups, or those of these ids, by id ascending."""
        ...

    async def rename_group(self, group: Group) -> None: ...

    async def remove_group(self, id: str) -> None:
        """Forget the group, and who was in it."""
        ...

    async def unmanaged(self, subjects: Collection[str], *, limit: int) -> list[tuple[Kind, int]]:
        """What these subjects are given the management of, and no member can manage as things stand now.

        By kind and id, ascending; deleted resources do not count. The implicit group always has somebody in it.
        """
        ...

    async def add_token(self, token: AccessToken) -> None:
        """`Duplicate` when the prefix is taken."""
        ...

    async def token(self, prefix: str) -> AccessToken | None: ...

    async def tokens(self, user_id: str, *, limit: int, after: str = "") -> list[AccessToken]:
        """Those of one member, by prefix, ascending."""
        ...

    async def revoke_token(self, prefix: str, at: datetime) -> None: ...

    async def revoke_tokens(self, user_id: str, at: datetime) -> None:
        """All of this user's. What is revoked already stays as it is."""
        ...


class InterfaceRepository(Protocol):
    """The interface rows of one organization's workflows. A workflow need not be there."""

    async def add(self, interface: Interface) -> None:
        """`Duplicate` when the workflow has a row of this id."""
        ...

    async def get(self, workflow_id: int, id: str) -> Interface | None: ...

    async def page(self, workflow_id: int, *, limit: int, after: str = "") -> list[Interface]:
        """By id, ascending."""
        ...

    async def save(self, interface: Interface) -> None:
        """Replace what may change of a row: `config` and `sealed`. `Stale` when it is gone."""
        ...

    async def remove(self, workflow_id: int, id: str) -> None: ...

    async def clear(self, workflow_id: int) -> int:
        """Remove all rows of the workflow; how many there were."""
        ...


class IdempotencyRepository(Protocol):
    """The kept answers to creates of one organization, by what was created, the caller and the Idempotency-Key."""

    async def find(self, kind: str, user_id: str, key: str) -> IdempotencyRecord | None: ...

    async def add(self, kind: str, user_id: str, key: str, kept: IdempotencyRecord) -> None:
        """`Duplicate` when this user's key is used for this kind already."""
        ...


class OrganizationRecord(Protocol):
    """A row with an id."""

    @property
    def id(self) -> str: ...


Row = TypeVar("Row", bound=OrganizationRecord)


class RecordRepository(Protocol[Row]):
    """Rows of one kind that belong to one organization as a whole."""

    async def add(self, row: Row) -> None:
        """`Duplicate` when the id is taken."""
        ...

    async def get(self, id: str) -> Row | None: ...

    async def page(self, *, limit: int, after: str = "") -> list[Row]:
        """By id, ascending."""
        ...

    async def save(self, row: Row) -> None:
        """Replace the row of this id. `Stale` when it is gone."""
        ...

    async def remove(self, id: str) -> None: ...


class UnitOfWork(Protocol):
    """Everything one use case reads and writes of one organization."""

    @property
    def workflows(self) -> ResourceRepository: ...

    @property
    def skills(self) -> ResourceRepository: ...

    @property
    def directory(self) -> DirectoryRepository: ...

    @property
    def interfaces(self) -> InterfaceRepository: ...

    @property
    def answers(self) -> IdempotencyRepository: ...

    @property
    def schedules(self) -> ScheduleRepository: ...

    @property
    def webhooks(self) -> WebhookRepository: ...

    @property
    def postings(self) -> PostingRepository: ...

    @property
    def context_items(self) -> RecordRepository[ContextItem]: ...

    @property
    def connections(self) -> RecordRepository[Connection]: ...

    @property
    def audit(self) -> AuditRepository: ...

    def resources(self, kind: Kind) -> ResourceRepository: ...


class Storage(Protocol):
    """Implementers: a transaction that ends without an exception is durable when the context manager returns, shielded
    from cancellation; one that ends with an exception leaves nothing. Readers never wait for writers."""

    def transaction(self, org: str) -> AbstractAsyncContextManager[UnitOfWork]:
        """A unit of work that may write. Writers of one store come one after the other, or behave as if they did."""
        ...

    def reading(self, org: str) -> AbstractAsyncContextManager[UnitOfWork]:
        """A consistent view without writing."""
        ...

    async def peek(self, org: str, kind: Kind, id: int) -> Resource | None:
        """The resource as it was last committed; None too for an organization that does not exist.

        The same as `get` in a unit of work of its own, for the paths that every run takes: it has to be cheap.
        """
        ...

    async def credential(self, org: str, prefix: str) -> tuple[AccessToken, Member] | None:
        """The access token of this prefix and the member whose it is, as last committed; None when either is missing.

        Every request asks: it has to be cheap.
        """
        ...

    async def due_timers(self, now: int, *, limit: int) -> Sequence[DueTimer]:
        """The timers of all organizations with a `next_at` not after `now` (epoch milliseconds), the longest due first.

        It is asked every second: it has to be cheap.
        """
        ...

    async def find_webhook(self, digest: str) -> FoundWebhook | None:
        """The webhook of this digest, whatever its organization, as it was last committed. It has to be cheap."""
        ...

    async def due_postings(self, now: int, *, limit: int) -> Sequence[DuePosting]:
        """What all organizations owe with a `next_at` not after `now`, and can be told: the turn is there and at rest,
        and either its status was not told or it was resumed. The longest due first.

        It is asked every second: it has to be cheap.
        """
        ...

    async def find_interface(self, id: str) -> FoundInterface | None:
        """The interface row of this id, whatever its organization, as it was last committed. It has to be cheap."""
        ...

    async def add_organization(self, organization: Organization) -> None:
        """`Duplicate` when the UUID is taken."""
        ...

    async def organization(self, uuid: str) -> Organization | None: ...

    async def organizations(self, *, limit: int, after: str = "") -> Sequence[Organization]:
        """By UUID, ascending."""
        ...

    async def upgrade(self) -> None:
        """Bring the schema to this release's; nothing to do when it is there already."""
        ...

    async def check(self) -> str | None:
        """None when the schema is this release's and the store answers; else what is wrong, in words."""
        ...

    async def close(self) -> None: ...
