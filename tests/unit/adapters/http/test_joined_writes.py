"""Writes of one turn of the event loop leave together, in order and before the connection ends."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp
from uvicorn.server import ServerState
from waiting import HANG

from wfcore.adapters.http.connections import ConnectionLimits, uvicorn_options
from wfcore.adapters.http.joined_writes import LARGE, JoinedWrites

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Recorded(asyncio.Transport):
    """A transport that records what happens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[bytes | str] = []

    def write(self, data: Any) -> None:
        self.happened.append(bytes(data))

    def write_eof(self) -> None:
        self.happened.append("eof")

    def close(self) -> None:
        self.happened.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.happened

    def pause_reading(self) -> None:
        self.happened.append("paused")

    def resume_reading(self) -> None:
        self.happened.append("resumed")


def joined() -> tuple[Recorded, JoinedWrites]:
    recorded = Recorded()
    return recorded, JoinedWrites(recorded, asyncio.get_running_loop())


async def test_writes_of_one_turn_are_one() -> None:
    """Each turn has one write, without the empty ones."""
    recorded, transport = joined()
    for turn in ((b"a", b"", b"b"), (), (b"c",)):
        for part in turn:
            transport.write(part)
        await asyncio.sleep(0)
    assert recorded.happened == [b"ab", b"c"]


async def test_a_flush_writes_at_once_and_only_once() -> None:
    recorded, transport = joined()
    transport.write(b"a")
    transport.flush()
    transport.write(b"b")
    transport.flush()
    assert recorded.happened == [b"a", b"b"]
    await asyncio.sleep(0)
    assert recorded.happened == [b"a", b"b"]


async def test_much_is_written_at_once() -> None:
    """A transport whose buffer is full can pause the writer in the same turn."""
    recorded, transport = joined()
    transport.write(b"a")
    transport.write(b"b" * LARGE)
    assert recorded.happened == [b"a" + b"b" * LARGE]


@pytest.mark.parametrize(("end", "name"), [("close", "closed"), ("write_eof", "eof")])
async def test_what_was_written_precedes_the_end(end: str, name: str) -> None:
    recorded, transport = joined()
    transport.write(b"last")
    getattr(transport, end)()
    assert recorded.happened == [b"last", name]
    await asyncio.sleep(0)
    assert recorded.happened == [b"last", name]


async def test_the_rest_is_that_of_the_transport() -> None:
    recorded, transport = joined()
    transport.pause_reading()
    transport.resume_reading()
    assert not transport.is_closing()
    transport.close()
    assert transport.is_closing()
    assert recorded.happened == ["paused", "resumed", "closed"]
    assert transport.get_extra_info("peername", "none") == "none"


async def responses(application: ASGIApp, count: int) -> list[bytes | str]:
    """What a connection of the server writes for as many requests to the application."""
    options = uvicorn_options(ConnectionLimits(), [])
    config = uvicorn.Config(application, log_config=None, ws="none", lifespan="off", **options)
    config.load()
    recorded = Recorded()
    state = ServerState()
    protocol: Any = config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[operator]
    protocol.connection_made(recorded)
    for _ in range(count):
        protocol.data_received(GET)
        await asyncio.wait_for(asyncio.gather(*state.tasks), HANG)
    protocol.connection_lost(None)
    return [one for one in recorded.happened if one not in ("paused", "resumed", "closed")]


async def test_a_response_is_one_write() -> None:
    """Head and body together, and the next response on the connection does not wait for it."""
    first, second = await responses(PlainTextResponse("hello"), 2)
    assert first == second
    assert bytes(first).startswith(b"HTTP/1.1 200 ")
    assert bytes(first).endswith(b"hello")


async def test_a_stream_is_a_write_for_each_pause() -> None:
    """The head leaves with what follows at once, and the end with the last chunk."""
    resume = asyncio.Event()

    async def chunks() -> Any:
        yield b"one"
        asyncio.get_running_loop().call_later(0.001, resume.set)
        await resume.wait()
        yield b"two"

    first, last = await responses(StreamingResponse(chunks()), 1)
    assert bytes(first).startswith(b"HTTP/1.1 200 ")
    assert bytes(first).endswith(b"\r\n\r\n3\r\none\r\n")
    assert last == b"3\r\ntwo\r\n0\r\n\r\n"
