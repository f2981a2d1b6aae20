"""Server-Sent Events (interface, Events; WHATWG HTML, Server-sent events).

Frames that are ready together are sent in one chunk. A stream ends with the run's terminal event, when its client
disconnects or stalls, when its caller loses the right to read it, or with the server. The run is not affected, and a
client can join it again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from weakref import WeakKeyDictionary

from anyio import Lock
from starlette.responses import Response

from wfcore.adapters.http.core.event_response import EventResponse, OnDisconnect
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event
from wfcore.runtime.runs.open_streams import Shown

HEARTBEAT_SECONDS = 15
STALL_SECONDS = 60.0
"""Seconds after which a client that does not read a chunk is disconnected."""
PACE_SECONDS = 0.01
"""Seconds between two chunks of a live run, so that frames which follow closely share one; the last comes at once."""
CACHED_FRAMES, CACHED_BYTES = 1_024, 2**12
"""How many frames are cached for other readers, and how many bytes one of them can have."""
MANY = 64
"""Events of a batch from which on readers encode in turn: those of the past, not those of a live run."""
CHUNK = 2**16
"""Bytes after which a batch continues in another chunk."""

DELETED = b": the stream ended because the run was deleted\n\n"

Encode = Callable[[Event], bytes]
"""Makes the frames of an event; none is b""."""


def frame(seq: int, data: Mapping[str, JSON]) -> bytes:
    """One frame."""
    return f"id: {seq}\ndata: {_line(data)}\n\n".encode()


def message(data: Mapping[str, JSON]) -> bytes:
    """One frame of a stream that cannot be joined again: without an id."""
    return f"event: message\ndata: {_line(data)}\n\n".encode()


def _line(data: Mapping[str, JSON]) -> str:
    """One line of JSON: every character that any client reads as a line end is escaped."""
    line = dumps(data)
    if line.isascii():
        return line
    return line.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class EventStream(EventResponse):
    """A response that is a stream. `shown` is what its caller must be able to read as long as it is open."""

    shown: Shown | None = None


def stream(
    batches: AsyncGenerator[list[Event], None],
    shown: Shown | None,
    headers: Mapping[str, str] | None = None,
    encode: Encode | None = None,
) -> Response:
    """A response that streams the events of a run, each as its own frame unless `encode` makes others."""
    return streaming(_chunks(batches, encode or _frame_of), shown, headers)


def streaming(
    chunks: AsyncGenerator[bytes, None],
    shown: Shown | None,
    headers: Mapping[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
) -> Response:
    """A response that streams these chunks, with a heartbeat."""
    response = EventStream(chunks, headers, on_disconnect, HEARTBEAT_SECONDS, STALL_SECONDS)
    response.shown = shown
    return response


def refusal(data: Mapping[str, JSON], status: int) -> Response:
    """An error as a stream of one event. Its id is 0, so that a client that joins after it misses no event."""
    return Response(frame(0, data), status, media_type="text/event-stream")


async def _chunks(batches: AsyncGenerator[list[Event], None], encode: Encode) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(_encoded(batches, encode)) as chunks:
            async for chunk in chunks:
                yield chunk
    except NotFound:
        yield DELETED


async def _encoded(batches: AsyncGenerator[list[Event], None], encode: Encode) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        async for events in batches:
            chunks = _joined(map(encode, events))
            chunk = await _next_chunk(chunks, events)
            while chunk:
                yield chunk
                chunk = await _next_chunk(chunks, events)
                if chunk or not events[-1].terminal:  # the end of the stream is written with its last chunk
                    await asyncio.sleep(0)


async def _next_chunk(chunks: Iterator[bytes], events: Sequence[Event]) -> bytes:
    return next(chunks, b"") if len(events) < MANY else await _encoded_in_turn(chunks)


async def _encoded_in_turn(chunks: Iterator[bytes]) -> bytes:
    """The next chunk, empty at the end. One reader encodes at a time, so that other work waits for one chunk only."""
    lock = _encoding.setdefault(asyncio.get_running_loop(), Lock(fast_acquire=True))
    async with lock:
        chunk = next(chunks, b"")
        await asyncio.sleep(0)
        return chunk


_encoding = WeakKeyDictionary[asyncio.AbstractEventLoop, Lock]()
"""Locks of anyio: one of asyncio for which somebody has waited refers to its loop, and would keep it after its end."""


def _frame_of(event: Event) -> bytes:
    """The frame of the event. Readers of one live run share its events: each frame is encoded once."""
    cached = _frames.get(id(event))
    if cached is not None and cached[0] is event:
        return cached[1]
    encoded = frame(event.seq, event.to_wire())
    if len(encoded) <= CACHED_BYTES:
        if len(_frames) >= CACHED_FRAMES:
            _frames.clear()
        _frames[id(event)] = event, encoded
    return encoded


_frames: dict[int, tuple[Event, bytes]] = {}


def _joined(frames: Iterable[bytes]) -> Iterator[bytes]:
    chunk, size = list[bytes](), 0
    for one in frames:
        chunk.append(one)
        size += len(one)
        if size >= CHUNK:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)
