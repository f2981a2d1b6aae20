"""The connections of `wfcore serve`: strict HTTP/1.1 on h11, with limits of time and number.

h11 accepts some messages that other programs read in another way. A proxy in front can then be led to see other
requests than this server (request smuggling): such messages are refused, and their connection is closed (RFC 9112,
2.2, 5.2 and 6.1). A head must arrive in time, a response must be read, and the number of connections is limited.
"""

import asyncio
import re
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import attrs
import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from wfcore.adapters.http.core.event_response import CLOSES
from wfcore.adapters.http.core.responses import error_response
from wfcore.adapters.http.joined_writes import LARGE, JoinedWrites
from wfcore.domain.kernel.errors import Issue, Malformed, Unavailable, WfcoreError

MAX_CONNECTIONS: Final = 10_000
LINGER_SECONDS: Final = 1.0
_NOT_CRLF: Final = re.compile(rb"(?<!\r)\n|\r\n[ \t]")
"""A line that ends without CR, or continues the one before (obs-fold)."""


@attrs.frozen
class ConnectionLimits:
    """The limits of the connections of one process. Durations are in seconds."""

    keep_alive_seconds: float = 75.0
    """How long an idle connection stays open: longer than proxies keep theirs, which else send a request too late."""
    header_seconds: float = 10.0
    """How long the head of a request can take to arrive."""
    max_connections: int = attrs.field(factory=lambda: default_connections())  # noqa: PLW0108  (defined below)
    read_seconds: float = 60.0
    """How long a client can leave `LARGE` bytes of a response unread: the process holds them meanwhile."""


def default_connections() -> int:
    """Four fifths of the files that the process can open, at most `MAX_CONNECTIONS`: the store needs some too."""
    try:
        import resource
    except ImportError:
        return MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(1, min(MAX_CONNECTIONS, soft * 4 // 5))


def uvicorn_options(limits: ConnectionLimits, trusted_proxies: list[str]) -> dict[str, Any]:
    """The options of `uvicorn.Config` for these limits. Headers `X-Forwarded-*` count only from `trusted_proxies`."""
    return {
        "http": type("LimitedProtocol", (StrictProtocol,), {"limits": limits}),
        "timeout_keep_alive": limits.keep_alive_seconds,
        "proxy_headers": bool(trusted_proxies),
        "forwarded_allow_ips": trusted_proxies,
    }


class _StrictBuffer(ReceiveBuffer):
    """Received bytes. Heads and trailers have lines that end with CRLF."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        start = self._multiple_lines_search  # where the last search without success ended
        if not self._data.startswith(b"\r\n"):
            end = self._data.find(b"\r\n\r\n", start)
            if _NOT_CRLF.search(self._data, max(0, start - 1), len(self._data) if end < 0 else end + 2):
                raise h11.LocalProtocolError("a line must end with CRLF and must not continue the line before")
        return super().maybe_extract_lines()


class _StrictConnection(h11.Connection):
    """The state of one connection. `refused` is the HTTP status for the error that was raised."""

    refused = 400

    def __init__(self, max_incomplete_event_size: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size)
        self._receive_buffer = _StrictBuffer()

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has begun a head, or sends more of a body whose response was sent."""
        if self.their_state is h11.IDLE:
            return bool(self._receive_buffer)
        return self.their_state is h11.SEND_BODY and self.our_state is h11.DONE

    @property
    def is_head(self) -> bool:
        """Whether the request under way is a HEAD, whose response has no body."""
        return self._request_method == b"HEAD"

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_framing(event)
        except h11.RemoteProtocolError as error:
            self.refused = error.error_status_hint
            raise
        return event


def _check_framing(request: h11.Request) -> None:
    """Refuse a request whose end two programs can see at different places (RFC 9112, 6.1)."""
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        raise h11.RemoteProtocolError("Transfer-Encoding with Content-Length, or in HTTP/1.0")


class StrictProtocol(H11Protocol):
    """One connection of uvicorn."""

    limits = ConnectionLimits(max_connections=MAX_CONNECTIONS)
    conn: _StrictConnection
    transport: JoinedWrites

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self.conn = _StrictConnection(config.h11_max_incomplete_event_size or 2**16)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._refused = False
        self._application, self.app = self.app, self._respond

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop))
        if len(self.connections) > self.limits.max_connections:
            self._refuse(Unavailable("too many connections"))
            self.transport.close()
        else:
            self._deadline = self.loop.call_later(self.limits.header_seconds, self._timed_out)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._stop_watching()
        super().connection_lost(exc)

    async def _respond(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application. Where it sends no complete response, it has logged why: the connection is closed.

        A request that still waits when the time of a shutdown is over is cancelled, and gets a 503.
        """
        cycle = self.cycle
        try:
            await self._application(scope, receive, send)
        except asyncio.CancelledError:
            self._refuse(Unavailable("the server is shutting down: send the request again"))
        if cycle.response_started and not cycle.response_complete and not cycle.disconnected:
            cycle.disconnected = True
            self.transport.close()

    def pause_writing(self) -> None:
        """The client has not read what was sent: until it does, the application writes no more."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()

    def _watch_reader(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.limits.read_seconds, self._check_reader, size)

    def _check_reader(self, before: int) -> None:
        """End the connection of a client that reads almost nothing. `close` would wait for it without end."""
        if self.transport.get_write_buffer_size() > before - LARGE:
            self.transport.abort()
        else:
            self._watch_reader()

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)
            self._set_deadline()

    def on_response_complete(self) -> None:
        self.transport.flush()
        if self.scope.get("state", {}).get(CLOSES):
            self.transport.close()
        super().on_response_complete()
        self._set_deadline()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with the error envelope."""
        message = "the request is not valid HTTP/1.1"
        error = Malformed(message, {"errors": [Issue("", message, "http").to_wire()]})
        error.http = self.conn.refused  # type: ignore[misc]  # of this error alone
        self._refuse(error)

    def _set_deadline(self) -> None:
        """Start the deadline when a head begins, and end it when the head is complete."""
        if self._refused:
            return
        if not self.conn.waits_for_client or self.transport.is_closing():
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.header_seconds, self._timed_out)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _timed_out(self) -> None:
        self._deadline = None
        error = Malformed(f"the head of the request did not arrive within {self.limits.header_seconds:g} seconds")
        error.http = 408  # type: ignore[misc]
        self._refuse(error)

    def _refuse(self, error: WfcoreError) -> None:
        """Send the error, unless a response has begun, and close the connection.

        It stays open for reading for a moment: the client would lose an error that it has not read (RFC 9112, 9.6).
        """
        self._refused = True
        self.connections.discard(self)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            request_id = str(uuid4())
            response = error_response(error, request_id)
            headers = [*response.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
            body = b"" if self.conn.is_head else bytes(response.body)
            for event in (
                h11.Response(status_code=error.http, headers=headers, reason=HTTPStatus(error.http).phrase.encode()),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self._cancel_deadline()
        self._unset_keepalive_if_required()
        self.transport.write_eof()
        self.transport.resume_reading()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)
