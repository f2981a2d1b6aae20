"""The routes of records of an organization: members, groups, context items, connections, delegations, policies."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import attrs
from starlette.responses import Response, StreamingResponse

from wfcore.adapters.http.core.request_parsing import OPAQUE_ID, Query, idempotency_key, if_match, opaque_id, search_of
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, PAGING, Call, Route
from wfcore.api.connections import ConnectionDto, CreateConnection, PatchConnection
from wfcore.api.contexts import ContextItemDto, CreateContextItem, PatchContextItem
from wfcore.api.organization import (
    CreateDelegation,
    CreateGroup,
    CreateMember,
    CreatePolicy,
    DelegationDto,
    EraseMember,
    ErasureDto,
    GroupDto,
    MemberDto,
    PatchDelegation,
    PatchGroup,
    PatchMember,
    PatchPolicy,
    PolicyDto,
)
from wfcore.domain.json.codec import page_of
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.runtime.agents.context_items import ContextItems
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.preconditions import etag_of
from wfcore.runtime.data.erasure import Erasures
from wfcore.runtime.data.exports import Exports
from wfcore.runtime.organization.delegations import Delegations
from wfcore.runtime.organization.members import Groups, Members
from wfcore.runtime.organization.policies import Policies
from wfcore.runtime.tools.connections import Connections


class RecordView(Protocol):
    """A record, as the use cases return it."""

    @property
    def id(self) -> str: ...

    def to_wire(self) -> dict[str, JSON]: ...


class RecordService(Protocol):
    """The use cases of one kind of records."""

    async def create(self, me: Principal, body: Mapping[str, JSON], *, key: str | None) -> RecordView: ...

    @property
    def page(self) -> Callable[..., Awaitable[list[Any]]]: ...

    async def get(self, me: Principal, id: str, /) -> RecordView: ...

    async def patch(
        self, me: Principal, id: str, /, body: Mapping[str, JSON], *, if_match: str | None
    ) -> RecordView: ...

    async def delete(self, me: Principal, id: str, /, *, if_match: str | None) -> RecordView: ...


@attrs.frozen
class RecordRoutes:
    """Create, list, read, change, remove. `field` is the name of a list on the wire, `id_parameter` the path parameter,
    and `filters` are the query parameters of the list by their name in the use case."""

    cases: RecordService
    base: str
    field: str
    id_parameter: str
    noun: str
    shape: type
    create_shape: type
    patch_shape: type
    filters: Mapping[str, Query] = attrs.field(factory=dict)
    plural: str = ""

    def table(self) -> Iterator[Route]:
        cases, one = self.cases, f"{self.base}/{{{self.id_parameter}}}"
        yield Route(
            f"{self.field}.create", "POST", self.base, self.create, f"Add a {self.noun}", scopes_of(cases.create),
            self.shape, status=HTTPStatus.CREATED, body=self.create_shape, body_required=True,
            headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield Route(
            f"{self.field}.list", "GET", self.base, self.list, f"List the {self.plural or self.noun + 's'}",
            scopes_of(cases.page), page_of(self.field, self.shape), query=(*self.filters.values(), *PAGING),
        )  # fmt: skip
        yield Route(
            f"{self.field}.get", "GET", one, self.get, f"Read a {self.noun}", scopes_of(cases.get), self.shape
        )  # fmt: skip
        yield Route(
            f"{self.field}.patch", "PATCH", one, self.patch, f"Change a {self.noun}", scopes_of(cases.patch),
            self.shape, body=self.patch_shape, body_required=True, headers=(IF_MATCH,),
        )  # fmt: skip
        yield Route(
            f"{self.field}.delete", "DELETE", one, self.delete, f"Remove a {self.noun}", scopes_of(cases.delete),
            self.shape, headers=(IF_MATCH,),
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        created = await self.cases.create(call.me, call.body, key=idempotency_key(call.headers))
        headers = {"Location": call.url(self.base, created.id), "ETag": etag_of(created.to_wire())}
        return json_response(created.to_wire(), HTTPStatus.CREATED, headers)

    async def list(self, call: Call) -> Response:
        filters = {name: call.query[query.name] for name, query in self.filters.items()}
        bound_to, size = (self.field, *filters.values()), call.query["pageSize"]
        found = await self.cases.page(call.me, limit=size + 1, after=call.position(*bound_to) or "", **filters)
        following = found[size - 1].id if len(found) > size else None
        return call.page(self.field, found[:size], following, *bound_to)

    async def get(self, call: Call) -> Response:
        return json_response((await self.cases.get(call.me, call.path[self.id_parameter])).to_wire())

    async def patch(self, call: Call) -> Response:
        one, etag = call.path[self.id_parameter], if_match(call.headers)
        return json_response((await self.cases.patch(call.me, one, call.body, if_match=etag)).to_wire())

    async def delete(self, call: Call) -> Response:
        one, etag = call.path[self.id_parameter], if_match(call.headers)
        return json_response((await self.cases.delete(call.me, one, if_match=etag)).to_wire())


def member_routes(cases: Members) -> RecordRoutes:
    base, field = "/api/v1/members", "members"
    filters = {
        "group": Query("groupId", opaque_id, OPAQUE_ID, "Only the members of this group"),
        "query": search_of("user id, name or e-mail"),
    }
    return RecordRoutes(cases, base, field, "userId", "member", MemberDto, CreateMember, PatchMember, filters)


def group_routes(cases: Groups) -> RecordRoutes:
    return RecordRoutes(cases, "/api/v1/groups", "groups", "groupId", "group", GroupDto, CreateGroup, PatchGroup)


def context_item_routes(cases: ContextItems) -> RecordRoutes:
    base, field = "/api/v1/context-items", "contextItems"
    return RecordRoutes(
        cases, base, field, "itemId", "context item", ContextItemDto, CreateContextItem, PatchContextItem
    )


def policy_routes(cases: Policies) -> RecordRoutes:
    base, field = "/api/v1/policies", "policies"
    return RecordRoutes(
        cases, base, field, "policyId", "policy", PolicyDto, CreatePolicy, PatchPolicy, plural="policies"
    )


def connection_routes(cases: Connections) -> RecordRoutes:
    base, field = "/api/v1/connections", "connections"
    return RecordRoutes(
        cases, base, field, "connectionId", "connection", ConnectionDto, CreateConnection, PatchConnection
    )


def delegation_routes(cases: Delegations) -> RecordRoutes:
    base, field = "/api/v1/delegations", "delegations"
    return RecordRoutes(
        cases, base, field, "delegationId", "delegation", DelegationDto, CreateDelegation, PatchDelegation
    )


@attrs.frozen
class MemberDataRoutes:
    """Export and erasure of a member."""

    exports: Exports
    erasures: Erasures

    def table(self) -> Iterator[Route]:
        one = "/api/v1/members/{userId}"
        yield Route(
            "members.export", "GET", f"{one}/export", self.export, "Export the data of a member",
            scopes_of(self.exports.member), {"type": "string", "format": "binary"}, media_type="application/zip",
        )  # fmt: skip
        yield Route(
            "members.erase", "POST", f"{one}/erase", self.erase, "Erase a member", scopes_of(self.erasures.start),
            ErasureDto, HTTPStatus.ACCEPTED, body=EraseMember, headers=(IF_MATCH,),
        )  # fmt: skip

    async def export(self, call: Call) -> Response:
        chunks = await self.exports.member(call.me, call.path["userId"])
        headers = {"Content-Disposition": 'attachment; filename="member.zip"', "Cache-Control": "no-store"}
        return StreamingResponse(chunks, media_type="application/zip", headers=headers)

    async def erase(self, call: Call) -> Response:
        etag = if_match(call.headers)
        found = await self.erasures.start(call.me, call.path["userId"], call.body, if_match=etag)
        return json_response(found.to_wire(), HTTPStatus.ACCEPTED)
