"""What readers of runs cost a server of their own, which receives the events of a worker over NATS.

`python -m benchmarks.server.followers` is that server: it reads its options from the standard input, as JSON. It prints
its bytes of memory and its CPU seconds for each stream once all are open, and its CPU seconds for each event at the
end.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from time import process_time
from typing import Any

import attrs

from benchmarks.graphs import chain
from benchmarks.library import ORG
from benchmarks.server.idle import open_stream, resident
from wfcore.adapters.http.application import app
from wfcore.adapters.tools.catalog import tool
from wfcore.bootstrap import open as open_core
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.runtime.common.installation import Dispatch, Settings

STEPS = 10
"""Of a run, each with two events. The first one waits for the readers."""

WARM = 20
"""Streams that are open before anything is measured."""


@attrs.frozen
class Followers:
    """What one reader costs: bytes, CPU seconds to open its stream, and for each event that it receives."""

    memory: float
    cpu_open: float
    cpu_event: float


def _settings(url: str) -> Settings:
    return Settings(grace=0, dispatch=Dispatch("nats", [url], "followers"))


async def measured(url: str, nats: str, count: int) -> Followers:
    """Each of `count` runs, which this process drives, has one reader at the other process."""
    everybody_is_there = asyncio.Event()

    @tool(idempotent=True)
    async def hold() -> None:
        await everybody_is_there.wait()

    async with open_core(url, tools=(hold,), settings=_settings(nats), secrets=bytes(32)) as core:
        token = await core.directory.create_token(ORG, "u1", scopes=TOKEN_SCOPES)
        me = core.principal(ORG, user="u1", email="u1@example.org")
        flow = await core.workflows.create(me, name="Followed", structure=chain(1 + STEPS, "hold"))
        workflow = (await core.workflows.deploy(me, flow.id)).id
        runs = [(await core.runs.start(me, workflow=workflow, input={})).id for _ in range(WARM + count)]
        return await _by_server({"url": url, "nats": nats, "token": token, "runs": runs}, everybody_is_there)


async def _by_server(given: dict[str, Any], everybody_is_there: asyncio.Event) -> Followers:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.server.followers", stdin=PIPE, stdout=PIPE
    )
    try:
        assert server.stdin is not None and server.stdout is not None  # noqa: PT018
        server.stdin.write(json.dumps(given).encode() + b"\n")
        memory, cpu_open = json.loads(await server.stdout.readline())
        everybody_is_there.set()
        return Followers(memory, cpu_open, json.loads(await server.stdout.readline()))
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


async def _serve(url: str, nats: str, token: str, runs: list[str]) -> None:
    events = 0

    def receive(sent: bytes) -> None:
        nonlocal events
        events += sent.count(b"data: ")

    async with open_core(url, settings=_settings(nats), worker=False, secrets=bytes(32)) as core:
        application, count = app(core), len(runs) - WARM
        streams = [await open_stream(application, token, run, receive) for run in runs[:WARM]]
        before, began = resident(), process_time()
        streams += [await open_stream(application, token, run, receive) for run in runs[WARM:]]
        print(json.dumps([(resident() - before) / count, (process_time() - began) / count]), flush=True)
        events, began = 0, process_time()
        await asyncio.wait(streams)
        print(json.dumps((process_time() - began) / events), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(**json.loads(sys.stdin.readline())))
