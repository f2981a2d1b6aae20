"""The route for AG-UI clients: a `RunAgentInput` starts or resumes a run, whose stream has AG-UI events."""

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.ag_ui import AgUiEvent
from wfcore.adapters.http.core.route import LAST_EVENT_ID, Call, Route
from wfcore.adapters.http.core.turns import Turns
from wfcore.api.runs import RunAccepted
from wfcore.domain.channels.ag_ui import RunAgentInput
from wfcore.domain.resources.resource import Kind
from wfcore.runtime.channels.agent_clients import AgentClients
from wfcore.runtime.common.authorization import scopes_of


class AgUiRoutes:
    """One route for workflows and one for skills."""

    def __init__(self, clients: AgentClients, turns: Turns) -> None:
        self._clients = clients
        self._turns = turns

    def table(self) -> Iterator[Route]:
        for name, kind in (("agUi.workflow", Kind.WORKFLOW), ("agUi.skill", Kind.SKILL)):
            yield Route(
                name, "POST", f"/agent/v1/ag-ui/{kind}s/{{id}}", self.workflow if kind is Kind.WORKFLOW else self.skill,
                f"Run a {kind} for an AG-UI client", scopes_of(self._clients.run), RunAccepted, body=RunAgentInput,
                body_required=True, headers=(LAST_EVENT_ID,), streams=True, events=AgUiEvent,
                other_statuses=(HTTPStatus.ACCEPTED,),
            )  # fmt: skip

    async def workflow(self, call: Call) -> Response:
        return await self._respond(call, Kind.WORKFLOW)

    async def skill(self, call: Call) -> Response:
        return await self._respond(call, Kind.SKILL)

    async def _respond(self, call: Call, kind: Kind) -> Response:
        return await self._turns.respond(
            call, lambda _: self._clients.run(call.me, kind, call.id, call.body), is_ag_ui=True
        )
