"""The port `Storage` on a database."""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.migrations import RELEASED, RevisionChain
from wfcore.adapters.sql.repositories import hooks, postings, schedules
from wfcore.adapters.sql.repositories.audit import SqlAudit
from wfcore.adapters.sql.repositories.directory import SqlDirectory
from wfcore.adapters.sql.repositories.hooks import SqlDeliveries
from wfcore.adapters.sql.repositories.idempotency import SqlIdempotency
from wfcore.adapters.sql.repositories.interfaces import FIND as FIND_INTERFACE
from wfcore.adapters.sql.repositories.interfaces import SqlInterfaces, to_found
from wfcore.adapters.sql.repositories.organization_records import (
    IS_DELEGATE,
    SqlDelegations,
    SqlRecords,
    sql_connection_grants,
    sql_connections,
    sql_context_items,
    sql_delegations,
    sql_erasures,
    sql_hooks,
    sql_policies,
)
from wfcore.adapters.sql.repositories.postings import SqlPostings
from wfcore.adapters.sql.repositories.resources import SqlResources, add_row
from wfcore.adapters.sql.repositories.row_values import from_ms, to_json, to_ms, to_resource, to_token, to_token_member
from wfcore.adapters.sql.repositories.schedules import SqlSchedules
from wfcore.adapters.sql.repositories.webhooks import FIND, SqlWebhooks
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.named_tables import group_members, members, organizations, resources, tokens
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Rows, Store, Transaction
from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.kernel.errors import Unavailable, unknown_organization
from wfcore.domain.kernel.ids import hash_secret
from wfcore.domain.kernel.recent import Recent
from wfcore.domain.kernel.sharing import in_turn
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import AccessToken, Member, Organization
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.rules.policies import Policy
from wfcore.ports.repositories.hooks import DueDelivery
from wfcore.ports.repositories.postings import DuePosting
from wfcore.ports.repositories.schedules import DueTimer
from wfcore.ports.repositories.webhooks import FoundWebhook, WebhookRow
from wfcore.ports.storage import FoundInterface

if TYPE_CHECKING:
    from wfcore.adapters.sql.maintenance.maintenance import SqlMaintenance


@attrs.frozen
class SqlUnitOfWork:
    """Implements the port `UnitOfWork` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int
    org_uuid: str

    @cached_property
    def workflows(self) -> SqlResources:
        return self.resources(Kind.WORKFLOW)

    @cached_property
    def skills(self) -> SqlResources:
        return self.resources(Kind.SKILL)

    @cached_property
    def directory(self) -> SqlDirectory:
        return SqlDirectory(self.connection, self.org, self.org_uuid)

    @cached_property
    def interfaces(self) -> SqlInterfaces:
        return SqlInterfaces(self.connection, self.org)

    @cached_property
    def idempotency(self) -> SqlIdempotency:
        return SqlIdempotency(self.connection, self.org)

    @cached_property
    def schedules(self) -> SqlSchedules:
        return SqlSchedules(self.connection, self.org)

    @cached_property
    def webhooks(self) -> SqlWebhooks:
        return SqlWebhooks(self.connection, self.org)

    @cached_property
    def postings(self) -> SqlPostings:
        return SqlPostings(self.connection, self.org)

    @cached_property
    def hooks(self) -> SqlRecords[Hook]:
        return sql_hooks(self.connection, self.org)

    @cached_property
    def deliveries(self) -> SqlDeliveries:
        return SqlDeliveries(self.connection, self.org)

    @cached_property
    def policies(self) -> SqlRecords[Policy]:
        return sql_policies(self.connection, self.org)

    @cached_property
    def erasures(self) -> SqlRecords[Erasure]:
        return sql_erasures(self.connection, self.org)

    @cached_property
    def context_items(self) -> SqlRecords[ContextItem]:
        return sql_context_items(self.connection, self.org)

    @cached_property
    def connections(self) -> SqlRecords[Connection]:
        return sql_connections(self.connection, self.org)

    @cached_property
    def delegations(self) -> SqlDelegations:
        return sql_delegations(self.connection, self.org)

    @cached_property
    def connection_grants(self) -> SqlRecords[ConnectionGrant]:
        return sql_connection_grants(self.connection, self.org)

    @cached_property
    def audit(self) -> SqlAudit:
        return SqlAudit(self.connection, self.org)

    def resources(self, kind: Kind) -> SqlResources:
        return SqlResources(self.connection, self.org, self.org_uuid, kind)


_VERSION: Final = ("key", "revision", "updated_at")
"""The columns that change with every change of a resource."""


RESOURCE: Final = (
    *("key", "org", "kind", "id", "slug", "name", "description", "status", "access", "active_variation_id"),
    *("draft_variation_id", "is_enabled", "is_scheduled", "pending_transfer", "created_at", "updated_at", "deleted_at"),
    "revision",
)
"""The columns that `to_resource` reads, with the keys."""


def _find(columns: Sequence[str]) -> Statement:
    """These columns of one resource, by organization, kind and id."""
    return Statement(
        lambda d: (
            f"""
