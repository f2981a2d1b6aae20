"""The chat page of an interface, and the workflow that it reads after the sign-in.

The page is a page of the studio: the same for every workflow, and it names none. It is served without the studio too.
"""

from collections.abc import Iterator
from typing import TypedDict

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.studio.document import StudioDocument
from wfcore.domain.channels.interfaces import frame_ancestors
from wfcore.runtime.channels.chat_pages import ChatApps
from wfcore.runtime.common.authorization import scopes_of


class ChatAppRow(TypedDict):
    """The workflow or skill behind a chat. `takesMessage`: the `input` of a run must contain the `message`."""

    id: str
    workflowId: int | None
    skillId: int | None
    name: str
    description: str | None
    takesMessage: bool


class ChatAppRoutes:
    """Two routes below the URL of a row: the page, which is public, and the workflow, for callers who can use it."""

    def __init__(self, chats: ChatApps, document: StudioDocument) -> None:
        self._chats = chats
        self._document = document

    def table(self) -> Iterator[Route]:
        base = "/interfaces/chatapp/{interfaceId}"
        yield Route(
            "chatapp.page", "GET", base, self.page, "The chat page of an interface", None, {"type": "string"},
            media_type="text/html",
        )  # fmt: skip
        yield Route(
            "chatapp.workflow", "GET", f"{base}/workflow", self.workflow, "Read the workflow behind a chat page",
            scopes_of(self._chats.get), ChatAppRow,
        )  # fmt: skip

    async def page(self, call: Call) -> Response:
        endpoint = await self._chats.page(call.path["interfaceId"])
        return self._document.response(call, tuple(frame_ancestors(endpoint.row.config)), chat=True)

    async def workflow(self, call: Call) -> Response:
        return json_response((await self._chats.get(call.me, call.path["interfaceId"])).to_wire())
