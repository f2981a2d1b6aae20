"""A SQLite file: its connections and transactions, with statements on the event loop and in threads."""

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from sql_texts import statement

from wfcore.adapters.sql.sqlite import database as module
from wfcore.adapters.sql.sqlite.database import Database, Transaction, shielded
from wfcore.adapters.sql.sqlite.off_loop import OffLoopDatabase
from wfcore.adapters.sql.sqlite.processes import lock_file, register, unregister
from wfcore.domain.kernel.errors import Unavailable
from wfcore.testing.contracts.storage.storage import CancelAt

pytestmark = pytest.mark.anyio


def connection_threads() -> set[threading.Thread]:
    return {
        thread for thread in threading.enumerate() if "_connection_worker" in thread.name or "wfcore" in thread.name
    }


@pytest.fixture(params=[Database, OffLoopDatabase])
def kind(request: pytest.FixtureRequest) -> type[Database]:
    found: type[Database] = request.param
    return found


@pytest.fixture
async def database(tmp_path: Path, kind: type[Database]) -> AsyncIterator[Database]:
    database = kind(f"sqlite:///{tmp_path}/a.db")
    await database.open()
    async with database.writing() as connection:
        await connection.run(statement("CREATE TABLE t (a INTEGER PRIMARY KEY)"))
    yield database
    await database.close()


async def values(database: Database) -> list[int]:
    async with database.reading() as connection:
        return [row[0] for row in await connection.run(statement("SELECT a FROM t ORDER BY a"))]


async def pragma(connection: Transaction, name: str) -> object:
    return (await connection.run(statement(f"PRAGMA {name}"))).scalar()


async def test_files_are_their_owner_s(database: Database, tmp_path: Path) -> None:
    """The file of a new database and those beside it cannot be read by others."""
    found = {file.name: file.stat().st_mode & 0o077 for file in os.scandir(tmp_path)}
    assert found.keys() >= {"a.db", "a.db-wal", "a.db-shm"}
    assert set(found.values()) == {0}


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1)])
async def test_every_connection_has_its_settings(
    tmp_path: Path, kind: type[Database], synchronous: module.Synchronous, level: int
) -> None:
    """Writer, readers and the connection of the group commit have the same settings; only readers refuse to write."""
    database = kind(f"sqlite:///{tmp_path}/a.db", synchronous=synchronous)
    assert database.durable is (synchronous == "FULL")
    await database.open()
    expected = {
        "journal_mode": "wal",
        "synchronous": level,
        "foreign_keys": 1,
        "busy_timeout": 10_000,
        "journal_size_limit": module.WAL_BYTES,
        "wal_autocheckpoint": 1000,
    }
    for name, value in expected.items():
        assert database.commit_connection.execute(f"PRAGMA {name}").fetchone()[0] == value
        async with database.writing() as writer, database.reading() as reader:
            assert [await pragma(c, name) for c in (writer, reader)] == [value, value]
    async with database.writing() as writer, database.reading() as reader:
        assert [await pragma(c, "query_only") for c in (writer, reader)] == [0, 1]
    await database.close()


async def test_a_writer_begins_immediately(database: Database) -> None:
    """BEGIN IMMEDIATE is sent before the first statement: no other writer can begin."""
    with sqlite3.connect(database.path, timeout=0, isolation_level=None) as other:
        async with database.writing():
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    other.close()


async def test_an_exception_rolls_back_tables_too(database: Database) -> None:
    """The driver commits nothing by itself, not even before a CREATE TABLE."""

    async def fails() -> None:
        async with database.writing() as connection:
            await connection.run(statement("INSERT INTO t VALUES (1)"))
            await connection.run(statement("CREATE TABLE u (a)"))
            raise KeyError

    with pytest.raises(KeyError):
        await fails()
    assert await values(database) == []
    assert database.commit_connection.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


async def test_the_commit_connection_writes_between_transactions(database: Database) -> None:
    """While a caller holds `lock`, no transaction is open on the file."""

    async def hot(value: int) -> None:
        async with database.lock:
            database.commit_connection.execute("PRAGMA busy_timeout = 0")
            database.commit_connection.execute("BEGIN IMMEDIATE")
            database.commit_connection.execute("INSERT INTO t VALUES (?)", (value,))
            database.commit_connection.execute("COMMIT")

    async def cold(value: int) -> None:
        async with database.writing() as connection:
            await connection.run(statement("INSERT INTO t VALUES (?)"), (value,))

    await asyncio.gather(*(write(2 * i + j) for i in range(10) for j, write in enumerate((hot, cold))))
    assert await values(database) == list(range(20))


