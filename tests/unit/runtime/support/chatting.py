"""A team chat for a bench: the messages it sends, and the server that receives the responses."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
from bench import Bench, act, ask, one

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.triggers.webhooks import sign
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.run_views import RunView

REACHING = Settings(http_allow=("127.0.0.1",))
ECHO = one(act("echo", value="{{ input.message }} by {{ run.userContext.userId }} of {{ run.origin }}"))
ASK = one(ask(message="May {{ run.message }}?"))
SAID: dict[str, JSON] = {"type": "message", "channel": "c", "thread": "t", "user": "grace", "text": "hello"}


@attrs.define
class Chat:
    """The chat's server: it records what is posted to it and responds with `status`, or not at all for 0."""

    url: str = ""
    status: int = 200
    posted: list[tuple[dict[str, str], bytes]] = attrs.Factory(list)
    came: asyncio.Event = attrs.Factory(asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        self.posted.append((headers, await reader.readexactly(int(headers["content-length"]))))
        self.came.set()
        if not self.status:
            await reader.read()
        writer.write(f"HTTP/1.1 {self.status or 200} Whatever\r\ncontent-length: 0\r\n\r\n".encode())

    @property
    def names(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.posted]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.posted]


@asynccontextmanager
async def local_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """The URL of a server on a port of its own. Connections that are open at the end are closed."""
    serving = set[asyncio.Task[None] | None]()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for _ in range(3):
        await asyncio.sleep(0)  # connections that were accepted last begin
    tasks = [task for task in serving if task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # a closed transport lets go of its socket in the next round of the loop


@asynccontextmanager
async def serving() -> AsyncIterator[Chat]:
    made = Chat()
    async with local_server(made.serve) as url:
        made.url = f"{url}/hook"
        yield made


@attrs.define
class Channel:
    """One interface of kind `teamchat`, from the team chat's side."""

    bench: Bench
    workflow: int
    id: str
    secret: str

    async def send(self, said: Any = None, *, id: str = "msg_1", age: int = 0, secret: str = "") -> RunView:
        """Deliver a message that is `age` seconds old."""
        body, at = json.dumps(SAID if said is None else said).encode(), self.bench.clock.now() // 1000 - age
        signature = sign(secret or self.secret, id, at, body)
        signed = {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": signature}

        async def read() -> bytes:
            return body

        return await self.bench.core.team_chats.receive(self.id, signed.items(), read)

    async def rested(self, said: Any = None, **more: Any) -> RunView:
        """The run of a message when it is at rest."""
        return await self.bench.ended(await self.send(said, **more))


async def opened_channel(bench: Bench, structure: Any = ECHO, url: str | None = None, **more: Any) -> Channel:
    number = await bench.deployed(structure, **more)
    rows, config = bench.core.workflows.interfaces, {} if url is None else {"postUrl": url}
    row = await rows.create(bench.me, number, kind="teamchat", config=config)
    return Channel(bench, number, row.id, (await rows.secret(bench.me, number, row.id)).secret)


async def looked(bench: Bench) -> int:
    """Post what is due now; returns how many there were. Those that the bench's own poller began are among them."""
    await bench.core.poster.poll()
    begun = list(bench.core.poster._under_way.values())
    await asyncio.gather(*begun)
    return len(begun)


async def later(bench: Bench, milliseconds: int) -> None:
    """Advance the clock, and post what is due then."""
    bench.clock.advance(milliseconds / 1000)
    await looked(bench)
