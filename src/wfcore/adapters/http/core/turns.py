"""The response to a request that begins a turn: a stream, or JSON when `Accept` prefers it (interface, Events)."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core import sse
from wfcore.adapters.http.core.ag_ui import AgUiFrames, wants_ag_ui
from wfcore.adapters.http.core.request_parsing import idempotency_key, last_event_id, prefers_json
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call
from wfcore.runtime.common.run_views import RunView, Turn
from wfcore.runtime.runs.open_streams import Shown
from wfcore.runtime.runs.runs import Runs

RUNS = "/agent/v1/runs"


class Turns:
    """Responds to requests that begin a turn or join one."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def respond(
        self, call: Call, begin: Callable[[str | None], Turn], *, is_ag_ui: bool | None = None
    ) -> Response:
        """The response for the turn that `begin` returns for the request's Idempotency-Key.

        `is_ag_ui`: whether a stream has AG-UI events; by default `Accept` says it.
        """
        key, after = idempotency_key(call.headers), last_event_id(call.headers)
        translated = wants_ag_ui(call.headers) if is_ag_ui is None else is_ag_ui
        return self._response(call, await begin(key), after, translated)

    def stream(
        self, view: RunView, after: int, *, is_ag_ui: bool, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The events of the turn after this one. AG-UI events depend on all before them, which are read too."""
        if not is_ag_ui:
            return sse.stream(self._runs.batches(view, after=after, pace=sse.PACE_SECONDS), Shown.run(view), headers)
        encode = AgUiFrames(view.thread_id, after)
        return sse.stream(self._runs.batches(view, pace=sse.PACE_SECONDS), Shown.run(view), headers, encode)

    def _response(self, call: Call, view: RunView, after: int, is_ag_ui: bool) -> Response:
        """The turn that was started or joined. The scope to start it is enough to follow it."""
        location = {"Location": call.url(RUNS, view.id)}
        if not prefers_json(call.headers):
            return self.stream(view, after, is_ag_ui=is_ag_ui, headers=location)
        under_way = view.status.under_way
        return accepted(view, HTTPStatus.ACCEPTED if under_way else HTTPStatus.OK, location)


def accepted(view: RunView, status: int, headers: dict[str, str] | None = None) -> Response:
    """The JSON response for a turn (interface, Run-resume request and response)."""
    return json_response({"runId": view.id, "status": view.status}, status, headers)