async def test_look_ups_see_committed_rows_only(database: Database) -> None:
    """They use the connection of the commits, but not while its transaction can be open: then they have another.

    Off the loop they always have another.
    """
    free = "look-ups" if isinstance(database, OffLoopDatabase) else "commits"
    used: list[str] = []
    database.commit_connection.set_trace_callback(lambda _: used.append("commits"))
    database.look_up_connection.set_trace_callback(lambda _: used.append("look-ups"))
    query = statement("SELECT a FROM t")
    assert await database.look_up(query) == []
    assert used == [free]
    async with database.lock:
        database.commit_connection.execute("BEGIN IMMEDIATE")
        database.commit_connection.execute("INSERT INTO t VALUES (1)")
        used.clear()
        assert await database.look_up(query) == []
        assert used == ["look-ups"]
        database.commit_connection.execute("COMMIT")
        assert await database.look_up(query) == [(1,)]
    used.clear()
    assert await database.look_up(query) == [(1,)]
    assert used == [free]


async def test_a_cancelled_statement_releases_the_lock(database: Database) -> None:
    """A task that is cancelled during its statement leaves no open transaction."""

    async def insert() -> None:
        async with database.writing() as connection:
            await connection.run(statement("INSERT INTO t VALUES (1), (2) RETURNING a"))

    for step in count(1):
        work = CancelAt(insert(), step)
        with suppress(asyncio.CancelledError):
            await asyncio.ensure_future(work)
        async with database.lock:
            database.commit_connection.execute("PRAGMA busy_timeout = 100")
            database.commit_connection.execute("BEGIN IMMEDIATE")
            database.commit_connection.execute("DELETE FROM t")
            database.commit_connection.execute("COMMIT")
        if not work.reached:
            return


async def test_shielded_work_is_finished_before_the_cancellation() -> None:
    """The work ends first, also after several cancellations, and then the caller is cancelled."""
    steps: list[int] = []

    async def work() -> None:
        for step in range(4):
            task.cancel()
            await asyncio.sleep(0)
            steps.append(step)

    task = asyncio.create_task(shielded(work()))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == [0, 1, 2, 3]


async def test_shielded_work_returns_and_raises() -> None:
    """Without a cancellation the caller gets the result or the exception of the work."""

    async def fails() -> int:
        raise KeyError

    with pytest.raises(KeyError):
        await shielded(fails())
    assert await shielded(asyncio.sleep(0, 7)) == 7


async def test_a_lock_of_another_process_is_unavailable(tmp_path: Path, kind: type[Database]) -> None:
    """A writer that waited `busy_seconds` for another process raises Unavailable. It says what to do: products whose
    request holds a transaction meet it, with calls that need its connection.
    """
    database = kind(f"sqlite:///{tmp_path}/a.db", busy_seconds=0.01)
    await database.open()
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match=r"database is locked: .* pass its connection as `connection`"):
        async with database.writing():
            pass
    with pytest.raises(Unavailable, match=r"journal cannot be written: .* pass its connection as `connection`"):
        await database.commits().run(lambda transaction: None)
    other.close()
    await database.close()


async def test_an_invalid_file_is_unavailable(tmp_path: Path, kind: type[Database]) -> None:
    """A missing directory and a file of another format raise Unavailable."""
    (tmp_path / "text").write_text("no database " * 99)
    for path, message in (("missing/a.db", "its directory does not exist"), ("text", "the database file is damaged")):
        with pytest.raises(Unavailable, match=message):
            await kind(f"sqlite:///{tmp_path}/{path}").open()


async def test_a_file_that_cannot_be_opened_leaves_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection is closed if the second one is refused, and the file can be opened later."""
    database, made, connect = Database(f"sqlite:///{tmp_path}/a.db"), list[sqlite3.Connection](), Database._connect

    def refuse(self: Database) -> sqlite3.Connection:
        if made:
            raise sqlite3.OperationalError("no more files")
        made.append(connect(self))
        return made[0]

    with monkeypatch.context() as patch:
        patch.setattr(Database, "_connect", refuse)
        with pytest.raises(Unavailable, match="no more files"):
            await database.open()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")
    await database.open()
    await database.close()


async def test_readers_that_begin_at_once_share_one_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections of an engine that another one replaced would never be closed."""
    database, made, engine = Database(f"sqlite:///{tmp_path}/a.db"), list[object](), Database._engine

    def slow(self: Database, size: int, *pragmas: str) -> object:
        made.append(size)
        time.sleep(0.05)  # others begin meanwhile
        return engine(self, size, *pragmas)

    async def read() -> None:
        async with database.reading():
            pass

    monkeypatch.setattr(Database, "_engine", slow)
    await database.open()
    try:
        await asyncio.gather(*(read() for _ in range(module.READERS)))
        assert made == [module.READERS]
    finally:
        await database.close()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite://host/a", "sqlite:///a?x=1", "postgresql://u:p@h/d"]
)
def test_only_file_urls_are_accepted(url: str) -> None:
    """Any other URL is refused, and the message does not show the password."""
    with pytest.raises(ValueError, match="is not valid") as refused:
        Database(url)
    assert ":p@" not in str(refused.value)


