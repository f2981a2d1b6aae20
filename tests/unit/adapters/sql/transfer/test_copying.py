"""Copies of databases between both stores."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from bench import opened as opened_bench
from filled import SECRET, as_read, fill, rows_of
from postgres_server import new_database, without_schema

import wfcore
from wfcore.adapters.sql.migrations import fingerprint
from wfcore.adapters.sql.transfer import copying
from wfcore.adapters.sql.transfer.copying import Copied, copy
from wfcore.adapters.sql.transfer.databases import Address, SqliteCopy, planned_upgrade
from wfcore.domain.kernel.errors import Conflict, Unavailable

SERVER = pytest.mark.service


def address(kind: str, place: Path, name: str = "copy") -> Address:
    return Address(without_schema() if kind == "postgres" else f"sqlite:///{place}/{name}.db")


def stored(of: Address) -> Any:
    engine = sa.create_engine(of.url.replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.connect() as connection:
        found = rows_of(connection)
    engine.dispose()
    return found


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("sqlite", "sqlite"),
        pytest.param("sqlite", "postgres", marks=SERVER),
        pytest.param("postgres", "sqlite", marks=SERVER),
        pytest.param("postgres", "postgres", marks=SERVER),
    ],
)
async def test_a_copy_is_the_same_installation(source: str, target: str, tmp_path: Path) -> None:
    """Every row of every table is copied, users read the same, parked runs go on, and no number is used again."""
    of, to = address(source, tmp_path, "source"), address(target, tmp_path)
    bench = await fill(of.url)
    async with opened_bench(of.url, org=bench.org, clock=bench.clock, secrets=SECRET, worker=False) as before:
        gone = await before.core.ports.journal.register("gone", 2)
        expected = await as_read(before)
    rows = stored(of)
    seen = list[tuple[int, int]]()
    copied = copy(of, to, on_progress=lambda done, total: seen.append((done, total)))
    assert copied == Copied({table: len(found) for table, found in rows.items()})
    assert seen[-1] == (2 * copied.total, 2 * copied.total)
    if source == target:
        assert stored(to) == rows
    async with opened_bench(to.url, org=bench.org, clock=bench.clock, secrets=SECRET, worker=False) as after:
        assert await as_read(after) == expected
        assert await after.core.ports.storage.schema_differences() == []
        assert await after.core.ports.journal.register("new", 3) > gone
    async with opened_bench(to.url, org=bench.org, clock=bench.clock, secrets=SECRET) as after:
        for item in (await after.core.runs.interrupts(after.me, limit=100))[0]:
            turn = await after.core.runs.resume(after.me, item.found.run_id, decision="approve")
            assert (await after.ended(turn)).status == "done"


@SERVER
def test_a_copy_has_statistics(tmp_path: Path) -> None:
    """PostgreSQL plans with them from the first statement on, also where its autovacuum is off."""
    of, to = address("sqlite", tmp_path, "source"), address("postgres", tmp_path)
    with wfcore.open_sync(of.url, worker=False) as core:
        for name in ("one", "two"):
            core.directory.create_organization(name)
    copy(of, to)
    with psycopg.connect(to.url) as connection:
        query = "SELECT reltuples FROM pg_class WHERE oid = 'wfcore.organizations'::regclass"
        assert connection.execute(query).fetchone() == (2,)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=SERVER)])
async def test_a_target_with_rows_is_not_touched(kind: str, tmp_path: Path) -> None:
    """A copy into a database with rows, or into its own source, is refused."""
    of, to = address("sqlite", tmp_path, "source"), address(kind, tmp_path)
    await fill(of.url)
    copy(of, to)
    rows = stored(to)
    with pytest.raises(Conflict, match="the target has rows in `wfcore_"):
        copy(of, to)
    with pytest.raises(Conflict, match="the same database"):
        copy(to, to)
    assert stored(to) == rows


def test_an_empty_database_is_a_target(tmp_path: Path) -> None:
    """A database whose schema is there already can get the rows."""
    of, to = address("sqlite", tmp_path, "source"), address("sqlite", tmp_path)
    for each in (of, to):
        make(each)
    assert copy(of, to) == Copied({})


def test_a_new_file_needs_no_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the tables that the steps have made, as a server's new file does: a backup does not import Alembic."""
    of, to = address("sqlite", tmp_path, "source"), address("sqlite", tmp_path)
    make(of)
    monkeypatch.delattr(copying.migrations, "upgrade")
    copy(of, to)
    with copying.opened(to) as database:
        assert fingerprint.differences(database.connection) == []


