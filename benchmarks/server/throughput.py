"""Rows of whole runs over HTTP: each client starts a run, follows its stream to its end, and starts the next one."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from statistics import median
from time import perf_counter

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from benchmarks.graphs import chain
from benchmarks.library import ORG, step
from benchmarks.processes import Report, beside, cpu_of
from benchmarks.runs.postgres import NEEDS, backends, new_database
from benchmarks.scale import Scale
from benchmarks.server.streams import Place, serving
from benchmarks.table import Figure
from wfcore.adapters.http.application import app
from wfcore.bootstrap import open as open_core
from wfcore.core import Core
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.runtime.common.installation import Settings

CLIENTS = 20
STEPS = 5
WORKERS = 2
SECRETS = bytes(32)


def throughput(scale: Scale) -> Iterator[Figure]:
    """Runs a second: a server on SQLite that drives them itself, and one on PostgreSQL beside two workers."""
    with serving(_bare, "") as bare:
        raw = _measured(scale, bare)
    with serving(_driving, f"sqlite:///{scale.directory / 'throughput.db'}") as place:
        yield from _figures("a server, SQLite FULL", raw, _measured(scale, place), 2_000)
    with new_database(scale) as url, ExitStack() as stack:
        if url is None:
            print(NEEDS, file=sys.stderr, flush=True)
            return
        place = stack.enter_context(serving(_serving, url))
        workers = [stack.enter_context(beside(_work, url)).pid for _ in range(WORKERS)]
        ours = _measured(scale, place, {"the workers": workers, "the database": backends(url)})
        yield from _figures(f"a server and {WORKERS} workers, PostgreSQL", raw, ours, 1_200)


@attrs.frozen
class _Measured:
    """Runs a second, and the CPU seconds of each side for one run."""

    rate: float
    cpu: Mapping[str, float]


def _figures(where: str, raw: _Measured, ours: _Measured, goal: float) -> Iterator[Figure]:
    yield Figure(f"runs of {STEPS} steps over HTTP, {where}", "a second, with their streams", ours.rate, "runs",
                 f"{raw.rate:.0f}", f"{ours.rate:.0f}", at_least=goal)  # fmt: skip
    for side, seconds in ours.cpu.items():
        bare = f"{raw.cpu[side] * 1e6:.0f} us" if side in raw.cpu else ""
        yield Figure("", f"CPU of {side} a run", seconds * 1e6, "us", bare)


def _measured(scale: Scale, place: Place, others: Mapping[str, Sequence[int]] | None = None) -> _Measured:
    """The medians of some rounds after a first one. `others` are processes beside client and server, by name."""
    sides = {"the server": [place.pid], "the client": [os.getpid()], **(others or {})}
    runs = 10 * scale.starts
    rates, spent = list[float](), {side: list[float]() for side in sides}
    for _ in range(scale.rounds + 1):
        before = {side: cpu_of(pids) for side, pids in sides.items()}
        rates.append(asyncio.run(_round(place, runs)))
        for side, pids in sides.items():
            spent[side].append((cpu_of(pids) - before[side]) / runs)
    return _Measured(median(rates[1:]), {side: median(seconds[1:]) for side, seconds in spent.items()})


async def _round(place: Place, runs: int) -> float:
    left = iter(range(runs))
    began = perf_counter()
    await asyncio.gather(*(_client(place, left) for _ in range(CLIENTS)))
    return runs / (perf_counter() - began)


async def _client(place: Place, left: Iterator[int]) -> None:
    """A connection that stays open: one run after the other, as long as some are left. RuntimeError if a run fails."""
    request = place.request("POST", "/agent/v1/runs", place.begin).replace(b"Connection: close\r\n", b"")
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    for _ in left:
        writer.write(request)
        answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        if b'"status":"done"' not in answer:
            raise RuntimeError(answer.decode()[-300:])
    writer.close()


@asynccontextmanager
async def _bare(_: str) -> AsyncIterator[tuple[ASGIApp]]:
    """As many frames by Starlette alone, without a store."""
    frames = [f'id: {seq}\ndata: {{"kind":"node_finished","seq":{seq}}}\n\n' for seq in range(2 * STEPS + 2)]

    async def each() -> AsyncIterator[str]:
        for frame in [*frames, 'data: {"status":"done"}\n\n']:
            yield frame

    async def begin(request: Request) -> Response:
        await request.body()
        return StreamingResponse(each(), media_type="text/event-stream")

    yield (Starlette(routes=[Route("/agent/v1/runs", begin, methods=["POST"])]),)


@asynccontextmanager
async def _driving(url: str) -> AsyncIterator[tuple[ASGIApp, str, bytes]]:
    async with _opened(url, worker=True) as core:
        yield app(core), *await _caller(core)


@asynccontextmanager
async def _serving(url: str) -> AsyncIterator[tuple[ASGIApp, str, bytes]]:
    async with _opened(url, worker=False) as core:
        yield app(core), *await _caller(core)


def _opened(url: str, *, worker: bool) -> AbstractAsyncContextManager[Core]:
    return open_core(url, tools=(step,), settings=Settings(grace=0), worker=worker, secrets=SECRETS)


async def _caller(core: Core) -> tuple[str, bytes]:
    """The token of a member, and the body that starts a run of the graph."""
    await core.directory.create_organization("Bench", id=ORG)
    await core.directory.add_member(ORG, "u1", email="u1@example.org")
    me = core.principal(ORG, "u1", email="u1@example.org")
    flow = await core.workflows.create(me, name="Steps", structure=chain(STEPS + 1))
    await core.workflows.deploy(me, flow.id)
    token = await core.directory.create_token(ORG, "u1", scopes=TOKEN_SCOPES)
    return token, json.dumps({"workflowId": flow.id, "input": {}}).encode()


def _work(url: str, report: Report) -> None:
    """A worker."""

    async def run() -> None:
        async with _opened(url, worker=True):
            report(None)
            await asyncio.Event().wait()

    asyncio.run(run())
