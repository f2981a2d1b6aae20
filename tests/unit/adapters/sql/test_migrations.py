"""The schema's history."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sql_texts import statement
from waiting import HANG

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.schema.names import VERSION_TABLE
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.kernel.errors import Unavailable

pytestmark = pytest.mark.anyio


async def steps_of(store: SqlStorage) -> None:
    """Make the tables step by step, as in a file that has other tables."""
    async with store.database.writing() as connection:
        await connection.run_sync(migrations.upgrade)


async def statements_of(store: SqlStorage) -> None:
    """Make the tables as in an empty file."""
    assert await store.database.create_tables(migrations.new_file)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStorage]:
    database = Database(f"sqlite:///{tmp_path}/a.db", synchronous="NORMAL")
    await database.open()
    store = SqlStorage(database)
    yield store
    await store.close()


def schema(connection: sa.Connection) -> set[str]:
    """Every statement of the schema, but for Alembic's own table, spaces made equal."""
    rows = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE tbl_name <> 'wfcore_version'")
    return {" ".join(sql.replace('"', "").split()) for (sql,) in rows if sql}


def _context(connection: sa.Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})


async def set_revision(store: SqlStorage, revision: str) -> None:
    async with store.database.writing() as connection:
        await connection.run(statement("UPDATE wfcore_version SET version_num = ?"), (revision,))


@pytest.mark.parametrize("make", [steps_of, statements_of])
async def test_the_steps_make_the_tables(store: SqlStorage, make: Callable[[SqlStorage], Awaitable[None]]) -> None:
    """All steps together, and the statements of a new file, make exactly the tables of the metadata: Alembic sees no
    difference, nor does a comparison of SQLite's own text.
    """
    await make(store)
    assert await store.check() is None
    assert await store.schema_differences() == []
    in_memory = sa.create_engine("sqlite://")
    with in_memory.connect() as fresh:
        metadata.create_all(fresh)
        expected = schema(fresh)
    in_memory.dispose()
    async with store.database.reading() as connection:
        difference = await connection.run_sync(lambda c: compare_metadata(_context(c), metadata))
        made = await connection.run_sync(schema)
    assert difference == []
    assert made == expected


async def test_upgrading_is_idempotent(store: SqlStorage) -> None:
    """Before the first upgrade the check says what is missing; after any number of them nothing is."""
    assert "no schema" in (await store.check() or "")
    for _ in range(3):
        await store.upgrade()
        assert await store.check() is None


async def test_a_newer_schema_is_refused(store: SqlStorage) -> None:
    """A database of a newer release is not touched, and both check and upgrade say so."""
    await store.upgrade()
    await set_revision(store, "9999")
    assert "`9999` is of a newer release" in (await store.check() or "")
    with pytest.raises(Unavailable, match=r"knows `[0-9_]+`: use the newer release"):
        await store.upgrade()
    async with store.database.reading() as connection:
        assert await connection.run_sync(migrations.revision) == "9999"


async def test_an_older_schema_is_told(store: SqlStorage) -> None:
    """The check of a database of an older release says what to do."""
    await store.upgrade()
    await set_revision(store, "0000")
    assert "`0000` is older" in (await store.check() or "")


async def test_an_upgrade_that_fails_leaves_nothing(store: SqlStorage) -> None:
    """An upgrade is one transaction: what it made before it failed is not there."""
    with pytest.raises(Exception, match="no such step"):
        await SqlStorage(store.database, attrs.evolve(migrations.RELEASED, head="no such step")).upgrade()
    async with store.database.reading() as connection:
        assert await connection.run_sync(migrations.revision) is None


async def test_a_file_with_anything_in_it_gets_the_steps(store: SqlStorage) -> None:
    """A table of other software stays, and wfcore's are made beside it; once made, nothing is created again."""
    async with store.database.writing() as connection:
        await connection.run(statement("CREATE TABLE customers (name TEXT)"))
    assert not await store.database.create_tables(migrations.new_file)
    assert "no schema" in (await store.check() or "")
    await store.upgrade()
    assert await store.schema_differences() == []
    assert await store.database.look_up(statement("SELECT * FROM customers")) == []
    assert not await store.database.create_tables(migrations.new_file)


async def test_statements_that_fail_leave_nothing(store: SqlStorage) -> None:
    """The statements of a new file are one transaction, and the file can be upgraded afterwards."""
    with pytest.raises(Unavailable, match="syntax error"):
        await store.database.create_tables(lambda: [*migrations.new_file(), "CREATE NONSENSE"])
    assert await store.database.look_up(statement("SELECT * FROM sqlite_master")) == []
    await store.upgrade()
    assert await store.check() is None


async def test_two_openings_of_a_new_file(store: SqlStorage, tmp_path: Path) -> None:
    """One of them creates the tables."""
    other = Database(f"sqlite:///{tmp_path}/a.db")
    await other.open()
    made = await asyncio.gather(*(each.create_tables(migrations.new_file) for each in (store.database, other)))
    await other.close()
    assert sorted(made) == [False, True]
    assert await store.check() is None


def test_the_release_knows_its_last_step() -> None:
    """The revision a check compares with is the last step, and there is one line of steps."""
    steps = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert steps.get_heads() == [migrations.RELEASED.head]


def test_a_file_needs_no_alembic(tmp_path: Path) -> None:
    """Opening a new file, or one that is up to date, imports neither Alembic nor SQLAlchemy, which are slow."""
    code = """
import asyncio, sys
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage

async def main(fresh):
    database = Database(sys.argv[1])
    await database.open()
    store = SqlStorage(database)
    if not fresh:
        assert await store.check() is None
    await store.upgrade()
    await store.close()
    return "alembic" in sys.modules or "sqlalchemy" in sys.modules

print(asyncio.run(main(sys.argv[2] == "fresh")))
"""
    for state in ("fresh", "made"):
        command = [sys.executable, "-W", "error", "-c", code, f"sqlite:///{tmp_path}/a.db", state]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG)
        assert done.stdout.strip() == "False"
        assert done.stderr.count("\n") <= 1
