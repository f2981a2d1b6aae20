"""The routes of hooks: the records, the rotation of their secrets, and the log of their deliveries."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import idempotency_key, if_match
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, PAGING, Call, Route
from wfcore.adapters.http.routes.organization_records import RecordRoutes
from wfcore.api.hooks import CreateHook, DeliveryDto, HookDto, NewHookDto, PatchHook
from wfcore.api.resources import Body
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.json.codec import page_of
from wfcore.runtime.channels.hooks import Hooks
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.preconditions import etag_of

BASE: Final = "/api/v1/hooks"
ONE: Final = f"{BASE}/{{hookId}}"


@attrs.frozen
class HookRoutes:
    """Hooks and their deliveries."""

    hooks: Hooks

    def table(self) -> Iterator[Route]:
        cases = self.hooks
        records = RecordRoutes(cases, BASE, "hooks", "hookId", "hook", HookDto, CreateHook, PatchHook)
        yield Route(
            "hooks.create", "POST", BASE, self.create, "Create a hook; the response shows its secret",
            scopes_of(cases.create), NewHookDto, HTTPStatus.CREATED, body=CreateHook, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield from (route for route in records.table() if route.name != "hooks.create")
        yield Route(
            "hooks.rotate", "POST", f"{ONE}/rotate", self.rotate,
            "Create a new secret; for 24 hours messages are signed with the old one too",
            scopes_of(cases.rotate), NewHookDto, body=Body, headers=(IF_MATCH,),
        )  # fmt: skip
        yield Route(
            "hooks.deliveries", "GET", f"{ONE}/deliveries", self.list_deliveries,
            "List the deliveries of a hook, newest first", scopes_of(cases.deliveries),
            page_of("deliveries", DeliveryDto), query=PAGING,
        )  # fmt: skip
        yield Route(
            "hooks.redeliver", "POST", f"{ONE}/deliveries/{{deliveryId}}/redeliver", self.redeliver,
            "Deliver again, with the same `webhook-id` and body", scopes_of(cases.redeliver),
            DeliveryDto, HTTPStatus.ACCEPTED, body=Body,
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        made = await self.hooks.create(call.me, call.body, key=idempotency_key(call.headers))
        headers = {"Location": call.url(BASE, made.id), "ETag": _etag(made)}
        return json_response(made.to_wire(), HTTPStatus.CREATED, headers)

    async def rotate(self, call: Call) -> Response:
        made = await self.hooks.rotate(call.me, call.path["hookId"], if_match=if_match(call.headers))
        return json_response(made.to_wire(), headers={"ETag": _etag(made)})

    async def list_deliveries(self, call: Call) -> Response:
        hook, size = call.path["hookId"], call.query["pageSize"]
        bound_to = ("deliveries", hook)
        found = await self.hooks.deliveries(call.me, hook, limit=size + 1, before=call.position(*bound_to))
        following = found[size - 1].id if len(found) > size else None
        return call.page("deliveries", found[:size], following, *bound_to)

    async def redeliver(self, call: Call) -> Response:
        made = await self.hooks.redeliver(call.me, call.path["hookId"], call.path["deliveryId"])
        return json_response(made.to_wire(), HTTPStatus.ACCEPTED)


def _etag(hook: Hook) -> str:
    """The ETag of the hook as it is read, without its secret."""
    return etag_of(attrs.evolve(hook, secret=None).to_wire())
