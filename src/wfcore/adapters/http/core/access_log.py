"""The telemetry of one request: a span, metrics, and one log line.

None of them holds the path, the query or a header: a path can be a secret (a webhook's), a route is not.
"""

import logging
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Final, Self

from starlette.requests import HTTPConnection

from wfcore.domain.resources.access import Principal
from wfcore.ports.telemetry import Span, Telemetry, WorkKind

logger = logging.getLogger("wfcore.access")

UNMATCHED: Final = "(none)"
"""The route label of a request that matches no route."""

GONE: Final = 499
"""The status of a request whose client disconnected before the response; the number that nginx uses."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CARRIED: Final = ("traceparent", "tracestate")


class RequestLog:
    """One request, in a `with` block around it; `route` and `caller` are filled in as they become known."""

    def __init__(self, telemetry: Telemetry | None, connection: HTTPConnection, request_id: str) -> None:
        method = connection.scope["method"]
        self.route = UNMATCHED
        self.caller: Principal | None = None
        self._request_id = request_id
        self._status = 0
        self._method = method if method in _METHODS else "other"
        self._telemetry = telemetry
        self._began = perf_counter()
        self._stream: Span | None = None
        self._span = None if telemetry is None else self._begin(telemetry, connection)

    def _begin(self, telemetry: Telemetry, connection: HTTPConnection) -> Span:
        carried = {name: connection.headers[name] for name in _CARRIED if name in connection.headers}
        return telemetry.begin(WorkKind.request, {"method": self._method}, {"request": self._request_id, **carried})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the span and write the log line, once the response was sent or the client disconnected."""
        if not self._status:
            self.response_ready(GONE, streams=False)
        if self._stream is not None:
            self._stream.end("ended")
        if logger.isEnabledFor(logging.INFO):
            self._log()

    def in_span(self) -> AbstractContextManager[object]:
        """A block whose work is recorded as part of the request's span."""
        return self._span or nullcontext()

    def response_ready(self, status: int, *, streams: bool) -> None:
        """Record the status of the response and end the span; a stream of events gets a span of its own."""
        self._status = status
        if self._telemetry is not None and self._span is not None:
            self._span.end(str(status), {"route": self.route})
            self._stream = self._telemetry.begin(WorkKind.stream) if streams else None

    def _log(self) -> None:
        caller = {} if self.caller is None else {"org": self.caller.org_uuid, "user_id": self.caller.user_id}
        extra = {
            "request_id": self._request_id, "method": self._method, "route": self.route, "status": self._status,
            "ms": round((perf_counter() - self._began) * 1000, 3), **caller,
        }  # fmt: skip
        logger.info("%s %s %d", self._method, self.route, self._status, extra=extra)
