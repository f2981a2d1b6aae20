"""The routes for team chats: they post signed messages without a token (Standard Webhooks 1.0.0, or Slack)."""

from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.routes.webhooks import SIGNATURE_HEADERS
from wfcore.api.runs import RunAccepted, SlackResponse
from wfcore.domain.channels.slack import FORM, HEADERS
from wfcore.domain.channels.team_chats import TeamDecision, TeamMessage
from wfcore.runtime.channels.team_chats import TeamChats


class TeamChatRoutes:
    """The URL of an interface of kind `teamchat`."""

    def __init__(self, chats: TeamChats) -> None:
        self._chats = chats

    def table(self) -> list[Route]:
        return [
            Route(
                "teamchat.receive", "POST", "/interfaces/teamchat/{interfaceId}", self.receive,
                "Start a run with a team chat's message, or decide; the output is posted back", None, RunAccepted,
                HTTPStatus.ACCEPTED, signature_headers=SIGNATURE_HEADERS, raw_body_shape=TeamMessage | TeamDecision,
            ),
            Route(
                "teamchat.receiveSlack", "POST", "/interfaces/teamchat/{interfaceId}/slack", self.receive_slack,
                "Receive an event or a decision of Slack; the output of a run is posted back", None, SlackResponse,
                signature_headers=HEADERS, request_media_types=("application/json", FORM),
            ),
        ]  # fmt: skip

    async def receive(self, call: Call) -> Response:
        view = await self._chats.receive(call.path["interfaceId"], call.headers.items(), call.raw)
        return json_response({"runId": view.id, "status": view.status}, HTTPStatus.ACCEPTED)

    async def receive_slack(self, call: Call) -> Response:
        return json_response(await self._chats.receive_slack(call.path["interfaceId"], call.headers, call.raw))
