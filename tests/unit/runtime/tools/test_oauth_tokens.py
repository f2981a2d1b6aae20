"""Tokens of connections when servers fail, keys are lost, or nobody can renew them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from bench import Bench, act, one, opened

from wfcore.adapters.tools.catalog import tool
from wfcore.domain.agents.connections import ConnectionKind
from wfcore.domain.kernel.errors import Conflict, Invalid
from wfcore.ports.outbound import OutboundResponse, Undelivered
from wfcore.ports.providers import ConnectionRequired, ToolCall
from wfcore.runtime.tools.authorizations import InvalidLink
from wfcore.runtime.tools.connection_use import ConnectionUse, ConnectionUser
from wfcore.runtime.tools.oauth_tokens import LEASE, OAuthTokens, grants_of

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
CONFIG = {
    "clientId": "c", "tokenUrl": "https://as.org/t", "authorizeUrl": "https://as.org/a",
    "revocationUrl": "https://as.org/r",
}  # fmt: skip


@attrs.define
class Server:
    """Implements the port `Outbound`: responds with this, or is not there for None."""

    response: Mapping[str, Any] | None = None
    urls: list[str] = attrs.field(factory=list)
    meanwhile: Callable[[], Awaitable[object]] | None = None
    """What happens before the next response."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        raise Undelivered("nobody is there")

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> OutboundResponse:
        self.urls.append(url)
        if self.response is None:
            raise Undelivered("nobody is there")
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return OutboundResponse(200, {}, json.dumps(self.response).encode())


@tool(provider="crm", idempotent=True)
async def use(call: ToolCall) -> bool:
    assert call.connection is not None
    return call.connection.config["accessToken"] == "access"


@pytest.fixture
async def server() -> Server:
    return Server({"access_token": "access", "refresh_token": "refresh", "expires_in": 3_600})


@pytest.fixture
async def bench(database: str, server: Server) -> AsyncIterator[Bench]:
    async with opened(database, tools=[use], secrets=KEY, outbound=server) as made:
        yield made


async def state_of(bench: Bench, row: str) -> str:
    url = await bench.core.connections.authorize(bench.me, row, address="http://w.org")
    return parse_qs(urlsplit(url).query)["state"][0]


async def connected(bench: Bench, **config: Any) -> str:
    body = {"name": "CRM", "provider": "crm", "kind": "oauth2", "config": {**CONFIG, **config}}
    row = (await bench.core.connections.create(bench.me, body)).id
    finished = await bench.core.connects.finish(await state_of(bench, row), "code", None, None)
    assert finished.reason is None
    return row


async def test_a_code_of_another_server_is_sent_to_nobody(bench: Bench, server: Server) -> None:
    """The response names an issuer at another host than the URLs of the connection."""
    body = {"name": "CRM", "provider": "crm", "kind": "oauth2", "config": CONFIG}
    row = (await bench.core.connections.create(bench.me, body)).id
    finished = await bench.core.connects.finish(await state_of(bench, row), "code", None, "https://evil.org")
    assert finished.reason == "the response came from another authorization server"
    assert server.urls == []


async def test_an_authorization_server_that_is_away(bench: Bench, server: Server) -> None:
    """A call fails for now, without an interrupt, and the next one renews the token; deletion does not need it."""
    row = await connected(bench)
    assert (await bench.ran(one(act("use")))).output is True
    bench.clock.advance(3_600)
    server.response = None
    run = await bench.ran(one(act("use")))
    assert (run.status, "cannot be reached" in run.error["message"]) == ("error", True)
    server.response = {"access_token": "access", "expires_in": 60}
    assert (await bench.ran(one(act("use")))).output is True
    server.response = None
    await bench.core.connections.delete(bench.me, row)
    assert server.urls[-1] == "https://as.org/r"


@pytest.mark.parametrize(("ahead", "is_held"), [(0, True), (LEASE, True), (60 * LEASE, False)])
async def test_a_lease_of_a_process_that_died(bench: Bench, ahead: int, is_held: bool) -> None:
    """It holds for its time, also by a clock that is a minute ahead, and not until an hour from now."""
    row = await connected(bench)
    bench.clock.advance(3_600)
    async with bench.core.ports.storage.transaction(bench.org) as work:
        (grant,), connection = await grants_of(work, row), await work.connections.get(row)
        leased = attrs.evolve(grant, leased_until=bench.clock.now() + LEASE + ahead)
        await work.connection_grants.save(leased)
    assert connection is not None
    claimed = await OAuthTokens(bench.core.ports)._claim(bench.org, connection, grant.user_id, leased)
    assert (claimed is None) is is_held


