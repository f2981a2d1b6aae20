"""Rows of the management API: calls with a token through the HTTP interface, against bare Starlette and SQLAlchemy."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from benchmarks.graphs import Structure, chain
from benchmarks.library import ORG, opened
from benchmarks.measure import Cost, Stopwatch, Turns
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.adapters.http.application import app
from wfcore.adapters.sql.schema.tables import resources, variations

CALLS = 200
"""The number of calls in one measurement: a single call is too short to measure."""

STORES = 10
"""The number of graphs that one measurement stores."""

ONE, LIST = "/api/v1/workflows/1", "/api/v1/workflows?pageSize=100"


def management(scale: Scale) -> Iterator[Figure]:
    """Read one workflow, list 100 of many, validate and store a large graph."""
    with asyncio.Runner() as runner:
        yield from runner.run(_management(scale))


async def _management(scale: Scale) -> list[Figure]:
    path = scale.directory / "management.db"
    async with opened(path) as library:
        await library.deploy(chain(3))
        for _ in range(9):
            await library.core.workflows.create(library.me, name="Small", structure=chain(3))
        _multiply(path, scale.rows)
        await library.core.directory.add_member(ORG, "u1", email="u1@example.org")
        token = await library.core.directory.create_token(ORG, "u1", scopes=library.me.scopes)
        client = Client(app(library.core), token)
        async with _bare(path) as raw:
            return [
                *await _read(scale, raw, client),
                *await _list(scale, raw, client),
                *await _store(scale, client),
            ]


async def _read(scale: Scale, raw: "Client", client: "Client") -> list[Figure]:
    turns = await _turns(scale, raw, "/one", client, ONE, CALLS)
    return [_time("read one workflow", turns, CALLS, 2.0)]


async def _list(scale: Scale, raw: "Client", client: "Client") -> list[Figure]:
    """A page of 100: against the bare statement, and a page in the middle of the list against the first one."""
    turns = await _turns(scale, raw, "/list", client, LIST, CALLS // 10)
    page = LIST
    for _ in range(scale.rows // 200):
        page = f"{LIST}&pageToken={json.loads(await client.call('GET', page))['nextPageToken']}"
    deep = await _turns(scale, client, LIST, client, page, CALLS // 10)
    return [
        _time(f"list 100 of {scale.rows} workflows", turns, CALLS // 10, 2.0),
        Figure("", "in the middle to the beginning", 1 / deep.ratio("cpu"), at_most=1.2),
    ]


async def _store(scale: Scale, client: "Client") -> list[Figure]:
    """Validate and store a graph with twice as many edges as nodes."""
    graph, pairs = _meshed(scale.nodes), []
    for number in range(scale.rounds + 1):
        names = (f"Large {number} {index}" for index in range(STORES))
        bodies = [json.dumps({"name": name, "type": "workflow", "workflowStructure": graph}).encode() for name in names]
        with Stopwatch() as raw:
            for body in bodies:
                json.loads(body)
        with Stopwatch() as ours:
            for body in bodies:
                await client.call("POST", "/api/v1/workflows", body)
        pairs.append((raw.cost, ours.cost))
    turns = Turns(*zip(*pairs[1:], strict=True))
    return [_time(f"validate and store {scale.nodes} nodes", turns, STORES, 6.0, "CPU to json.loads of the body")]


def _meshed(count: int) -> Structure:
    """A chain in which each node also leads to the second next one."""
    structure = chain(count)
    names = [node["id"] for node in structure["nodes"]]
    more = [{"id": f"{a}>>{b}", "source": a, "target": b} for a, b in zip(names, names[2:], strict=False)]
    return {**structure, "edges": [*structure["edges"], *more]}


def _time(work: str, turns: Turns, calls: int, at_most: float, what: str = "CPU to bare Starlette") -> Figure:
    raw, ours = (f"{turns.typical(side, 'cpu') / calls * 1e6:.0f} us" for side in ("raw", "ours"))
    return Figure(work, what, 1 / turns.ratio("cpu"), "", raw, ours, at_most=at_most)


async def _turns(scale: Scale, raw: "Client", theirs: str, client: "Client", path: str, calls: int) -> Turns:
    pairs = [(await raw.timed(theirs, calls), await client.timed(path, calls)) for _ in range(scale.rounds + 1)]
    return Turns(*zip(*pairs[1:], strict=True))


class Client:
    """Calls an ASGI application in process, so that neither side of the comparison has the cost of a client."""

    def __init__(self, application: ASGIApp, token: str = "") -> None:
        self._application = application
        self.headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]

    async def timed(self, path: str, calls: int) -> Cost:
        with Stopwatch() as watch:
            for _ in range(calls):
                await self.call("GET", path)
        return watch.cost

    async def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of the response; RuntimeError if the call failed."""
        plain, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": plain, "raw_path": plain.encode(), "query_string": query.encode(), "root_path": "",
            "headers": self.headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._application(scope, receive, send)
        answer = b"".join(message.get("body", b"") for message in sent[1:])
        if sent[0]["status"] >= 400:
            raise RuntimeError(f"{method} {path}: {sent[0]['status']} {answer[:300]!r}")
        return answer


@asynccontextmanager
async def _bare(path: Path) -> AsyncIterator[Client]:
    """The same rows by Starlette and SQLAlchemy Core alone: without callers, tenants, access and checks."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    active = resources.c.active_variation_id == variations.c.id
    with_content = sa.select(resources, variations.c.content).outerjoin(variations, active)

    async def one(_: Request) -> Response:
        async with engine.connect() as connection:
            row = (await connection.execute(with_content.where(*_MINE, resources.c.id == 1))).mappings().one()
        return JSONResponse({**_shown(row), "variation": json.loads(row["content"])})

    async def many(_: Request) -> Response:
        async with engine.connect() as connection:
            found = sa.select(resources).where(*_MINE, resources.c.id > 0).order_by(resources.c.id).limit(101)
            rows = (await connection.execute(found)).mappings().all()
        return JSONResponse({"workflows": [_shown(row) for row in rows[:100]]})

    yield Client(Starlette(routes=[Route("/one", one), Route("/list", many)]))
    await engine.dispose()


_MINE = resources.c.org == 1, resources.c.kind == "workflow"


def _shown(row: sa.RowMapping) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "content"} | {"access": json.loads(row["access"])}


def _multiply(path: Path, count: int) -> None:
    """Copy the existing rows, with their grants, up to `count`: with the use cases it would take minutes."""
    with sqlite3.connect(path) as connection:
        names = [column.name for column in resources.c if column.name not in ("key", "id", "slug")]
        last, model = connection.execute("SELECT max(id), min(key) FROM wfcore_resources").fetchone()
        connection.execute(
            f"WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            f"INSERT INTO wfcore_resources (id, slug, {', '.join(names)}) "
            f"SELECT i, 'copy-' || i, {', '.join(f'r.{name}' for name in names)} "
            f"FROM n, wfcore_resources r WHERE r.key = ?",
            (last + 1, count, model),
        )
        connection.execute(
            "INSERT INTO wfcore_grants SELECT r.key, g.subject, g.use, g.manage "
            "FROM wfcore_resources r, wfcore_grants g WHERE g.resource = ? AND r.id > ?",
            (model, last),
        )
        connection.execute("UPDATE wfcore_counters SET last = ? WHERE kind = 'workflow'", (count,))
        connection.execute("ANALYZE")
    connection.close()
