"""Server-Sent Events (interface, Events; WHATWG HTML, Server-sent events).

Frames that are there at once leave in one chunk. A stream ends with its run's terminal event, with its reader, when
a reader takes nothing for a while, or with the server; the run never notices, and can be joined again.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Message

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event

HEARTBEAT = 15
STALLED = 60.0
"""Seconds that a reader may leave a chunk untaken."""
KEPT, SMALL = 1_024, 2**12
"""How many frames are kept for the next reader, and how many bytes one of them may have."""
CHUNK = 2**16
"""Bytes after which a batch goes on in another chunk."""

Gone = Callable[[Message], Awaitable[None]]
"""What is done when a reader goes away before the end."""


def frame(seq: int, data: Mapping[str, JSON]) -> bytes:
    """One frame."""
    return f"id: {seq}\ndata: {_line(data)}\n\n".encode()


def message(data: Mapping[str, JSON]) -> bytes:
    """One frame of a stream that nobody joins again: without an id."""
    return f"event: message\ndata: {_line(data)}\n\n".encode()


def _line(data: Mapping[str, JSON]) -> str:
    """Whatever any reader takes for the end of a line is escaped (JSON escapes the rest itself)."""
    return dumps(data).replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def stream(batches: AsyncGenerator[list[Event], None], headers: Mapping[str, str] | None = None) -> Response:
    """The response that carries a run's events."""
    return streaming(_chunks(batches), headers)


def streaming(
    chunks: AsyncIterator[bytes], headers: Mapping[str, str] | None = None, gone: Gone | None = None
) -> Response:
    """The response that carries these chunks, with a heartbeat. `gone` is awaited when its reader goes away."""
    return EventSourceResponse(
        chunks,
        headers=headers,
        client_close_handler_callable=gone,
        sep="\n",
        ping=HEARTBEAT,
        ping_message_factory=lambda: ServerSentEvent(comment="", sep="\n"),
        send_timeout=STALLED,
    )


def refusal(data: Mapping[str, JSON], status: int) -> Response:
    """An error as a stream of one event. Its id is 0, so that joining the run after it misses nothing."""
    return Response(frame(0, data), status, media_type="text/event-stream")


async def _chunks(batches: AsyncGenerator[list[Event], None]) -> AsyncIterator[bytes]:
    async with aclosing(batches):
        async for events in batches:
            for chunk in _joined(map(_frame_of, events)):
                yield chunk
                await anyio.lowlevel.checkpoint()


def _frame_of(event: Event) -> bytes:
    """The event's frame. Readers of one live run share its events: each frame is made once."""
    kept = _made.get(id(event))
    if kept is not None and kept[0] is event:
        return kept[1]
    made = frame(event.seq, event.to_wire())
    if len(made) <= SMALL:
        if len(_made) >= KEPT:
            _made.clear()
        _made[id(event)] = event, made
    return made


_made: dict[int, tuple[Event, bytes]] = {}


def _joined(frames: Iterable[bytes]) -> Iterator[bytes]:
    held, size = list[bytes](), 0
    for one in frames:
        held.append(one)
        size += len(one)
        if size >= CHUNK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
