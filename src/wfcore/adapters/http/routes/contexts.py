"""The routes that compose contexts without calling a model (interface, context composition)."""

from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.contexts import AssistantContext, ComposedContext, SkillContext
from wfcore.runtime.agents.contexts import Contexts
from wfcore.runtime.common.authorization import scopes_of


class ContextRoutes:
    """The context that a run of a skill or of the assistant would send to the model."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    def table(self) -> Iterator[Route]:
        cases = self._contexts
        yield Route(
            "contexts.skill", "POST", "/api/v1/skills/{id}/context", self.skill,
            "Compose the context of a run of the skill",
            scopes_of(cases.compose), ComposedContext, body=SkillContext,
        )  # fmt: skip
        yield Route(
            "contexts.assistant", "POST", "/api/v1/assistant/context", self.assistant,
            "Compose the context of a run of the assistant", scopes_of(cases.assistant), ComposedContext,
            body=AssistantContext,
        )  # fmt: skip

    async def skill(self, call: Call) -> Response:
        return json_response((await self._contexts.compose(call.me, call.id, call.body)).to_wire())

    async def assistant(self, call: Call) -> Response:
        return json_response((await self._contexts.assistant(call.me, call.body)).to_wire())
