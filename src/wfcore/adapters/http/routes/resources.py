"""The routes of workflows and skills (interface, Endpoints): each calls one use case with a checked request."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NotRequired, TypedDict

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import (
    OPAQUE_ID,
    Query,
    idempotency_key,
    if_match,
    one_of,
    opaque_id,
    page_size,
    search_of,
)
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, PAGING, Call, Handler, Route
from wfcore.adapters.http.routes.interfaces import InterfaceRoutes
from wfcore.adapters.http.routes.variations import VariationRoutes
from wfcore.adapters.http.routes.webhooks import WebhookRoutes
from wfcore.api.management import (
    AccessExplanationDto,
    DeployedVariations,
    ListedSchedules,
    NextRuns,
    RollbackBody,
    ScheduleState,
    SupervisionLinks,
    TransferBody,
)
from wfcore.api.resources import Body, DeploySkill, Supervision, ToggleBody
from wfcore.api.runs import RunRecord
from wfcore.domain.json.codec import page_of
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.resources.content import SkillContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.supervision import links_of
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.resources.base import ResourceView
from wfcore.runtime.resources.schedules import firing_to_wire
from wfcore.runtime.resources.skills import Skills
from wfcore.runtime.resources.workflows import Workflows

SCHEDULES = "/api/v1/schedules"

_STATUS = Query("status", one_of(*Status), {"enum": list(Status)}, "Only those in this state")
_SEARCH = search_of("name or slug")
_MEMBER = Query("userId", opaque_id, OPAQUE_ID, "Explain the access of this member")
_COUNT = Query("count", page_size, {"type": "integer", "minimum": 1, "default": 10},
               "How many; more than 100 is read as 100", 10)  # fmt: skip
_TIMES = attrs.evolve(_COUNT, description="How many next times of each; more than 100 is read as 100")


def _view(default: str) -> Query:
    schema = {"enum": ["active", "draft"], "default": default}
    return Query("view", one_of("active", "draft"), schema, "Which variation is read", default)


class FoundIssue(TypedDict):
    """An issue. `counterExample`: the ids of nodes on a path of the graph that breaks a policy."""

    path: str
    message: str
    rule: str
    severity: str
    counterExample: NotRequired[list[str]]


class Issues(TypedDict):
    issues: list[FoundIssue]


class ResourceRoutes:
    """The routes that workflows and skills share, under one base path."""

    deploy_body: type = Body

    def __init__(
        self, cases: Workflows | Skills, name: str, base: str, shape: type, successor: str | None = None
    ) -> None:
        self._cases = cases
        self._field = cases.area
        self._name = name
        self._base = base
        self._shape = shape
        self._successor = successor

    def table(self) -> Iterator[Route]:
        cases, word = self._cases, str(self._cases.kind)
        yield self._route(
            "create", "POST", "", self.create, f"Create a {word}", scopes_of(cases.create),
            status=HTTPStatus.CREATED, body=cases.create_body, body_required=True, headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield self._route(
            "list", "GET", "", self.list, f"List {word}s", scopes_of(cases.page),
            response=page_of(self._field, self._shape), query=(_STATUS, _SEARCH, *PAGING),
        )  # fmt: skip
        one, changed = "/{id}", {"headers": (IF_MATCH,)}
        yield self._route("get", "GET", one, self.get, f"Read a {word}", scopes_of(cases.get), query=(_view("active"),))
        yield self._route(
            "patch", "PATCH", one, self.patch, f"Change a {word}", scopes_of(cases.patch),
            body=cases.patch_body, body_required=True, **changed,
        )  # fmt: skip
        yield self._route("delete", "DELETE", one, self.delete, f"Delete a {word}", scopes_of(cases.delete), **changed)
        yield self._route(
            "deploy", "POST", "/{id}/deploy", self.deploy, "Publish the draft", scopes_of(cases.deploy),
            body=self.deploy_body, **changed,
        )  # fmt: skip
        yield self._route(
            "restore", "POST", "/{id}/restore", self.restore, "Undo a delete", scopes_of(cases.restore),
            body=Body, **changed,
        )  # fmt: skip
        yield self._route(
            "discardDraft", "POST", "/{id}/discard-draft", self.discard_draft, "Discard the draft",
            scopes_of(cases.discard_draft), body=Body, **changed,
        )  # fmt: skip
        yield self._route(
            "variations", "GET", "/{id}/variations", self.variations,
            "List deployed variations, latest deployment first", scopes_of(cases.variations),
            response=DeployedVariations, query=PAGING,
        )  # fmt: skip
        yield self._route(
            "rollback", "POST", "/{id}/rollback", self.rollback, "Deploy an old variation again",
            scopes_of(cases.rollback), body=RollbackBody, body_required=True, **changed,
        )  # fmt: skip
        yield from VariationRoutes(self._cases, self._route).table()
        yield from self._ownership()
        yield from self._validation()

    def _ownership(self) -> Iterator[Route]:
        cases, transfer, changed = self._cases, "/{id}/ownership-transfer", {"headers": (IF_MATCH,)}
        yield self._route(
            "transferOwnership", "POST", transfer, self.transfer, "Offer the ownership to a member",
            scopes_of(cases.transfer_ownership), body=TransferBody, body_required=True, **changed,
        )  # fmt: skip
        yield self._route(
            "cancelTransfer", "DELETE", transfer, self.cancel_transfer, "Cancel the offer",
            scopes_of(cases.cancel_transfer), **changed,
        )  # fmt: skip
        yield self._route(
            "acceptTransfer", "POST", f"{transfer}/accept", self.accept_transfer, "Accept the ownership",
            scopes_of(cases.accept_transfer), body=Body, **changed,
        )  # fmt: skip
        yield self._route(
            "declineTransfer", "POST", f"{transfer}/decline", self.decline_transfer, "Decline the ownership",
            scopes_of(cases.decline_transfer), body=Body, **changed,
        )  # fmt: skip
        yield self._route(
            "explainAccess", "GET", "/{id}/access", self.explain_access,
            "Explain who can use and manage it, and by which rule",
            scopes_of(cases.explain_access), response=AccessExplanationDto, query=(_MEMBER,),
        )  # fmt: skip

    def _validation(self) -> Iterator[Route]:
        cases, word = self._cases, str(self._cases.kind)
        yield self._route(
            "validate", "POST", "/validate", self.validate, f"List every issue of a {word} before it is saved",
            scopes_of(cases.validate), body=cases.validate_body, body_required=True, response=Issues,
        )  # fmt: skip
        yield self._route(
            "validateSaved", "POST", "/{id}/validate", self.validate_saved,
            "List every issue that prevents a deployment",
            scopes_of(cases.validate_saved), body=Body, query=(_view("draft"),), response=Issues,
        )  # fmt: skip

    def _route(
        self, name: str, method: str, path: str, handle: Handler, summary: str, scopes: tuple[str, ...], **more: Any
    ) -> Route:
        more.setdefault("response", self._shape)
        return Route(
            f"{self._name}.{name}", method, self._base + path, handle, summary, scopes,
            base=self._base, successor=self._successor, **more,
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        created = await self._cases.create(call.me, call.body, key=idempotency_key(call.headers))
        return _response(call, created, HTTPStatus.CREATED, Location=call.url(self._base, created.id))

    async def list(self, call: Call) -> Response:
        status, query, size = call.query["status"], call.query["q"], call.query["pageSize"]
        bound_to = (self._field, status, query)
        after = call.position(*bound_to) or 0
        found = await self._cases.page(call.me, limit=size + 1, after=after, status=status, query=query)
        following = found[size - 1].id if len(found) > size else None
        return call.page(self._field, found[:size], following, *bound_to)

    async def get(self, call: Call) -> Response:
        return _response(call, await self._cases.get(call.me, call.id, call.query["view"]))

    async def patch(self, call: Call) -> Response:
        return _response(call, await self._cases.patch(call.me, call.id, call.body, if_match=if_match(call.headers)))

    async def delete(self, call: Call) -> Response:
        return _response(call, await self._cases.delete(call.me, call.id, if_match=if_match(call.headers)))

    async def validate(self, call: Call) -> Response:
        return _issues(await self._cases.validate(call.me, call.body))

    async def validate_saved(self, call: Call) -> Response:
        return _issues(await self._cases.validate_saved(call.me, call.id, call.query["view"]))

    async def deploy(self, call: Call) -> Response:
        return _response(call, await self._cases.deploy(call.me, call.id, if_match=if_match(call.headers)))

    async def restore(self, call: Call) -> Response:
        return _response(call, await self._cases.restore(call.me, call.id, if_match=if_match(call.headers)))

    async def discard_draft(self, call: Call) -> Response:
        return _response(call, await self._cases.discard_draft(call.me, call.id, if_match=if_match(call.headers)))

    async def variations(self, call: Call) -> Response:
        bound_to, size = (self._field, "variations", call.id), call.query["pageSize"]
        found = await self._cases.variations(call.me, call.id, limit=size + 1, before=call.position(*bound_to))
        following = found[size - 1].id if len(found) > size else None
        return call.page("variations", found[:size], following, *bound_to)

    async def rollback(self, call: Call) -> Response:
        return _response(call, await self._cases.rollback(call.me, call.id, call.body, if_match=if_match(call.headers)))

    async def transfer(self, call: Call) -> Response:
        return _response(
            call, await self._cases.transfer_ownership(call.me, call.id, call.body, if_match=if_match(call.headers))
        )

    async def cancel_transfer(self, call: Call) -> Response:
        return _response(call, await self._cases.cancel_transfer(call.me, call.id, if_match=if_match(call.headers)))

    async def accept_transfer(self, call: Call) -> Response:
        return _response(call, await self._cases.accept_transfer(call.me, call.id, if_match=if_match(call.headers)))

    async def decline_transfer(self, call: Call) -> Response:
        return _response(call, await self._cases.decline_transfer(call.me, call.id, if_match=if_match(call.headers)))

    async def explain_access(self, call: Call) -> Response:
        return json_response((await self._cases.explain_access(call.me, call.id, call.query["userId"])).to_wire())


class WorkflowRoutes(ResourceRoutes):
    """Workflows also have a schedule, runs, interfaces and a webhook."""

    _cases: Workflows

    def table(self) -> Iterator[Route]:
        yield from super().table()
        cases = self._cases
        yield self._route(
            "toggle", "POST", "/{id}/toggle", self.toggle, "Switch the schedule on or off", scopes_of(cases.toggle),
            body=ToggleBody, headers=(IF_MATCH,),
        )  # fmt: skip
        yield self._route(
            "nextRuns", "GET", "/{id}/next-runs", self.next_runs, "List the next times of the schedule",
            scopes_of(cases.next_runs), response=NextRuns, query=(_COUNT,),
        )  # fmt: skip
        yield self._route(
            "schedule", "GET", "/{id}/schedule", self.schedule, "Read the state of the schedule, with missed runs",
            scopes_of(cases.schedule), response=ScheduleState,
        )  # fmt: skip
        yield self._route(
            "runs", "GET", "/{id}/runs", self.runs, "List its runs, newest first", scopes_of(cases.runs),
            response=page_of("runs", RunRecord), query=PAGING,
        )  # fmt: skip
        yield from InterfaceRoutes(cases.interfaces, self._base, self._route).table()
        yield from WebhookRoutes(cases, self._route).table()

    async def toggle(self, call: Call) -> Response:
        return _response(call, await self._cases.toggle(call.me, call.id, call.body, if_match=if_match(call.headers)))

    async def next_runs(self, call: Call) -> Response:
        found = await self._cases.next_runs(call.me, call.id, count=call.query["count"])
        return json_response({"nextRuns": [firing_to_wire(firing) for firing in found]})

    async def schedule(self, call: Call) -> Response:
        return json_response((await self._cases.schedule(call.me, call.id)).to_wire())

    async def runs(self, call: Call) -> Response:
        bound_to, size = (self._field, "runs", call.id), call.query["pageSize"]
        position = call.position(*bound_to)
        found = await self._cases.runs(call.me, call.id, limit=size + 1, before=position)
        last = found[size - 1].row if len(found) > size else None
        return call.page("runs", found[:size], last and last.key, *bound_to)


class ScheduleRoutes:
    """The schedules of all workflows."""

    def __init__(self, cases: Workflows) -> None:
        self._cases = cases

    def table(self) -> Iterator[Route]:
        yield Route(
            "schedules.list", "GET", SCHEDULES, self.list,
            "List the schedules of active workflows, with their next times", scopes_of(self._cases.schedules),
            response=ListedSchedules, query=(_TIMES, *PAGING), base=SCHEDULES,
        )  # fmt: skip

    async def list(self, call: Call) -> Response:
        size, count = call.query["pageSize"], call.query["count"]
        after = call.position("schedules") or 0
        found = await self._cases.schedules(call.me, limit=size + 1, after=after, count=count)
        return call.page("schedules", found[:size], found[size - 1].id if len(found) > size else None, "schedules")


class SkillRoutes(ResourceRoutes):
    """Skills can also supervise other skills, and their evaluations can be overridden by a deploy."""

    _cases: Skills
    deploy_body = DeploySkill

    def table(self) -> Iterator[Route]:
        yield from super().table()
        cases, path = self._cases, "/{id}/supervision"
        yield self._route(
            "supervision", "GET", path, self.supervision, "List the skills that it supervises", scopes_of(cases.get),
            response=SupervisionLinks, query=(_view("draft"),),
        )  # fmt: skip
        yield self._route(
            "supervise", "PUT", path, self.supervise, "Set the skills that it supervises, in the draft",
            scopes_of(cases.supervise), body=Supervision, headers=(IF_MATCH,), response=SupervisionLinks,
        )  # fmt: skip

    async def deploy(self, call: Call) -> Response:
        return _response(call, await self._cases.deploy(call.me, call.id, call.body, if_match=if_match(call.headers)))

    async def supervision(self, call: Call) -> Response:
        return _links(await self._cases.get(call.me, call.id, call.query["view"]))

    async def supervise(self, call: Call) -> Response:
        return _links(await self._cases.supervise(call.me, call.id, call.body, if_match=if_match(call.headers)))


def _response(call: Call, view: ResourceView, status: int = HTTPStatus.OK, **headers: str) -> Response:
    return json_response(view.to_wire(call.url("")), status, {"ETag": view.etag, **headers})


def _links(view: ResourceView) -> Response:
    content = view.variation.skill if view.variation else SkillContent()
    return json_response(links_of(content), headers={"ETag": view.etag})


def _issues(found: list[Issue]) -> Response:
    return json_response({"issues": [{**issue.to_wire(), "severity": issue.severity} for issue in found]})
