"""The replacement of texts in rows: columns of plain text, and of JSON, whose texts are replaced one by one."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql.journal.checksums import following
from wfcore.adapters.sql.maintenance.tenancy import TABLES, of_organization, reading_order, text_columns
from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.tables import (
    closed_interrupts,
    executions,
    interrupts,
    journal,
    metadata,
    resources,
    snapshots,
    variations,
)
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.people.erasure import Substitution

BATCH: Final = 500

_ELSEWHERE: Final = frozenset(
    metadata.tables[f"wfcore_{name}"]
    for name in ("members", "group_members", "tokens", "erasures", "memories", "memory_words", "journal")
)
"""Tables that are changed by other means: the journal has checksums, memories an index of words."""

BY_EXECUTION: Final[Mapping[sa.Table, sa.Column[int]]] = {
    executions: executions.c.id,
    interrupts: interrupts.c.execution,
    closed_interrupts: closed_interrupts.c.execution,
}
"""Tables without an index that begins with the organization, and the column of the execution of a row."""

_MESSAGES: Final = metadata.tables["wfcore_messages"]
_PARTICIPANTS: Final = metadata.tables["wfcore_participants"]

BY_CONVERSATION: Final[Mapping[sa.Table, sa.Column[int]]] = {
    table: table.c.conversation for table in (_MESSAGES, _PARTICIPANTS)
}
"""The same of rows of conversations."""

REWRITTEN: Final[Sequence[sa.Table]] = [
    table for table in TABLES if table not in _ELSEWHERE and table not in (*BY_EXECUTION, *BY_CONVERSATION)
]

OF_EXECUTION: Final[Sequence[sa.Table]] = [
    table for table in (*REWRITTEN, *BY_EXECUTION) if "execution" in table.columns
]
"""Tables with rows of one execution each, beside its journal."""


@attrs.frozen
class RewrittenBatch:
    """`last` is the place of its last row, None at the end of the table. `columns` have other texts in some row."""

    last: Sequence[Any] | None
    columns: frozenset[str]


async def rewrite_batch(
    connection: Transaction, table: sa.Table, org: int, change: Substitution, after: Sequence[Any] | None
) -> RewrittenBatch:
    """Replace texts in the next rows of `reading_order`."""
    order = reading_order(table)
    found = sa.select(table).where(of_organization(table, org)).order_by(*order).limit(BATCH)
    if after is not None:
        place = [sa.literal(value, column.type) for value, column in zip(after, order, strict=True)]
        found = found.where(sa.tuple_(*order) > sa.tuple_(*place))
    rows = (await connection.execute(found)).mappings().all()
    columns = set[str]()
    for row in rows:
        changed = await _rewrite_row(connection, table, row, change)
        if changed and table in (resources, variations):
            await _count_revision(
                connection, row["org"], row["kind"], row["id" if table is resources else "resource_id"]
            )
        columns |= changed
    last = [rows[-1][column.name] for column in order] if len(rows) == BATCH else None
    return RewrittenBatch(last, frozenset(columns))


async def rewrite_parts(
    connection: Transaction, of: Mapping[sa.Table, sa.Column[int]], ids: Sequence[int], change: Substitution
) -> None:
    """Replace texts in the rows of some tables that have these values in their columns."""
    for table, column in of.items():
        for row in (await connection.execute(sa.select(table).where(column.in_(ids)))).mappings().all():
            await _rewrite_row(connection, table, row, change)


async def rewrite_rows_of(connection: Transaction, execution: int, change: Substitution) -> None:
    """Replace texts in the rows of an execution, except in its journal."""
    for table in OF_EXECUTION:
        for row in (await connection.execute(sa.select(table).where(table.c.execution == execution))).mappings().all():
            await _rewrite_row(connection, table, row, change)


async def _count_revision(connection: Transaction, org: int, kind: str, id: int) -> None:
    """What processes and clients keep of the resource is outdated, as after any other change."""
    this = resources.c.org == org, resources.c.kind == kind, resources.c.id == id
    await connection.execute(resources.update().where(*this).values(revision=resources.c.revision + 1))


async def _rewrite_row(
    connection: Transaction, table: sa.Table, row: sa.RowMapping, change: Substitution
) -> AbstractSet[str]:
    """The names of the columns that have other texts now."""
    values = {}
    for column in text_columns(table):
        text = row[column.name]
        if text is not None and change.concerns(text) and (new := rewritten(text, change)) != text:
            values[column.name] = new
    if values:
        this = [column == row[column.name] for column in table.primary_key.columns]
        await connection.execute(table.update().where(*this).values(values))
    return values.keys()


async def rewrite_journal(connection: Transaction, execution: int, change: Substitution, length: int | None) -> bool:
    """Replace texts in the entries, whose checksums follow; the snapshot, which has them too, is deleted. False when a
    worker holds it or the length differs.

    The lock excludes claims and appends. A process that has the former checksums reads the journal when it claims it.
    """
    free = executions.c.id == execution, executions.c.claimed_by.is_(None)
    if (await connection.execute(sa.select(executions.c.id).where(*free).with_for_update())).first() is None:
        return False
    found = sa.select(journal.c.pos, journal.c.entry, journal.c.checksum).where(journal.c.execution == execution)
    rows = (await connection.execute(found.order_by(journal.c.pos))).all()
    if length is not None and len(rows) != length:
        return False
    await connection.execute(snapshots.delete().where(snapshots.c.execution == execution))
    checksum = 0
    for pos, entry, before in rows:
        text = rewritten_entry(entry, change) if change.concerns(entry) else entry
        checksum = following(text.encode(), checksum)
        if (text, checksum) != (entry, before):
            this = journal.c.execution == execution, journal.c.pos == pos
            await connection.execute(journal.update().where(*this).values(entry=text, checksum=checksum))
    return True


def rewritten(text: str, change: Substitution) -> str:
    """The text of a column after the change: in JSON, that of each text."""
    if text[:1] in ("[", "{", chr(34)):
        try:
            value = json.loads(text)
        except ValueError:
            return change.text(text)
        changed = change.value(value)
        return text if changed == value else to_json(changed)
    return change.text(text)


def rewritten_entry(text: str, change: Substitution) -> str:
    """The JSON text of an entry after the change; its tag stays."""
    tag, *fields = json.loads(text)
    changed = change.value(fields)
    assert isinstance(changed, list)  # noqa: S101  (the change keeps the structure)
    return text if changed == fields else to_json([tag, *changed])
