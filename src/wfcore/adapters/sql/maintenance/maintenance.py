"""The port `Maintenance` on a database."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql.maintenance.pruning import RULES
from wfcore.adapters.sql.maintenance.tenancy import TABLES, deletion_order, of_organization, text_columns
from wfcore.adapters.sql.schema.tables import organizations
from wfcore.adapters.sql.store import Store, Transaction
from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.maintenance import Expiring

BATCH: Final = 500
"""Rows of one read."""


@attrs.frozen
class SqlMaintenance:
    """Implements the port `Maintenance`."""

    database: Store

    async def count(self, org: str, kind: Expiring, before: int) -> int:
        async with self.database.reading() as connection:
            key = await _key(connection, org)
            counts = [
                (await connection.execute(sa.select(sa.func.count()).select_from(rule.old(key, before).subquery())))
                for rule in RULES[kind]
            ]
            return sum(int(one.scalar_one()) for one in counts)

    async def prune(self, org: str, kind: Expiring, before: int, *, limit: int) -> int:
        done = 0
        async with self.database.writing() as connection:
            key = await _key(connection, org)
            for rule in RULES[kind]:
                found = await connection.execute(rule.old(key, before).limit(limit - done))
                if keys := [row[0] for row in found]:
                    done += await rule.delete(connection, key, before, keys)
        return done

    async def texts(self, org: str) -> AsyncIterator[Sequence[str]]:
        async with self.database.reading() as connection:
            key = await _key(connection, org)
        for table in TABLES:
            columns = text_columns(table)
            async for rows in self._batches(table, key, columns):
                yield [text for row in rows for text in row if text is not None]

    async def _batches(
        self, table: sa.Table, org: int, columns: Sequence[sa.Column[str]]
    ) -> AsyncIterator[Sequence[Sequence[str | None]]]:
        """The values of these columns, by primary key; each batch is a read of its own."""
        order = list(table.primary_key.columns)
        after: Sequence[object] | None = None
        while columns:
            found = sa.select(*order, *columns).where(of_organization(table, org)).order_by(*order).limit(BATCH)
            if after is not None:
                place = [sa.literal(value, column.type) for value, column in zip(after, order, strict=True)]
                found = found.where(sa.tuple_(*order) > sa.tuple_(*place))
            async with self.database.reading() as connection:
                rows = [tuple(row) for row in await connection.execute(found)]
            yield [row[len(order) :] for row in rows]
            if len(rows) < BATCH:
                return
            after = rows[-1][: len(order)]

    async def remove_organization(self, org: str) -> bool:
        async with self.database.writing() as connection:
            try:
                key = await _key(connection, org)
            except NotFound:
                return False
            for table in deletion_order():
                await connection.execute(table.delete().where(of_organization(table, key)))
            return True


async def _key(connection: Transaction, org: str) -> int:
    found = (await connection.execute(sa.select(organizations.c.key).where(organizations.c.uuid == org))).scalar()
    if found is None:
        raise NotFound
    return int(found)
