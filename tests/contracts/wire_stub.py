"""A server with configured responses, including all faults of real servers; and responses of Chat Completions."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import attrs


@attrs.frozen
class Call:
    """A request that came in; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes


@attrs.define
class Line:
    """The way back to one client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event

    async def begin(self, status: int = 200, **headers: str) -> None:
        all_headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close"}
        all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in all_headers.items()), "", ""]
        await self._write("\r\n".join(lines).encode())

    async def send(self, data: bytes) -> None:
        """One piece of the body, by itself on the wire."""
        await self._write(b"%x\r\n%s\r\n" % (len(data), data))
        await asyncio.sleep(0)

    async def end(self) -> None:
        await self._write(b"0\r\n\r\n")

    async def hang(self) -> None:
        """Say nothing more until the client goes away."""
        await self.reader.read()
        self.gone.set()

    async def _write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Answer = Callable[[Line], Awaitable[None]]


def frame(content: str | None = None, finish: str | None = None, **delta: Any) -> bytes:
    """A chunk of an answer as one event."""
    if content is not None:
        delta["content"] = content
    return event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage(asked: int, answered: int) -> bytes:
    counted = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    return event({"id": "c", "choices": [], "usage": counted})


def event(data: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps(data, ensure_ascii=False).encode()


DONE = b"data: [DONE]\n\n"


def pieces(*parts: bytes, ends: str = "end") -> Answer:
    """Send these, each by itself; then end the body, break off in it (`break`), or `hang`."""

    async def answer(line: Line) -> None:
        await line.begin()
        for part in parts:
            await line.send(part)
        if ends == "end":
            await line.end()
        elif ends == "hang":
            await line.hang()

    return answer


def floods(*parts: bytes) -> Answer:
    """Send these, and then the last one for ever."""

    async def answer(line: Line) -> None:
        await line.begin()
        for part in parts:
            await line.send(part)
        while True:
            await line.send(parts[-1])

    return answer


def says(text: str, finish: str = "stop") -> Answer:
    """A whole answer, three characters at a time."""
    return pieces(*chat_frames({"content": text}, finish))


def chat_frames(message: Mapping[str, Any], finish: str | None = None) -> list[bytes]:
    """A whole answer: its text three characters at a time, its calls' arguments five, in turns."""
    calls = message.get("toolCalls") or ()
    frames = [frame("", role="assistant"), *(frame(text) for text in slices(message["content"], 3))]
    for index, call in enumerate(calls):
        function = {"name": call["name"], "arguments": ""}
        frames.append(frame(tool_calls=[{"index": index, "id": call["id"], "type": "function", "function": function}]))
    cut = [slices(arguments_of(call), 5) for call in calls]
    for turn in range(max(map(len, cut), default=0)):
        parts = [(index, part[turn]) for index, part in enumerate(cut) if turn < len(part)]
        frames += [frame(tool_calls=[{"index": index, "function": {"arguments": part}}]) for index, part in parts]
    return [*frames, frame(finish=finish or ("tool_calls" if calls else "stop")), usage(7, 3), DONE]


def slices(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def arguments_of(call: Mapping[str, Any]) -> str:
    """What the model wrote as arguments: those that are text here are sent as they are."""
    return call["args"] if isinstance(call["args"], str) else json.dumps(call["args"])


def refuses(status: int, message: str = "no", kind: str = "t", **headers: str) -> Answer:
    """An error before any answer."""

    async def answer(line: Line) -> None:
        await line.begin(status, content_type="application/json", **headers)
        await line.send(json.dumps({"error": {"message": message, "type": kind, "code": "c"}}).encode())
        await line.end()

    return answer


async def silence(line: Line) -> None:
    """Not even a status."""
    await line.hang()


async def hangs_up(line: Line) -> None:
    """Close the connection without a word."""


class WireStub:
    """Serves on a free port of 127.0.0.1; call by call the next of `answers`, the last one for ever."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []
        self.gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.calls.append(await _read(reader))
            answer = self.answers[min(len(self.calls), len(self.answers)) - 1]
            await answer(Line(reader, writer, self.gone))
        except ConnectionError:
            self.gone.set()
        finally:
            writer.close()
            await asyncio.wait({asyncio.ensure_future(_closed(writer))})


async def _closed(writer: asyncio.StreamWriter) -> None:
    try:
        await writer.wait_closed()
    except ConnectionError:
        return


async def _read(reader: asyncio.StreamReader) -> Call:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Call(first.split(" ")[1], headers, json.loads(body) if body else {}, body)
