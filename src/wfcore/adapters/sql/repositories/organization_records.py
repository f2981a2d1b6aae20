"""The records that belong directly to one organization, in a table for each kind."""

import json
from collections.abc import Callable
from typing import Any, Final, Generic

import attrs

from wfcore.adapters.sql.repositories.hooks import hook_row, to_hook
from wfcore.adapters.sql.repositories.row_values import from_ms, to_json, to_ms
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import (
    connection_grants,
    connections,
    context_items,
    delegations,
    erasures,
    hooks,
    organizations,
    policies,
)
from wfcore.adapters.sql.schema.names import PREFIX
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus, Ownership
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.people.delegations import Delegation
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import Role
from wfcore.domain.resources.resource import Kind
from wfcore.domain.rules.policies import Policy
from wfcore.ports.storage import Duplicate, Row, Stale

IS_DELEGATE: Final = Statement(
    lambda d: (
        f"""
SELECT 1 FROM {d[organizations]} o JOIN {d[delegations]} x ON x.org = o.key
WHERE o.uuid = {d[1]} AND x.to_user = {d[2]} LIMIT 1"""
    )
)


@attrs.frozen
class SqlRecords(Generic[Row]):
    """Implements the port `RecordRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int
    table: "sa.Table"
    to_row: Callable[[Row], dict[str, Any]]
    from_row: "Callable[[sa.Row[Any]], Row]"

    async def add(self, row: Row) -> None:
        values = {"org": self.org, "id": row.id} | self.to_row(row)
        done = await self.connection.execute(dialect.insert_new(self.table).values(values))
        if not done.rowcount:
            raise Duplicate(self.table.name.removeprefix(PREFIX))

    async def get(self, id: str) -> Row | None:
        row = (await self.connection.execute(sa.select(self.table).where(*self._key(id)))).first()
        return self.from_row(row) if row else None

    async def page(self, *, limit: int, after: str = "") -> list[Row]:
        columns = self.table.c
        found = sa.select(self.table).where(columns.org == self.org, columns.id > after)
        rows = (await self.connection.execute(found.order_by(columns.id).limit(limit))).all()
        return [self.from_row(row) for row in rows]

    async def save(self, row: Row) -> None:
        change = self.table.update().where(*self._key(row.id)).values(self.to_row(row))
        if not (await self.connection.execute(change)).rowcount:
            raise Stale(f"{self.table.name.removeprefix(PREFIX)} {row.id}")

    async def remove(self, id: str) -> None:
        await self.connection.execute(self.table.delete().where(*self._key(id)))

    def _key(self, id: str) -> "tuple[sa.ColumnElement[bool], ...]":
        return self.table.c.org == self.org, self.table.c.id == id


def sql_context_items(connection: Transaction, org: int) -> SqlRecords[ContextItem]:
    return SqlRecords(connection, org, context_items, _item_row, _item)


def sql_connections(connection: Transaction, org: int) -> SqlRecords[Connection]:
    return SqlRecords(connection, org, connections, _connection_row, _connection)


def sql_connection_grants(connection: Transaction, org: int) -> SqlRecords[ConnectionGrant]:
    return SqlRecords(connection, org, connection_grants, _grant_row, _grant)


def sql_hooks(connection: Transaction, org: int) -> SqlRecords[Hook]:
    return SqlRecords(connection, org, hooks, hook_row, to_hook)


def sql_policies(connection: Transaction, org: int) -> SqlRecords[Policy]:
    return SqlRecords(connection, org, policies, _policy_row, _policy)


def _policy_row(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "condition": to_json(policy.when),
        "requirement": to_json(policy.require),
        "severity": policy.severity,
    }


def _policy(row: "sa.Row[Any]") -> Policy:
    return Policy(row.id, row.name, json.loads(row.condition), json.loads(row.requirement), row.severity)


def _item_row(item: ContextItem) -> dict[str, Any]:
    return {
        "title": item.title,
        "content": item.content,
        "created_at": to_ms(item.created_at),
        "updated_at": to_ms(item.updated_at),
    }


def _item(row: "sa.Row[Any]") -> ContextItem:
    return ContextItem(row.id, row.title, row.content, from_ms(row.created_at), from_ms(row.updated_at))


def _connection_row(connection: Connection) -> dict[str, Any]:
    checked = connection.last_checked_at
    return {
        "name": connection.name,
        "provider": connection.provider,
        "kind": connection.kind.value,
        "config": to_json(connection.config),
        "sealed": to_json(connection.sealed),
        "status": connection.status.value,
        "last_checked_at": None if checked is None else to_ms(checked),
        "status_reason": connection.status_reason,
        "ownership": connection.ownership.value,
        "client": connection.client,
    }


def _connection(row: "sa.Row[Any]") -> Connection:
    checked = None if row.last_checked_at is None else from_ms(row.last_checked_at)
    kind, status = ConnectionKind(row.kind), ConnectionStatus(row.status)
    config, sealed = json.loads(row.config), json.loads(row.sealed)
    return Connection(
        row.id, row.name, row.provider, kind, config, sealed, status, checked,
        row.status_reason, Ownership(row.ownership), row.client,
    )  # fmt: skip


def _grant_row(grant: ConnectionGrant) -> dict[str, Any]:
    return {**attrs.asdict(grant), "status": grant.status.value}


def _grant(row: "sa.Row[Any]") -> ConnectionGrant:
    return ConnectionGrant(
        row.connection_id, row.user_id, row.sealed, row.expires_at, row.can_refresh,
        ConnectionStatus(row.status), row.reason, row.leased_until,
    )  # fmt: skip


def sql_erasures(connection: Transaction, org: int) -> SqlRecords[Erasure]:
    return SqlRecords(connection, org, erasures, _erasure_row, _erasure)


def _erasure_row(row: Erasure) -> dict[str, Any]:
    member = None if row.member is None else attrs.asdict(row.member) | {"groups": sorted(row.member.groups)}
    body = {"by": row.by, "member": member, "is_removed": row.is_removed}
    return {"body": to_json(body | {"resources": list(row.resources), "attachments": sorted(row.attachments)})}


def _erasure(row: "sa.Row[Any]") -> Erasure:
    body = json.loads(row.body)
    if (member := body["member"]) is not None:
        member = Member(**member | {"role": Role(member["role"]), "groups": frozenset(member["groups"])})
    resources = tuple((Kind(kind), number) for kind, number in body["resources"])
    return Erasure(row.id, body["by"], member, body["is_removed"], resources, frozenset(body["attachments"]))


@attrs.frozen
class SqlDelegations(SqlRecords[Delegation]):
    """Implements the port `DelegationRepository`."""

    async def of(self, user_id: str) -> list[Delegation]:
        columns = self.table.c
        ends = columns.from_user, columns.to_user
        own = sa.union(*[sa.select(columns.id).where(columns.org == self.org, end == user_id) for end in ends])
        found = sa.select(self.table).where(columns.org == self.org, columns.id.in_(own)).order_by(columns.id)
        return [self.from_row(row) for row in (await self.connection.execute(found)).all()]


def sql_delegations(connection: Transaction, org: int) -> SqlDelegations:
    return SqlDelegations(connection, org, delegations, _delegation_row, _delegation)


def _delegation_row(row: Delegation) -> dict[str, Any]:
    return {
        "from_user": row.from_user,
        "to_user": row.to_user,
        "until": None if row.until is None else to_ms(row.until),
        "workflow_ids": None if row.workflow_ids is None else to_json(list(row.workflow_ids)),
    }


def _delegation(row: "sa.Row[Any]") -> Delegation:
    until = None if row.until is None else from_ms(row.until)
    workflows = None if row.workflow_ids is None else tuple(json.loads(row.workflow_ids))
    return Delegation(row.id, row.from_user, row.to_user, until, workflows)
