"""The routes of a workflow's interface rows (interface, Remove every interface from a workflow)."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import idempotency_key, if_match
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, PAGING, Call, Route
from wfcore.api.management import (
    CreateInterface,
    Deleted,
    PatchInterface,
    WebhookSecret,
    WorkflowInterface,
    WorkflowInterfaces,
)
from wfcore.api.resources import Body
from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.preconditions import etag_of
from wfcore.runtime.resources.interfaces import Interfaces, SignedInterface

ALL = "/{id}/interfaces"
ONE = f"{ALL}/{{interfaceId}}"


@attrs.frozen
class _RowView:
    """A row on the wire: its `url` is below the prefix under which the application is mounted."""

    row: Interface
    call: Call

    def to_wire(self) -> dict[str, JSON]:
        return self.row.to_wire(self.call.url(""))


class InterfaceRoutes:
    """Routes below the base path of workflows; `route` creates a `Route` below that path."""

    def __init__(self, cases: Interfaces, base: str, route: Callable[..., Route]) -> None:
        self._cases = cases
        self._base = base
        self._route = route

    def table(self) -> Iterator[Route]:
        cases, row = self._cases, WorkflowInterface
        yield self._route(
            "createInterface", "POST", ALL, self.create, "Add an interface", scopes_of(cases.create), response=row,
            status=HTTPStatus.CREATED, body=CreateInterface, body_required=True, headers=(IDEMPOTENCY_KEY, IF_MATCH),
        )  # fmt: skip
        yield self._route(
            "interfaces", "GET", ALL, self.list, "List interfaces", scopes_of(cases.page),
            response=WorkflowInterfaces, query=PAGING,
        )  # fmt: skip
        yield self._route(
            "clearInterfaces", "DELETE", ALL, self.clear, "Remove every interface", scopes_of(cases.clear),
            response=Deleted, headers=(IF_MATCH,),
        )  # fmt: skip
        yield self._route(
            "getInterface", "GET", ONE, self.get, "Read an interface", scopes_of(cases.get), response=row
        )  # fmt: skip
        yield self._route(
            "patchInterface", "PATCH", ONE, self.patch, "Change an interface", scopes_of(cases.patch),
            response=row, body=PatchInterface, body_required=True, headers=(IF_MATCH,),
        )  # fmt: skip
        yield self._route(
            "deleteInterface", "DELETE", ONE, self.delete, "Remove an interface", scopes_of(cases.delete),
            response=row, headers=(IF_MATCH,),
        )  # fmt: skip
        yield self._route(
            "interfaceSecret", "GET", f"{ONE}/secret", self.secret,
            "Read the URL for a team chat's messages, and their secret", scopes_of(cases.secret),
            response=WebhookSecret,
        )  # fmt: skip
        yield self._route(
            "rotateInterfaceSecret", "POST", f"{ONE}/secret/rotate", self.rotate,
            "Create a new secret; the old one stops working at once", scopes_of(cases.rotate_secret),
            response=WebhookSecret, body=Body, headers=(IF_MATCH,),
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        key, tags = idempotency_key(call.headers), if_match(call.headers)
        row = await self._cases.create(call.me, call.id, call.body, key=key, if_match=tags)
        location = call.url(self._base, call.id, "interfaces", row.id)
        return _response(call, row, HTTPStatus.CREATED, ETag=_etag(row), Location=location)

    async def list(self, call: Call) -> Response:
        bound_to, size = ("interfaces", call.id), call.query["pageSize"]
        after = call.position(*bound_to) or ""
        found = await self._cases.page(call.me, call.id, limit=size + 1, after=after)
        following = found[size - 1].id if len(found) > size else None
        return call.page("interfaces", [_RowView(row, call) for row in found[:size]], following, *bound_to)

    async def clear(self, call: Call) -> Response:
        return json_response({"deleted": await self._cases.clear(call.me, call.id, if_match=if_match(call.headers))})

    async def get(self, call: Call) -> Response:
        row = await self._cases.get(call.me, call.id, call.path["interfaceId"])
        return _response(call, row, ETag=_etag(row))

    async def patch(self, call: Call) -> Response:
        row_id, tags = call.path["interfaceId"], if_match(call.headers)
        row = await self._cases.patch(call.me, call.id, row_id, call.body, if_match=tags)
        return _response(call, row, ETag=_etag(row))

    async def delete(self, call: Call) -> Response:
        row_id, tags = call.path["interfaceId"], if_match(call.headers)
        return _response(call, await self._cases.delete(call.me, call.id, row_id, if_match=tags))

    async def secret(self, call: Call) -> Response:
        return _secret_response(call, await self._cases.secret(call.me, call.id, call.path["interfaceId"]))

    async def rotate(self, call: Call) -> Response:
        row_id, tags = call.path["interfaceId"], if_match(call.headers)
        return _secret_response(call, await self._cases.rotate_secret(call.me, call.id, row_id, if_match=tags))


def _secret_response(call: Call, signed: SignedInterface) -> Response:
    return json_response({"url": call.origin + call.url(signed.row.path), "secret": signed.secret})


def _response(call: Call, row: Interface, status: int = HTTPStatus.OK, **headers: str) -> Response:
    return json_response(_RowView(row, call).to_wire(), status, headers)


def _etag(row: Interface) -> str:
    """The ETag of the row wherever the application is mounted."""
    return etag_of(row.to_wire())
