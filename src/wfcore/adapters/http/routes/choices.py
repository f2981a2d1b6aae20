"""The routes of what a graph and its agents can be given, of the evaluation of expressions, and of simulations."""

from collections.abc import Iterator

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.choices import (
    Evaluated,
    EvaluateExpression,
    GuardrailList,
    ModelList,
    NodeTypeList,
    SimulateWorkflow,
    SimulationDto,
)
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.tools.choices import Choices
from wfcore.runtime.tools.expressions import Expressions
from wfcore.runtime.tools.simulations import Simulations


@attrs.frozen
class ChoiceRoutes:
    """Types of nodes, models, guardrails; the evaluation of expressions, and simulations."""

    choices: Choices
    expressions: Expressions
    simulations: Simulations

    def table(self) -> Iterator[Route]:
        yield Route(
            "nodeTypes.list", "GET", "/api/v1/node-types", self.node_types, "List the types of nodes",
            scopes_of(self.choices.node_types), NodeTypeList, etag=True,
        )  # fmt: skip
        yield Route(
            "models.list", "GET", "/api/v1/models", self.models, "List the models that an agent can use",
            scopes_of(self.choices.models), ModelList,
        )  # fmt: skip
        yield Route(
            "guardrails.list", "GET", "/api/v1/guardrails", self.guardrails, "List the guardrails",
            scopes_of(self.choices.guardrails), GuardrailList,
        )  # fmt: skip
        yield Route(
            "expressions.evaluate", "POST", "/api/v1/expressions/evaluate", self.evaluate,
            "Evaluate an expression or a template", scopes_of(self.expressions.evaluate), Evaluated,
            body=EvaluateExpression, body_required=True,
        )  # fmt: skip
        yield Route(
            "simulations.run", "POST", "/api/v1/workflows/simulate", self.simulate,
            "Simulate the runs of a graph, and check rules about them", scopes_of(self.simulations.simulate),
            SimulationDto, body=SimulateWorkflow, body_required=True,
        )  # fmt: skip

    async def node_types(self, call: Call) -> Response:
        found = [one.to_wire() for one in await self.choices.node_types(call.me)]
        most = self.choices.graph_limits
        return json_response({"nodeTypes": found, "limits": {"nodes": most.nodes, "edges": most.edges}})

    async def models(self, call: Call) -> Response:
        return json_response({"models": [one.to_wire() for one in await self.choices.models(call.me)]})

    async def guardrails(self, call: Call) -> Response:
        return json_response({"guardrails": [one.to_wire() for one in await self.choices.guardrails(call.me)]})

    async def evaluate(self, call: Call) -> Response:
        return json_response((await self.expressions.evaluate(call.me, call.body)).to_wire())

    async def simulate(self, call: Call) -> Response:
        return json_response((await self.simulations.simulate(call.me, call.body)).to_wire())
