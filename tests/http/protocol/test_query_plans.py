"""Every list uses an index with every filter: no statement scans a table."""

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from clients import World, new_world
from list_routes import choices, furnish, lists

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.http.core.route import Route
from wfcore.adapters.sql.journal import run_lists
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.core import Core

pytestmark = pytest.mark.anyio

ALLOWED = re.compile(
    r"SCAN (CONSTANT ROW|(json_each|given) ?.*|mine|found|others|listed|wfcore_memory_words VIRTUAL TABLE.*"
    r"|\d+ CONSTANT ROWS?"
    r"|\(subquery-\d+\)|wfcore_resources USING INDEX wfcore_resources_limited)",
    re.ASCII,
)
"""Allowed scans: of data in memory; the word search, which SQLite reports as a scan of its index; and the index of the
workflows that have a limit, of which one row is read.
"""


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    settings = wfcore.Settings(synchronous="NORMAL", grace=0)
    async with wfcore.bootstrap.open(f"sqlite:///{tmp_path}/a.db", settings=settings) as core:
        yield core


@pytest.fixture
async def world(core: Core) -> AsyncIterator[World]:
    transport = httpx.ASGITransport(app(core))
    connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)
    async with AsyncExitStack() as closing:
        yield await new_world(core, connect, closing)


async def test_no_list_scans_a_table(core: Core, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two pages of every list, with each of its parameters: the plans of all statements are checked."""
    monkeypatch.setattr(run_lists, "RECENT", 1)
    ada = await world.user(role="owner")
    places = await furnish(world, ada)
    with watched(core.ports.storage.database) as statements:  # type: ignore[attr-defined]
        for route in lists(core):
            for place in places:
                await walk(ada, route, route.path.format(**place))
    assert len(statements) > 30
    faults = {text: scans for text in statements if (scans := scanned(core, text))}
    assert not faults


async def walk(client: httpx.AsyncClient, route: Route, path: str) -> None:
    """Read two pages of the list without a filter and with each filter."""
    for narrowed in choices(route):
        query = {**narrowed, "pageSize": "1"}
        page = await client.get(path, params=query)
        assert page.status_code in (200, 400, 404), page.text
        if page.status_code == 200 and page.json()["nextPageToken"]:
            await client.get(path, params={**query, "pageToken": page.json()["nextPageToken"]})


class watched:  # noqa: N801  (used as a function)
    """Collects the reading statements of all connections while the block runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: set[str] = set()

    def __enter__(self) -> set[str]:
        for connection in self._connections():
            connection.set_trace_callback(self._note)
        for engine in (self._database._reader, self._database._writer):
            sa.event.listen(engine, "checkout", self._checked_out)
        return self._found

    def __exit__(self, *_: object) -> None:
        for engine in (self._database._reader, self._database._writer):
            sa.event.remove(engine, "checkout", self._checked_out)
        for connection in self._connections():
            connection.set_trace_callback(None)

    def _connections(self) -> Iterator[sqlite3.Connection]:
        yield from (self._database.look_up_connection, self._database.commit_connection)

    def _checked_out(self, connection: sqlite3.Connection, *_: object) -> None:
        connection.set_trace_callback(self._note)

    def _note(self, text: str) -> None:
        if text.lstrip().upper().startswith(("SELECT", "WITH")):
            self._found.add(text)


def scanned(core: Core, text: str) -> list[str]:
    """The steps of the statement's plan that scan a table."""
    plan = core.ports.storage.database.look_up_connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall()  # type: ignore[attr-defined]
    return [step for *_, step in plan if step.startswith("SCAN") and not ALLOWED.fullmatch(step)]
