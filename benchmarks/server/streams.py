"""Rows of streams: the text deltas of a model to one reader, and the frames of one live run to many readers."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from benchmarks.graphs import Structure, chain
from benchmarks.library import ORG, step
from benchmarks.measure import Cost, Stopwatch, Turns
from benchmarks.processes import Report, beside
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate
from wfcore.adapters.http.application import app
from wfcore.adapters.http.connections import ConnectionLimits, uvicorn_options
from wfcore.bootstrap import open as open_core
from wfcore.cli.common import freeze_heap
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta
from wfcore.runtime.common.installation import Settings

# Deltas


def deltas(scale: Scale) -> Iterator[Figure]:
    """The deltas of a model, from its provider to the reader of the events, against a bare queue."""
    with asyncio.Runner() as runner:
        turns, first = runner.run(_deltas(scale))
    seconds = [turns.typical(side, "wall") for side in ("raw", "ours")]
    yield Figure("text of a model to its reader, in memory", "speed to an asyncio.Queue", turns.ratio("wall"), "%",
                 *(rate(scale.deltas, took) for took in seconds), at_least=0.40)  # fmt: skip
    yield Figure("", "first piece after the provider's", first * 1e3, "ms", at_most=0.5)


class _Writer:
    """A model that streams words without a pause, and records the time of the first."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.began = 0.0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.began = perf_counter()
        for _ in range(self._words):
            yield TextDelta("word ")
        yield Finished()


AGENT: Structure = {
    "nodes": [{"id": "start", "type": "start"}, {"id": "say", "type": "agent", "data": {"message": "write"}}],
    "edges": [{"id": "e", "source": "start", "target": "say"}],
}


async def _deltas(scale: Scale) -> tuple[Turns, float]:
    writer = _Writer(scale.deltas)
    pairs, firsts = [], []
    async with open_core("sqlite://", models={"default": writer}) as core:
        await core.directory.create_organization("Bench", id=ORG)
        me = core.principal(ORG, "u1")
        flow = await core.workflows.create(me, name="Chat", structure=AGENT)
        await core.workflows.deploy(me, flow.id)
        for _ in range(scale.rounds + 1):
            raw = await _queued(scale.deltas)
            first, text = 0.0, 0
            with Stopwatch() as watch:
                async for event in core.runs.start(me, workflow=flow.id, input={}):
                    if event.kind == "message_delta":
                        first = first or perf_counter() - writer.began
                        text += len(str(event.data["delta"]))
            if text != 5 * scale.deltas:
                raise RuntimeError(f"{text} characters arrived")
            pairs.append((raw, watch.cost))
            firsts.append(first)
    return Turns(*zip(*pairs[1:], strict=True)), sorted(firsts[1:])[len(firsts) // 2 - 1]


async def _queued(count: int) -> Cost:
    queue: asyncio.Queue[str | None] = asyncio.Queue(1_000)

    async def produce() -> None:
        for _ in range(count):
            await queue.put("word ")
        await queue.put(None)

    with Stopwatch() as watch:
        producing = asyncio.create_task(produce())
        while await queue.get() is not None:
            pass
        await producing
    return watch.cost


# Frames


def frames(scale: Scale) -> Iterator[Figure]:
    """Live runs of many steps to readers over sockets, against Starlette with one yield a frame."""
    count = 2 * scale.nodes + 2
    with serving(_bare, count) as raw, serving(_ours, scale.nodes) as ours:
        shared, own = "one live run to {} readers over HTTP", "{} live runs to a reader each"
        for runs, work, goal in ((1, shared, 0.60), (scale.readers, own, 1.00)):
            turns = _frames(scale, raw, ours, runs)
            seconds = [turns.typical(side, "wall") for side in ("raw", "ours")]
            yield Figure(work.format(scale.readers), "frames to Starlette's", turns.ratio("wall"), "%",
                         *(rate(count * scale.readers, took) for took in seconds), at_least=goal)  # fmt: skip
        firsts = [[asyncio.run(_first(place)) * 1e3 for place in (raw, ours)] for _ in range(scale.starts + 1)]
    bare, first = (median(took) for took in zip(*firsts[1:], strict=True))
    yield Figure("a run over HTTP", "first event after the request", first, "ms",
                 f"{bare:.2f} ms", f"{first:.2f} ms", at_most=5)  # fmt: skip


def _frames(scale: Scale, raw: "Place", ours: "Place", runs: int) -> Turns:
    pairs = [
        (asyncio.run(_read(raw, scale.readers, runs)), asyncio.run(_read(ours, scale.readers, runs)))
        for _ in range(scale.rounds + 1)
    ]
    return Turns(*zip(*pairs[1:], strict=True))


@attrs.frozen
class Place:
    """The port of a server, its token, the body that starts a small run, and the id of its process."""

    port: int
    token: str = ""
    begin: bytes = b""
    pid: int = 0

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "Connection: close",
                 "Content-Type: application/json", f"Authorization: Bearer {self.token}"]  # fmt: skip
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _read(place: Place, readers: int, runs: int) -> Cost:
    """The time from the continuation of the runs to the last frame of the last reader."""
    paths = itertools.cycle((await call(place, "POST", f"/prepare/{runs}")).decode().split())
    reading = [asyncio.create_task(_follow(place, path)) for path, _ in zip(paths, range(readers), strict=False)]
    while int(await call(place, "GET", "/readers")) < readers:  # noqa: ASYNC110  (in another process)
        await asyncio.sleep(0.01)
    began = perf_counter()
    await call(place, "POST", "/go")
    await asyncio.gather(*reading)
    return Cost(perf_counter() - began, 0.0)


