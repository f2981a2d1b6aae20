"""The numbers of rows over several databases: unique, and growing within an organization, also after it has moved.

Of `STRIDE` numbers in a row each shard assigns one. The sequences of a shard are ahead of all numbers of the
organizations on it, because a move advances them beyond those of the shard that the organization leaves.
"""

from collections.abc import Mapping
from typing import Final

from wfcore.adapters.sql.schema.statement import PostgresDialect
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.shards.capture import Connection, run
from wfcore.adapters.sql.transfer.databases import numbered
from wfcore.ports.shards import STRIDE

MARGIN: Final = 1_000 * STRIDE
"""Numbers that are skipped: other sessions can take some between the read of a sequence and its change."""

Sequences = Mapping[str, int]
"""The last number of each sequence."""


def last_numbers(database: Connection, schema: str) -> Sequences:
    names = _sequences(database, schema)
    query = " UNION ALL ".join(f"SELECT '{name}', last_value FROM {name}" for name in names)
    return dict(run(database, query).fetchall())


def begin(database: Connection, schema: str, shard: int, beyond: Sequences) -> None:
    """Let the database assign the numbers of the shard with this number, greater than its own and those given."""
    for name in _sequences(database, schema):
        run(database, f"ALTER SEQUENCE {name} INCREMENT BY {STRIDE}")
    last = last_numbers(database, schema)
    advance(database, schema, shard, {name: max(last[name], beyond.get(name, 0)) + 1 for name in last})


def advance(database: Connection, schema: str, shard: int, beyond: Sequences) -> None:
    """Let the shard with this number assign only numbers greater than these."""
    for name, last in last_numbers(database, schema).items():
        if last <= beyond[name]:
            run(database, f"SELECT setval('{name}', {(beyond[name] + MARGIN) // STRIDE * STRIDE + shard})")


def _sequences(database: Connection, schema: str) -> list[str]:
    name = PostgresDialect(schema, str)
    columns = [(table, column) for table in metadata.sorted_tables if (column := numbered(table)) is not None]
    calls = ", ".join(f"pg_get_serial_sequence('{name[table]}', '{column.name}')" for table, column in columns)
    return list(run(database, f"SELECT {calls}").fetchall()[0])
