"""Rate limits (interface, Errors: `RATE_LIMITED`)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import httpx
import pytest
from clients import POLL, World, assert_envelope, chain, count, counting, deployed, flow, new_world

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

MANY = ("RATE_LIMITED", "RESOURCE_EXHAUSTED")


@asynccontextmanager
async def world_with(**bounds: int) -> AsyncIterator[World]:
    settings = Settings(**bounds)
    async with AsyncExitStack() as closing:
        core = await closing.enter_async_context(wfcore.bootstrap.open("sqlite://", tools=[count], settings=settings))
        transport = httpx.ASGITransport(app(core))
        connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)
        yield await new_world(core, connect, closing)


async def test_a_request_above_the_limit_is_429() -> None:
    """Above the limit: 429 with the envelope, and `Retry-After` in seconds as in `info`."""
    async with world_with(requests_per_minute=3) as world:
        ada = await world.user()
        assert [(await ada.get("/api/v1/me")).status_code for _ in range(3)] == [200] * 3
        refused = await ada.get("/api/v1/me")
        info = assert_envelope(refused, 429, *MANY)["info"]
        assert refused.headers["Retry-After"] == str(info["retryAfterSeconds"])
        assert 50 < info["retryAfterSeconds"] <= 60
        assert info["limit"] == "principal"


async def test_limits_of_principals_and_organizations() -> None:
    """Two tokens of one user share a limit; another user has its own, and all share the organization's."""
    async with world_with(requests_per_minute=2, organization_requests_per_minute=3) as world:
        ada, again, bob = await world.user("ada"), await world.user("ada"), await world.user("bob")
        answers = [await client.get("/api/v1/me") for client in (ada, again, ada, bob, bob)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 200, 429]
        whose = [answer.json()["error"]["info"]["limit"] for answer in answers if answer.status_code == 429]
        assert whose == ["principal", "organization"]
        other = await world.core.directory.create_organization("Other")
        eve = await world.user("eve", org=other.uuid)
        assert (await eve.get("/api/v1/me")).status_code == 200


async def test_limits_apply_right_after_authentication() -> None:
    """Requests without a credential are 401 and do not count; the limit precedes scopes, bodies and lookups."""
    async with world_with(requests_per_minute=1) as world:
        ada, nobody = await world.user(scopes=["workflows:read"]), await world.client()
        assert [(await nobody.get("/api/v1/me")).status_code for _ in range(5)] == [401] * 5
        assert [(await ada.get("/healthz")).status_code for _ in range(3)] == [200] * 3
        assert (await ada.get("/api/v1/none")).status_code == 404
        assert (await ada.get("/api/v1/workflows/9")).status_code == 404, "the one that counted"
        for request in (ada.get("/api/v1/workflows/9"), ada.post("/api/v1/workflows", content=b"no JSON")):
            assert_envelope(await request, 429, *MANY)


async def test_a_refused_request_does_nothing() -> None:
    """A refused create creates nothing, and its Idempotency-Key is still unused."""
    async with world_with(requests_per_minute=1) as world:
        ada, bob = await world.user("ada"), await world.user("bob")
        assert (await ada.get("/api/v1/me")).status_code == 200
        refused = await ada.post("/api/v1/workflows", json=flow(), headers={"Idempotency-Key": "k"})
        assert refused.status_code == 429
        assert (await bob.get("/api/v1/workflows")).json()["workflows"] == []


async def test_a_stream_counts_once() -> None:
    """A run that is followed to its end is one request."""
    async with world_with(requests_per_minute=4) as world:
        ada = await world.user()
        number = await deployed(ada, chain(counting("stream")))
        answer = await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}})
        assert answer.text.count("data: ") > 3
        assert (await ada.get("/agent/v1/runs", headers=POLL)).status_code == 200
        assert (await ada.get("/agent/v1/runs")).status_code == 429


async def test_off_by_default(world: World) -> None:
    """Without a limit no request is refused."""
    ada = await world.user()
    assert {(await ada.get("/api/v1/me")).status_code for _ in range(200)} == {200}


async def test_the_document_has_the_429(world: World) -> None:
    """Exactly the routes with authentication document 429."""
    nobody = await world.client()
    paths = (await nobody.get("/openapi.json")).json()["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    assert {("429" in operation["responses"], bool(operation["security"])) for operation in operations} == {
        (True, True),
        (False, False),
    }