SELECT {", ".join(f"r.{name}" for name in columns)} FROM {d[resources]} r JOIN {d[organizations]} o ON o.key = r.org
WHERE o.uuid = {d[1]} AND r.kind = {d[2]} AND r.id = {d[3]}"""
        )
    )


FIND_VERSION: Final = _find(_VERSION)
FIND_RESOURCE: Final = _find(RESOURCE)
RESOURCE_NAMES: Final = Statement(
    lambda d: (
        f"""
SELECT s.id, s.name FROM {d.values(d[3])} {d.join()} {d[organizations]} o ON o.uuid = {d[1]}
{d.join()} {d[resources]} s ON s.org = o.key AND s.kind = {d[2]} AND s.id = CAST(given.value AS bigint)"""
    )
)
MEMBER_NAMES: Final = Statement(
    lambda d: (
        f"""
SELECT m.user_id, m.name FROM {d.values(d[2])} {d.join()} {d[organizations]} o ON o.uuid = {d[1]}
{d.join()} {d[members]} m ON m.org = o.key AND m.user_id = given.value"""
    )
)

CACHED_RESOURCES: Final = 2 * 2**20
"""The characters of the rows of resources that are cached by their version, those used last. A resource takes some five
bytes for each.
"""
LEAST_OF_ROW: Final = 500
"""Characters for which a row of a resource counts besides its texts."""
CACHED_CREDENTIALS: Final = 256
"""Parsed tokens with their members in the cache, the most recently used ones."""

TOKEN: Final = ("org", "prefix", "secret_hash", "user_id", "name", "scopes", "created_at", "expires_at", "revoked_at")
"""The columns that `to_token` reads, with the organization."""
_TOKEN_MEMBER: Final = (*TOKEN, "email", "member_name", "role", "email_verified", "groups")

CREDENTIAL: Final = Statement(
    lambda d: (
        f"""
SELECT {", ".join(f"t.{name}" for name in TOKEN)}, m.email, m.name, m.role, m.email_verified,
  (SELECT {d.array("g.group_id")} FROM {d[group_members]} g WHERE g.org = t.org AND g.user_id = t.user_id)
