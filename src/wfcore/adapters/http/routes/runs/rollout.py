"""The routes about what a deploy of a workflow means for its runs (interface, Impact, Move-runs, Node test)."""

from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import if_match
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IF_MATCH, Call, Route
from wfcore.api.repairs import MoveOutcomes, MoveRuns
from wfcore.api.run_graphs import NodeTestResult, TestNode
from wfcore.api.variations import DeployImpact, ProposalDto, ProposeChange
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
            "workflows.impact", "GET", f"{one}/impact", self.impact, "Read what a deploy of the draft would change",
            scopes_of(cases.impact), DeployImpact,
        )  # fmt: skip
        yield Route(
            "workflows.moveRuns", "POST", f"{one}/move-runs", self.move_runs,
            "Move waiting runs to the active variation, where they fit", scopes_of(cases.move_runs), MoveOutcomes,
            body=MoveRuns, body_required=True, headers=(IF_MATCH,),
        )  # fmt: skip

        yield Route(
            "workflows.testNode", "POST", f"{one}/nodes/{{nodeId}}/test", self.test_node,
            "Try one node of the draft on given values", scopes_of(cases.test_node), NodeTestResult, body=TestNode,
        )  # fmt: skip

        yield Route(
            "workflows.propose", "POST", f"{one}/proposals", self.propose,
            "Have a model propose a change of the draft", scopes_of(cases.propose), ProposalDto,
            body=ProposeChange, body_required=True,
        )  # fmt: skip

    async def propose(self, call: Call) -> Response:
        return json_response((await self._cases.propose(call.me, call.id, call.body)).to_wire())

    async def test_node(self, call: Call) -> Response:
        trial = await self._cases.test_node(call.me, call.id, call.path["nodeId"], call.body)
        return json_response(trial.to_wire(call.request_id))

    async def impact(self, call: Call) -> Response:
        found = await self._cases.impact(call.me, call.id)
        return json_response(found.to_wire(), headers={"ETag": found.etag})

    async def move_runs(self, call: Call) -> Response:
        outcomes = await self._cases.move_runs(call.me, call.id, call.body, if_match=if_match(call.headers))
        return json_response({"runs": [one.to_wire() for one in outcomes]})
