"""The routes of runs (interface, `/agent/v1`): a turn is streamed, or polled when `Accept` prefers JSON."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import TypedDict

from starlette.responses import Response

from wfcore.adapters.http import sse
from wfcore.adapters.http.answers import json_answer
from wfcore.adapters.http.gate import Query, idempotency_key, last_event_id, one_of, prefers_json, resource_id
from wfcore.adapters.http.table import IDEMPOTENCY_KEY, LAST_EVENT_ID, PAGING, Call, Route
from wfcore.domain.codec import iso_ms, page_of
from wfcore.domain.errors import Conflict
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.state import RunStatus
from wfcore.domain.shapes import Body, CreateRun, Event, Interrupt, ResumeRun, RunAccepted, RunRecord
from wfcore.ports.system import Clock
from wfcore.runtime.context import scopes_of
from wfcore.runtime.runs import Runs, RunView

BASE = "/agent/v1/runs"
ONE = f"{BASE}/{{runId}}"

_STATUS = Query("status", one_of(*RunStatus), {"enum": list(RunStatus)}, "Only those in this state")
_WORKFLOW = Query("workflowId", resource_id, {"type": "integer", "minimum": 1}, "Only runs of this workflow")


class Events(TypedDict):
    """The events of a run so far."""

    events: list[Event]


class RunRoutes:
    """Starting, following and steering runs."""

    def __init__(self, runs: Runs, clock: Clock) -> None:
        self._runs = runs
        self._clock = clock

    def table(self) -> Iterator[Route]:
        runs = self._runs
        for name, path in (("runs.start", BASE), ("runs.startUnversioned", "/agent/runs")):
            yield Route(
                name, "POST", path, self.start, "Start a run", scopes_of(runs.start), RunAccepted,
                body=CreateRun, body_required=True, headers=(IDEMPOTENCY_KEY, LAST_EVENT_ID), streams=True,
                also=(HTTPStatus.ACCEPTED,),
            )  # fmt: skip
        yield Route(
            "runs.list", "GET", BASE, self.list, "List runs, newest first", scopes_of(runs.page),
            page_of("runs", RunRecord), query=(_STATUS, _WORKFLOW, *PAGING),
        )  # fmt: skip
        yield Route("runs.get", "GET", ONE, self.get, "Read a run", scopes_of(runs.get), RunRecord)
        yield Route(
            "runs.events", "GET", f"{ONE}/events", self.events, "Follow a run", scopes_of(runs.events),
            Events, headers=(LAST_EVENT_ID,), streams=True,
        )  # fmt: skip
        yield Route(
            "runs.resume", "POST", f"{ONE}/resume", self.resume, "Answer a run's interrupts in a new turn",
            scopes_of(runs.resume), RunAccepted, body=ResumeRun,
            headers=(IDEMPOTENCY_KEY, LAST_EVENT_ID), streams=True, also=(HTTPStatus.ACCEPTED,),
        )  # fmt: skip
        yield Route(
            "runs.cancel", "POST", f"{ONE}/cancel", self.cancel, "Cancel a run", scopes_of(runs.cancel),
            RunAccepted, HTTPStatus.ACCEPTED, body=Body,
        )  # fmt: skip
        yield Route(
            "runs.interrupt", "POST", f"{ONE}/interrupt", self.interrupt, "Park a run at its next step",
            scopes_of(runs.interrupt), RunAccepted, HTTPStatus.ACCEPTED, body=Body,
        )  # fmt: skip
        yield Route(
            "interrupts.list", "GET", "/agent/v1/interrupts", self.interrupts, "What waits for my decision",
            scopes_of(runs.interrupts), page_of("interrupts", Interrupt), query=PAGING,
        )  # fmt: skip

    async def start(self, call: Call) -> Response:
        key, after = idempotency_key(call.headers), last_event_id(call.headers)
        try:
            view = await self._runs.start(call.me, call.body, key=key)
        except Conflict as error:
            return self._refused(call, error, key)
        return self._turn(call, view, after)

    async def resume(self, call: Call) -> Response:
        key, after = idempotency_key(call.headers), last_event_id(call.headers)
        try:
            view = await self._runs.resume(call.me, call.run_id, call.body, key=key)
        except Conflict as error:
            return self._refused(call, error, key)
        return self._turn(call, view, after)

    def _turn(self, call: Call, view: RunView, after: int) -> Response:
        """The turn that was started or joined: whoever may start it may see it through, with no other scope."""
        place = {"Location": call.url(BASE, view.id)}
        if not prefers_json(call.headers):
            return sse.stream(self._runs.batches(view, after=after), place)
        going_on = view.status.under_way
        return _accepted(view, HTTPStatus.ACCEPTED if going_on else HTTPStatus.OK, place)

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

    async def list(self, call: Call) -> Response:
        status, workflow, size = call.query["status"], call.query["workflowId"], call.query["pageSize"]
        bound_to = ("runs", status, workflow)
        before = call.position(*bound_to)
        found = await self._runs.page(
            call.me,
            limit=size + 1,
            before=before and (before[0], before[1]),
            status=status and RunStatus(status),
            workflow=workflow,
        )
        last = found[size - 1].row if len(found) > size else None
        return call.page("runs", found[:size], last and [last.created_at, last.id], *bound_to)

    async def get(self, call: Call) -> Response:
        return json_answer((await self._runs.get(call.me, call.run_id)).to_wire())

    async def events(self, call: Call) -> Response:
        after = last_event_id(call.headers)
        if prefers_json(call.headers):
            found = await self._runs.events(call.me, call.run_id, after=after)
            return json_answer({"events": [event.to_wire() for event in found]})
        return sse.stream(self._runs.batches(await self._runs.get(call.me, call.run_id), after=after))

    async def cancel(self, call: Call) -> Response:
        return _accepted(await self._runs.cancel(call.me, call.run_id), HTTPStatus.ACCEPTED)

    async def interrupt(self, call: Call) -> Response:
        return _accepted(await self._runs.interrupt(call.me, call.run_id), HTTPStatus.ACCEPTED)

    async def interrupts(self, call: Call) -> Response:
        after = call.position("interrupts") or 0
        found, following = await self._runs.interrupts(call.me, limit=call.query["pageSize"], after=after)
        return call.page("interrupts", found, following, "interrupts")


def _accepted(view: RunView, status: int, headers: dict[str, str] | None = None) -> Response:
    return json_answer({"runId": view.id, "status": view.status}, status, headers)