FROM {d[organizations]} o JOIN {d[tokens]} t ON t.org = o.key
JOIN {d[members]} m ON m.org = t.org AND m.user_id = t.user_id
WHERE o.uuid = {d[1]} AND t.prefix = {d[2]}"""
    )
)
"""A token and its member, by organization and prefix."""

PROBE: Final = {"key": -1, "uuid": "probe", "name": "p" * 8_000, "created_at": 0}
"""The row by which `check_writes` finds out whether the database takes writes. Its size needs free pages."""


class SqlStorage:
    """Implements the port `Storage` on an open database, and closes it."""

    def __init__(self, database: Store, history: RevisionChain = RELEASED) -> None:
        self.database = database
        self._history = history
        self._resources = Recent[tuple[str, Kind, int], tuple[tuple[Any, ...], Resource]](CACHED_RESOURCES)

    @asynccontextmanager
    async def transaction(self, org: str) -> AsyncIterator[SqlUnitOfWork]:
        async with self.database.writing() as connection:
            yield await _unit_of_work(connection, org, exclusive=True)

    @asynccontextmanager
    async def reading(self, org: str) -> AsyncIterator[SqlUnitOfWork]:
        async with self.database.reading() as connection:
            yield await _unit_of_work(connection, org)

    async def within(self, connection: object) -> "SqlStorage":
        return SqlStorage(await self.database.joined(connection), self._history)

    async def find_resource(self, org: str, kind: Kind, id: int) -> Resource | None:
        name = org, kind, id
        for version in await self.database.look_up(FIND_VERSION, org, kind.value, id):
            cached = self._resources.get(name)
            if cached is not None and cached[0] == tuple(version):
                return cached[1]
        for values in await self.database.look_up(FIND_RESOURCE, org, kind.value, id):
            row = dict(zip(RESOURCE, values, strict=True))
            found = to_resource(row, org)
            cached = tuple([row[column] for column in _VERSION]), found
            texts = (value for value in values if isinstance(value, str))
            self._resources.put(name, cached, LEAST_OF_ROW + sum(map(len, texts)))
            return found
        return None

    async def resource_names(self, org: str, kind: Kind, ids: Collection[int]) -> Mapping[int, str]:
        return dict(await self.database.look_up(RESOURCE_NAMES, org, kind.value, to_json(list(ids))))

    async def member_names(self, org: str, user_ids: Collection[str]) -> Mapping[str, str | None]:
        return dict(await self.database.look_up(MEMBER_NAMES, org, to_json(list(user_ids))))

    async def is_delegate(self, org: str, user_id: str) -> bool:
        return bool(await self.database.look_up(IS_DELEGATE, org, user_id))

    async def credential(self, org: str, prefix: str) -> tuple[AccessToken, Member] | None:
        for row in await self.database.look_up(CREDENTIAL, org, prefix):
            return _credential_of(row)
        return None

    async def due_timers(self, now: int, *, limit: int) -> list[DueTimer]:
        return [DueTimer(*row) for row in await self._shared(schedules.DUE, schedules.DUE_OF_EACH, now, limit)]

    def public_id(self, org: str, id: str) -> str:
        return id

    async def find_webhook(self, id: str) -> FoundWebhook | None:
        for org, *row in await self.database.look_up(FIND, hash_secret(id)):
            return FoundWebhook(org, WebhookRow(*row))
        return None

    async def due_postings(self, now: int, *, limit: int) -> list[DuePosting]:
        return [DuePosting(*row) for row in await self._shared(postings.DUE, postings.DUE_OF_EACH, now, limit)]

    async def due_deliveries(self, now: int, *, handler: str = "", limit: int) -> list[DueDelivery]:
        due = await self._shared(hooks.DUE, hooks.DUE_OF_EACH, now, limit, handler)
        return [DueDelivery(org, str(key)) for org, key in due]

    async def register_handler(self, name: str, events: Collection[str]) -> None:
        async with self.database.writing() as connection:
            await hooks.register_handler(connection, name, events)

    async def _shared(self, due: Statement, due_of_each: Statement, now: int, limit: int, *more: str) -> Rows:
        """The rows that are due, the organization first. With more than `limit`, organizations have the same share."""
        rows = await self.database.look_up(due, now, limit, *more)
        if len(rows) < limit:
            return rows
        return in_turn(await self.database.look_up(due_of_each, now, limit, *more), itemgetter(0))[:limit]

    async def find_interface(self, id: str) -> FoundInterface | None:
        for row in await self.database.look_up(FIND_INTERFACE, id):
            return to_found(*row)
        return None

    async def add_organization(self, organization: Organization) -> None:
        row = {
            "uuid": organization.uuid,
            "name": organization.name,
            "created_at": to_ms(organization.created_at),
            "max_concurrent_runs": organization.max_concurrent_runs,
        }
        async with self.database.writing() as connection:
            await add_row(connection, organizations, row)

    async def organization(self, uuid: str) -> Organization | None:
        found = await self._organizations(lambda: organizations.c.uuid == uuid, limit=1)
        return found[0] if found else None

    async def organizations(self, *, limit: int, after: str = "") -> list[Organization]:
        return await self._organizations(lambda: organizations.c.uuid > after, limit=limit)

    async def _organizations(self, wanted: "Callable[[], sa.ColumnElement[bool]]", *, limit: int) -> list[Organization]:
        async with self.database.reading() as connection:
            found = sa.select(organizations).where(wanted()).order_by(organizations.c.uuid).limit(limit)
            rows = (await connection.execute(found)).all()
        return [Organization(row.uuid, row.name, from_ms(row.created_at), row.max_concurrent_runs) for row in rows]

    async def upgrade(self) -> None:
        """Migrate the schema. Raises Unavailable for the schema of a newer release, which is not changed."""
        if await self._is_current():
            return
        with _plain_errors("the schema cannot be upgraded"):
            if self._history is RELEASED and await self.database.create_tables(migrations.new_file):
                return
            async with self.database.writing() as connection:
                await connection.run_sync(lambda inner: migrations.upgrade(inner, self._history, self.database.schema))

    async def check(self) -> str | None:
        if await self._is_current():
            return None
        try:
            with _plain_errors("the schema cannot be read"):
                async with self.database.reading() as connection:
                    found = await connection.run_sync(lambda inner: migrations.revision(inner, self.database.schema))
        except Unavailable as error:
            return error.message
        return migrations.fault(found, self._history)

    async def _is_current(self) -> bool:
        """Whether the schema is that of this release, which a file says without SQLAlchemy."""
        return await self.database.revision() == self._history.head

    async def check_writes(self) -> str | None:
        """Commits a row that no reader sees, because the same transaction removes it."""
        try:
            with _plain_errors("the database takes no writes"):
                async with self.database.writing() as connection:
                    await connection.execute(organizations.insert(), PROBE)
                    await connection.execute(organizations.delete().where(organizations.c.key == PROBE["key"]))
        except Unavailable as error:
            return error.message
        return await self.database.commit_problem()

    @property
    def maintenance(self) -> "SqlMaintenance":
        from wfcore.adapters.sql.maintenance.maintenance import SqlMaintenance

        return SqlMaintenance(self.database.beside_loop())

    async def schema_differences(self) -> list[str]:
        from wfcore.adapters.sql.migrations.fingerprint import differences

        async with self.database.reading() as connection:
            return await connection.run_sync(lambda inner: differences(inner, self.database.schema))

    async def close(self) -> None:
        await self.database.close()


@contextmanager
def _plain_errors(what: str) -> Iterator[None]:
    """Convert errors of SQLAlchemy and of the driver that are not yet errors of the domain to Unavailable."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise Unavailable(f"{what}: {str(cause).partition(chr(10))[0]}") from error


@lru_cache(maxsize=CACHED_CREDENTIALS)
def _credential_of(values: tuple[Any, ...]) -> tuple[AccessToken, Member]:
    """The token of a row and its member. The cache avoids parsing an unchanged row again."""
    row = dict(zip(_TOKEN_MEMBER, values, strict=True))
    return to_token(row), to_token_member(row)


async def _unit_of_work(connection: Transaction, org: str, *, exclusive: bool = False) -> SqlUnitOfWork:
    """The unit of work. With `exclusive`, the organization's row is locked: its other transactions wait."""
    found = sa.select(organizations.c.key).where(organizations.c.uuid == org)
    if exclusive:
        found = found.with_for_update(key_share=True)
    key = (await connection.execute(found)).scalar()
    if key is None:
        raise unknown_organization(org)
    return SqlUnitOfWork(connection, key, org)