async def _first(place: Place) -> float:
    """Seconds from the start request to the first event of its stream, on an open connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    began = perf_counter()
    writer.write(place.request("POST", "/agent/v1/runs", place.begin))
    await reader.readuntil(b"data:")
    took = perf_counter() - began
    await reader.read(-1)
    writer.close()
    return took


async def _follow(place: Place, run: str) -> None:
    if b'"done"' not in (await call(place, "GET", run))[-2_000:]:
        raise RuntimeError("a stream broke off")


async def call(place: Place, method: str, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(place.request(method, path))
    answer = await reader.read(-1)
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


@contextmanager
def serving(serve: Any, size: int | str) -> Iterator[Place]:
    """A server in a separate process."""
    with beside(_serve, serve, size) as server:
        yield attrs.evolve(server.value, pid=server.pid)


def _serve(serve: Any, size: int | str, report: Report) -> None:
    async def run() -> None:
        async with serve(size) as (application, *wanted):
            options = uvicorn_options(ConnectionLimits(), [])  # as `wfcore serve` does
            config = uvicorn.Config(application, "127.0.0.1", 0, log_level="critical", ws="none", **options)
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110  (uvicorn has no other signal)
                await asyncio.sleep(0.01)
            freeze_heap()  # as `wfcore serve` does
            report(Place(server.servers[0].sockets[0].getsockname()[1], *wanted))
            await serving

    asyncio.run(run())


class _Barrier:
    """The routes that count the readers and start their frames."""

    def __init__(self) -> None:
        self.readers = 0
        self.opened = asyncio.Event()

    def routes(self) -> list[Route]:
        return [Route("/readers", self._readers), Route("/go", self._go, methods=["POST"])]

    def close(self) -> None:
        self.readers, self.opened = 0, asyncio.Event()

    async def _readers(self, _: Request) -> Response:
        return PlainTextResponse(str(self.readers))

    async def _go(self, _: Request) -> Response:
        self.opened.set()
        return PlainTextResponse("")


@asynccontextmanager
async def _bare(count: int) -> AsyncIterator[tuple[Starlette]]:
    barrier = _Barrier()

    async def prepare(_: Request) -> Response:
        barrier.close()
        return PlainTextResponse("/run")  # each reader has frames of its own

    async def frames() -> AsyncIterator[str]:
        barrier.readers += 1
        await barrier.opened.wait()
        for seq in range(1, count):
            data = {"kind": "node_finished", "runId": "0190-run", "seq": seq, "at": "2026-01-01T00:00:00.000Z",
                    "nodeId": f"n{seq}", "output": {"n": 500}}  # fmt: skip
            yield f"id: {seq}\ndata: {json.dumps(data)}\n\n"
        yield f'id: {count}\ndata: {{"kind": "done", "status":"done"}}\n\n'

    async def run(_: Request) -> Response:
        return StreamingResponse(frames(), media_type="text/event-stream")

    async def one() -> AsyncIterator[str]:
        yield "id: 1\ndata: {}\n\n"

    async def begin(request: Request) -> Response:
        await request.body()
        return StreamingResponse(one(), media_type="text/event-stream")

    routes = [*barrier.routes(), Route("/prepare/{runs}", prepare, methods=["POST"]), Route("/run", run),
              Route("/agent/v1/runs", begin, methods=["POST"])]  # fmt: skip
    yield (Starlette(routes=routes),)


@asynccontextmanager
async def _ours(nodes: int) -> AsyncIterator[tuple[Starlette, str, bytes]]:
    barrier = _Barrier()

    async def wait() -> None:
        await barrier.opened.wait()

    async with open_core("sqlite://", tools=(step, wait), settings=Settings(grace=0)) as core:
        await core.directory.create_organization("Bench", id=ORG)
        await core.directory.add_member(ORG, "u1", email="u1@example.org")
        token = await core.directory.create_token(ORG, "u1", scopes=TOKEN_SCOPES)
        me = core.principal(ORG, "u1", email="u1@example.org")
        structure = chain(nodes)
        structure["nodes"][1]["data"]["toolId"] = "wait"
        flow = await core.workflows.create(me, name="Bench", structure=structure)
        await core.workflows.deploy(me, flow.id)
        small = await core.workflows.create(me, name="Small", structure=chain(2))
        await core.workflows.deploy(me, small.id)
        application = app(core)

        async def prepare(request: Request) -> Response:
            barrier.close()
            count = int(request.path_params["runs"])
            runs = [await core.runs.start(me, workflow=flow.id, input={}) for _ in range(count)]
            return PlainTextResponse("\n".join(f"/agent/v1/runs/{run.id}/events" for run in runs))

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            """Count a reader when its stream has begun, as the raw one does."""
            is_reading = False

            async def sent(message: Any) -> None:
                nonlocal is_reading
                await send(message)
                if message.get("body") and not is_reading:
                    is_reading = True
                    barrier.readers += 1

            await application(scope, receive, sent)

        routes = [*barrier.routes(), Route("/prepare/{runs}", prepare, methods=["POST"]), Mount("/", counted)]
        yield Starlette(routes=routes), token, json.dumps({"workflowId": small.id, "input": {}}).encode()
