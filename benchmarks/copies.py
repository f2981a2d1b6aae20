"""Copies of all rows of an organization, as those of other members: made by the database itself, with one statement for
each table.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import sqlalchemy as sa

from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, NO_RESOURCE
from wfcore.adapters.sql.schema.statement import SQLITE, PostgresDialect
from wfcore.adapters.sql.schema.tables import metadata

STEP: Final = 10**6
"""The difference between the numbers of two copies."""

KEPT: Final = ("organizations", "counters", "workers", "kept", "journal", "subscriptions", "audit")
"""Tables that are not copied."""

NAMES: Final = frozenset(
    {
        *("id", "key", "seq", "execution", "resource", "resource_id", "interrupt", "conversation", "skill_id"),
        *("workflow_id", "memory", "slug", "prefix", "user_id", "subject", "thread_id", "hook", "digest", "word"),
        *("interface_id", "run_id", "interrupt_id", "email", "group_id", "from_user", "to_user", "connection_id"),
        *("evaluation_id", "case_id"),
    }
)
"""Columns that name a record or a person: each copy has others."""


OF_RUNS: Final = frozenset({"id", "key", "execution"})
"""Columns that name a run, its execution and its interrupts, but no person and no workflow."""


def copies(count: int, tables: frozenset[str] = frozenset(), *, on_server: bool = False) -> Iterator[str]:
    """The statements that make so many copies of the rows of all tables, or of some, without the prefix."""
    yield from _copies(range(1, count + 1), dict.fromkeys(tables, "true"), NAMES, on_server=on_server)


def runs_like(execution: int, numbers: range, *, on_server: bool = False) -> Iterator[str]:
    """The statements that make copies of an execution, with its runs and open interrupts, of the same user and target.

    `numbers` are other ones than those of `copies` that were made before.
    """
    of = {"executions": f"id = {execution}", **dict.fromkeys(("runs", "interrupts"), f"execution = {execution}")}
    yield from _copies(numbers, of, OF_RUNS, on_server=on_server)


def _copies(numbers: range, of: Mapping[str, str], names: frozenset[str], *, on_server: bool) -> Iterator[str]:
    """Copies of the rows that meet the condition of their table; of all tables if none is given."""
    dialect = PostgresDialect(DEFAULT_SCHEMA, str) if on_server else SQLITE
    for table in metadata.sorted_tables:
        name = table.name.removeprefix("wfcore_")
        if name in KEPT or (of and name not in of):
            continue
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        values = ", ".join(_copied(column, names, on_server=on_server) for column in table.columns)
        yield f"""
WITH RECURSIVE n(i) AS (
    SELECT CAST({numbers.start} AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < {numbers.stop - 1}
)
INSERT INTO {dialect[table]} ({columns})
SELECT {values} FROM (SELECT * FROM {dialect[table]} WHERE {of.get(name, "true")}) AS mine, n"""


def _copied(column: sa.Column[object], names: frozenset[str], *, on_server: bool) -> str:
    name = f'"{column.name}"'
    if column.name == "id_hash":
        return "n.i"
    if names is not NAMES and column.name not in names:
        return name
    if column.name == "target" and isinstance(column.type, sa.Integer):
        of_skill = f"WHEN {name} BETWEEN -{NO_RESOURCE} AND 0 THEN {name} - n.i * {STEP}"
        return f"CASE {of_skill} WHEN {name} < {NO_RESOURCE} THEN {name} + n.i * {STEP} ELSE {name} END"
    if column.name == "variation_id" and isinstance(column.type, sa.LargeBinary):
        return f"{name} || decode(lpad(to_hex(n.i), 8, '0'), 'hex')" if on_server else f"CAST({name} || n.i AS blob)"
    if column.name not in names:
        return name
    return f"{name} + n.i * {STEP}" if isinstance(column.type, sa.Integer) else f"{name} || '~' || n.i"
