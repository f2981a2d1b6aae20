"""Visibility x owner x sharedWith x groups x organization x status x operation: exhaustively, and by sample over HTTP.

The expected results follow the sentences of the interface (Authentication 6; AccessConfig; States and transitions).
The authorization function and the routes are both compared with them.
"""

import random
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import attrs
import httpx
import pytest
from clients import POLL, Json, World, chain

from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.resources.access import AccessConfig, GroupGrant, Principal, Role, SharedUser
from wfcore.domain.resources.lifecycle import Operation, Status, move
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.runtime.common.authorization import authorize
from wfcore.testing.contracts.storage.values import new_resource

ORG, TEAM, ELSEWHERE = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123")
ME, MINE, OTHER = "me", "me@x.org", "somebody"

OWNERS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "by id": (ME, None), "by e-mail": (None, MINE), "another": (OTHER, MINE), "nobody": (None, None),
}  # fmt: skip
INVITED: Final[Mapping[str, tuple[str, str | None] | None]] = {
    "nobody": None, "my e-mail": (MINE, None), "my id": ("old@x.org", ME), "my e-mail for another": (MINE, OTHER),
}  # fmt: skip
BITS: Final = ((False, False), (False, True), (True, False), (True, True))


@attrs.frozen
class Case:
    """One cell of the matrix without the operation. `everybody` and `team` are use and manage of the two groups."""

    visibility: str
    owner: str
    invited: str
    everybody: tuple[bool, bool]
    team: tuple[bool, bool]
    in_team: bool
    same_organization: bool
    status: Status

    def access(self, org: str, team: str) -> AccessConfig:
        invited = INVITED[self.invited]
        entries = () if invited is None else (SharedUser(invited[0], "", OTHER, invited[1]),)
        groups = {org: GroupGrant(*self.everybody), team: GroupGrant(*self.team)}
        return AccessConfig(self.visibility, groups, entries, *OWNERS[self.owner])  # type: ignore[arg-type]

    @property
    def rights(self) -> tuple[bool, bool]:
        """canUse and canManage, as the interface says."""
        if not self.same_organization:
            return False, False
        if self.visibility == "shared":
            granted = [self.everybody, self.team] if self.in_team else [self.everybody]
            return any(use for use, _ in granted), any(manage for _, manage in granted)
        owner = self.owner in ("by id", "by e-mail")
        return owner or self.invited in ("my e-mail", "my id"), owner


CASES: Final = [
    Case(*values)
    for values in product(
        ("shared", "private"), OWNERS, INVITED, BITS, BITS, (False, True), (True, False), list(Status)
    )
]

DRAFT, ACTIVE, DELETED = Status


@attrs.frozen
class Request:
    """An operation: the rights it needs, the states where it is legal, and its request below the workflow's path."""

    name: str
    takes: tuple[str, ...]
    move: Operation | None
    legal: tuple[Status, ...]
    method: str
    path: str
    body: Json | None = None


EVERYWHERE, LIVE = (DRAFT, ACTIVE, DELETED), (DRAFT, ACTIVE)
OPERATIONS: Final = [
    Request("read", ("see",), None, EVERYWHERE, "GET", ""),
    Request("read the draft", ("manage",), None, EVERYWHERE, "GET", "?view=draft"),
    Request("explain", ("manage",), None, EVERYWHERE, "GET", "/access"),
    Request("history", ("use",), None, EVERYWHERE, "GET", "/runs"),
    Request("interfaces", ("manage",), None, EVERYWHERE, "GET", "/interfaces"),
    Request("edit", ("manage",), Operation.EDIT, LIVE, "PATCH", "", {"name": "New"}),
    Request("deploy", ("manage",), Operation.DEPLOY, LIVE, "POST", "/deploy"),
    Request("discard", ("manage",), Operation.DISCARD_DRAFT, (ACTIVE,), "POST", "/discard-draft"),
    Request("toggle", ("manage",), Operation.TOGGLE, (ACTIVE,), "POST", "/toggle", {"isEnabled": False}),
    Request("impact", ("manage",), None, EVERYWHERE, "GET", "/impact"),
    Request("test a node", ("manage",), None, EVERYWHERE, "POST", "/nodes/start/test", {}),
    Request("move runs", ("manage",), Operation.RUN, (ACTIVE,), "POST", "/move-runs", {"all": True}),
    Request("delete", ("manage",), Operation.DELETE, EVERYWHERE, "DELETE", ""),
    Request("restore", ("manage",), Operation.RESTORE, EVERYWHERE, "POST", "/restore"),
    Request("webhook", ("manage",), Operation.EDIT, LIVE, "POST", "/webhook/rotate"),
    Request("run", ("use",), Operation.RUN, (ACTIVE,), "RUN", ""),
    Request("run the draft", ("use", "manage"), Operation.RUN_DRAFT, LIVE, "RUN", "", {"version": "draft"}),
]  # fmt: skip


