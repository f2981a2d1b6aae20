"""Every route and every subset of the token scopes (interface, Authentication 4).

There are 2 ** 21 subsets, of which every fifth is tried, and more than a hundred routes. `missing_scopes` decides each
scope independently, so its result for all scopes and every subset holds for every route; routes use no other check.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any, Final

import attrs
import pytest
from clients import World
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection
from starlette.types import Message

from wfcore.adapters.http import app
from wfcore.adapters.http.core.route import Route
from wfcore.adapters.http.route_table import route_table
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role, missing_scopes

SUBSETS: Final = 1 << len(TOKEN_SCOPES)


def bits(scopes: Any) -> int:
    return sum(1 << TOKEN_SCOPES.index(scope) for scope in scopes)


IMPLIED: Final = {
    bits([scope]): bits([read])
    for scope in TOKEN_SCOPES
    if scope.endswith(":write") and (read := scope.replace(":write", ":read")) in TOKEN_SCOPES
}
"""The only implications: a scope with the one on the left includes the one on the right."""


def implied(held: int) -> int:
    return held | sum(read for write, read in IMPLIED.items() if held & write and not held & read)


def subsets_of(scopes: Any) -> Iterator[tuple[str, ...]]:
    rows = sorted(scopes)
    return chain.from_iterable(combinations(rows, size) for size in range(len(rows) + 1))


def test_every_subset() -> None:
    """For every fifth of 2,097,152 subsets, the missing scopes are those that it neither holds nor implies, in order.

    Five is odd: the subsets that are tried have every combination of any 16 neighbouring scopes.
    """
    assert SUBSETS == 2_097_152
    for held in range(0, SUBSETS, 5):
        granted = {scope for place, scope in enumerate(TOKEN_SCOPES) if held >> place & 1}
        has = implied(held)
        lacks = [scope for place, scope in enumerate(TOKEN_SCOPES) if not has >> place & 1]
        if missing_scopes(granted, TOKEN_SCOPES) != lacks:
            pytest.fail(f"{granted}: {missing_scopes(granted, TOKEN_SCOPES)} is not {lacks}")


@given(st.frozensets(st.sampled_from(TOKEN_SCOPES)), st.lists(st.sampled_from(TOKEN_SCOPES), unique=True))
def test_each_scope_is_decided_by_itself(granted: frozenset[str], needed: list[str]) -> None:
    """A scope is missing or not independently of the other required scopes."""
    lacks = missing_scopes(granted, TOKEN_SCOPES)
    assert missing_scopes(granted, needed) == [scope for scope in needed if scope in lacks]


class Caller:
    """A caller with given scopes, and a client whose requests no use case accepts."""

    def __init__(self, world: World) -> None:
        self.me: Principal | None = Principal(world.org, "ada", None, frozenset(), frozenset(), Role.OWNER)
        self._door = app(world.core, authenticate=self._authenticate)

    def holds(self, scopes: Any) -> None:
        assert self.me
        self.me = attrs.evolve(self.me, scopes=frozenset(scopes))

    async def ask(self, route: Route) -> tuple[int, Any]:
        """Status and body of a call to the route, for unknown ids and with an incomplete body."""
        path, sent = re.sub(r"\{\w+\}", "77", route.path), list[Message]()
        headers = [(b"accept", b"application/json"), (b"sec-fetch-site", b"same-origin")]
        headers.append((b"content-type", b"application/json"))
        scope = {"type": "http", "method": route.method, "path": path, "query_string": b"", "headers": headers}

        async def receive() -> Message:
            return {"type": "http.request", "body": b"{"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._door(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def _authenticate(self, _: HTTPConnection) -> Principal | None:
        return self.me


@pytest.mark.anyio
async def test_every_route_requires_its_scopes(world: World) -> None:
    """Each route, with every subset of the scopes of its areas, alone and beside all others.

    It lets in exactly those who hold or imply what the route needs, and says to the others what they lack.
    """
    caller, refusals = Caller(world), 0
    for route in route_table(world.core):
        if route.scopes is None:
            continue
        areas = {scope.partition(":")[0] for scope in route.scopes}
        near = {scope for scope in TOKEN_SCOPES if scope.partition(":")[0] in areas}
        assert set(route.scopes) <= near, route.name
        for held in subsets_of(near):
            for others in ((), set(TOKEN_SCOPES) - near):
                caller.holds({*held, *others})
                lacks = [scope for scope in route.scopes if not bits([scope]) & implied(bits(held))]
                status, body = await caller.ask(route)
                refused = [403, lacks] if lacks else [status, None]
                assert [status, body.get("error", {}).get("info", {}).get("missing")] == refused, route.name
                assert lacks or status in (201 if route.request_media_types else 200, 400, 404), (route.name, body)
                refusals += 1
    assert refusals > 1_000


@pytest.mark.anyio
async def test_every_route_requires_authentication(world: World) -> None:
    """Every route but a known list of open ones is 401 without a credential."""
    caller = Caller(world)
    caller.me = None
    open_to_all = {
        "openapi",
        "healthz",
        "readyz",
        "metrics",
        "protectedResource",
        "protectedResource.mcp",
        "webhooks.receive",
        "chatapp.page",
        "teamchat.receive",
        "teamchat.receiveSlack",
        "connections.connect",
        "connections.callback",
    }
    for route in route_table(world.core):
        status, _ = await caller.ask(route)
        assert (status != 401) == (route.name in open_to_all), route.name
