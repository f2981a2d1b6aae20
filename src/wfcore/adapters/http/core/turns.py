"""How a turn is answered, whatever began it: streamed, or polled when `Accept` prefers JSON (interface, Events)."""

from collections.abc import Callable
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core import sse
from wfcore.adapters.http.core.request_parsing import idempotency_key, last_event_id, prefers_json
from wfcore.adapters.http.core.responses import json_answer
from wfcore.adapters.http.core.route import Call
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.run.events import EventKind
from wfcore.ports.system import Clock
from wfcore.runtime.common.run_views import RunView, Turn
from wfcore.runtime.runs.runs import Runs

RUNS = "/agent/v1/runs"


class Turns:
    """Answers requests that begin a turn, or join one."""

    def __init__(self, runs: Runs, clock: Clock) -> None:
        self._runs = runs
        self._clock = clock

    async def answer(self, call: Call, begin: Callable[[str | None], Turn]) -> Response:
        """The turn that `begin` gives for the request's Idempotency-Key."""
        key, after = idempotency_key(call.headers), last_event_id(call.headers)
        try:
            view = await begin(key)
        except Conflict as error:
            return self._refused(call, error, key)
        return self._shown(call, view, after)

    def _shown(self, call: Call, view: RunView, after: int) -> Response:
        """The turn that was started or joined: whoever may start it may see it through, with no other scope."""
        place = {"Location": call.url(RUNS, view.id)}
        if not prefers_json(call.headers):
            return sse.stream(self._runs.batches(view, after=after), place)
        going_on = view.status.under_way
        return accepted(view, HTTPStatus.ACCEPTED if going_on else HTTPStatus.OK, place)

    def _refused(self, call: Call, error: Conflict, key: str | None) -> Response:
        """Misuse of a key is told on the stream when there is to be one; any other conflict in the envelope."""
        if error.info.get("reason") != "key_reused" or prefers_json(call.headers):
            raise error
        data = {
            "kind": EventKind.error,
            "runId": key or call.body["runId"],
            "seq": 0,
            "at": iso_ms(self._clock.now()),
            "error": error.to_wire(call.request_id),
        }
        return sse.refusal(data, error.http)


def accepted(view: RunView, status: int, headers: dict[str, str] | None = None) -> Response:
    """What polling is answered (interface, Run-resume request and response)."""
    return json_answer({"runId": view.id, "status": view.status}, status, headers)