def expected(case: Case, request: Request) -> int:
    """The status of the response."""
    can_use, can_manage = case.rights
    if not (can_use or can_manage) or (case.status is DELETED and not can_manage):
        return 404
    if ("use" in request.takes and not can_use) or ("manage" in request.takes and not can_manage):
        return 403
    return 200 if case.status in request.legal else 409


def decided(me: Principal, found: Resource | None, request: Request) -> int:
    """The status by the authorization function and the table of moves."""
    try:
        for grant in request.takes:
            authorize(me, found, grant)
        if found is not None and request.move is not None:
            move(found.status, request.move)
    except WfcoreError as error:
        return error.http
    return 200


def test_every_cell() -> None:
    """All 6,144 cases with every operation: the decision is that of the interface."""
    assert len(CASES) == 6_144
    met = set[tuple[str, int]]()
    for case in CASES:
        org = ORG if case.same_organization else ELSEWHERE
        groups = frozenset({TEAM} if case.in_team else ())
        me = Principal(org, ME, MINE, groups, frozenset(), Role.OWNER)
        kept = {ORG: new_resource(1, access=case.access(ORG, TEAM), status=case.status)}
        answers: dict[tuple[Any, ...], int] = {}
        for request in OPERATIONS:
            question = (request.takes, request.move)
            if question not in answers:
                answers[question] = decided(me, kept.get(me.org_uuid), request)
            if answers[question] != expected(case, request):
                pytest.fail(f"{request.name} of {case}: {answers[question]} is not {expected(case, request)}")
            met.add((request.name, answers[question]))
    for request in OPERATIONS:
        wanted = {200, 404} | ({403} if request.takes != ("see",) else set())
        assert {code for name, code in met if name == request.name} >= wanted, "no cell is empty"


def sample() -> Iterator[tuple[Case, Request]]:
    """Every operation with every status that it can have, a few times, on sampled cases."""
    draw = random.Random(7)
    for request in OPERATIONS:
        by_answer: dict[int, list[Case]] = {}
        for case in CASES:
            by_answer.setdefault(expected(case, request), []).append(case)
        for found in by_answer.values():
            for case in draw.sample(found, 5):
                yield case, request


@pytest.mark.anyio
async def test_over_http(world: World) -> None:
    """A sample of the matrix, with every status of every operation, through the routes."""
    team, others = [(await world.core.directory.create_group(world.org, name)).id for name in ("Team", "Others")]
    other = await world.core.directory.create_organization("Elsewhere")
    member, stranger = await world.user(ME, groups=[team]), await world.user(ME, org=other.uuid)
    boss = world.core.principal(world.org, "boss")
    for case, request in sample():
        number = await planted(world, boss, case, team if case.in_team else others)
        answer = await ask(member if case.same_organization else stranger, request, number)
        status = 200 if answer.status_code == 202 else answer.status_code
        assert status == expected(case, request), (case, request.name, answer.text)


async def planted(world: World, boss: Principal, case: Case, team: str) -> int:
    """A workflow in the case's state, a draft of it pending unless it is deleted, under the case's access."""
    flows = world.core.workflows
    number = (await flows.create(boss, name="W", structure=chain())).id
    if case.status is not DRAFT:
        await flows.deploy(boss, number)
        await flows.patch(boss, number, trigger={"trigger_type": "manual"})
    if case.status is DELETED:
        await flows.delete(boss, number)
    async with world.core.ports.storage.transaction(world.org) as work:
        old = await work.resources(Kind.WORKFLOW).get(number)
        assert old
        new = attrs.evolve(old, access=case.access(world.org, team), revision=old.revision + 1)
        await work.resources(Kind.WORKFLOW).save(old, new)
    return number


async def ask(caller: httpx.AsyncClient, request: Request, number: int) -> httpx.Response:
    if request.method == "RUN":
        body = {"workflowId": number, "input": {}, **(request.body or {})}
        return await caller.post("/agent/v1/runs", json=body, headers=POLL)
    return await caller.request(request.method, f"/api/v1/workflows/{number}{request.path}", json=request.body)
