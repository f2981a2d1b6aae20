"""The routes of runs (interface, `/agent/v1`)."""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import TypedDict

from msgspec import structs
from starlette.responses import Response

from wfcore.adapters.http.core.ag_ui import wants_ag_ui
from wfcore.adapters.http.core.request_parsing import Query, if_match, last_event_id, one_of, prefers_json
from wfcore.adapters.http.core.responses import RenewedResponse, json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, LAST_EVENT_ID, PAGING, Call, Route
from wfcore.adapters.http.core.turns import RUNS, Turns, accepted
from wfcore.adapters.http.routes.runs.filters import RUN_FILTERS, SINCE, UNTIL, filters_of, period_of
from wfcore.api.resources import Body
from wfcore.api.runs import CreateRun, EventDto, ResumeRun, RunAccepted, RunRecord, RunStatsDto
from wfcore.domain.json.codec import page_of
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.loop_slice import beside_loop
from wfcore.runtime.common.preconditions import etag_of
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.runs.connects import Connects
from wfcore.runtime.runs.runs import Runs

ONE = f"{RUNS}/{{runId}}"
_OUTPUTS = Query(
    "outputs", one_of("whole", "cut"), {"enum": ["whole", "cut"], "default": "whole"},
    "`cut`: an `output` of more than 1,000 bytes is `{truncated, bytes, preview, url}`; `url` is that of its record",
    "whole",
)  # fmt: skip


class Events(TypedDict):
    """The events of a run so far."""

    events: list[EventDto]


class RunRoutes:
    """Starting, following, resuming and stopping runs."""

    def __init__(self, runs: Runs, turns: Turns, connects: Connects) -> None:
        self._runs = runs
        self._turns = turns
        self._connects = connects

    def table(self) -> Iterator[Route]:
        runs = self._runs
        for name, path in (("runs.start", RUNS), ("runs.startUnversioned", "/agent/runs")):
            yield Route(
                name, "POST", path, self.start, "Start a run", scopes_of(runs.start), RunAccepted,
                body=CreateRun, body_required=True, headers=(IDEMPOTENCY_KEY, LAST_EVENT_ID), streams=True,
                other_statuses=(HTTPStatus.ACCEPTED,),
            )  # fmt: skip
        yield Route(
            "runs.list", "GET", RUNS, self.list, "List runs, newest first", scopes_of(runs.page),
            page_of("runs", RunRecord), query=(*RUN_FILTERS, _OUTPUTS, *PAGING),
        )  # fmt: skip
        yield Route(
            "runs.stats", "GET", f"{RUNS}/stats", self.stats, "Count runs by status, workflow and hour",
            scopes_of(runs.stats), RunStatsDto, query=(SINCE, UNTIL),
        )  # fmt: skip
        yield Route("runs.get", "GET", ONE, self.get, "Read a run", scopes_of(runs.get), RunRecord)
        yield Route(
            "runs.events", "GET", f"{ONE}/events", self.events, "Follow a run", scopes_of(runs.events),
            Events, headers=(LAST_EVENT_ID,), streams=True, other_statuses=(HTTPStatus.NO_CONTENT,),
        )  # fmt: skip
        yield Route(
            "runs.resume", "POST", f"{ONE}/resume", self.resume, "Resolve a run's interrupts in a new turn",
            scopes_of(runs.resume), RunAccepted, body=ResumeRun,
            headers=(IDEMPOTENCY_KEY, IF_MATCH, LAST_EVENT_ID), streams=True, other_statuses=(HTTPStatus.ACCEPTED,),
        )  # fmt: skip
        yield Route(
            "runs.cancel", "POST", f"{ONE}/cancel", self.cancel, "Cancel a run", scopes_of(runs.cancel),
            RunAccepted, HTTPStatus.ACCEPTED, body=Body, headers=(IF_MATCH,),
        )  # fmt: skip
        yield Route(
            "runs.interrupt", "POST", f"{ONE}/interrupt", self.interrupt, "Park a run at its next step",
            scopes_of(runs.interrupt), RunAccepted, HTTPStatus.ACCEPTED, body=Body, headers=(IF_MATCH,),
        )  # fmt: skip

    async def start(self, call: Call) -> Response:
        return await self._turns.respond(call, lambda key: self._runs.start(call.me, call.body, key=key))

    async def resume(self, call: Call) -> Response:
        etag = if_match(call.headers)
        return await self._turns.respond(
            call, lambda key: self._runs.resume(call.me, call.run_id, call.body, key=key, if_match=etag)
        )

    async def list(self, call: Call) -> Response:
        filters, size = filters_of(call), call.query["pageSize"]
        bound_to = ("runs", *filters.values())
        found = await self._runs.page(call.me, limit=size + 1, before=call.position(*bound_to), **filters)
        last = found[size - 1].row if len(found) > size else None
        views = await self._linked(call, found[:size])
        if call.query["outputs"] == "cut":
            views = [view.with_cut_output(call.url(RUNS, view.id)) for view in views]
        return call.page("runs", views, last and last.key, *bound_to)

    async def stats(self, call: Call) -> Response:
        since, until = period_of(call)
        stats = await self._runs.stats(call.me, since=since, until=until)
        return json_response(await beside_loop(len(stats.counts), stats.to_wire))

    async def get(self, call: Call) -> Response:
        record = await self._runs.get(call.me, call.run_id)
        (view,) = await self._linked(call, [record])
        kind = RenewedResponse if view.links else Response
        return json_response(view.to_wire(), headers={"ETag": etag_of(record.to_wire())}, kind=kind)

    async def _linked(self, call: Call, views: Sequence[RunView]) -> Sequence[RunView]:
        """The records, whose connect interrupts have new links."""
        links = await self._connects.links_of_runs(call.me, views, call.address)
        return [structs.replace(view, links=links) for view in views] if links else views

    async def events(self, call: Call) -> Response:
        after = last_event_id(call.headers)
        if prefers_json(call.headers):
            found = await self._runs.events(call.me, call.run_id, after=after)
            return json_response({"events": [event.to_wire() for event in found]})
        view = await self._runs.run_to_follow(call.me, call.run_id)
        if after and not view.status.under_way and not await self._runs.events(call.me, call.run_id, after=after):
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return self._turns.stream(view, after, is_ag_ui=wants_ag_ui(call.headers))

    async def cancel(self, call: Call) -> Response:
        return accepted(
            await self._runs.cancel(call.me, call.run_id, if_match=if_match(call.headers)), HTTPStatus.ACCEPTED
        )

    async def interrupt(self, call: Call) -> Response:
        return accepted(
            await self._runs.interrupt(call.me, call.run_id, if_match=if_match(call.headers)), HTTPStatus.ACCEPTED
        )
