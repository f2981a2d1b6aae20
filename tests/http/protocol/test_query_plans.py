"""Every list uses an index with every filter: no statement scans a table."""

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from itertools import product
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from clients import APPROVAL, World, chain, deployed, flow, new_world

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.http.core.route import Route
from wfcore.adapters.http.route_table import route_table
from wfcore.adapters.sql.journal import run_lists
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.core import Core

pytestmark = pytest.mark.anyio

MANY = 3
"""Rows of each kind: enough for a second page."""

NARROWING = {
    "status": ("active", "interrupted", "decided"),
    "order": ("deadline",),
    "q": ("refund",),
    "role": ("owner",),
    "groupId": ("11111111-1111-4111-8111-111111111111",),
    "workflowId": ("1",),
    "skillId": ("1",),
    "userId": ("ada",),
    "from": ("2026-01-01T00:00:00Z",),
    "to": ("2100-01-01T00:00:00Z",),
    "action": ("workflow.deploy",),
    "assistant": ("true",),
    "threadId": ("thread_1",),
    "startedBy": ("ada",),
    "origin": ("chatapp", "api"),
    "variationId": ("11111111-1111-4111-8111-111111111111",),
    "since": ("2026-01-01T00:00:00Z",),
    "until": ("2100-01-01T00:00:00Z",),
}
"""Values of the query parameters of lists. A new parameter must be added here."""

ALLOWED = re.compile(
    r"SCAN (CONSTANT ROW|(json_each|given) ?.*|mine|found|wfcore_memory_words VIRTUAL TABLE.*|\d+ CONSTANT ROWS?"
    r"|\(subquery-\d+\))",
    re.ASCII,
)
"""Allowed scans: of data in memory, and the word search, which SQLite reports as a scan of its index."""


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


def lists(core: Core) -> list[Route]:
    return [route for route in route_table(core) if route.method == "GET" and "pageToken" in parameters(route)]


def parameters(route: Route) -> set[str]:
    return {query.name for query in route.query}


async def walk(client: httpx.AsyncClient, route: Route, path: str) -> None:
    """Read two pages of the list without a filter and with each filter."""
    known = parameters(route) - {"pageSize", "pageToken", "limit", "groupBy", "view"}
    assert known <= NARROWING.keys(), route.name
    choices = [{}, *({name: value} for name in known for value in NARROWING[name])]
    for narrowed, size in product(choices, (1,)):
        query = {**narrowed, "pageSize": str(size)}
        page = await client.get(path, params=query)
        assert page.status_code in (200, 400, 404), page.text
        if page.status_code == 200 and page.json()["nextPageToken"]:
            await client.get(path, params={**query, "pageToken": page.json()["nextPageToken"]})


async def furnish(world: World, ada: httpx.AsyncClient) -> list[dict[str, str]]:
    """Create records of every kind. Returns the values of their path parameters."""
    flows = [await deployed(ada, chain(APPROVAL)) for _ in range(MANY)]
    body = {"url": "https://crm.example.org/hook", "events": ["interrupt.opened"]}
    hooks = [(await ada.post("/api/v1/hooks", json=body)).json()["id"] for _ in range(MANY)]
    for _ in range(MANY):
        await ada.post("/api/v1/skills", json={"name": "Refunds"})
        await ada.post("/api/v1/skills/1/memories", json={"memory": "refunds are slow", "userId": "ada"})
        await ada.post(f"/api/v1/workflows/{flows[0]}/interfaces", json={"kind": "chatapp"})
        await ada.post("/api/v1/context-items", json={"title": "a", "content": "b"})
        await ada.post("/api/v1/groups", json={"name": "a"})
        await ada.post("/api/v1/workflows", json=flow())
        started = await ada.post(
            "/agent/v1/runs", json={"workflowId": flows[0], "input": {}}, headers={"Accept": "application/json"}
        )
        assert started.status_code < 300, started.text
        await world.user(f"user-{started.json()['runId']}")
        await ada.post("/api/v1/delegations", json={"to": f"user-{started.json()['runId']}"})
    return [{"id": "1", "threadId": "none", "hookId": hooks[0]}, {"id": "0", "threadId": "none", "hookId": "none"}]


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
