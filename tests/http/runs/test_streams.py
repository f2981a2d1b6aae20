"""Event streams: frames, chunks, the heartbeat, and shutdown."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from clients import World, chain, counting, deployed, frames, holding, let_go
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message
from waiting import HANG

from wfcore.adapters.http.core import sse
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run.events import Event, EventKind
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = pytest.mark.anyio


def event(seq: int, text: str = "", kind: EventKind = EventKind.message_delta) -> Event:
    return Event(kind, "r", seq, 0, {"delta": text})


async def sent(
    batches: AsyncGenerator[list[Event], None],
    gone: asyncio.Event | None = None,
    messages: list[Message] | None = None,
) -> list[Message]:
    """What the stream of these batches sends to a client that leaves when `gone` is set; put into `messages`."""
    messages = [] if messages is None else messages
    received = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        for message in received:
            return message
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    await sse.stream(batches, None)({"type": "http", "method": "GET"}, receive, send)
    return messages


class TestFrames:
    """Interface, Events 1: an `id:` line, a `data:` line, a blank line."""

    @given(st.text())
    def test_text_adds_no_line(self, text: str) -> None:
        """With any text, a frame has three lines for every reader, and the text is unchanged."""
        raw = sse.frame(7, {"delta": text, text: 1})
        first, second, *rest = raw.decode().splitlines()
        assert (first, rest) == ("id: 7", [""])
        assert json.loads(second.removeprefix("data: ")) == {"delta": text} | {text: 1}

    @pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
    def test_every_line_end_is_escaped(self, end: str) -> None:
        """Every character that a reader can take for a line end is escaped."""
        assert len(sse.frame(1, {"delta": f"a{end}{end}id: 9"}).decode().splitlines()) == 3


class TestChunks:
    """Frames that are ready together are sent in one chunk."""

    async def test_a_batch_is_one_chunk(self) -> None:
        """A thousand small events are sent in one chunk per batch, if they fit."""

        async def batches() -> AsyncGenerator[list[Event], None]:
            yield [event(seq) for seq in range(1, 501)]
            yield [event(seq) for seq in range(501, 1_001)]

        start, *bodies = await sent(batches())
        assert start["status"] == 200
        chunks = [body["body"] for body in bodies if body["body"]]
        assert len(chunks) == 2
        assert [seq for seq, _ in frames(b"".join(chunks).decode())] == list(range(1, 1_001))

    async def test_a_large_batch_is_split_between_frames(self) -> None:
        """Chunks have a bounded size, and none ends inside a frame."""

        async def batches() -> AsyncGenerator[list[Event], None]:
            yield [event(seq, "x" * 10_000) for seq in range(1, 101)]

        chunks = [message["body"] for message in (await sent(batches()))[1:] if message["body"]]
        assert len(chunks) > 10
        assert all(chunk.endswith(b"\n\n") and len(chunk) < 2 * sse.CHUNK for chunk in chunks)

    async def test_an_endless_stream_ends_with_its_client(self) -> None:
        """A stream with endless events ends soon after its client disconnects."""
        gone, closed = asyncio.Event(), asyncio.Event()

        async def endless() -> AsyncGenerator[list[Event], None]:
            try:
                for seq in range(1, 1_000_000):
                    yield [event(seq)]
                    if seq == 100:
                        gone.set()
            finally:
                closed.set()

        messages = await sent(endless(), gone)
        assert len(messages) < 200
        assert closed.is_set()

    async def test_comments_keep_a_silent_stream_alive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without events, a comment keeps the connection alive; it is not an event."""
        monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.002)
        messages = list[Message]()

        async def quiet() -> AsyncGenerator[list[Event], None]:
            await eventually(lambda: len(messages) > 3)
            yield [event(1, kind=EventKind.done)]

        await sent(quiet(), messages=messages)
        text = b"".join(message.get("body", b"") for message in messages).decode()
        assert text.count(":\n") + text.count(": \n") >= 2
        assert [seq for seq, _ in frames(text)] == [1]

    async def test_a_stalled_client_is_disconnected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client that reads nothing is disconnected; it can join again."""
        monkeypatch.setattr(sse, "STALL_SECONDS", 0.005)
        closed = asyncio.Event()

        async def batches() -> AsyncGenerator[list[Event], None]:
            try:
                yield [event(1)]
                yield [event(2)]
            finally:
                closed.set()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        with suppress(TimeoutError):
            await sse.stream(batches(), None)({"type": "http", "method": "GET"}, receive, send)
        assert closed.is_set()


async def test_open_streams_hold_no_database_connection(real_world: World) -> None:
    """While fifty streams are open, requests that need the store are served."""
    ada = await real_world.user()
    name = f"{real_world.org}slots"
    number = await deployed(ada, chain(holding(name)))
    await ada.post(
        "/agent/v1/runs", json={"workflowId": number, "input": {}, "runId": "r"}, headers={"Accept": "application/json"}
    )
    readers = [asyncio.create_task(ada.get("/agent/v1/runs/r/events")) for _ in range(50)]
    for _ in range(20):
        assert (await ada.post("/api/v1/skills", json={"name": "S"})).status_code == 201
    let_go(name)
    whole = [frames((await reader).text) for reader in readers]
    assert all(one == whole[0] for one in whole)
    assert whole[0][-1][1]["kind"] == "done"


async def test_a_client_that_joins_during_a_commit_does_not_wait(
    real_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that become durable while a client joins are sent at once, without the next poll of the journal."""
    monkeypatch.setattr("wfcore.runtime.execution.event_stream.SOONEST", 3_600)
    monkeypatch.setattr("wfcore.runtime.execution.event_stream.LATEST", 3_600)
    ada = await real_world.user()
    number = await deployed(ada, chain(counting(f"{real_world.org}soon")))
    for _ in range(20):
        answer = await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}})
        assert frames(answer.text)[-1][1]["kind"] == "done"