async def test_a_late_refusal_of_the_former_token(bench: Bench, server: Server) -> None:
    """It arrives while that token is replaced, and again afterwards: the new tokens stay, and they work."""
    row, use = await connected(bench), ConnectionUse(bench.core.ports)
    user = ConnectionUser.of(bench.me)
    former = await use.of_id(user, row, ConnectionKind.OAUTH2)

    async def refused() -> None:
        await use.record_result(bench.org, former, ConnectionRequired("no"))

    bench.clock.advance(3_600)
    server.response = {"access_token": "second", "refresh_token": "next", "expires_in": 3_600}
    server.meanwhile = refused
    assert (await use.of_id(user, row, ConnectionKind.OAUTH2)).token == "second"
    assert (await bench.core.connections.get(bench.me, row)).status == "connected"
    server.response = None
    assert (await use.of_id(user, row, ConnectionKind.OAUTH2)).token == "second"
    await refused()
    assert (await bench.core.connections.get(bench.me, row)).status == "connected"


async def test_a_token_that_nobody_can_renew(bench: Bench, server: Server) -> None:
    """After its end the connection is expired, and a run waits."""
    server.response = {"access_token": "access", "expires_in": 60}
    row = await connected(bench)
    bench.clock.advance(60)
    assert (await bench.core.connections.get(bench.me, row)).status == "expired"
    run = await bench.ran(one(act("use")))
    assert run.to_wire()["interrupts"][0]["connectionId"] == row


async def test_a_lost_key(database: str, server: Server) -> None:
    """Tokens that this installation cannot open lead to an interrupt; a link of another key is not valid."""
    async with opened(database, tools=[use], secrets=KEY, outbound=server) as bench:
        row = await connected(bench)
        state = await state_of(bench, row)
    if "memory" in database or database == "sqlite://":
        return
    async with opened(database, tools=[use], secrets=b"o" * 32, org=bench.org, outbound=server) as again:
        run = await again.ran(one(act("use")))
        assert run.to_wire()["interrupts"][0]["type"] == "connect"
        assert (await again.core.connections.get(again.me, row)).status == "error"
        with pytest.raises(InvalidLink):
            await again.core.connects.finish(state, "code", None, None)


async def test_links_that_do_not_hold(bench: Bench, server: Server) -> None:
    """Of a deleted connection, after ten minutes, of another step; without an address there is none."""
    row = await connected(bench)
    late, deleted = await state_of(bench, row), await state_of(bench, row)
    with pytest.raises(InvalidLink):
        await bench.core.connects.follow(late)
    with pytest.raises(Invalid):
        await bench.core.connections.authorize(bench.me, row)
    await bench.core.connections.delete(bench.me, row)
    with pytest.raises(InvalidLink):
        await bench.core.connects.finish(deleted, "code", None, None)
    bench.clock.advance(600)
    with pytest.raises(InvalidLink):
        await bench.core.connects.finish(late, "code", None, None)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_connection_that_changes_while_the_server_responds(
    bench: Bench, server: Server, is_deleted: bool
) -> None:
    """The personal tokens of its user are not stored: neither for the organization nor for the user."""
    body = {"name": "Mail", "provider": "crm", "kind": "oauth2", "ownership": "user", "config": CONFIG}
    row, connections = (await bench.core.connections.create(bench.me, body)).id, bench.core.connections
    state = await state_of(bench, row)
    deleted, shared = partial(connections.delete, bench.me, row), partial(connections.patch, bench.me, row)
    server.meanwhile = deleted if is_deleted else partial(shared, ownership="organization")
    with pytest.raises(InvalidLink):
        await bench.core.connects.finish(state, "code", None, None)
    assert server.urls == ["https://as.org/t"]
    async with bench.core.ports.storage.reading(bench.org) as work:
        assert await work.connection_grants.page(limit=10) == []


@pytest.mark.parametrize("response", [None, {}])
async def test_an_mcp_server_without_metadata(bench: Bench, server: Server, response: Any) -> None:
    """Its authorization cannot begin: a conflict that says why."""
    body = {"name": "M", "provider": "m", "kind": "mcp", "config": {"url": "https://mcp.org/mcp"}}
    row = await bench.core.connections.create(bench.me, body)
    server.response = response
    with pytest.raises(Conflict) as caught:
        await bench.core.connections.authorize(bench.me, row.id, address="http://w.org")
    assert caught.value.info["reason"] == "authorization_server"
