"""Refusals of requests that would stream: one `error` event with the HTTP status (interface, Events)."""

from starlette.datastructures import Headers
from starlette.responses import Response

from wfcore.adapters.http.core import sse
from wfcore.adapters.http.core.ag_ui import refusal, wants_ag_ui
from wfcore.adapters.http.core.request_parsing import prefers_json
from wfcore.adapters.http.core.responses import error_headers
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, Route
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import EventKind


def is_streamed(route: Route, headers: Headers) -> bool:
    """Whether a refusal of the request is an event: the route streams events of its own, and JSON is not preferred."""
    return route.has_error_events and not prefers_json(headers)


def refused_stream(
    error: WfcoreError, route: Route, headers: Headers, named: JSON, *, request_id: str, at: int, challenge: str
) -> Response:
    """The error as a stream of one event, in AG-UI's form where `Accept` names that.

    `named`: the run that the body or the path names, if any; an `Idempotency-Key` precedes it. `at`: in epoch
    milliseconds.
    """
    if route.has_run_events and wants_ag_ui(headers):
        data: dict[str, JSON] = refusal(error.message, error.code)
    else:
        run = headers.get(IDEMPOTENCY_KEY) or named
        data = {"kind": EventKind.error.value, **({"runId": run} if run else {}), "seq": 0, "at": iso_ms(at),
                "error": error.to_wire(request_id)}  # fmt: skip
    response = sse.refusal(data, error.http)
    response.headers.update(error_headers(error, challenge))
    return response
