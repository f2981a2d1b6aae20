"""The routes about what a deploy of a workflow means for its runs (interface, Impact, Move-runs, Node test)."""

from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.repairs import MoveOutcomes, MoveRuns
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.rollout.workflows import RolloutWorkflows


class RolloutRoutes:
    """Routes of one workflow, below the base path of workflows."""

    def __init__(self, cases: RolloutWorkflows, base: str) -> None:
        self._cases = cases
        self._base = base

    def table(self) -> Iterator[Route]:
        cases, one = self._cases, f"{self._base}/{{id}}"
        yield Route(
            "workflows.moveRuns", "POST", f"{one}/move-runs", self.move_runs,
            "Move waiting runs to the active variation, where they fit", scopes_of(cases.move_runs), MoveOutcomes,
            body=MoveRuns, body_required=True,
        )  # fmt: skip

    async def move_runs(self, call: Call) -> Response:
        outcomes = await self._cases.move_runs(call.me, call.id, call.body)
        return json_response({"runs": [one.to_wire() for one in outcomes]})
