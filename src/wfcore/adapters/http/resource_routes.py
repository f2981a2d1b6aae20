"""The routes of workflows and skills (interface, Endpoints): each hands a checked request to one use case."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, TypedDict

from starlette.responses import Response

from wfcore.adapters.http.answers import json_answer
from wfcore.adapters.http.gate import Query, idempotency_key, one_header, one_of, short_text
from wfcore.adapters.http.table import IDEMPOTENCY_KEY, IF_MATCH, PAGING, Call, Handler, Route
from wfcore.domain.codec import page_of
from wfcore.domain.errors import Issue
from wfcore.domain.lifecycle import Status
from wfcore.domain.shapes import Body, ToggleBody, ValidateBody
from wfcore.runtime.context import scopes_of
from wfcore.runtime.resources import ResourceUseCases, View, Workflows

_STATUS = Query("status", one_of(*Status), {"enum": list(Status)}, "Only those in this state")
_SEARCH = Query("q", short_text, {"type": "string", "maxLength": 200}, "Part of the name or slug")


def _view(default: str) -> Query:
    schema = {"enum": ["active", "draft"], "default": default}
    return Query("view", one_of("active", "draft"), schema, "Which variation is read", default)


class FoundIssue(TypedDict):
    path: str
    message: str
    rule: str
    severity: str


class Issues(TypedDict):
    issues: list[FoundIssue]


class ResourceRoutes:
    """The routes that workflows and skills share, under one base path."""

    def __init__(
        self, cases: ResourceUseCases, name: str, base: str, shape: type, successor: str | None = None
    ) -> None:
        self._cases = cases
        self._rows = cases.area
        self._name = name
        self._base = base
        self._shape = shape
        self._successor = successor

    def table(self) -> Iterator[Route]:
        cases, word = self._cases, str(self._cases.kind)
        yield self._route(
            "create", "POST", "", self.create, f"Create a {word}", scopes_of(cases.create),
            status=HTTPStatus.CREATED, body=cases.create_shape, body_required=True, headers=(IDEMPOTENCY_KEY,),
        )  # fmt: skip
        yield self._route(
            "list", "GET", "", self.list, f"List {word}s", scopes_of(cases.page),
            answer=page_of(self._rows, self._shape), query=(_STATUS, _SEARCH, *PAGING),
        )  # fmt: skip
        one, changed = "/{id}", {"headers": (IF_MATCH,)}
        yield self._route("get", "GET", one, self.get, f"Read a {word}", scopes_of(cases.get), query=(_view("active"),))
        yield self._route(
            "patch", "PATCH", one, self.patch, f"Change a {word}", scopes_of(cases.patch),
            body=cases.patch_shape, body_required=True, **changed,
        )  # fmt: skip
        yield self._route("delete", "DELETE", one, self.delete, f"Delete a {word}", scopes_of(cases.delete), **changed)
        yield self._route(
            "deploy", "POST", "/{id}/deploy", self.deploy, "Publish the draft", scopes_of(cases.deploy),
            body=Body, **changed,
        )  # fmt: skip
        yield self._route(
            "restore", "POST", "/{id}/restore", self.restore, "Undo a delete", scopes_of(cases.restore), body=Body
        )
        yield self._route(
            "discardDraft", "POST", "/{id}/discard-draft", self.discard_draft, "Forget the draft",
            scopes_of(cases.discard_draft), body=Body,
        )  # fmt: skip

    def _route(
        self, name: str, method: str, path: str, handle: Handler, summary: str, scopes: tuple[str, ...], **more: Any
    ) -> Route:
        more.setdefault("answer", self._shape)
        return Route(
            f"{self._name}.{name}", method, self._base + path, handle, summary, scopes,
            base=self._base, successor=self._successor, **more,
        )  # fmt: skip

    async def create(self, call: Call) -> Response:
        made = await self._cases.create(call.me, call.body, key=idempotency_key(call.headers))
        return _seen(made, HTTPStatus.CREATED, Location=call.url(self._base, made.id))

    async def list(self, call: Call) -> Response:
        status, query, size = call.query["status"], call.query["q"], call.query["pageSize"]
        bound_to = (self._rows, status, query)
        after = call.position(*bound_to) or 0
        found = await self._cases.page(call.me, limit=size + 1, after=after, status=status, query=query)
        following = found[size - 1].id if len(found) > size else None
        return call.page(self._rows, found[:size], following, *bound_to)

    async def get(self, call: Call) -> Response:
        return _seen(await self._cases.get(call.me, call.id, call.query["view"]))

    async def patch(self, call: Call) -> Response:
        return _seen(await self._cases.patch(call.me, call.id, call.body, if_match=_if_match(call)))

    async def delete(self, call: Call) -> Response:
        return _seen(await self._cases.delete(call.me, call.id, if_match=_if_match(call)))

    async def deploy(self, call: Call) -> Response:
        return _seen(await self._cases.deploy(call.me, call.id, if_match=_if_match(call)))

    async def restore(self, call: Call) -> Response:
        return _seen(await self._cases.restore(call.me, call.id))

    async def discard_draft(self, call: Call) -> Response:
        return _seen(await self._cases.discard_draft(call.me, call.id))


class WorkflowRoutes(ResourceRoutes):
    """Workflows also have a schedule to toggle and a graph to validate."""

    _cases: Workflows

    def table(self) -> Iterator[Route]:
        yield from super().table()
        cases = self._cases
        yield self._route(
            "toggle", "POST", "/{id}/toggle", self.toggle, "Switch the schedule on or off", scopes_of(cases.toggle),
            body=ToggleBody,
        )  # fmt: skip
        yield self._route(
            "validate", "POST", "/validate", self.validate, "Every issue of a workflow in the making",
            scopes_of(cases.validate), body=ValidateBody, body_required=True, answer=Issues,
        )  # fmt: skip
        yield self._route(
            "validateSaved", "POST", "/{id}/validate", self.validate_saved, "Every issue that hinders a deploy",
            scopes_of(cases.validate_saved), body=Body, query=(_view("draft"),), answer=Issues,
        )  # fmt: skip

    async def toggle(self, call: Call) -> Response:
        return _seen(await self._cases.toggle(call.me, call.id, call.body))

    async def validate(self, call: Call) -> Response:
        return _issues(await self._cases.validate(call.me, call.body))

    async def validate_saved(self, call: Call) -> Response:
        return _issues(await self._cases.validate_saved(call.me, call.id, call.query["view"]))


def _seen(view: View, status: int = HTTPStatus.OK, **headers: str) -> Response:
    return json_answer(view.to_wire(), status, {"ETag": view.etag, **headers})


def _issues(found: list[Issue]) -> Response:
    return json_answer({"issues": [{**issue.to_wire(), "severity": issue.severity} for issue in found]})


def _if_match(call: Call) -> str | None:
    return one_header(call.headers, "If-Match")
