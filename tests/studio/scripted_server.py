"""A server in a thread of this process, whose model plays a script that the test gives."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import attrs
import uvicorn
from waiting import HANG

import wfcore
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.testing import ScriptedModel


@attrs.frozen
class Scripted:
    """The server, and the script of its model."""

    url: str
    token: str
    model: ScriptedModel


@contextmanager
def scripted_server(*tools: Callable[..., Any]) -> Iterator[Scripted]:
    """The server while it runs, with these tools."""
    found: Queue[Scripted | BaseException] = Queue()
    ended = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(found, ended, tools)), daemon=True)
    thread.start()
    server = found.get(timeout=HANG)
    if isinstance(server, BaseException):
        raise server
    try:
        yield server
    finally:
        ended.set()
        thread.join(timeout=1)  # its streams stay open as long as the page does


async def _serve(
    found: "Queue[Scripted | BaseException]", ended: threading.Event, tools: tuple[Callable[..., Any], ...]
) -> None:
    model = ScriptedModel()
    try:
        async with wfcore.open("sqlite://", models={"default": model}, tools=tools) as core:
            org = (await core.directory.create_organization("Acme")).uuid
            await core.directory.add_member(org, "ada", "ada@acme.test", role="owner")
            token = await core.directory.create_token(org, "ada", scopes=list(TOKEN_SCOPES))
            config = uvicorn.Config(wfcore.http.app(core), "127.0.0.1", 0, log_level="error", ws="none", lifespan="off")
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            found.put(Scripted(f"http://127.0.0.1:{port}", token, model))
            await asyncio.to_thread(ended.wait)
            server.should_exit = True
            await serving
    except BaseException as error:
        found.put(error)
        raise
