"""A rehearsal of the next release's upgrade: on a database that is in use, on both stores, and cut short."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, act, ask, one, opened
from filled import SECRET, as_read, file_url, fill, rows_of
from postgres_server import with_schema
from slices import slice_of
from sql_texts import statement
from waiting import HANG

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.migrations import RELEASED, RevisionChain, works_with
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.repositories.memories import SqlMemories
from wfcore.adapters.sql.schema.names import PREFIX
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.adapters.sql.transfer.databases import Address
from wfcore.cli.commands.database import _print_plan
from wfcore.domain.kernel.errors import Unavailable
from wfcore.testing.fakes import SequentialIds

pytestmark = pytest.mark.anyio

NEXT = RevisionChain("0002_0001", (*RELEASED.folders, Path(__file__).with_name("next_release")))
LATER = RevisionChain("0003", NEXT.folders)
IMPORTED = ("", "unit/adapters", "unit/runtime/support")
"""Where modules that tests share are, below the folder of all tests."""
CHANGES = {
    "extra column `label` of `runs`",
    "extra index `runs_label` of `runs`",
    "column `body` of `interrupts`",
}


STORES = ["sqlite", pytest.param("postgres", marks=pytest.mark.service)]


@pytest.fixture(params=STORES)
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
async def next_release(url: str, bench: Bench, release: RevisionChain = NEXT, **more: Any) -> AsyncIterator[Bench]:
    """The same people, on the database, with the programs of a release whose schema is the next one."""
    database = await database_of(url)
    storage = SqlStorage(database, release)
    stores = {"storage": storage, "journal": SqlJournal(database), "memories": SqlMemories(database)}
    async with opened(url, org=bench.org, clock=bench.clock, secrets=SECRET, **stores, **more) as again:
        yield again


def upgraded_in_processes_that_die(url: str) -> subprocess.CompletedProcess[str]:
    tests = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tests / name) for name in IMPORTED)}
    command = [sys.executable, Path(__file__).with_name("cut_upgrades.py"), NEXT.folders[-1], url]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=HANG)


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
    assert "`0001` is older than `0002_0001`" in (await storage.check() or "")
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


@pytest.mark.parametrize("url", slice_of(STORES, 2, 1), indirect=True)
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


async def test_two_releases_work_side_by_side(url: str) -> None:
    """After a step that expands the schema, a process of the older release goes on, and another one can start. Each
    continues what the other one began. After a step that contracts it, both are not ready, and none can start."""
    flow, ids = one(ask()), SequentialIds()
    async with opened(url, secrets=SECRET, ids=ids) as old:
        parked = [await old.ran(flow)]
        async with next_release(url, old, ids=ids) as new:
            parked.append(await new.ran(flow))
            assert await old.core.ports.storage.check() is None
            for run, decider in zip(parked, (new, old), strict=True):
                turn = await decider.core.runs.resume(decider.me, run.id, decision="approve")
                assert (await decider.ended(turn)).status == "done"
            async with opened(url, secrets=SECRET, org=old.org, clock=old.clock, ids=ids) as older:
                started = [await each.ran(one(act("echo", value=1))) for each in (old, new, older)]
                for reader in (old, new, older):
                    views = [await reader.core.runs.get(reader.me, run.id) for run in started]
                    assert [view.status for view in views] == ["done"] * 3
            async with next_release(url, old, LATER):
                assert "`0003` is of a newer release" in (await old.core.ports.storage.check() or "")
                assert "`0003` is of a newer release" in (await new.core.ports.storage.check() or "")
    for start in (opened(url, secrets=SECRET), next_release(url, old)):
        with pytest.raises(Unavailable, match="of a newer release"):
            async with start:
                pass


def test_the_plan_says_whether_older_processes_go_on(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`db upgrade --dry-run` of the three releases, from the schema of the first one, and from none."""
    asyncio.run(upgraded(url, RELEASED))
    address = Address(url)
    for release, expected in (
        (RELEASED, []),
        (NEXT, ["it expands the schema: processes of `0001` work during and after it"]),
        (LATER, ["it contracts the schema: stop processes of `0001` before it"]),
    ):
        _print_plan(address, release)
        first, *more = capsys.readouterr().err.splitlines()
        assert first.startswith(f"the schema is `0001`: an upgrade to `{release.head}` has ")
        assert more == expected


async def upgraded(url: str, release: RevisionChain) -> None:
    storage = SqlStorage(await database_of(url), release)
    await storage.upgrade()
    await storage.close()


@pytest.mark.parametrize(("older", "newer", "expected"), [
    ("0001", "0002_0001", True), ("0001", "0003_0002", False), ("0002_0001", "0003_0002", True),
    ("0001", "0002", False), ("0002_0001", "0001", False), ("0002_0001", "0002_0001", False),
])  # fmt: skip
def test_which_releases_work_together(older: str, newer: str, expected: bool) -> None:
    assert works_with(older, newer) is expected
