"""Rows of starts over HTTP: what a request with a token costs above the same call of the library."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from benchmarks.graphs import chain
from benchmarks.library import ORG, Library, opened
from benchmarks.measure import Stopwatch
from benchmarks.scale import Scale
from benchmarks.server.management import Client
from benchmarks.table import Figure
from wfcore.adapters.http.application import app

AT_MOST = 150
"""Microseconds of CPU for routing, authentication, admission, parsing and the response, without a server's sockets."""


def http_starts(scale: Scale) -> Iterator[Figure]:
    """Runs of three nodes, started one after the other."""
    for place in (None, scale.directory / "starts.db"):
        yield asyncio.run(_starts(scale, place))


async def _starts(scale: Scale, place: Path | None) -> Figure:
    async with opened(place, "NORMAL") as library:
        core, flow = library.core, await library.deploy(chain(3))
        await core.directory.add_member(ORG, "u1", email="u1@example.org")
        client = Client(app(core), await core.directory.create_token(ORG, "u1", scopes=library.me.scopes))
        client.headers.append((b"accept", b"application/json"))
        body = json.dumps({"workflowId": flow, "input": {}}).encode()

        async def request() -> None:
            await client.call("POST", "/agent/v1/runs", body)

        async def call() -> None:
            await core.runs.start(library.me, workflow=flow, input={})

        rounds = [[await _each(library, scale, start) for start in (request, call)] for _ in range(3 * scale.rounds)]
        http, alone = (min(costs) * 1e6 for costs in zip(*rounds[1:], strict=True))
    name = f"start over HTTP, {'on SQLite' if place else 'in memory'}"
    return Figure(
        name, "CPU above the library", http - alone, "us", f"{alone:.0f} us", f"{http:.0f} us", at_most=AT_MOST
    )


async def _each(library: Library, scale: Scale, start: Callable[[], Awaitable[None]]) -> float:
    """Seconds of CPU for one start and its run."""
    with Stopwatch() as watch:
        for _ in range(scale.starts):
            await start()
        await library.at_rest()
    return watch.cost.cpu / scale.starts
