"""The schema's history."""

import subprocess
import sys
from collections.abc import AsyncIterator
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


async def test_the_steps_make_the_tables(store: SqlStorage) -> None:
    """All steps together make exactly the tables of the metadata: Alembic sees no difference, nor does a
    comparison of SQLite's own text."""
    await store.upgrade()
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
    with pytest.raises(Unavailable, match="newer release"):
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


def test_the_release_knows_its_last_step() -> None:
    """The revision a check compares with is the last step, and there is one line of steps."""
    steps = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert steps.get_heads() == [migrations.RELEASED.head]


def test_a_check_needs_no_alembic(tmp_path: Path) -> None:
    """Opening a database that is up to date, and upgrading it, does not import Alembic, which is slow."""
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
    return "alembic" in sys.modules

print(asyncio.run(main(sys.argv[2] == "fresh")))
"""
    for state, imported in (("fresh", "True"), ("made", "False")):
        command = [sys.executable, "-W", "error", "-c", code, f"sqlite:///{tmp_path}/a.db", state]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG)
        assert done.stdout.strip() == imported
        assert done.stderr.count("\n") <= 1
