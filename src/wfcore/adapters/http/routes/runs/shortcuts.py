"""Short forms of starting a run: a chat with a skill or the assistant, and a single action of a workflow.

A chat is the run that `POST /agent/v1/runs` starts with the same body and the target of the path: the same key and body
join it through either route.
"""

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, LAST_EVENT_ID, Call, Route
from wfcore.adapters.http.core.turns import Turns
from wfcore.api.runs import Chat, RunAccepted, RunAction
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.runs.runs import Runs


class RunShortcutRoutes:
    """Chats and actions."""

    def __init__(self, runs: Runs, turns: Turns) -> None:
        self._runs = runs
        self._turns = turns

    def table(self) -> Iterator[Route]:
        runs = self._runs
        for name, path, handle, summary in (
            ("chat.skill", "/agent/v1/skills/{id}/chat", self.skill, "Send a message to a skill"),
            ("chat.assistant", "/agent/v1/assistant/chat", self.assistant, "Send a message to the assistant"),
        ):
            yield Route(
                name, "POST", path, handle, summary, scopes_of(runs.chat), RunAccepted, body=Chat,
                body_required=True, headers=(IDEMPOTENCY_KEY, LAST_EVENT_ID), streams=True,
                other_statuses=(HTTPStatus.ACCEPTED,),
            )  # fmt: skip
        yield Route(
            "actions.run", "POST", "/agent/v1/actions", self.act, "Run a single action", scopes_of(runs.act),
            RunAccepted, body=RunAction, body_required=True, headers=(IDEMPOTENCY_KEY, LAST_EVENT_ID), streams=True,
            other_statuses=(HTTPStatus.ACCEPTED,),
        )  # fmt: skip

    async def skill(self, call: Call) -> Response:
        return await self._turns.respond(call, lambda key: self._runs.chat(call.me, call.id, call.body, key=key))

    async def assistant(self, call: Call) -> Response:
        return await self._turns.respond(call, lambda key: self._runs.chat(call.me, None, call.body, key=key))

    async def act(self, call: Call) -> Response:
        return await self._turns.respond(call, lambda key: self._runs.act(call.me, call.body, key=key))
