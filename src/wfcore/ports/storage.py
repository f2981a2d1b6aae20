"""The store of organizations, members, tokens, workflows and skills.

One unit of work per use case. A repository belongs to one organization from its construction, so every call has a
tenant. JSON is kept verbatim: what is read equals what was written, key order included. Times are aware datetimes in
UTC with millisecond precision.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeVar

import attrs

from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.delegations import Delegation
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import AccessToken, Group, Member, Organization
from wfcore.domain.resources.access import Principal, Role
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.domain.rules.policies import Policy
from wfcore.ports.maintenance import Maintenance
from wfcore.ports.repositories.audit import AuditRepository
from wfcore.ports.repositories.hooks import DeliveryRepository, DueDelivery
from wfcore.ports.repositories.postings import DuePosting, PostingRepository
from wfcore.ports.repositories.schedules import DueTimer, ScheduleRepository
from wfcore.ports.repositories.webhooks import FoundWebhook, WebhookRepository


class Duplicate(Exception):
    """A value that must be unique exists already. Nothing was written."""


class Stale(Exception):
    """Another transaction changed the row since it was read. Nothing was written."""


@attrs.frozen
class FoundInterface:
    """An interface and its organization."""

    org: str
    row: Interface


@attrs.frozen
class IdempotencyRecord:
    """The stored response to a create request. `fingerprint` is that of the request body."""

    fingerprint: str
    response: JSON


class ResourceRepository(Protocol):
    """The workflows, or the skills, of one organization."""

    async def next_id(self) -> int:
        """The next id of this kind, counted from 1. An id is never reused, not even after a deletion.

        The ids of a transaction that was rolled back can be assigned again.
        """
        ...

    async def slugs_taken(self, slugs: Collection[str]) -> set[str]:
        """Those of these slugs that resources of this kind have."""
        ...

    async def add(self, resource: Resource) -> None:
        """`Duplicate` when id or slug is taken."""
        ...

    async def get(self, id: int) -> Resource | None: ...

    async def save(self, old: Resource, new: Resource) -> None:
        """Replace the row that was read as `old`, and its grants. `Stale` when the row has changed since."""
        ...

    async def page(
        self,
        principal: Principal,
        *,
        limit: int,
        after: int = 0,
        status: str | None = None,
        query: str | None = None,
        scheduled: bool = False,
    ) -> list[Resource]:
        """Resources that the principal can use or manage, by id ascending, ids greater than `after`, at most `limit`.

        `status` None: all except deleted ones. `deleted`: only those that the principal can manage. `query`: text that
        name or slug contains; ASCII letters match in either case. `scheduled`: only those with `is_scheduled`.
        """
        ...

    async def visible(self, principal: Principal, ids: Collection[int]) -> list[Resource]:
        """Those of these ids that the principal can use or manage, without deleted ones, by id ascending."""
        ...

    async def offers_of(self, user_id: str) -> list[Resource]:
        """Resources with a pending transfer that this user made or is named by, deleted ones included, by id."""
        ...

    async def add_variation(self, id: int, variation: Variation) -> None:
        """Add a variation to the resource with this id. `Duplicate` when the resource has one of its id."""
        ...

    async def save_variation(self, id: int, variation: Variation) -> None:
        """Replace the mutable fields of a variation, those of its deployment. `Stale` when it does not exist."""
        ...

    async def drop_variation(self, id: int, variation_id: str) -> None:
        """Delete a draft, unless an execution has pinned it."""
        ...

    async def variation(self, id: int, variation_id: str) -> Variation | None:
        """The draft or deployed one of this id; None when the resource has no such one."""
        ...

    async def variations(self, id: int, *, limit: int, before: str | None = None) -> list[Variation]:
        """The deployed ones, latest deployment first."""
        ...


class DirectoryRepository(Protocol):
    """Members, groups and tokens of one organization."""

    async def rename_organization(self, name: str) -> None:
        """Set `Organization.name`."""
        ...

    async def limit_runs(self, most: int | None, workflow: int | None = None) -> None:
        """Set `Organization.max_concurrent_runs`, which holds for the claims after the commit (`Journal.claim_due`).

        With `workflow`: set the limit of this workflow, which holds beside that of the organization.
        """
        ...

    async def run_limits(self) -> Mapping[int, int]:
        """The limits of workflows, by id."""
        ...

    async def add_member(self, member: Member) -> None:
        """Add, or replace the member of the same user id."""
        ...

    async def member(self, user_id: str) -> Member | None: ...

    async def member_by_email(self, email: str) -> Member | None:
        """The member with this address, which must be in lower case."""
        ...

    async def members(
        self,
        *,
        limit: int,
        after: str = "",
        group: str | None = None,
        role: Role | None = None,
        ids: Collection[str] | None = None,
        query: str | None = None,
    ) -> list[Member]:
        """By user id, ascending; only members of this group, of this role and with these user ids, where given.

        `query`: text that user id, name or e-mail contains; ASCII letters match in either case.
        """
        ...

    async def remove_member(self, user_id: str) -> None:
        """Delete the member and its group memberships."""
        ...

    async def add_group(self, group: Group) -> None:
        """`Duplicate` when the id is taken."""
        ...

    async def groups(
        self, ids: Collection[str] | None = None, *, limit: int | None = None, after: str = ""
    ) -> list[Group]:
        """All groups, or those with these ids, by id ascending."""
        ...

    async def rename_group(self, group: Group) -> None:
        """Replace the name of the group with this id; without effect when there is none."""
        ...

    async def remove_group(self, id: str) -> None:
        """Delete the group and its memberships."""
        ...

    async def unmanaged(self, subjects: Collection[str], *, limit: int) -> list[tuple[Kind, int]]:
        """Resources that grant management to these subjects and that no current member can manage.

        By kind and id, ascending, without deleted resources. The implicit group counts as never empty.
        """
        ...

    async def add_token(self, token: AccessToken) -> None:
        """`Duplicate` when the prefix is taken."""
        ...

    async def token(self, prefix: str) -> AccessToken | None:
        """The token with this prefix, also one that is revoked or expired."""
        ...

    async def tokens(self, user_id: str, *, limit: int, after: tuple[datetime, str] | None = None) -> list[AccessToken]:
        """The tokens of one member, oldest first, then by prefix; `after` is the `position` of a token."""
        ...

    async def revoke_token(self, prefix: str, at: datetime) -> None:
        """Revoke the token from this time on. Without effect on one that is revoked already, and on an unknown one."""
        ...

    async def revoke_tokens(self, user_id: str, at: datetime) -> None:
        """Revoke all tokens of this user. Tokens that are revoked already stay unchanged."""
        ...


class InterfaceRepository(Protocol):
    """The interface rows of one organization's workflows and skills. What a row belongs to need not exist.

    All methods with a `workflow_id` are about rows of workflows.
    """

    async def add(self, interface: Interface) -> None:
        """`Duplicate` when the workflow or skill has a row of this id."""
        ...

    async def of_skill(self, skill_id: int) -> list[Interface]:
        """The rows of a skill, by id, ascending."""
        ...

    async def get(self, workflow_id: int, id: str) -> Interface | None: ...

    async def page(self, workflow_id: int, *, limit: int, after: str = "") -> list[Interface]:
        """By id, ascending."""
        ...

    async def signed(self, *, limit: int, after: tuple[int, str] = (0, "")) -> list[Interface]:
        """The rows of all workflows that have a secret, by workflow and id, ascending, greater than `after`."""
        ...

    async def save(self, interface: Interface) -> None:
        """Replace the mutable fields of a row, `config` and `sealed`. `Stale` when the row does not exist any more."""
        ...

    async def remove(self, workflow_id: int, id: str) -> None: ...

    async def clear(self, workflow_id: int) -> int:
        """Delete all rows of the workflow. Returns how many there were."""
        ...


class IdempotencyRepository(Protocol):
    """The stored responses to creates of one organization, by kind of object, caller and Idempotency-Key."""

    async def find(self, kind: str, user_id: str, key: str) -> IdempotencyRecord | None:
        """The stored response; None when this user has not used the key for this kind."""
        ...

    async def add(self, kind: str, user_id: str, key: str, record: IdempotencyRecord) -> None:
        """`Duplicate` when this user has used the key for this kind already."""
        ...


class Identified(Protocol):
    """A row with an id."""

    @property
    def id(self) -> str: ...


Row = TypeVar("Row", bound=Identified)


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
        """Replace the row with this id. `Stale` when it does not exist any more."""
        ...

    async def remove(self, id: str) -> None: ...


class DelegationRepository(RecordRepository[Delegation], Protocol):
    """The delegations of decisions between members of one organization."""

    async def of(self, user_id: str) -> list[Delegation]:
        """Those from and to this user, by id, ascending."""
        ...


class UnitOfWork(Protocol):
    """All repositories of one organization, for one use case."""

    @property
    def workflows(self) -> ResourceRepository: ...

    @property
    def skills(self) -> ResourceRepository: ...

    @property
    def directory(self) -> DirectoryRepository: ...

    @property
    def interfaces(self) -> InterfaceRepository: ...

    @property
    def idempotency(self) -> IdempotencyRepository: ...

    @property
    def schedules(self) -> ScheduleRepository: ...

    @property
    def webhooks(self) -> WebhookRepository: ...

    @property
    def postings(self) -> PostingRepository: ...

    @property
    def hooks(self) -> RecordRepository[Hook]: ...

    @property
    def deliveries(self) -> DeliveryRepository: ...

    @property
    def context_items(self) -> RecordRepository[ContextItem]: ...

    @property
    def connections(self) -> RecordRepository[Connection]: ...

    @property
    def delegations(self) -> DelegationRepository: ...

    @property
    def connection_grants(self) -> RecordRepository[ConnectionGrant]: ...

    @property
    def policies(self) -> RecordRepository[Policy]: ...

    @property
    def erasures(self) -> RecordRepository[Erasure]: ...

    @property
    def audit(self) -> AuditRepository: ...

    def resources(self, kind: Kind) -> ResourceRepository: ...


class Storage(Protocol):
    """Implementers: a transaction that ends without an exception is durable when the context manager returns, shielded
    from cancellation; one that ends with an exception changes nothing. Readers never wait for writers."""

    def transaction(self, org: str) -> AbstractAsyncContextManager[UnitOfWork]:
        """A unit of work that can write. The writers of one store are serializable."""
        ...

    def reading(self, org: str) -> AbstractAsyncContextManager[UnitOfWork]:
        """A unit of work that only reads, from one consistent snapshot."""
        ...

    async def within(self, connection: object) -> "Storage":
        """This storage in a transaction of the embedding product, which alone commits it.

        `transaction` writes under a savepoint. Raises ValueError for a connection to another database or without a
        transaction, TypeError for any other value.
        """
        ...

    async def find_resource(self, org: str, kind: Kind, id: int) -> Resource | None:
        """The resource as last committed; None also for an organization that does not exist.

        The same as `get` in its own unit of work. Every run calls it, so it must be cheap.
        """
        ...

    async def resource_names(self, org: str, kind: Kind, ids: Collection[int]) -> Mapping[int, str]:
        """The names of those of these resources that exist, by id, as last committed."""
        ...

    async def member_names(self, org: str, user_ids: Collection[str]) -> Mapping[str, str | None]:
        """The names of those of these users that are members, as last committed."""
        ...

    async def is_delegate(self, org: str, user_id: str) -> bool:
        """Whether a member delegates decisions to the user, as last committed, or did so until a time that has passed.

        Every list of open interrupts calls it, so it must be cheap.
        """
        ...

    async def credential(self, org: str, prefix: str) -> tuple[AccessToken, Member] | None:
        """The access token with this prefix and its member, as last committed; None when either is missing.

        Every request calls it, so it must be cheap.
        """
        ...

    async def due_timers(self, now: int, *, limit: int) -> Sequence[DueTimer]:
        """The timers of all organizations with a `next_at` not after `now` (epoch milliseconds), the longest due first.

        When `limit` or more are due: the first of each organization, then the second of each, and so on.
        It is called every second, so it must be cheap.
        """
        ...

    def public_id(self, org: str, id: str) -> str:
        """The id of a webhook or an interface, which is found without its organization: `id`, or one made of it that
        leads to the organization without showing it. That of a UUID is a UUID; others can be longer.
        """
        ...

    async def find_webhook(self, id: str) -> FoundWebhook | None:
        """The webhook with the digest of this id, of any organization, as last committed. It must be cheap."""
        ...

    async def due_postings(self, now: int, *, limit: int) -> Sequence[DuePosting]:
        """The pending postings of all organizations that can be delivered now, shared out as in `due_timers`.

        Their `next_at` is not after `now`, their turn exists and is at rest, and either its status was not reported
        or it was resumed. It is called every second, so it must be cheap.
        """
        ...

    async def due_deliveries(self, now: int, *, handler: str = "", limit: int) -> Sequence[DueDelivery]:
        """The pending deliveries of all organizations that are due now, shared out as in `due_timers`.

        Those for hooks, or for the handler of this name; those of one organization and `next_at` in their own order.
        When `limit` or more are due, those of one organization that are new (`next_at` is 0) and that are repeated come
        in turn: a flood of new ones does not hold up the others. It is called every second, so it must be cheap.
        """
        ...

    async def register_handler(self, name: str, events: Collection[str]) -> None:
        """Add a delivery for the handler of this name for each later event of these kinds, in every organization.

        It replaces the registration of this name. Without events it ends it, and deletes its deliveries.
        """
        ...

    async def find_interface(self, id: str) -> FoundInterface | None:
        """The interface row with this id, of any organization, as last committed. It must be cheap."""
        ...

    async def add_organization(self, organization: Organization) -> None:
        """`Duplicate` when the UUID is taken."""
        ...

    async def organization(self, uuid: str) -> Organization | None: ...

    async def organizations(self, *, limit: int, after: str = "") -> Sequence[Organization]:
        """By UUID, ascending."""
        ...

    @property
    def maintenance(self) -> Maintenance:
        """Retention, erasure and deletion of an organization's rows, those of its journals included."""
        ...

    async def upgrade(self) -> None:
        """Migrate the schema to this release; without effect when it is current."""
        ...

    async def check(self) -> str | None:
        """None when the store responds and its schema is that of this release; otherwise the problem as text."""
        ...

    async def check_writes(self) -> str | None:
        """None when a transaction that changes rows could be committed now; otherwise the problem as text.

        It leaves nothing behind that a reader could see.
        """
        ...

    async def schema_differences(self) -> Sequence[str]:
        """How the schema that is there differs from this release's, one difference in words each; empty when it does
        not, and for a store without a schema.
        """
        ...

    async def close(self) -> None: ...
