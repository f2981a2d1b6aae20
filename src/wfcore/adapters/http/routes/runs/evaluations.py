"""The routes of a skill's evaluations."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import Query, idempotency_key, one_of
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
LONGEST: Final = 1_000
"""Characters of the ids of variations in a query."""


def variation_ids(text: str) -> list[str]:
    """Ids that are separated by commas. Raises ValueError for a text that is too long or has NUL."""
    if len(text) > LONGEST or "\0" in text:
        raise ValueError(f"must have at most {LONGEST} characters, none of them NUL")
    return text.split(",")


_VARIATIONS = Query(
    "variationId", variation_ids, {"type": "string", "maxLength": LONGEST},
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
        found = await self._cases.results(call.me, call.id, call.query["variationId"])
        return json_response(found.to_wire())
