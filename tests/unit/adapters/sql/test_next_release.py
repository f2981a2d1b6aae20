"""A rehearsal of the next release's upgrade: on a database that is in use, on both stores, and cut short."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, opened
from filled import SECRET, as_read, file_url, fill, rows_of
from postgres_server import with_schema
from sql_texts import statement

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.migrations import RELEASED, RevisionChain
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.repositories.memories import SqlMemories
from wfcore.adapters.sql.schema.names import PREFIX
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage

pytestmark = pytest.mark.anyio

NEXT = RevisionChain("0002", (*RELEASED.folders, Path(__file__).with_name("next_release")))
IMPORTED = ("", "unit/adapters", "unit/runtime")
"""Where modules that tests share are, below the folder of all tests."""
CHANGES = {
    "extra column `label` of `runs`",
    "extra index `runs_label` of `runs`",
    "column `body` of `interrupts`",
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return with_schema() if request.param == "postgres" else file_url(tmp_path)


def unprefixed(difference: str) -> str:
    """The same words on both stores: only SQLite has the prefix."""
    return difference.replace(PREFIX, "")


async def database_of(url: str) -> Any:
    server = url.startswith("postgresql:")
    database: Any = (PostgresDatabase if server else Database)(url, synchronous="NORMAL")
    await database.open()
    return database


@asynccontextmanager
async def next_release(url: str, bench: Bench) -> AsyncIterator[Bench]:
    """The same people, on the database, with the programs of a release whose schema is the next one."""
    database = await database_of(url)
    stores = {"storage": SqlStorage(database, NEXT), "journal": SqlJournal(database), "memories": SqlMemories(database)}
    async with opened(url, org=bench.org, clock=bench.clock, secrets=SECRET, **stores) as again:
        yield again


def upgraded_in_processes_that_die(url: str) -> subprocess.CompletedProcess[str]:
    tests = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tests / name) for name in IMPORTED)}
    command = [sys.executable, Path(__file__).with_name("cut_upgrades.py"), NEXT.folders[-1], url]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=110)


async def read_rows(url: str) -> Any:
    database = await database_of(url)
    async with database.reading() as connection:
        found = await connection.run_sync(rows_of)
    await database.close()
    return found


async def test_every_row_is_still_read(url: str) -> None:
    """No row of any table is lost or altered by the steps; users read what they read before; parked runs go on."""
    bench = await fill(url)
    rows = await read_rows(url)
    assert {table: len(found) for table, found in rows.items() if not found} == {}
    async with opened(url, org=bench.org, clock=bench.clock, secrets=SECRET, worker=False) as before:
        expected = await as_read(before)
    database = await database_of(url)
    storage = SqlStorage(database, NEXT)
    assert "`0001` is older than `0002`" in (await storage.check() or "")
    await storage.upgrade()
    assert await storage.check() is None
    assert {change.partition(" is ")[0] for change in map(unprefixed, await storage.schema_differences())} == CHANGES
    async with database.reading() as connection:
        assert await connection.run_sync(rows_of) == rows
        labels = (await connection.run(statement("SELECT label, runs FROM wfcore_labels ORDER BY label"))).fetchall()
        unlabelled = (await connection.run(statement("SELECT count(*) FROM wfcore_runs WHERE label = ''"))).fetchall()
    assert [label for label, _ in labels] == ["skill", "workflow"]
    assert sum(count for _, count in labels) == len(rows["wfcore_runs"])
    assert [tuple(row) for row in unlabelled] == [(0,)]
    await storage.close()
    async with next_release(url, bench) as after:
        assert await as_read(after) == expected
        for item in (await after.core.runs.interrupts(after.me, limit=100))[0]:
            turn = await after.core.runs.resume(after.me, item.found.run_id, decision="approve")
            assert (await after.ended(turn)).status == "done"
        assert (await after.ran({"nodes": [{"id": "s", "type": "start"}], "edges": []})).status == "done"


async def test_a_process_that_is_killed_leaves_no_half(url: str) -> None:
    """Before whatever change an upgrade is cut short, the schema and all rows are the old ones, and the next process
    brings them to the new ones; only an upgrade that reached its end leaves the new schema.
    """
    await fill(url)
    done = upgraded_in_processes_that_die(url)
    assert done.returncode == 0, done.stderr
    *killed, last = done.stdout.splitlines()
    assert last == "0 new new"
    assert len(killed) >= 7, killed
    assert set(killed) == {f"-{signal.SIGKILL.value} old new"}