@pytest.mark.parametrize("error", [RuntimeError("SELECT secret"), Unavailable("SELECT secret")])
async def test_a_failing_stream_ends_abnormally_without_details(
    real_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """An error during a stream is logged and not disclosed; the stream ends abnormally, so the client joins again.

    An outage of the database ends all streams at once: it is logged without tracebacks.
    """
    ada = await real_world.user()
    number = await deployed(ada, chain(counting(f"{real_world.org}broken")))
    body = {"workflowId": number, "input": {}, "runId": "r"}
    whole = frames((await ada.post("/agent/v1/runs", json=body)).text)

    async def broken(*args: object, **kwargs: object) -> AsyncGenerator[list[Event], None]:
        yield [event(1)]
        raise error

    seen = ""

    async def read() -> None:
        nonlocal seen
        async with ada.stream("GET", "/agent/v1/runs/r/events") as answer:
            async for text in answer.aiter_text():
                seen += text

    with monkeypatch.context() as patch:
        patch.setattr(real_world.core.runs, "batches", broken)
        with pytest.raises(httpx.RemoteProtocolError):
            await read()
    assert [seq for seq, _ in frames(seen)] == [1]
    (logged,) = (record for record in caplog.records if "SELECT" in record.getMessage())
    assert bool(logged.exc_info) is not isinstance(error, Unavailable)
    assert frames((await ada.get("/agent/v1/runs/r/events")).text) == whole


SERVER = textwrap.dedent("""
    import asyncio, socket, uvicorn, wfcore.bootstrap
    from wfcore.adapters.http import app

    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with wfcore.bootstrap.open("sqlite://", tools=[forever], settings=wfcore.Settings(grace=0)) as core:
            org = await core.directory.create_organization("One")
            await core.directory.add_member(org.uuid, "ada")
            token = await core.directory.create_token(org.uuid, "ada", scopes=["workflows:write", "workflows:invoke"])
            bound = socket.create_server(("127.0.0.1", 0))
            print(bound.getsockname()[1], token, flush=True)
            await uvicorn.Server(uvicorn.Config(app(core), log_config=None, ws="none")).serve([bound])

    asyncio.run(main())
""")


async def test_a_server_that_stops_ends_its_streams() -> None:
    """After SIGTERM an open stream ends cleanly, and the process exits within seconds without an error."""
    process = subprocess.Popen([sys.executable, "-W", "error", "-c", SERVER], stdout=-1, stderr=-1, text=True)  # noqa: ASYNC220
    try:
        assert process.stdout is not None
        port, token = process.stdout.readline().split()
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=HANG) as ada:
            action = {"id": "wait", "type": "action", "data": {"toolId": "forever"}}
            number = await deployed(ada, chain(action))
            body: dict[str, Any] = {"workflowId": number, "input": {}}
            async with ada.stream("POST", "/agent/v1/runs", json=body) as answer:
                async for line in answer.aiter_lines():
                    if "node_started" in line and "wait" in line:
                        os.kill(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=HANG)
        assert (process.returncode in (0, -signal.SIGTERM), errors) == (True, "")
    finally:
        process.kill()
        process.communicate()
