"""The routes of a skill's evaluations."""

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import Query, idempotency_key, one_of, short_text
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, Call, Route
from wfcore.api.management import EvaluationResultsDto, EvaluationStarted
from wfcore.api.resources import Body
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.runs.evaluations import Evaluations

_VIEW = Query(
    "view", one_of("active", "draft"), {"enum": ["active", "draft"], "default": "draft"}, "Which variation is run",
    "draft",
)  # fmt: skip
_VARIATIONS = Query(
    "variationId", short_text, {"type": "string", "maxLength": 2_000},
    "Ids of variations, separated by commas; by default the draft and the active one",
)  # fmt: skip


class EvaluationRoutes:
    """Runs the cases of a skill, and reads their results."""

    def __init__(self, cases: Evaluations) -> None:
        self._cases = cases

    def table(self) -> Iterator[Route]:
        cases, path = self._cases, "/api/v1/skills/{id}/evaluations"
        yield Route(
            "evaluations.run", "POST", f"{path}/run", self.run, "Run the evaluations of a skill", scopes_of(cases.run),
            EvaluationStarted, body=Body, query=(_VIEW,), status=HTTPStatus.ACCEPTED, headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            "evaluations.results", "GET", f"{path}/results", self.results,
            "Read the newest result of each case, and compare variations", scopes_of(cases.results),
            EvaluationResultsDto, query=(_VARIATIONS,),
        )  # fmt: skip

    async def run(self, call: Call) -> Response:
        begun = await self._cases.run(call.me, call.id, call.query["view"], key=idempotency_key(call.headers))
        return json_response(begun.to_wire(), HTTPStatus.ACCEPTED)

    async def results(self, call: Call) -> Response:
        named = call.query["variationId"]
        found = await self._cases.results(call.me, call.id, None if named is None else named.split(","))
        return json_response(found.to_wire())
