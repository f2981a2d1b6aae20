"""The routes of a skill's memories (interface, List memories of a scope, Update a memory of a scope)."""

from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import (
    MAX_PAGE,
    OPAQUE_ID,
    Query,
    idempotency_key,
    if_match,
    opaque_id,
    page_size,
)
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, PAGE_TOKEN, Call, Handler, Route
from wfcore.api.memories import CreateMemory, FoundMemories, MemoryDto, PatchMemory, SearchMemories
from wfcore.domain.json.codec import page_of
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.agents.memories import Memories
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.preconditions import etag_of

BASE = "/api/v1/skills/{id}/memories"
ONE = f"{BASE}/{{memoryId}}"

MAX_LIMIT = 1_000
"""Maximum of the deprecated `limit`; that of `pageSize` is 100."""


_WHOLE: Final[Mapping[str, JSON]] = {"type": "integer", "minimum": 1}
_SIZE = Query("pageSize", page_size, _WHOLE, "Items of a page; more than 100 is read as 100. Default: 100 without "
              "`pageToken` and `limit`, else 25")  # fmt: skip
_LIMIT = Query(
    "limit", partial(page_size, most=MAX_LIMIT), _WHOLE, "Use `pageSize`, which wins. More than 1000 is read as 1000",
    deprecated=True,
)  # fmt: skip
_USER = Query("userId", opaque_id, OPAQUE_ID, "Only those of this end user")
_MASK = Query("updateMask", str, {"type": "string"}, "What to change, separated by commas: `memory`, `metadata`, "
              "`metadata.<key>`. Default: the fields of the body")  # fmt: skip


class MemoryRoutes:
    """Adding, finding, changing and deleting memories."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    def table(self) -> Iterator[Route]:
        cases = self._memories
        yield _route(
            "create", "POST", BASE, self.create, "Add a memory", cases.create, MemoryDto,
            status=HTTPStatus.CREATED, body=CreateMemory, headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield _route(
            "list", "GET", BASE, self.list, "List the memories of a skill, oldest first", cases.page,
            page_of("memories", MemoryDto), query=(_SIZE, PAGE_TOKEN, _USER, _LIMIT),
        )  # fmt: skip
        yield _route(
            "search", "POST", f"{BASE}/search", self.search, "Search memories by their text", cases.search,
            FoundMemories, body=SearchMemories,
        )  # fmt: skip
        yield _route("get", "GET", ONE, self.get, "Read a memory", cases.get, MemoryDto)
        yield _route(
            "patch", "PATCH", ONE, self.patch, "Change a memory", cases.patch, MemoryDto, body=PatchMemory,
            query=(_MASK,), error_info={"skillId": "id"}, headers=(IF_MATCH,),
        )  # fmt: skip
        yield _route(
            "delete", "DELETE", ONE, self.delete, "Delete a memory", cases.delete, MemoryDto, headers=(IF_MATCH,)
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        created = await self._memories.create(call.me, call.id, call.body, key=idempotency_key(call.headers))
        location = call.url("/api/v1/skills", call.id, "memories", created.id)
        headers = {"Location": location, "ETag": etag_of(created.to_wire())}
        return json_response(created.to_wire(), HTTPStatus.CREATED, headers)

    async def list(self, call: Call) -> Response:
        user, size = call.query["userId"], _page_size(call.query)
        bound_to = ("memories", call.id, user)
        after = call.position(*bound_to)
        found = await self._memories.page(call.me, call.id, limit=size + 1, after=after, user_id=user)
        following = found[size - 1].id if len(found) > size else None
        return call.page("memories", found[:size], following, *bound_to)

    async def search(self, call: Call) -> Response:
        found = await self._memories.search(call.me, call.id, call.body)
        return json_response({"memories": [memory.to_wire() for memory in found]})

    async def get(self, call: Call) -> Response:
        return json_response((await self._memories.get(call.me, call.id, call.path["memoryId"])).to_wire())

    async def patch(self, call: Call) -> Response:
        changed = await self._memories.patch(
            call.me,
            call.id,
            call.path["memoryId"],
            call.body,
            update_mask=call.query["updateMask"],
            if_match=if_match(call.headers),
        )
        return json_response(changed.to_wire())

    async def delete(self, call: Call) -> Response:
        etag = if_match(call.headers)
        return json_response(
            (await self._memories.delete(call.me, call.id, call.path["memoryId"], if_match=etag)).to_wire()
        )


def _route(
    name: str, method: str, path: str, handle: Handler, summary: str, case: Any, response: Any, **more: Any
) -> Route:
    return Route(
        f"memories.{name}", method, path, handle, summary, scopes_of(case), response,
        body_required="body" in more, **more,
    )  # fmt: skip


def _page_size(query: Mapping[str, Any]) -> int:
    """Items of a page. A call without any paging parameter gets 100, as in earlier releases."""
    given: int | None = query["pageSize"] or query["limit"]
    return given or (MAX_PAGE if query["pageToken"] is None else 25)
