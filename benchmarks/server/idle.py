"""Rows of idle streams: the memory of a reader that waits, and the delay of other requests beside many."""

import asyncio
import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from starlette.types import Message

from benchmarks.graphs import Structure
from benchmarks.library import ORG, opened
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.adapters.http.application import app

PAGE = os.sysconf("SC_PAGE_SIZE")
WAITING: Structure = {
    "nodes": [
        {"id": "s", "type": "start"},
        {"id": "n", "type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 86_400}}},
    ],
    "edges": [{"id": "e", "source": "s", "target": "n"}],
}


def idle_streams(scale: Scale) -> Iterator[Figure]:
    """Streams of runs that wait, without the sockets and protocols of a server."""
    yield from asyncio.run(_idle(scale.messages))


async def _idle(count: int) -> list[Figure]:
    async with opened(None) as library:
        core = library.core
        await core.directory.add_member(ORG, "u1", email="u1@example.org")
        token = await core.directory.create_token(ORG, "u1", scopes=library.me.scopes)
        flow = await library.deploy(WAITING)
        runs = await library.start(flow, max(count // 10, 1))
        application = app(core)
        await asyncio.wait_for(open_stream(application, token, runs[0]), 10)
        before = resident()
        streams = [await open_stream(application, token, runs[number % len(runs)]) for number in range(count)]
        grown = resident() - before
        slowest = 0.0
        for _ in range(100):
            began = perf_counter()
            await _call(application, token, f"/agent/v1/runs/{runs[0]}")
            slowest = max(slowest, perf_counter() - began)
            await asyncio.sleep(0)
        for stream in streams:
            stream.cancel()
        await asyncio.wait(streams)
    return [
        Figure(f"{count} idle streams", "memory of one", grown / count / 1e3, "kB", at_most=16),
        Figure("", "all of them", grown / 1e6, "MB", at_most=250),
        Figure("", "slowest other request", slowest * 1e3, "ms", at_most=50),
    ]


async def open_stream(
    application: Any, token: str, run: str, receive: Callable[[bytes], object] = lambda _: None
) -> "asyncio.Task[None]":
    """A stream, when its first event was sent; `receive` is called with all that is sent."""
    begun = asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        receive(message.get("body", b""))
        if message.get("body") and not begun.done():
            begun.set_result(None)

    stream = asyncio.create_task(application(_scope(token, f"/agent/v1/runs/{run}/events"), _never, send))
    await begun
    return stream


async def _call(application: Any, token: str, path: str) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await application(_scope(token, path), _never, send)
    assert sent[0]["status"] == 200, json.loads(sent[1]["body"])


async def _never() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def _scope(token: str, path: str) -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip


def resident() -> int:
    """Bytes of the process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