def make(each: Address) -> None:
    """Create a database without rows."""
    empty = each.file
    assert empty is not None
    copying.create_private(empty)
    with copying.opened(each) as database:
        copying.migrations.upgrade(database.connection)


def test_sources_that_cannot_be_copied(tmp_path: Path) -> None:
    """A file that does not exist, one without a schema, one of a newer release, and one that is not a database; no
    target is left."""
    of, to = address("sqlite", tmp_path, "source"), address("sqlite", tmp_path)
    assert of.file is not None
    assert to.file is not None
    with pytest.raises(Unavailable, match="does not exist"):
        copy(of, to)
    sqlite3.connect(of.file).close()
    with pytest.raises(Unavailable, match="the source cannot be copied: the database has no schema"):
        copy(of, to)
    make(of)
    with sqlite3.connect(of.file) as connection:
        connection.execute("UPDATE wfcore_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(Unavailable, match="newer release"):
        copy(of, to)
    good = address("sqlite", tmp_path, "good")
    make(good)
    with pytest.raises(Unavailable, match=r"the target cannot be used: .* newer release"):
        copy(good, of)
    of.file.write_text("not a database, but a longer text than the header of one" * 10)
    with pytest.raises(Unavailable, match="not a database"):
        copy(of, to)
    assert not to.file.exists()


def test_a_row_that_differs_fails_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that reads back another row is rolled back, and its new file is deleted."""
    of, to = address("sqlite", tmp_path, "source"), address("sqlite", tmp_path)
    make(of)
    assert of.file is not None
    with sqlite3.connect(of.file) as connection:
        connection.execute("INSERT INTO wfcore_organizations (uuid, name, created_at) VALUES ('u', 'n', 1)")
    connection.close()
    insert = SqliteCopy.insert

    def damaging(self: SqliteCopy, table: sa.Table, rows: Any) -> None:
        insert(self, table, ((*row[:-1], 2) if table.name == "wfcore_organizations" else row for row in rows))

    monkeypatch.setattr(SqliteCopy, "insert", damaging)
    with pytest.raises(Unavailable, match="row 1 of the copy of `wfcore_organizations` differs"):
        copy(of, to)
    assert to.file is not None
    assert not to.file.exists()


@SERVER
def test_a_source_that_is_written_to_is_not_copied(tmp_path: Path) -> None:
    """A writer that does not end within the lock's time fails the copy; an online copy does not wait for it."""
    of = Address(new_database())
    with psycopg.connect(of.url) as writer:
        writer.execute("INSERT INTO wfcore.workers (host, pid, beats) VALUES ('h', 1, 0)")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("wfcore.adapters.sql.transfer.databases.LOCK_SECONDS", 0.05)
            with pytest.raises(Unavailable, match="lock timeout"):
                copy(of, address("sqlite", tmp_path))
        assert copy(of, address("sqlite", tmp_path), online=True) == Copied({})


@pytest.mark.anyio
async def test_a_file_that_a_core_has_open_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although nothing writes: it would drive the runs of the copy too. An online copy is made, and one afterwards."""
    of, to = address("sqlite", tmp_path, "source"), address("sqlite", tmp_path)
    monkeypatch.setattr("wfcore.adapters.sql.transfer.databases.LOCK_SECONDS", 0.05)
    async with wfcore.open(of.url, worker=False):
        with pytest.raises(Conflict, match=r"another process has `.*source.*` open: stop the servers"):
            copy(of, to)
        assert to.file is not None
        assert not to.file.exists()
        copy(of, address("sqlite", tmp_path, "online"), online=True)
    copy(of, to)
    assert to.file.exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x", "sqlite:///a?mode=ro"])
def test_databases_that_are_not_stored(url: str) -> None:
    with pytest.raises(ValueError, match="use a database that is stored"):
        Address(url)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=SERVER)])
def test_the_plan_of_an_upgrade_changes_nothing(kind: str, tmp_path: Path) -> None:
    """The statements of the first release; none for a database of this release; no file is created."""
    to = address(kind, tmp_path)
    found, statements = planned_upgrade(to)
    again = planned_upgrade(to)
    assert found is None
    assert again == (None, statements)
    assert any(statement.startswith("CREATE TABLE") for statement in statements)
    assert to.file is None or not to.file.exists()
    if to.file is not None:
        make(to)
        assert planned_upgrade(to) == ("0001", [])
