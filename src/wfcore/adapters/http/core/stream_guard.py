"""Ends an open stream when its caller loses the right to read it, with a comment line as its last bytes."""

from functools import partial
from typing import Final

from wfcore.adapters.http.core.sse import EventStream
from wfcore.domain.resources.access import Principal
from wfcore.runtime.runs.open_streams import OpenStreams

ENDED: Final = b": the stream ended because its caller can no longer read it\n\n"


class StreamGuard:
    """Watches every stream that the application sends."""

    def __init__(self, streams: OpenStreams) -> None:
        self._streams = streams

    def guard(self, me: Principal, response: EventStream) -> None:
        """Let the stream end with the caller's right to read it."""
        response.on_begin = partial(self._streams.add, me, response.shown, partial(response.end, last=ENDED))
        response.on_end = self._streams.remove
