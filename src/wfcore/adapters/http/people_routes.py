"""The routes of members, groups, tokens, the audit and the catalog of tools."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

import attrs
from starlette.responses import Response

from wfcore.adapters.http.answers import json_answer
from wfcore.adapters.http.gate import Query, idempotency_key, instant, short_text
from wfcore.adapters.http.table import IDEMPOTENCY_KEY, PAGING, Call, Route
from wfcore.domain import people_shapes as shapes
from wfcore.domain.codec import page_of
from wfcore.domain.errors import JSON
from wfcore.domain.shapes import CreateToken
from wfcore.runtime.audit import AuditTrail
from wfcore.runtime.catalog import ToolCatalog
from wfcore.runtime.context import scopes_of
from wfcore.runtime.people import Groups, Members, Tokens

MEMBERS, GROUPS, TOKENS = "/api/v1/members", "/api/v1/groups", "/api/v1/tokens"


def _id(text: str) -> str:
    if not 1 <= len(text) <= 255 or "\0" in text:
        raise ValueError("must have 1 to 255 characters, none of them NUL")
    return text


_TEXT = {"type": "string", "minLength": 1, "maxLength": 255}
_TIME = {"type": "string", "format": "date-time"}
_GROUP = Query("groupId", _id, _TEXT, "Only the members of this group")
_OWNER = Query("userId", _id, _TEXT, "Those of this member instead of your own; takes the role admin or owner")
_FILTER = (
    Query("userId", _id, _TEXT, "Only what this user did"),
    Query("action", short_text, {"type": "string", "maxLength": 200}, "Only this, such as `workflow.deploy`"),
    Query("from", instant, _TIME, "Only what was done at this time or later"),
    Query("to", instant, _TIME, "Only what was done before this time"),
)


class View(Protocol):
    """What the use cases answer with."""

    @property
    def id(self) -> str: ...

    def to_wire(self) -> dict[str, JSON]: ...


@attrs.frozen
class PeopleRoutes:
    """Who is in an organization, what they may carry, and what they did."""

    members: Members
    groups: Groups
    tokens: Tokens
    audit: AuditTrail
    tools: ToolCatalog

    def table(self) -> Iterator[Route]:
        yield from self._members()
        yield from self._groups()
        yield from self._tokens()
        yield Route(
            "audit.list", "GET", "/api/v1/audit", self.list_audit, "Who did what, newest first",
            scopes_of(self.audit.page), shapes.AuditPage, query=(*_FILTER, *PAGING),
        )  # fmt: skip
        yield Route(
            "tools.list", "GET", "/api/v1/tools", self.list_tools, "The catalog of tools",
            scopes_of(self.tools.page), shapes.ToolPage, query=PAGING,
        )  # fmt: skip

    def _members(self) -> Iterator[Route]:
        cases, one = self.members, f"{MEMBERS}/{{userId}}"
        yield Route(
            "members.create", "POST", MEMBERS, self.create_member, "Add a member", scopes_of(cases.create),
            shapes.Member, HTTPStatus.CREATED, body=shapes.CreateMember, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            "members.list", "GET", MEMBERS, self.list_members, "List members", scopes_of(cases.page),
            page_of("members", shapes.Member), query=(_GROUP, *PAGING),
        )  # fmt: skip
        yield Route("members.get", "GET", one, self.get_member, "Read a member", scopes_of(cases.get), shapes.Member)
        yield Route(
            "members.patch", "PATCH", one, self.patch_member, "Change a member", scopes_of(cases.patch),
            shapes.Member, body=shapes.PatchMember, body_required=True,
        )  # fmt: skip
        yield Route(
            "members.delete", "DELETE", one, self.delete_member, "Remove a member", scopes_of(cases.delete),
            shapes.Member,
        )  # fmt: skip

    def _groups(self) -> Iterator[Route]:
        cases, one = self.groups, f"{GROUPS}/{{groupId}}"
        yield Route(
            "groups.create", "POST", GROUPS, self.create_group, "Create a group", scopes_of(cases.create),
            shapes.Group, HTTPStatus.CREATED, body=shapes.CreateGroup, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            "groups.list", "GET", GROUPS, self.list_groups, "List groups", scopes_of(cases.page),
            page_of("groups", shapes.Group), query=PAGING,
        )  # fmt: skip
        yield Route("groups.get", "GET", one, self.get_group, "Read a group", scopes_of(cases.get), shapes.Group)
        yield Route(
            "groups.patch", "PATCH", one, self.patch_group, "Rename a group", scopes_of(cases.patch),
            shapes.Group, body=shapes.PatchGroup, body_required=True,
        )  # fmt: skip
        yield Route(
            "groups.delete", "DELETE", one, self.delete_group, "Dissolve a group", scopes_of(cases.delete),
            shapes.Group,
        )  # fmt: skip

    def _tokens(self) -> Iterator[Route]:
        cases, one = self.tokens, f"{TOKENS}/{{tokenId}}"
        yield Route(
            "tokens.create", "POST", TOKENS, self.create_token, "Make a personal access token",
            scopes_of(cases.create), shapes.NewToken, HTTPStatus.CREATED, body=CreateToken, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            "tokens.list", "GET", TOKENS, self.list_tokens, "List tokens", scopes_of(cases.page),
            page_of("tokens", shapes.Token), query=(_OWNER, *PAGING),
        )  # fmt: skip
        yield Route("tokens.get", "GET", one, self.get_token, "Read a token", scopes_of(cases.get), shapes.Token)
        yield Route(
            "tokens.revoke", "DELETE", one, self.revoke_token, "Revoke a token", scopes_of(cases.revoke),
            shapes.Token,
        )  # fmt: skip

    async def create_member(self, call: Call) -> Response:
        return _made(call, MEMBERS, await self.members.create(call.me, call.body, key=idempotency_key(call.headers)))

    async def get_member(self, call: Call) -> Response:
        return _shown(await self.members.get(call.me, call.path["userId"]))

    async def patch_member(self, call: Call) -> Response:
        return _shown(await self.members.patch(call.me, call.path["userId"], call.body))

    async def delete_member(self, call: Call) -> Response:
        return _shown(await self.members.delete(call.me, call.path["userId"]))

    async def list_members(self, call: Call) -> Response:
        bound_to = ("members", group := call.query["groupId"])
        found = await self.members.page(call.me, **_paging(call, *bound_to), group=group)
        return _page(call, "members", found, _id_of, *bound_to)

    async def create_group(self, call: Call) -> Response:
        return _made(call, GROUPS, await self.groups.create(call.me, call.body, key=idempotency_key(call.headers)))

    async def get_group(self, call: Call) -> Response:
        return _shown(await self.groups.get(call.me, call.path["groupId"]))

    async def patch_group(self, call: Call) -> Response:
        return _shown(await self.groups.patch(call.me, call.path["groupId"], call.body))

    async def delete_group(self, call: Call) -> Response:
        return _shown(await self.groups.delete(call.me, call.path["groupId"]))

    async def list_groups(self, call: Call) -> Response:
        return _page(call, "groups", await self.groups.page(call.me, **_paging(call, "groups")), _id_of, "groups")

    async def create_token(self, call: Call) -> Response:
        return _made(call, TOKENS, await self.tokens.create(call.me, call.body, key=idempotency_key(call.headers)))

    async def get_token(self, call: Call) -> Response:
        return _shown(await self.tokens.get(call.me, call.path["tokenId"]))

    async def revoke_token(self, call: Call) -> Response:
        return _shown(await self.tokens.revoke(call.me, call.path["tokenId"]))

    async def list_tokens(self, call: Call) -> Response:
        bound_to = ("tokens", user := call.query["userId"] or call.me.user_id)
        found = await self.tokens.page(call.me, **_paging(call, *bound_to), user=user)
        return _page(call, "tokens", found, _id_of, *bound_to)

    async def list_audit(self, call: Call) -> Response:
        user, action, since, until = (call.query[query.name] for query in _FILTER)
        bound_to = ("audit", user, action, *(when and when.isoformat() for when in (since, until)))
        place = call.position(*bound_to)
        before = place and (instant(place[0]), place[1])
        found = await self.audit.page(
            call.me, limit=call.query["pageSize"] + 1, before=before,
            user=user, action=action, since=since, until=until,
        )  # fmt: skip
        return _page(call, "audit", found, lambda row: [row.position[0].isoformat(), row.position[1]], *bound_to)

    async def list_tools(self, call: Call) -> Response:
        found = await self.tools.listed(call.me, **_paging(call, "tools"))
        more = {"servers": [server.to_wire() for server in found.servers]}
        return _page(call, "tools", found.tools, _id_of, "tools", more=more)


def _shown(view: View) -> Response:
    return json_answer(view.to_wire())


def _made(call: Call, base: str, view: View) -> Response:
    return json_answer(view.to_wire(), HTTPStatus.CREATED, {"Location": call.url(base, view.id)})


def _id_of(view: View) -> str:
    return view.id


def _paging(call: Call, *bound_to: JSON) -> dict[str, Any]:
    """One row more than the page has, to know whether another one follows."""
    return {"limit": call.query["pageSize"] + 1, "after": call.position(*bound_to) or ""}


def _page(
    call: Call,
    rows: str,
    found: Sequence[Any],
    position: Callable[[Any], JSON],
    *bound_to: JSON,
    more: Mapping[str, JSON] | None = None,
) -> Response:
    size = call.query["pageSize"]
    following = position(found[size - 1]) if len(found) > size else None
    return call.page(rows, found[:size], following, *bound_to, more=more)
