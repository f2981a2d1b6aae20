"""`check_writes` on databases that refuse writes: a full file, a read-only file, a read-only server."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from restarted_postgres import restarted_server
from sql_texts import statement
from waiting import HANG

from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'app.db'}")
    await opened.open()
    await SqlStorage(opened).upgrade()
    yield opened
    await opened.close()


def pragma(database: Database, text: str) -> int:
    """Run a pragma on the connection of the writer."""
    with database._writer.connect() as connection:
        inner = connection.connection.dbapi_connection
        assert inner is not None
        (value,) = inner.execute(f"PRAGMA {text}").fetchone() or (0,)  # type: ignore[attr-defined]
        return int(value)


async def test_a_full_sqlite_database(database: Database) -> None:
    """Without free pages it takes no writes, and with more pages it does again."""
    storage = SqlStorage(database)
    assert await storage.check_writes() is None
    while pragma(database, "freelist_count"):
        async with database.writing() as connection:
            await connection.run(statement("CREATE TABLE IF NOT EXISTS filler (text TEXT)"))
            await connection.run(statement("INSERT INTO filler VALUES (zeroblob(4000))"))
    pragma(database, f"max_page_count = {pragma(database, 'page_count')}")
    problem = await storage.check_writes()
    assert problem is not None
    assert "full" in problem
    assert await storage.check() is None
    pragma(database, "max_page_count = 1000000")
    assert await storage.check_writes() is None


async def test_a_full_disk(tmp_path: Path) -> None:
    """The probe itself can still be written into pages that are free, but further writes cannot."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:  # noqa: ASYNC221
        pytest.skip("this user cannot mount a file system")
    opened = Database(f"sqlite:///{tmp_path / 'app.db'}")
    try:
        await opened.open()
        storage, filler = SqlStorage(opened), tmp_path / "filler"
        await storage.upgrade()
        assert await storage.check_writes() is None
        opened.commit_connection.execute("PRAGMA wal_checkpoint").fetchall()  # the next writes overwrite the log
        free = os.statvfs(tmp_path)
        filler.write_bytes(bytes(free.f_bavail * free.f_frsize))
        assert "the disk of the database is full" in str(await storage.check_writes())
        filler.unlink()
        assert await storage.check_writes() is None
    finally:
        await opened.close()
        subprocess.run(["umount", str(tmp_path)], check=True)  # noqa: ASYNC221


async def test_a_read_only_sqlite_database(database: Database) -> None:
    """While its connection cannot write, the store is not ready for writes, although it can be read."""
    storage = SqlStorage(database)
    pragma(database, "query_only = ON")
    problem = await storage.check_writes()
    assert problem is not None
    assert "readonly" in problem
    assert await storage.check() is None
    pragma(database, "query_only = OFF")
    assert await storage.check_writes() is None


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="wfcore-") as place, restarted_server(Path(place)) as server:
        yield server.url


@pytest.mark.xdist_group("restarts")
async def test_a_read_only_postgresql_server(server_url: str) -> None:
    """A server that has become read-only is not ready for writes; it is again once it takes them."""
    database = PostgresDatabase(server_url)
    await database.open()
    try:
        storage = SqlStorage(database)
        await storage.upgrade()
        assert await storage.check_writes() is None
        for setting, is_ready in (("on", False), ("off", True)):
            with psycopg.connect(server_url, autocommit=True) as operator:
                operator.execute("SET default_transaction_read_only = off")
                operator.execute(f"ALTER SYSTEM SET default_transaction_read_only = {setting}")  # type: ignore[arg-type]
                operator.execute("SELECT pg_reload_conf()")
            problem = await _changed(storage, is_ready)
            assert (problem is None) is is_ready
            if not is_ready:
                assert "read-only" in str(problem)
    finally:
        await database.close()


async def _changed(storage: SqlStorage, is_ready: bool) -> str | None:
    """The problem once the server's sessions have read their configuration."""
    async with asyncio.timeout(HANG):
        while ((problem := await storage.check_writes()) is None) is not is_ready:
            pass
    return problem
