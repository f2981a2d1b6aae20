"""What other software has in the same database: recognized by name, never changed, reported when it is in the way."""

import re
from collections.abc import Iterator
from typing import Final

from wfcore.adapters.sql.migrations.fingerprint import released
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.names import VERSION_TABLE
from wfcore.domain.kernel.errors import Unavailable

_REVISION: Final = re.compile(r"[0-9]{4}(_[0-9]{4})?\Z", re.ASCII)

_UNRELEASED: Final = frozenset({"alembic_version", "organizations", "executions", "journal", "interrupts"})
"""Tables that an unreleased wfcore made under these names, with Alembic's default name for the revision."""

_NAMES: Final = {
    "sqlite": "SELECT name FROM sqlite_master",
    "postgresql": "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(:schema)",
}


def only_revision(connection: "sa.Connection", schema: str | None) -> str:
    """The revision in the version table. Raises Unavailable unless the table holds one revision of wfcore."""
    table = sa.table(VERSION_TABLE, sa.column("version_num"), schema=schema)
    columns = {column["name"] for column in sa.inspect(connection).get_columns(VERSION_TABLE, schema=schema)}
    found = list(connection.scalars(sa.select(table))) if columns == {"version_num"} else []
    if len(found) != 1 or not _REVISION.match(str(found[0])):
        held = ", ".join(f"`{each}`" for each in found) or "no revision"
        raise Unavailable(
            f"{_shown(VERSION_TABLE, schema)} is not a version table of wfcore (it has {held}): rename it"
        )
    return str(found[0])


def check_unreleased(connection: "sa.Connection") -> None:
    """Raises Unavailable when the database has the tables of a wfcore before the first release.

    Released tables have these names too, in a schema that a product with Alembic shares: beside a version table.
    """
    names = set(sa.inspect(connection).get_table_names())
    if names >= _UNRELEASED and VERSION_TABLE not in names and "claimed_by" in _columns(connection, "executions"):
        raise Unavailable(
            "the database has tables of an unreleased wfcore, without a schema or prefix, which are not converted: "
            "use a new database"
        )


def check_free(connection: "sa.Connection", schema: str | None) -> None:
    """Raises Unavailable when something else has the name of a table or an index of wfcore."""
    wanted = set(_wanted(connection.dialect.name))
    taken = sorted(
        name for name in _objects(connection, schema) if (name.lower() if schema is None else name) in wanted
    )
    if taken:
        remedy = (
            f"rename {'it' if len(taken) == 1 else 'them'} or use another {'database' if schema is None else 'schema'}"
        )
        shown = ", ".join(_shown(name, schema) for name in taken[:5])
        more = f" and {len(taken) - 5} more" if len(taken) > 5 else ""
        raise Unavailable(f"the database has {shown}{more}, which wfcore did not create: {remedy}")


def _wanted(dialect: str) -> Iterator[str]:
    yield VERSION_TABLE
    for table, parts in released(dialect).items():
        yield table
        yield from parts["indexes"]


def _objects(connection: "sa.Connection", schema: str | None) -> Iterator[str]:
    """The names of all tables, views and indexes, in the schema or in the file."""
    statement = sa.text(_NAMES[connection.dialect.name])
    yield from connection.scalars(statement, {} if schema is None else {"schema": schema})


def _columns(connection: "sa.Connection", table: str) -> set[str]:
    return {column["name"] for column in sa.inspect(connection).get_columns(table)}


def _shown(name: str, schema: str | None) -> str:
    return f"`{name}`" if schema is None else f"`{schema}.{name}`"
