"""The subscriptions of an organization's hooks, and the deliveries of its events, in tables.

A handler of the embedding program is a subscription of the organization 0, which is that of no organization.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import deliveries, organizations, subscriptions
from wfcore.adapters.sql.schema.statement import Dialect, Statement
from wfcore.adapters.sql.store import CommitTransaction, Transaction
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.projections.notices import Notice
from wfcore.ports.repositories.hooks import Attempt, Delivery

_COLUMNS: Final = "org, hook, handler, event, at, kind, resource_id, user_id, run_id, interrupt_id, status, decision"


def _add(d: Dialect, hook: str, handler: str) -> str:
    return f"""
INSERT INTO {d[deliveries]} ({_COLUMNS}, next_at, state, tries, attempts)
SELECT CAST({d[1]} AS bigint), {hook}, {handler}, {d[2]}, CAST({d[3]} AS bigint), {d[4]}, CAST({d[5]} AS bigint),
{d[6]}, {d[7]}, {d[8]}, {d[9]}, {d[10]}, 0, 'pending', 0, '[]' """


ADD: Final = Statement(
    lambda d: (
        f"""{_add(d, "s.hook", "s.handler")}
FROM {d[subscriptions]} s{d.given(",")} WHERE s.org {d.one_of("0", d[1])} AND s.event = {d[2]}
  AND (s.workflow_id IS NULL OR ({d[4]} = 'workflow' AND s.workflow_id = CAST({d[5]} AS bigint)))"""
    ),
    types="bigint text bigint text bigint text text text text text",
)
"""A pending delivery of one notice for each subscriber, by the primary key of subscriptions."""

HAS_SUBSCRIBERS: Final = Statement(lambda d: f"SELECT 1 FROM {d[subscriptions]} LIMIT 1")
"""Whether anybody has subscribed to anything."""

ADD_FOR_HANDLER: Final = Statement(
    lambda d: (
        f"""{_add(d, "''", d[11])}
WHERE NOT EXISTS (SELECT 1 FROM {d[subscriptions]} s WHERE s.org = 0 AND s.event = {d[2]} AND s.handler = {d[11]})"""
    )
)
"""The same for a handler that is not registered yet."""

DUE: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, d.key FROM {d[deliveries]} d JOIN {d[organizations]} o ON o.key = d.org
WHERE d.handler = {d[3]} AND d.next_at <= {d[1]} ORDER BY d.next_at, d.key LIMIT {d[2]}"""
    )
)
"""The pending deliveries of all organizations at a time for hooks, or for a handler, by an index."""


def _due_of_one(d: Dialect) -> str:
    of_one = f"SELECT key FROM {d[deliveries]} WHERE handler = {d[3]} AND org = w.org AND next_at"
    return f"""
SELECT key FROM ({of_one} = 0 ORDER BY key LIMIT {d[2]}) fresh UNION ALL
SELECT key FROM ({of_one} BETWEEN 1 AND {d[1]} ORDER BY next_at, key LIMIT {d[2]}) repeated"""


