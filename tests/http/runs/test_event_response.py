"""The response of an event stream: one timer for all, and the ways in which a stream ends."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import suppress
from weakref import ReferenceType, ref

import pytest
from sse_starlette.sse import AppStatus
from starlette.types import Message

from wfcore.adapters.http.core import event_response, sse
from wfcore.adapters.http.core.event_response import HEARTBEAT, EventResponse
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = pytest.mark.anyio

SCOPE = {"type": "http", "method": "GET"}


async def silent(closed: list[str]) -> AsyncGenerator[bytes, None]:
    try:
        yield b"first"
        await asyncio.Event().wait()
    finally:
        closed.append("closed")


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def begun(response: EventResponse, messages: list[Message], method: str = "GET") -> "asyncio.Task[None]":
    async def send(message: Message) -> None:
        messages.append(message)

    return asyncio.create_task(response({**SCOPE, "method": method}, never, send))


def response(closed: list[str], heartbeat: float = 60, stall: float = 60) -> EventResponse:
    return EventResponse(silent(closed), None, None, heartbeat, stall)


async def test_idle_streams_share_one_timer() -> None:
    """Two tasks for each, and one timer for all of them; it ends with the last one."""
    before, closed = len(asyncio.all_tasks()), list[str]()
    streams = [begun(response(closed), []) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    timer = event_response._timers[asyncio.get_running_loop()]
    assert len(timer._streams) == 20
    assert len(asyncio.all_tasks()) - before == 40
    for stream in streams:
        stream.cancel()
    await asyncio.wait(streams)
    assert all(stream.cancelled() for stream in streams)
    assert closed == ["closed"] * 20
    assert timer._handle is None


async def test_the_end_of_the_server_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client sees an end, and its chunks are closed."""
    monkeypatch.setattr(event_response, "MOST_SECONDS", 0.001)
    closed, messages = list[str](), list[Message]()
    stream = begun(response(closed), messages)
    await eventually(lambda: len(messages) == 2)
    monkeypatch.setattr(AppStatus, "should_exit", True)
    await stream
    assert closed == ["closed"]
    assert messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_stream_that_is_ended_sends_its_last_bytes() -> None:
    closed, messages = list[str](), list[Message]()
    one = response(closed)
    stream = begun(one, messages)
    await eventually(lambda: len(messages) == 2)
    one.end(last=b"last")
    one.end(last=b"again")
    await stream
    assert [message.get("body") for message in messages[1:]] == [b"first", b"last", b""]


async def test_a_heartbeat_to_a_lost_connection_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """The stream waits for the disconnection."""
    beats = list[str]()

    async def send(message: Message) -> None:
        if message.get("body") == HEARTBEAT:
            beats.append("lost")
            raise OSError

    stream = asyncio.create_task(response([], heartbeat=0.001)(SCOPE, never, send))
    await eventually(lambda: len(beats) > 1)
    assert not stream.done()
    stream.cancel()
    with suppress(asyncio.CancelledError):
        await stream
    assert not caplog.records


async def test_a_response_to_head_is_not_a_stream() -> None:
    messages = list[Message]()
    await begun(response([]), messages, "HEAD")
    assert [message["type"] for message in messages] == ["http.response.start", "http.response.body"]


def test_a_closed_loop_is_not_kept() -> None:
    """A program that opens wfcore in one loop after the other keeps none of them: neither the timer of their streams
    refers to them nor the lock for which readers of the past waited.
    """

    async def streamed() -> "ReferenceType[asyncio.AbstractEventLoop]":
        stream = begun(response([]), [])
        await asyncio.gather(*(sse._encoded_in_turn(iter([b"a chunk"])) for _ in range(3)))
        stream.cancel()
        await asyncio.wait([stream])
        return ref(asyncio.get_running_loop())

    loops = [asyncio.run(streamed()) for _ in range(3)]
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3
