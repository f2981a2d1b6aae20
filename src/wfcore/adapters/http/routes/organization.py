"""The routes of tokens, the audit trail and the tool catalog."""

from collections.abc import Iterator
from http import HTTPStatus

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import (
    INSTANT,
    OPAQUE_ID,
    Query,
    idempotency_key,
    if_match,
    instant,
    opaque_id,
    short_text,
)
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, PAGING, Call, Route
from wfcore.api import organization as shapes
from wfcore.api.resources import CreateToken
from wfcore.domain.json.codec import page_of
from wfcore.runtime.common.audit import AuditTrail
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.organization.tokens import Tokens
from wfcore.runtime.tools.catalog import ToolCatalog

TOKENS = "/api/v1/tokens"

_OWNER = Query(
    "userId", opaque_id, OPAQUE_ID, "Those of this member instead of your own; needs the role admin or owner"
)
_FILTER = (
    Query("userId", opaque_id, OPAQUE_ID, "Only what this user did"),
    Query("action", short_text, {"type": "string", "maxLength": 200}, "Only this action, such as `workflow.deploy`"),
    Query("from", instant, INSTANT, "Only what was done at this time or later"),
    Query("to", instant, INSTANT, "Only what was done before this time"),
)


@attrs.frozen
class OrganizationRoutes:
    """Personal access tokens, the audit trail and the tool catalog of an organization."""

    tokens: Tokens
    audit: AuditTrail
    tools: ToolCatalog

    def table(self) -> Iterator[Route]:
        yield from self._tokens()
        yield Route(
            "audit.list", "GET", "/api/v1/audit", self.list_audit, "List the audit trail, newest first",
            scopes_of(self.audit.page), shapes.AuditPage, query=(*_FILTER, *PAGING),
        )  # fmt: skip
        yield Route(
            "tools.list", "GET", "/api/v1/tools", self.list_tools, "List the tool catalog",
            scopes_of(self.tools.page), shapes.ToolPage, query=PAGING,
        )  # fmt: skip

    def _tokens(self) -> Iterator[Route]:
        cases, one = self.tokens, f"{TOKENS}/{{tokenId}}"
        yield Route(
            "tokens.create", "POST", TOKENS, self.create_token, "Create a personal access token",
            scopes_of(cases.create), shapes.NewToken, HTTPStatus.CREATED, body=CreateToken, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            "tokens.list", "GET", TOKENS, self.list_tokens, "List tokens, oldest first", scopes_of(cases.page),
            page_of("tokens", shapes.TokenDto), query=(_OWNER, *PAGING),
        )  # fmt: skip
        yield Route("tokens.get", "GET", one, self.get_token, "Read a token", scopes_of(cases.get), shapes.TokenDto)
        yield Route(
            "tokens.revoke", "DELETE", one, self.revoke_token, "Revoke a token", scopes_of(cases.revoke),
            shapes.TokenDto, headers=(IF_MATCH,),
        )  # fmt: skip

    async def create_token(self, call: Call) -> Response:
        created = await self.tokens.create(call.me, call.body, key=idempotency_key(call.headers))
        return json_response(created.to_wire(), HTTPStatus.CREATED, {"Location": call.url(TOKENS, created.id)})

    async def get_token(self, call: Call) -> Response:
        return json_response((await self.tokens.get(call.me, call.path["tokenId"])).to_wire())

    async def revoke_token(self, call: Call) -> Response:
        etag = if_match(call.headers)
        return json_response((await self.tokens.revoke(call.me, call.path["tokenId"], if_match=etag)).to_wire())

    async def list_tokens(self, call: Call) -> Response:
        bound_to, size = ("tokens", user := call.query["userId"] or call.me.user_id), call.query["pageSize"]
        position = call.position(*bound_to)
        after = position and (instant(position[0]), position[1])
        found = await self.tokens.page(call.me, limit=size + 1, after=after, user=user)
        last = found[size - 1].position if len(found) > size else None
        return call.page("tokens", found[:size], last and [last[0].isoformat(), last[1]], *bound_to)

    async def list_audit(self, call: Call) -> Response:
        user, action, since, until = (call.query[query.name] for query in _FILTER)
        bound_to = ("audit", user, action, *(when and when.isoformat() for when in (since, until)))
        position, size = call.position(*bound_to), call.query["pageSize"]
        found = await self.audit.page(
            call.me, limit=size + 1, before=position and (instant(position[0]), position[1]),
            user=user, action=action, since=since, until=until,
        )  # fmt: skip
        last = found[size - 1].position if len(found) > size else None
        return call.page("audit", found[:size], last and [last[0].isoformat(), last[1]], *bound_to)

    async def list_tools(self, call: Call) -> Response:
        size = call.query["pageSize"]
        found = await self.tools.listed(call.me, limit=size + 1, after=call.position("tools") or "")
        following = found.tools[size - 1].id if len(found.tools) > size else None
        more = {"servers": [server.to_wire() for server in found.servers]}
        return call.page("tools", found.tools[:size], following, "tools", more=more)
