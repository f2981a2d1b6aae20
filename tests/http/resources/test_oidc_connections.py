"""Connections to a real authorization server: oidc-provider, whose pages a browser signs in on, if it is installed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import attrs
import httpx
import pytest
from authorization_servers import OidcProvider, installed, new_key, oidc_provider
from clients import Json, World, chain, deployed, frames, new_world, node
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.domain.agents.connection_grants import grant_id

pytestmark = pytest.mark.anyio

KEY = b"s" * 32


@pytest.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    if not isinstance(library := installed(), Path):
        pytest.skip(library)  # it says what is missing: Node, or the npm package of the provider
    async with oidc_provider(library) as made:
        assert isinstance(made, OidcProvider)
        await made.use([new_key("k1")], "")
        yield made


@pytest.fixture
async def stage() -> AsyncIterator[World]:
    settings = wfcore.Settings(http_allow=["127.0.0.1"], grace=0)
    async with (
        wfcore.bootstrap.open("sqlite://", settings=settings, secrets=KEY) as core,
        AsyncExitStack() as closing,
    ):
        transport = httpx.ASGITransport(app(core, secret=KEY))
        connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore.test", trust_env=False)
        yield await new_world(core, connect, closing)


async def connection(client: httpx.AsyncClient, provider: OidcProvider, ownership: str) -> str:
    """The id of a connection whose token opens the user's own record (OpenID Connect Core, 5.3)."""
    config = {
        "clientId": "wfcore", "clientSecret": "secret", "scopes": ["openid"],
        "authorizeUrl": f"{provider.url}/auth", "tokenUrl": f"{provider.url}/token",
        "revocationUrl": f"{provider.url}/token/revocation", "hosts": [httpx.URL(provider.url).netloc.decode()],
    }  # fmt: skip
    body = {"name": "P", "provider": "p", "kind": "oauth2", "ownership": ownership, "config": config}
    made = await client.post("/api/v1/connections", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def signed_in(client: httpx.AsyncClient, provider: OidcProvider, url: str, user: str) -> None:
    """Sign in at the provider, and follow its redirect back."""
    page = await client.get(await provider.signed_in(url, user))
    assert (page.status_code, "window.close()" in page.text) == (200, True), page.text


async def ran(client: httpx.AsyncClient, number: int) -> Json:
    """The record of the last turn of a new run that is over."""
    answer = await client.post("/agent/v1/runs", json={"workflowId": number, "input": {}})
    (_, last) = frames(answer.text)[-1]
    return dict((await client.get(f"/agent/v1/runs/{last['runId']}")).json())


async def finished(client: httpx.AsyncClient, run: Json) -> Json:
    """The record of the turn that the connection continues, once it has ended."""
    async with asyncio.timeout(HANG):
        while run["status"] in ("interrupted", "queued", "running"):
            run = (await client.get(f"/agent/v1/runs/{run['resumedBy'] or run['runId']}")).json()
            await asyncio.sleep(0)
    return run


async def expire(stage: World, row: str, user: str) -> None:
    """Let the stored token of this user have expired."""
    async with stage.core.ports.storage.transaction(stage.org) as work:
        grant = await work.connection_grants.get(grant_id(row, user))
        assert grant is not None
        await work.connection_grants.save(attrs.evolve(grant, expires_at=0))


async def test_each_user_connects_and_stays_connected(stage: World, provider: OidcProvider) -> None:
    """By a connect interrupt that ends itself. An expired token is refreshed once for calls at the same time: a refresh
    token that is used twice would end the grant.
    """
    ada, bob = await stage.user("ada", role="owner"), await stage.user("bob")
    row = await connection(ada, provider, "user")
    show = node("show", "action", toolId="core.http", params={"url": f"{provider.url}/me", "connection": row})
    number = await deployed(ada, chain(show))
    for client, name in ((ada, "ada"), (bob, "bob")):
        parked = await ran(client, number)
        assert parked["status"] == "interrupted"
        assert parked["interrupts"][0]["type"] == "connect"
        link = httpx.URL(parked["interrupts"][0]["connectUrl"])
        await signed_in(client, provider, (await client.get(link)).headers["Location"], f"{name}@provider")
        record = await finished(client, parked)
        assert (record["status"], record["output"]["body"]) == ("done", {"sub": f"{name}@provider"})
        assert (await client.get(f"/api/v1/connections/{row}")).json()["status"] == "connected"
    for client, name in 2 * ((ada, "ada"), (bob, "bob")):
        await expire(stage, row, name)
        runs = await asyncio.gather(*(ran(client, number) for _ in range(4)))
        assert [run["output"]["body"]["sub"] for run in runs] == [f"{name}@provider"] * 4
    assert (await ada.delete(f"/api/v1/connections/{row}")).status_code == 200


async def test_a_refused_consent(stage: World, provider: OidcProvider) -> None:
    """The connection shows that it still needs an authorization."""
    ada = await stage.user("ada", role="owner")
    row = await connection(ada, provider, "organization")
    url = httpx.URL((await ada.post(f"/api/v1/connections/{row}/authorize")).json()["url"])
    back = await provider.signed_in(str(url.copy_merge_params({"prompt": "none"})), "ada")
    page = await ada.get(back)
    assert page.status_code == 400
    assert (await ada.get(f"/api/v1/connections/{row}")).json()["status"] == "needs_authorization"
