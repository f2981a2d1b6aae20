"""The routes of conversations (interface, Read a conversation)."""

from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import if_match
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IF_MATCH, PAGE_TOKEN, PAGING, Call, Route
from wfcore.api.conversations import ConversationDto
from wfcore.domain.json.codec import page_of
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.agents.conversations import Conversations
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.preconditions import etag_of

BASE = "/api/v1/skills/{id}/conversations"
ONE = f"{BASE}/{{threadId}}"


class ConversationRoutes:
    """Listing, reading and deleting. The skill 0 means all skills."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    def table(self) -> Iterator[Route]:
        cases = self._conversations
        yield Route(
            "conversations.list", "GET", BASE, self.list, "List conversations, latest first; 0 means all skills",
            scopes_of(cases.page), page_of("conversations", ConversationDto), query=PAGING, min_id=0,
        )  # fmt: skip
        yield Route(
            "conversations.get", "GET", ONE, self.get, "Read a conversation", scopes_of(cases.get), ConversationDto,
            query=(PAGE_TOKEN,), min_id=0,
        )  # fmt: skip
        yield Route(
            "conversations.delete", "DELETE", ONE, self.delete, "Delete the caller's own conversation",
            scopes_of(cases.delete), ConversationDto, headers=(IF_MATCH,), min_id=0,
        )  # fmt: skip

    async def list(self, call: Call) -> Response:
        skill, size = _skill(call), call.query["pageSize"]
        position = call.position("conversations", skill)
        before = position and (position[0], position[1])
        found = await self._conversations.page(call.me, skill, limit=size + 1, before=before)
        following = list(found[size - 1].place) if len(found) > size else None
        return call.page("conversations", found[:size], following, "conversations", skill)

    async def get(self, call: Call) -> Response:
        skill, thread = _skill(call), call.path["threadId"]
        bound_to: tuple[JSON, ...] = ("messages", skill, thread)
        found = await self._conversations.get(call.me, skill, thread, before=call.position(*bound_to))
        token = None if found.older is None else call.tokens.seal(found.older, call.me.org_uuid, *bound_to)
        shown = found.to_wire()
        return json_response({**shown, "nextPageToken": token}, headers={"ETag": etag_of(shown)})

    async def delete(self, call: Call) -> Response:
        thread, etag = call.path["threadId"], if_match(call.headers)
        found = await self._conversations.delete(call.me, _skill(call), thread, if_match=etag)
        return json_response(found.to_wire())


def _skill(call: Call) -> int:
    """The skill's number, or 0 where the path has exactly `0`. Raises NotFound for anything but a number."""
    if call.id or call.path["id"] == "0":
        return call.id
    raise NotFound