DUE_OF_EACH: Final = Statement(
    lambda d: (
        f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM {d[deliveries]} WHERE handler = {d[3]} AND next_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(org) FROM {d[deliveries]} WHERE handler = {d[3]} AND org > w.org AND next_at IS NOT NULL)
    FROM waiting w WHERE w.org IS NOT NULL
)
SELECT o.uuid, d.key FROM {d.for_each("waiting w", _due_of_one(d), d[deliveries])}
{d.join()} {d[organizations]} o ON o.key = w.org {d.join()} {d[deliveries]} d ON d.key = x.key
ORDER BY row_number() OVER (PARTITION BY d.org, d.next_at = 0 ORDER BY d.next_at, d.key), d.next_at"""
    )
)
"""The same with the limit for each organization, its new deliveries and those that are repeated in turn."""


@attrs.frozen
class SqlDeliveries:
    """Implements the port `DeliveryRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def subscribe(self, hook: str, events: Collection[str], workflow_id: int | None = None) -> None:
        await self.connection.execute(subscriptions.delete().filter_by(org=self.org, hook=hook))
        if events:
            row = {"org": self.org, "hook": hook, "handler": "", "workflow_id": workflow_id}
            await self.connection.execute(subscriptions.insert(), [{**row, "event": event} for event in events])

    async def add(self, notices: Iterable[Notice]) -> None:
        for statement, values in _additions(self.org, notices):
            await self.connection.run(statement, values)

    async def get(self, id: str) -> Delivery | None:
        if parse_id(id) is None:
            return None
        row = (await self.connection.execute(sa.select(deliveries).where(*self._of(id)))).first()
        return _delivery(row) if row else None

    async def page(self, hook: str, *, limit: int, before: str | None = None) -> list[Delivery]:
        found = sa.select(deliveries).filter_by(org=self.org, hook=hook)
        if before is not None:
            found = found.where(deliveries.c.key < int(before))
        rows = (await self.connection.execute(found.order_by(deliveries.c.key.desc()).limit(limit))).all()
        return [_delivery(row) for row in rows]

    async def put(self, delivery: Delivery) -> None:
        attempts = to_json([attrs.astuple(one) for one in delivery.attempts])
        values = {name: getattr(delivery, name) for name in ("state", "next_at", "tries", "body")}
        change = deliveries.update().where(*self._of(delivery.id)).values(**values, attempts=attempts)
        await self.connection.execute(change)

    async def remove(self, id: str) -> None:
        await self.connection.execute(deliveries.delete().where(*self._of(id)))

    async def clear(self, hook: str, before: int | None = None) -> None:
        gone = deliveries.delete().filter_by(org=self.org, hook=hook)
        if before is not None:
            gone = gone.where(deliveries.c.at < before, deliveries.c.state != "pending")
        await self.connection.execute(gone)

    def _of(self, id: str) -> "tuple[sa.ColumnElement[bool], ...]":
        return deliveries.c.org == self.org, deliveries.c.key == int(id)


async def register_handler(connection: Transaction, name: str, events: Collection[str]) -> None:
    """`Storage.register_handler` within a transaction."""
    await connection.execute(subscriptions.delete().filter_by(org=0, handler=name))
    rows = [{"org": 0, "event": event, "hook": "", "handler": name} for event in events]
    if rows:
        await connection.execute(dialect.insert_new(subscriptions), rows)
    else:
        await connection.execute(deliveries.delete().filter_by(handler=name))


def add_notices(transaction: CommitTransaction, org: int | None, notices: Iterable[Notice]) -> None:
    """Add deliveries as `SqlDeliveries.add`, within the journal's transaction."""
    for statement, values in _additions(org, notices):
        if statement is not ADD or transaction.may_find(HAS_SUBSCRIBERS):
            transaction.executemany(statement, [values])


def _additions(org: int | None, notices: Iterable[Notice]) -> Iterator[tuple[Statement, tuple[Any, ...]]]:
    for one in notices:
        values = (org, one.event, one.at, one.kind, one.resource_id, one.user_id, one.run_id, one.interrupt_id,
                  one.status, one.decision)  # fmt: skip
        for name in one.handlers:
            yield ADD_FOR_HANDLER, (*values, name)
        yield ADD, values


def _delivery(row: "sa.Row[Any]") -> Delivery:
    notice = Notice(row.event, row.at, row.kind, row.resource_id, row.user_id, row.run_id, row.interrupt_id,
                    row.status, row.decision)  # fmt: skip
    attempts = tuple(Attempt(*one) for one in json.loads(row.attempts))
    return Delivery(str(row.key), row.hook, row.handler, notice, row.state, row.next_at, row.tries, attempts, row.body)


def hook_row(hook: Hook) -> dict[str, Any]:
    row = attrs.asdict(hook, filter=attrs.filters.exclude("id", "secret"))
    return row | {"events": to_json(hook.events)}


def to_hook(row: "sa.Row[Any]") -> Hook:
    return Hook(row.id, row.url, tuple(json.loads(row.events)), row.workflow_id, row.is_enabled, row.user_id,
                row.sealed, row.former, row.former_until)  # fmt: skip
