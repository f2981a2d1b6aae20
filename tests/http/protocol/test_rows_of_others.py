"""The cost of a list does not depend on the records of others: what the database does for each request is counted."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from clients import new_world
from list_routes import choices, furnish, lists
from postgres_server import new_database

import wfcore.bootstrap
from benchmarks.copies import copies
from wfcore.adapters.http import app
from wfcore.adapters.sql.journal import run_lists
from wfcore.adapters.sql.postgres.pipeline import PipelineClient
from wfcore.adapters.sql.repositories import resources
from wfcore.core import Core

pytestmark = pytest.mark.anyio

COPIES = 300
"""How often all records are made again, as those of others."""

STEPS = 4_000
"""The most steps of SQLite's virtual machine for a request: to read a row takes 6 to 40, and each table has 900."""

ROWS = 600
"""The most rows that PostgreSQL reads for a request."""

SEARCHES = ["/api/v1/members {'q': 'refund'}"]
"""Searches of texts that read all rows until a page is full: the caller can see each of them."""

Read = Callable[[], int]
"""What was read since the last call."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that a list reads before it chooses another way."""
    monkeypatch.setattr(run_lists, "RECENT", 20)
    monkeypatch.setattr(run_lists, "SELECTED", 20)
    monkeypatch.setattr(run_lists, "EDGE", 20)
    monkeypatch.setattr(resources, "NEAR", 20)


async def test_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    def multiply() -> None:
        with sqlite3.connect(path) as connection:
            for statement in copies(COPIES):
                connection.execute(statement)
        connection.close()

    async with beside_others(f"sqlite:///{path}", multiply) as (core, member, place):
        with steps_of(core.ports.storage.database) as read:  # type: ignore[attr-defined]
            found = await reads(core, member, place, read)
    assert {request: steps for request, steps in found.items() if steps > STEPS} == {}
    assert sum(found.values()), "nothing was counted"


@pytest.mark.service
async def test_on_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as connection:

        def multiply() -> None:
            with connection.transaction():
                for statement in copies(COPIES, on_server=True):
                    connection.execute(statement)  # type: ignore[call-overload]
            connection.execute("ANALYZE")

        async with beside_others(url, multiply) as (core, member, place):
            with rows_read(core.ports.storage.database, connection, monkeypatch) as read:  # type: ignore[attr-defined]
                found = await reads(core, member, place, read)
    assert {request: rows for request, rows in found.items() if rows > ROWS} == {}
    assert sum(found.values()), "nothing was counted"


@asynccontextmanager
async def beside_others(
    url: str, multiply: Callable[[], None]
) -> AsyncIterator[tuple[Core, httpx.AsyncClient, dict[str, str]]]:
    """A core without a worker, a member that can use little, and the parameters of paths."""
    settings = wfcore.Settings(synchronous="NORMAL", grace=0)
    async with wfcore.bootstrap.open(url, settings=settings, secrets=bytes(32)) as core, AsyncExitStack() as closing:
        world = await new_world(core, partial(connected, core), closing)
        place, _ = await furnish(world, await world.user(role="owner"))
        headers = (await world.user("bob", role="member")).headers
    multiply()
    async with (
        wfcore.bootstrap.open(url, settings=settings, secrets=bytes(32), worker=False) as core,
        connected(core) as member,
    ):
        member.headers = headers
        yield core, member, place


def connected(core: Core) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app(core)), base_url="http://wfcore", trust_env=False)


async def reads(core: Core, member: httpx.AsyncClient, place: dict[str, str], read: Read) -> dict[str, int]:
    """What the first page of each list reads, without a filter and with each one."""
    found = {}
    for route in lists(core):
        for narrowed in choices(route):
            read()
            await member.get(route.path.format(**place), params={**narrowed, "pageSize": "20"})
            found[f"{route.path} {narrowed}"] = read()
    return {request: count for request, count in found.items() if request not in SEARCHES}


@contextmanager
def steps_of(database: Any) -> Iterator[Read]:
    """Counts steps of the virtual machine, in hundreds."""
    hundreds = 0

    def count() -> None:
        nonlocal hundreds
        hundreds += 1

    def taken() -> int:
        nonlocal hundreds
        counted, hundreds = hundreds, 0
        return counted * 100

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(count, 100)

    for connection in (database.commit_connection, database.look_up_connection):
        watch(connection)
    for engine in (database._reader, database._writer):
        sa.event.listen(engine, "checkout", watch)
    yield taken


@contextmanager
def rows_read(database: Any, connection: psycopg.Connection[Any], patch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Repeats the reading statements under EXPLAIN, and counts the rows of all scans, also those that a filter removed.

    The tables are too small for the planner to prefer an index, so that scans of whole tables are disabled. A statement
    that can use no index for its condition reads all rows of one all the same.
    """
    seen: list[tuple[Any, str, Any]] = []
    send = PipelineClient.execute

    async def noted(client: PipelineClient, statement: Any) -> Any:
        seen.append((psycopg.RawCursor(connection), statement[0].server("wfcore"), statement[1]))
        return await send(client, statement)

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: object) -> None:
        seen.append((connection.cursor(), statement, values))

    def taken() -> int:
        total = 0
        for cursor, text, values in seen:
            if text.lstrip().startswith(("SELECT", "WITH")):
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values)
                total += scanned(cursor.fetchone()[0][0]["Plan"])
        seen.clear()
        return total

    patch.setattr(PipelineClient, "execute", noted)
    sa.event.listen(database._engine.sync_engine, "before_cursor_execute", note)
    for setting in ("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "jit"):
        connection.execute(f"SET {setting} = off")
    yield taken


def scanned(node: dict[str, Any]) -> int:
    """The rows of the scans of tables in a plan."""
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) if "Relation Name" in node else 0
    return round(rows * node["Actual Loops"]) + sum(map(scanned, node.get("Plans", ())))
