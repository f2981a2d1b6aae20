"""The schema's history. What is released never changes; a new release adds a step.

A step that only expands the schema names the oldest one whose processes work with it: `0002_0001` does what `0001`
needs. One that contracts it has no second number: no older process works with `0003`. What a release does not use any
more, only a later one removes.

The tables stand beside those of other software: `foreign` says what is in their way.

A new SQLite file gets the statements that the steps have executed in another one: they need neither Alembic nor
SQLAlchemy, whose imports take longer than everything else at the first opening.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from wfcore.adapters.sql.migrations import foreign
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, VERSION_TABLE
from wfcore.domain.kernel.errors import Unavailable

_HERE: Final = Path(__file__).parent


@attrs.frozen
class RevisionChain:
    """A line of steps. They are numbered in order, so that a greater one is of a newer release."""

    head: str
    """The last step: the schema of the release."""
    folders: tuple[Path, ...]
    """Where the modules of the steps are, one `revision` each."""


RELEASED: Final = RevisionChain("0001", (_HERE / "versions",))
"""The history of this release."""

SEPARATOR: Final = ";\n\n"
"""Between two statements of `schemas/sqlite.sql`; none of them contains it."""

_LOCK: Final = 7_766_070_001
"""Of several processes that upgrade a server's database at once, one does it while the others wait."""

LOCK_SECONDS: Final = 5
"""How long a step waits for the lock of a table. Statements on the table wait behind it, so that it must be short."""


def new_file() -> Sequence[str]:
    """The statements that make the schema of this release in an empty SQLite file, its revision included."""
    return (_HERE / "schemas/sqlite.sql").read_text().removesuffix(";\n").split(SEPARATOR)


def fault(found: str | None, history: RevisionChain = RELEASED) -> str | None:
    """What is wrong, in words, with a database whose schema is `found`; None when this release works with it."""
    if found == history.head or (found is not None and works_with(history.head, found)):
        return None
    if found is None:
        return "the database has no schema yet: run `wfcore db upgrade`"
    if found < history.head:
        return f"the schema `{found}` is older than `{history.head}`: run `wfcore db upgrade`"
    return (
        f"the schema `{found}` is of a newer release than this one, which knows `{history.head}`: use the newer release"
    )


def works_with(older: str, newer: str) -> bool:
    """Whether processes of an older schema work beside those of a newer one."""
    oldest = newer.partition("_")[2]
    return bool(oldest) and oldest <= older.partition("_")[0] < newer.partition("_")[0]


def namespace(connection: "sa.Connection", schema: str = DEFAULT_SCHEMA) -> str | None:
    """The PostgreSQL schema with the tables; None on SQLite, which has none."""
    return schema if connection.dialect.name == "postgresql" else None


def revision(connection: "sa.Connection", schema: str = DEFAULT_SCHEMA) -> str | None:
    """The revision of wfcore's schema; None when the database has none.

    Raises Unavailable when a table of that name belongs to other software, or tables of an unreleased wfcore exist.
    """
    place = namespace(connection, schema)
    if not sa.inspect(connection).has_table(VERSION_TABLE, schema=place):
        foreign.check_unreleased(connection)
        return None
    return foreign.only_revision(connection, place)


def upgrade(connection: "sa.Connection", history: RevisionChain = RELEASED, schema: str = DEFAULT_SCHEMA) -> None:
    """Bring the schema to that of the release, in the open transaction. A newer one that it works with stays.

    Raises Unavailable for a newer one, and when objects of other software have the names of wfcore's tables.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    found = revision(connection, schema)
    problem = fault(found, history)
    if problem is None:
        return
    if found is not None and found > history.head:
        raise Unavailable(problem)
    place = namespace(connection, schema)
    if found is None:
        foreign.check_free(connection, place)
    if place is not None:
        _enter(connection, place)
    _run_steps(connection, history, place)


def _enter(connection: "sa.Connection", schema: str) -> None:
    """Create the schema if it is missing, and make it the first of the search path until the transaction ends."""
    if not sa.inspect(connection).has_schema(schema):
        connection.execute(sa.schema.CreateSchema(schema))
    connection.exec_driver_sql(f'SET LOCAL search_path TO "{schema}"')


def _run_steps(connection: "sa.Connection", history: RevisionChain, schema: str | None) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _option(_HERE))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(map(_option, history.folders)))
    config.attributes.update(connection=connection, schema=schema)
    command.upgrade(config, history.head)


def _option(folder: Path) -> str:
    """A path as a value of Alembic's configuration, where `%` begins an interpolation."""
    return str(folder).replace("%", "%%")
