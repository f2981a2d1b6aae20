"""MCP servers that require OAuth: the official SDK's own server and authorization server."""

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlencode

import attrs
import httpx
import pytest
import uvicorn
from clients import Json, World, chain, deployed, frames, new_world, node
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app

pytestmark = pytest.mark.anyio

KEY = b"s" * 32
BASE = "/api/v1/connections"
RUNS = "/agent/v1/runs"


@attrs.define
class Grants:
    """Implements the SDK's `OAuthAuthorizationServerProvider`: everybody is granted everything."""

    clients: dict[str, Any] = attrs.field(factory=dict)
    codes: dict[str, AuthorizationCode] = attrs.field(factory=dict)
    access: dict[str, AccessToken] = attrs.field(factory=dict)
    refresh: dict[str, RefreshToken] = attrs.field(factory=dict)
    resources: list[str | None] = attrs.field(factory=list)

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        code, given = secrets.token_urlsafe(24), params.model_dump(exclude={"state"})
        given["scopes"] = given["scopes"] or []
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, expires_at=time.time() + 60, **given
        )
        return f"{params.redirect_uri}?{urlencode({'code': code, 'state': params.state})}"

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issued(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._issued(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> Any:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _issued(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        self.resources.append(resource)
        given: Any = {"client_id": client, "scopes": scopes, "resource": resource}
        first, second = f"canary-{secrets.token_hex(8)}", f"canary-{secrets.token_hex(8)}"
        self.access[first] = AccessToken(token=first, expires_at=int(time.time()) + 3_600, **given)
        self.refresh[second] = RefreshToken(token=second, **given)
        return OAuthToken(access_token=first, expires_in=3_600, refresh_token=second, scope=" ".join(scopes))


@asynccontextmanager
async def guarded_office(grants: Grants, *, registers: bool = True) -> AsyncIterator[str]:
    """The URL of a server with one tool that requires a token of its own authorization server."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = AuthSettings(
            issuer_url=origin, resource_server_url=f"{origin}/mcp", required_scopes=["tools"],  # type: ignore[arg-type]
            client_registration_options=ClientRegistrationOptions(enabled=registers, valid_scopes=["tools"]),
            revocation_options=RevocationOptions(enabled=True), validate_token_resource=True,
        )  # fmt: skip
        server: Any = MCPServer("office", log_level="CRITICAL", auth=settings, auth_server_provider=grants)  # type: ignore[arg-type]

        async def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        server.add_tool(add)
        config = uvicorn.Config(server.streamable_http_app(), log_config=None, ws="none", timeout_graceful_shutdown=1)
        running = uvicorn.Server(config)
        task = asyncio.create_task(running.serve(sockets=[listener]))
        while not running.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.005)
        try:
            yield f"{origin}/mcp"
        finally:
            running.should_exit = True
            await task


@pytest.fixture
async def stage() -> AsyncIterator[World]:
    settings = wfcore.Settings(http_allow=["127.0.0.1"], grace=0)
    async with wfcore.bootstrap.open("sqlite://", settings=settings, secrets=KEY) as core, AsyncExitStack() as closing:
        transport = httpx.ASGITransport(app(core, secret=KEY))
        connect = partial(httpx.AsyncClient, transport=transport, base_url="http://localhost", trust_env=False)
        yield await new_world(core, connect, closing)


async def browsed(stage: World, url: str) -> httpx.Response:
    browser = await stage.client()
    async with httpx.AsyncClient(trust_env=False, timeout=HANG) as outside:
        for _ in range(5):
            answer = await (browser if url.startswith("http://localhost/") else outside).get(url)
            if not answer.is_redirect:
                return answer
            url = answer.headers["Location"]
    raise AssertionError(url)


async def ended(client: httpx.AsyncClient, run_id: str) -> Json:
    """The record of the last turn, once it has ended."""
    run: Json = (await client.get(f"{RUNS}/{run_id}")).json()
    while run["resumedBy"] or run["status"] in ("queued", "running"):
        run = (await client.get(f"{RUNS}/{run['resumedBy'] or run['runId']}")).json()
        await asyncio.sleep(0)
    return run


async def begun(client: httpx.AsyncClient, number: int) -> Json:
    answer = await client.post(RUNS, json={"workflowId": number, "input": {}})
    return await ended(client, frames(answer.text)[0][1]["runId"])


async def test_a_server_that_registers_clients(stage: World) -> None:
    """A call without a token waits with a link; behind it, wfcore finds the metadata, registers itself, and connects.

    The tools are then listed and called with the token, which is bound to the server; a refused one is refreshed, and
    a deleted connection revoked.
    """
    grants = Grants()
    async with guarded_office(grants) as url:
        ada = await stage.user()
        body = {"name": "Office", "provider": "office", "kind": "mcp", "config": {"url": url}}
        row = (await ada.post(BASE, json=body)).json()
        tool = f"mcp.{row['id']}.add"
        number = await deployed(ada, chain(node("work", "action", toolId=tool, params={"a": 1, "b": 2})))
        run = await begun(ada, number)
        (asked,) = run["interrupts"]
        assert (asked["type"], asked["connectionId"]) == ("connect", row["id"])
        assert (await ada.get(f"{BASE}/{row['id']}")).json()["status"] == "needs_authorization"
        page = await browsed(stage, asked["connectUrl"])
        assert page.status_code == 200, page.text
        run = await ended(ada, run["runId"])
        assert (run["status"], run["output"]) == ("done", {"result": 3})
        found = (await ada.get(f"{BASE}/{row['id']}")).json()
        assert (found["status"], found["statusReason"]) == ("connected", None)
        assert (len(grants.clients), grants.resources) == (1, [url])
        tools = (await ada.get("/api/v1/tools")).json()
        assert tool in [one["id"] for one in tools["tools"]]
        assert [one["problem"] for one in tools["servers"]] == [None]
        grants.access.clear()
        assert (await begun(ada, number))["output"] == {"result": 3}
        assert grants.resources == [url] * 2
        shown = json.dumps([found, tools, run, (await ada.get(f"{RUNS}/{run['runId']}/events")).text])
        assert "canary" not in shown
        begin = await ada.post(f"{BASE}/{row['id']}/authorize")
        assert (begin.status_code, len(grants.clients)) == (200, 1)
        await ada.delete(f"{BASE}/{row['id']}")
        assert (grants.access, grants.refresh) == ({}, {})


async def test_a_client_that_was_registered_by_hand(stage: World) -> None:
    """Its `clientId`, secret and scopes are used; without them, a server that registers no clients cannot be used."""
    grants = Grants()
    async with guarded_office(grants, registers=False) as url:
        ada = await stage.user()
        body = {"name": "Office", "provider": "office", "kind": "mcp", "config": {"url": url}}
        row = (await ada.post(BASE, json=body)).json()
        refused = await ada.post(f"{BASE}/{row['id']}/authorize")
        assert (refused.status_code, refused.json()["error"]["info"]["reason"]) == (409, "authorization_server")
        assert "set `clientId`" in refused.json()["error"]["message"]
        grants.clients["by hand"] = OAuthClientInformationFull(
            client_id="by hand", client_secret="canary-secret", scope="tools",
            redirect_uris=["http://localhost/api/v1/connections/callback"],  # type: ignore[list-item]
            token_endpoint_auth_method="client_secret_basic",
        )  # fmt: skip
        config = {"clientId": "by hand", "clientSecret": "canary-secret", "scopes": ["tools"]}
        changed = (await ada.patch(f"{BASE}/{row['id']}", json={"ownership": "user", "config": config})).json()
        assert (changed["status"], changed["config"]["clientSecret"]) == ("needs_authorization", {"set": True})
        begin = (await ada.post(f"{BASE}/{row['id']}/authorize")).json()
        assert (await browsed(stage, begin["url"])).status_code == 200
        tools = (await ada.get("/api/v1/tools")).json()
        assert f"mcp.{row['id']}.add" in [one["id"] for one in tools["tools"]]
        bob = await stage.user("bob")
        (problem,) = [one["problem"] for one in (await bob.get("/api/v1/tools")).json()["servers"]]
        assert "needs an authorization" in problem