def test_a_relative_path_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes begin a relative path, four an absolute one."""
    monkeypatch.chdir(tmp_path)
    assert Database("sqlite:///a.db").path == tmp_path / "a.db"
    assert Database(f"sqlite:///{tmp_path}/b.db").path == tmp_path / "b.db"


async def test_closing_waits_and_leaves_nothing(tmp_path: Path, kind: type[Database]) -> None:
    """`close` waits for readers and writers, ends every thread and refuses later calls."""
    others = connection_threads()
    database = kind(f"sqlite:///{tmp_path}/a.db")
    await database.open()
    async with database.writing() as connection:
        await connection.run(statement("CREATE TABLE t (a INTEGER PRIMARY KEY)"))
    await asyncio.get_running_loop().run_in_executor(database.thread, lambda: None)
    assert connection_threads() - others
    async with database.reading():
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        assert not closing.done()
    await closing
    await database.close()
    assert not connection_threads() - others
    assert [path.name for path in database.path.parent.iterdir()] == ["a.db"]
    for transaction in (database.writing, database.reading):
        with pytest.raises(Unavailable, match="closed"):
            async with transaction():
                pass
    with pytest.raises(Unavailable, match="closed"):
        _ = database.commit_connection
    with pytest.raises(Unavailable, match="closed"):
        await database.look_up(statement("SELECT 1"))
    await database.open()
    assert await values(database) == []
    await database.close()


async def test_a_cancelled_open_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread opens the file to the end."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))  # with a file of locks
    database = Database(f"sqlite:///{tmp_path}/a.db")
    opening = asyncio.create_task(database.open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    with pytest.raises(Unavailable, match="closed"):
        _ = database.commit_connection
    assert not lock_file(database.path).exists()


@pytest.mark.parametrize(("version", "others", "warnings"), [
    ((3, 51, 2), True, 1), ((3, 51, 2), False, 0), ((3, 51, 3), True, 0),
])  # fmt: skip
async def test_an_old_sqlite_is_warned_of_when_a_second_process_joins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    version: tuple[int, int, int],
    others: bool,
    warnings: int,
) -> None:
    """The versions whose log several writing processes can corrupt: one warning in a process, and none when alone."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    module._warn_of_old_sqlite.cache_clear()
    code = (
        "import sys; from pathlib import Path; from wfcore.adapters.sql.sqlite.processes import register\n"
        f"print(register(Path({str(tmp_path / 'a.db')!r})), flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) if others else None  # noqa: ASYNC220
    if other is not None and other.stdout is not None:
        assert other.stdout.readline() == b"False\n", "the first process is alone"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            database, again = (Database(f"sqlite:///{tmp_path}/a.db") for _ in range(2))
            await database.open()
            await again.open()
            await again.close()
            await database.close()
    assert len(caplog.records) == warnings
    if other is not None:
        other.communicate()
        assert lock_file(tmp_path / "a.db").exists()
        assert register(tmp_path / "a.db") is False, "the lock ended with its process"
        unregister(tmp_path / "a.db")
    assert not lock_file(tmp_path / "a.db").exists()


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    """Another process could use the database unseen."""
    assert register(tmp_path / "nowhere" / "a.db") is True
    unregister(tmp_path / "nowhere" / "a.db")


async def test_the_error_of_a_file_that_cannot_be_opened_names_it_and_the_reason(
    tmp_path: Path, kind: type[Database]
) -> None:
    """SQLite itself says `unable to open database file` for each of these."""
    missing, folder = tmp_path / "none" / "a.db", tmp_path / "folder"
    folder.mkdir()
    for path, reason in [(missing, "its directory does not exist"), (folder, "it is a directory")]:
        with pytest.raises(Unavailable) as caught:
            await kind(f"sqlite:///{path}").open()
        assert f"the database file `{path}` cannot be opened: {reason}" in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try this with the rights of another user")
def test_the_error_of_a_file_without_rights_says_so() -> None:
    """A user without the right to write to the directory, as in a read-only working directory.

    All is imported before: Python itself can be in a directory that only root may read.
    """
    program = (
        "import asyncio, os, sqlalchemy.exc; from wfcore.adapters.sql.sqlite.database import Database\n"
        "os.chdir('/'); os.setuid(65534); asyncio.run(Database('sqlite:///a.db').open())"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "the database file `/a.db` cannot be opened: this process cannot write to it and to" in ended.stderr
