"""The routes of repairs: retrying, forking and deleting runs (interface, Retry, Fork and Delete)."""

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import idempotency_key, if_match
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, Call, Route
from wfcore.adapters.http.core.turns import RUNS
from wfcore.api.repairs import ForkRun, RepairOutcomes, RetryRun, RetryRuns
from wfcore.api.runs import RunRecord
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.runs.repairs import RepairableRuns

ONE = f"{RUNS}/{{runId}}"


class RepairRoutes:
    """Repairs of runs."""

    def __init__(self, runs: RepairableRuns) -> None:
        self._runs = runs

    def table(self) -> Iterator[Route]:
        runs = self._runs
        yield Route(
            "runs.retryAll", "POST", f"{RUNS}/retry", self.retry_all, "Retry failed and cancelled runs, or preview it",
            scopes_of(runs.retry_all), RepairOutcomes, body=RetryRuns, body_required=True,
        )  # fmt: skip
        yield Route(
            "runs.retry", "POST", f"{ONE}/retry", self.retry, "Continue a failed or cancelled run where it failed",
            scopes_of(runs.retry), RunRecord, HTTPStatus.ACCEPTED, body=RetryRun,
            headers=(IDEMPOTENCY_KEY, IF_MATCH),
        )  # fmt: skip
        yield Route(
            "runs.fork", "POST", f"{ONE}/fork", self.fork, "Begin a new execution with what a run has done",
            scopes_of(runs.fork), RunRecord, HTTPStatus.ACCEPTED, body=ForkRun, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            "runs.delete", "DELETE", ONE, self.delete, "Delete an execution that has ended, with all its runs",
            scopes_of(runs.delete), RunRecord, headers=(IF_MATCH,),
        )  # fmt: skip

    async def retry(self, call: Call) -> Response:
        key, etag = idempotency_key(call.headers), if_match(call.headers)
        return self._accepted(call, await self._runs.retry(call.me, call.run_id, call.body, key=key, if_match=etag))

    async def fork(self, call: Call) -> Response:
        key = idempotency_key(call.headers)
        return self._accepted(call, await self._runs.fork(call.me, call.run_id, call.body, key=key))

    async def retry_all(self, call: Call) -> Response:
        outcomes = await self._runs.retry_all(call.me, call.body)
        return json_response({"runs": [one.to_wire() for one in outcomes]})

    async def delete(self, call: Call) -> Response:
        deleted = await self._runs.delete(call.me, call.run_id, if_match=if_match(call.headers))
        return json_response(deleted.to_wire())

    def _accepted(self, call: Call, view: RunView) -> Response:
        return json_response(view.to_wire(), HTTPStatus.ACCEPTED, {"Location": call.url(RUNS, view.id)})
