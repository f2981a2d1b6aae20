"""Rows of fairness: what one organization's load, or readers that stall, cost the others of the same server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from statistics import median, quantiles
from time import perf_counter

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from benchmarks.graphs import chain
from benchmarks.library import ORG, step
from benchmarks.processes import Report, beside
from benchmarks.scale import Scale
from benchmarks.server.streams import Place, call, serving
from benchmarks.table import Figure
from wfcore.adapters.http.application import app
from wfcore.bootstrap import open as open_core
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.runtime.common.installation import Settings

OTHER_ORG = "00000000-0000-4000-8000-000000000002"
FLOODING = 50
"""Clients of one organization that start runs without a pause."""
STALLED = 100
"""Readers of a stream that do not read."""


def fairness(scale: Scale) -> Iterator[Figure]:
    """Starts over HTTP by a client of one organization, alone and beside the flood of another one."""
    with serving(_two_organizations, str(scale.directory / "fairness.db")) as both:
        flooding, light = (
            attrs.evolve(both, token=token, begin=json.dumps(body).encode()) for token, body in json.loads(both.begin)
        )
        rounds = [_round(flooding, light, 10 * scale.starts) for _ in range(scale.rounds + 1)][1:]
    before, after = (median(p99) for p99 in zip(*rounds, strict=True))
    yield Figure(f"a start beside {FLOODING} flooding clients of another organization", "p99 to that alone",
                 after / before, "x", f"{before:.1f} ms", f"{after:.1f} ms", at_most=1.5)  # fmt: skip


def stalled(scale: Scale) -> Iterator[Figure]:
    """Starts of others beside readers of a long run that open its stream and then read nothing."""
    with serving(_long_run, f"{scale.directory}/stalled.db?{scale.nodes}") as place:
        asyncio.run(_latencies(place, scale.starts))
        alone, beside = asyncio.run(_beside_stalled(place, 5 * scale.starts))
    yield Figure(f"a start beside {STALLED} readers that stall", "worst", beside, "ms",
                 f"{alone:.1f} ms", f"{beside:.1f} ms", at_most=100)  # fmt: skip


async def _beside_stalled(place: Place, count: int) -> tuple[float, float]:
    """The worst latency in milliseconds: alone, and from the moment when the readers connect."""
    alone = max(await _latencies(place, count))
    path = (await call(place, "GET", "/long")).decode()
    readers = [asyncio.create_task(_stall(place, path)) for _ in range(STALLED)]
    beside = max(await _latencies(place, count))
    for reader in readers:
        (await reader).close()
    return alone, beside


async def _stall(place: Place, path: str) -> socket.socket:
    """A reader with a small buffer that sends its request and reads nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, ("127.0.0.1", place.port))
    await loop.sock_sendall(one, place.request("GET", path))
    return one


def _p99(latencies: list[float]) -> float:
    return quantiles(latencies, n=100)[98]


def _round(flooding: Place, light: Place, count: int) -> tuple[float, float]:
    """The 99th percentile in milliseconds: alone, and beside the flood."""
    alone = asyncio.run(_latencies(light, count))
    with beside(_flood, flooding):
        return _p99(alone), _p99(asyncio.run(_latencies(light, count)))


async def _latencies(place: Place, count: int) -> list[float]:
    """Milliseconds from each start to its response, one after the other on one connection."""
    client = await _Client.connect(place)
    return [await client.start() for _ in range(count)]


def _flood(place: Place, report: Report) -> None:
    """The flooding clients."""

    async def client() -> None:
        one = await _Client.connect(place)
        while True:
            await one.start()

    async def run() -> None:
        clients = [asyncio.create_task(client()) for _ in range(FLOODING)]
        await asyncio.sleep(1)
        report(None)
        await asyncio.gather(*clients)

    asyncio.run(run())


@attrs.frozen
class _Client:
    """A connection that stays open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    request: bytes

    @classmethod
    async def connect(cls, place: Place) -> "_Client":
        request = place.request("POST", "/agent/v1/runs", place.begin)
        request = request.replace(b"Connection: close", b"Accept: application/json")
        return cls(*await asyncio.open_connection("127.0.0.1", place.port), request)

    async def start(self) -> float:
        """Milliseconds to the response. A refused start waits as the server says."""
        began = perf_counter()
        self.writer.write(self.request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        await self.reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r")[0]))
        took = perf_counter() - began
        if head.startswith((b"http/1.1 429", b"http/1.1 503")):
            await asyncio.sleep(int(head.partition(b"retry-after:")[2].partition(b"\r")[0]))
        elif not head.startswith(b"http/1.1 20"):
            raise RuntimeError(head.decode())
        return took * 1e3


@asynccontextmanager
async def _two_organizations(database: str) -> AsyncIterator[tuple[ASGIApp, str, bytes]]:
    async with open_core(f"sqlite:///{database}", tools=(step,), settings=Settings(grace=0)) as core:
        callers = []
        for org in (ORG, OTHER_ORG):
            await core.directory.create_organization("Bench", id=org)
            await core.directory.add_member(org, "u1", email="u1@example.org")
            token = await core.directory.create_token(org, "u1", scopes=TOKEN_SCOPES)
            me = core.principal(org, "u1", email="u1@example.org")
            flow = await core.workflows.create(me, name="Small", structure=chain(2))
            await core.workflows.deploy(me, flow.id)
            callers.append((token, {"workflowId": flow.id, "input": {}}))
        yield app(core), "", json.dumps(callers).encode()


@asynccontextmanager
async def _long_run(where: str) -> AsyncIterator[tuple[ASGIApp, str, bytes]]:
    database, nodes = where.split("?")
    async with open_core(f"sqlite:///{database}", tools=(step,), settings=Settings(grace=0)) as core:
        await core.directory.create_organization("Bench", id=ORG)
        await core.directory.add_member(ORG, "u1", email="u1@example.org")
        token = await core.directory.create_token(ORG, "u1", scopes=TOKEN_SCOPES)
        me = core.principal(ORG, "u1", email="u1@example.org")
        flows = []
        for name, length in (("Long", int(nodes)), ("Small", 2)):
            flow = await core.workflows.create(me, name=name, structure=chain(length))
            await core.workflows.deploy(me, flow.id)
            flows.append(flow.id)
        async for event in core.runs.start(me, workflow=flows[0], input={}):
            run_id = event.run_id

        async def long(_: Request) -> Response:
            return PlainTextResponse(f"/agent/v1/runs/{run_id}/events")

        application = Starlette(routes=[Route("/long", long), Mount("/", app(core))])
        yield application, token, json.dumps({"workflowId": flows[1], "input": {}}).encode()
