"""A SQLite file without database calls on the event loop."""

import asyncio
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sql_texts import statement
from sqlalchemy.ext.asyncio import create_async_engine
from waiting import HANG

import wfcore
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.sqlite.driver import READERS
from wfcore.adapters.sql.sqlite.numbered import CURSOR
from wfcore.adapters.sql.sqlite.off_loop import OffLoopDatabase
from wfcore.testing import FakeClock, run_until_idle, sketch
from wfcore.testing.contracts.storage.storage import CancelAt

pytestmark = pytest.mark.anyio

ADD = statement("INSERT INTO t VALUES (?)")
ALL = statement("SELECT a FROM t ORDER BY a")


@pytest.fixture
async def database(tmp_path: Path, anyio_backend: str) -> AsyncIterator[OffLoopDatabase]:
    database = OffLoopDatabase(f"sqlite:///{tmp_path}/a.db", synchronous="NORMAL")
    await database.open()
    async with database.writing() as connection:
        await connection.run(statement("CREATE TABLE t (a INTEGER PRIMARY KEY)"))
    yield database
    await database.close()


@contextmanager
def calls_of_this_thread() -> Iterator[Counter[str]]:
    """Counts the calls of SQLite by name, except `close` of cursors, which are closed already."""
    seen: Counter[str] = Counter()

    def count_call(_frame: Any, event: str, called: Any) -> None:
        on_database = isinstance(getattr(called, "__self__", None), sqlite3.Connection | sqlite3.Cursor)
        if event == "c_call" and (on_database or called is sqlite3.connect):
            seen[called.__qualname__] += 1

    sys.setprofile(count_call)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        del seen[f"{CURSOR.__name__}.close"]


async def _used(url: str) -> None:
    """Directory, drafts, a run with a tool and an approval, lists, a deletion."""
    settings, ports = wfcore.Settings(synchronous="NORMAL", grace=0), wfcore.Overrides(clock=FakeClock())
    async with wfcore.open(url, settings=settings, ports=ports) as core:
        me = core.principal((await core.directory.create_organization("Acme")).uuid, "ann", role="owner")
        note, ask = {"toolId": "core.wait", "params": {"seconds": 0}}, {"message": "Go on?"}
        structure = sketch("s -> a", "a -> b", a=note, b={"type": "humanApproval", "data": ask})
        flow = await core.workflows.create(me, name="Flow", structure=structure)
        await core.workflows.deploy(me, flow.id)
        runs = [await core.runs.start(me, workflow=flow.id, input={}) for _ in range(3)]
        await run_until_idle(core)
        assert len((await core.runs.interrupts(me))[0]) == len(await core.runs.page(me, status="interrupted")) == 3
        await core.runs.resume(me, runs[1].id, decision="approve")
        await core.runs.cancel(me, runs[0].id)
        await run_until_idle(core)
        await core.workflows.delete(me, flow.id)
        assert not await core.workflows.page(me)


@pytest.mark.parametrize("driver", ["", "+aiosqlite"])
def test_the_event_loop_makes_no_call_of_the_database(tmp_path: Path, driver: str) -> None:
    """From opening to closing, with the URL that names the driver `aiosqlite`; without it, there are hundreds.

    The loop is its own: servers of other tests poll their files on the one that tests share.
    """
    with calls_of_this_thread() as seen:
        asyncio.run(_used(f"sqlite{driver}:///{tmp_path}/a.db"))
    assert bool(seen) is not bool(driver), seen


def test_the_engine_of_the_product_names_the_driver(tmp_path: Path) -> None:
    """A run starts in the transaction of an engine with aiosqlite, on the engine's thread."""
    assert not asyncio.run(_calls_with_an_engine(f"sqlite+aiosqlite:///{tmp_path}/a.db"))


async def _calls_with_an_engine(url: str) -> Counter[str]:
    engine = create_async_engine(url)
    async with wfcore.open(engine, settings=wfcore.Settings(synchronous="NORMAL", grace=0)) as core:
        me = core.principal((await core.directory.create_organization("Acme")).uuid, "ann", role="owner")
        flow = await core.workflows.create(
            me, name="Flow", structure=sketch("s -> a", a={"toolId": "core.wait", "params": {"seconds": 0}})
        )
        await core.workflows.deploy(me, flow.id)
        with calls_of_this_thread() as seen:
            async with engine.begin() as connection:
                await connection.execute(sa.text("CREATE TABLE orders (id INTEGER)"))
                run = await core.runs.start(me, workflow=flow.id, input={}, connection=connection)
        assert (await core.runs.get(me, run.id)).id == run.id
    await engine.dispose()
    return seen


async def test_a_cancelled_call_leaves_its_connection_usable(database: OffLoopDatabase) -> None:
    """Cancelled at each step: the write is whole or nothing, and every connection is back in its pool."""

    async def write_and_read() -> None:
        async with database.writing() as connection:
            await connection.run(ADD, (1,))
            await connection.run(ADD, (2,))
        async with database.reading() as connection:
            assert await connection.scan(ALL, ()) == [(1,), (2,)]
        assert await database.look_up(ALL) == [(1,), (2,)]

    for step in count(1):
        work = CancelAt(write_and_read(), step)
        with suppress(asyncio.CancelledError):
            await asyncio.ensure_future(work)
        assert await database.look_up(ALL) in ([], [(1,), (2,)])
        async with database.writing() as connection:
            await connection.run(statement("DELETE FROM t"))
        if not work.reached:
            break
    async with asyncio.timeout(HANG):
        await asyncio.gather(*[_read(database) for _ in range(3 * READERS)])


async def _read(database: Database) -> None:
    async with database.reading() as connection:
        assert await connection.scan(ALL, ()) == []


async def test_both_stores_can_use_one_file(database: OffLoopDatabase) -> None:
    """Their writers exclude each other, and each reads what the other has committed."""
    other = Database(f"sqlite:///{database.path}", synchronous="NORMAL")
    await other.open()

    async def add(store: Database, value: int) -> None:
        async with store.writing() as connection:
            await connection.run(ADD, (value,))

    await asyncio.gather(*[add((database, other)[value % 2], value) for value in range(20)])
    expected = [(value,) for value in range(20)]
    assert await database.look_up(ALL) == await other.look_up(ALL) == expected
    await other.close()


async def test_requests_during_a_commit_share_the_next_one(database: OffLoopDatabase) -> None:
    """Fifty writes are two commits: that of the first, and one of all that came meanwhile."""
    durations: list[float] = []
    commits = database.commits(durations.append)
    first = commits.run(lambda transaction: transaction.execute(ADD, (0,)))
    await asyncio.sleep(0)
    rest = [commits.run(lambda transaction, value=value: transaction.execute(ADD, (value,))) for value in range(1, 50)]
    await asyncio.gather(first, *rest)
    assert len(durations) == 2
    assert await database.look_up(ALL) == [(value,) for value in range(50)]
