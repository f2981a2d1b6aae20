"""Inside an existing application: its users and its prefix (interface, Authentication 3)."""

import httpx
import pytest
from clients import APPROVAL, POLL, World, assert_envelope, chain, flow
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from wfcore.adapters.http import app
from wfcore.domain.resources.access import Principal

pytestmark = pytest.mark.anyio


def client_of(application: object) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://product")


class TestOwnUsers:
    """`authenticate` returns the principal."""

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_the_products_own_users_need_no_tokens(self, world: World, is_async: bool) -> None:
        """A cookie of the product is enough; None is 401, and the use case gets that principal."""

        def by_cookie(connection: HTTPConnection) -> Principal | None:
            name = connection.cookies.get("user")
            return None if name is None else world.core.principal(world.org, name, email=f"{name}@x.org")

        async def by_cookie_async(connection: HTTPConnection) -> Principal | None:
            return by_cookie(connection)

        async with client_of(app(world.core, authenticate=by_cookie_async if is_async else by_cookie)) as visitor:
            answer = await visitor.get("/api/v1/me")
            assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")
            visitor.cookies.set("user", "zoe")
            assert (await visitor.get("/api/v1/me")).json()["userId"] == "zoe"
            own_page = {"Sec-Fetch-Site": "same-origin"}
            made = await visitor.post("/api/v1/workflows", json=flow(), headers=own_page)
            assert made.json()["accessConfig"]["ownerUserId"] == "zoe"

    async def test_a_failing_authenticator_is_500(self, world: World) -> None:
        """A bug in the product's function is 500, not access."""

        async def broken(connection: HTTPConnection) -> Principal | None:
            raise KeyError("session")

        async with client_of(app(world.core, authenticate=broken)) as visitor:
            assert_envelope(await visitor.get("/api/v1/workflows"), 500, "INTERNAL_ERROR", "INTERNAL")


class TestPrefix:
    """Served below a path."""

    @pytest.mark.parametrize("prefix", ["/automation", "/a/b%20c"])
    async def test_a_mounted_application_uses_its_prefix(self, world: World, prefix: str) -> None:
        """Routes, `Location`, `Link` and the document's server have the prefix, and other routes still work."""

        async def home(request: object) -> PlainTextResponse:
            return PlainTextResponse("home")

        below = prefix.replace("%20", " ")
        outer = Starlette(routes=[Mount(below, app(world.core)), Route("/", home)])
        ada = await world.user()
        async with client_of(outer) as visitor:
            visitor.headers["Authorization"] = ada.headers["Authorization"]
            made = await visitor.post(f"{prefix}/api/v1/agents", json=flow(chain(APPROVAL)))
            assert made.headers["Location"] == f"{prefix}/api/v1/agents/1"
            assert made.headers["Link"] == f'<{prefix}/api/v1/workflows>; rel="successor-version"'
            assert (await visitor.get(made.headers["Location"])).status_code == 200
            assert (await visitor.post(f"{prefix}/api/v1/workflows/1/deploy")).status_code == 200
            row = await visitor.post(f"{prefix}/api/v1/workflows/1/interfaces", json={"kind": "chatapp"})
            tag = {"If-Match": (await visitor.get(row.headers["Location"])).headers["ETag"]}
            assert (await visitor.patch(row.headers["Location"], json={}, headers=tag)).status_code == 200
            body = {"workflowId": 1, "input": {}}
            run = await visitor.post(f"{prefix}/agent/v1/runs", json=body, headers=POLL | {"Idempotency-Key": "a/b"})
            assert run.headers["Location"] == f"{prefix}/agent/v1/runs/a%2Fb"
            assert (await visitor.get(run.headers["Location"])).json()["runId"] == "a/b"
            assert (await visitor.get(f"{prefix}/openapi.json")).json()["servers"] == [{"url": prefix}]
            assert_envelope(await visitor.get(f"{prefix}/nope"), 404, "NOT_FOUND", "NOT_FOUND")
            assert (await visitor.get("/")).text == "home"

    async def test_a_prefix_can_be_given(self, world: World) -> None:
        """Behind a proxy that keeps the path, `mount` is the prefix."""
        ada = await world.user()
        async with client_of(app(world.core, mount="/automation/")) as visitor:
            visitor.headers["Authorization"] = ada.headers["Authorization"]
            made = await visitor.post("/automation/api/v1/workflows", json=flow())
            assert (made.status_code, made.headers["Location"]) == (201, "/automation/api/v1/workflows/1")
            assert (await visitor.get("/automation/healthz")).status_code == 200

    @pytest.mark.parametrize("prefix", ["/automation", "/api", "/agent", "/docs"])
    @pytest.mark.parametrize("kept", [True, False])
    async def test_a_proxy_can_remove_the_prefix(self, world: World, prefix: str, *, kept: bool) -> None:
        """Links have the prefix whether the proxy removes it or not, also one with the name of a path of ours."""
        ada, arriving = await world.user(), prefix if kept else ""
        async with client_of(app(world.core, mount=prefix)) as visitor:
            refused = await visitor.get(f"{arriving}/api/v1/me")
            metadata = f'"http://product{prefix}/.well-known/oauth-protected-resource"'
            assert (refused.status_code, refused.headers["WWW-Authenticate"].partition("=")[2]) == (401, metadata)
            visitor.headers["Authorization"] = ada.headers["Authorization"]
            made = await visitor.post(f"{arriving}/api/v1/agents", json=flow())
            assert (made.status_code, made.headers["Location"]) == (201, f"{prefix}/api/v1/agents/1")
            assert made.headers["Link"] == f'<{prefix}/api/v1/workflows>; rel="successor-version"'
            assert (await visitor.get(f"{arriving}/docs")).status_code == 200
            assert_envelope(await visitor.get(f"{arriving}/nope"), 404, "NOT_FOUND", "NOT_FOUND")


class TestProtocol:
    """Other parts of the ASGI protocol."""

    async def test_page_tokens_depend_on_the_secret(self, world: World) -> None:
        """Two processes with the same secret accept each other's tokens; another secret does not."""
        ada = await world.user()
        for _ in range(2):
            await ada.post("/api/v1/workflows", json=flow())
        tokens, statuses = [], []
        for secret in (b"1" * 32, b"1" * 32, None):
            async with client_of(app(world.core, secret=secret)) as visitor:
                visitor.headers["Authorization"] = ada.headers["Authorization"]
                page = await visitor.get("/api/v1/workflows", params={"pageSize": 1})
                tokens.append(page.json()["nextPageToken"])
                statuses.append((await visitor.get("/api/v1/workflows", params={"pageToken": tokens[0]})).status_code)
        assert statuses == [200, 200, 400]

    async def test_page_tokens_of_processes_with_one_key(self, world: World) -> None:
        """Without a secret, it comes from the key of the core: two applications accept each other's tokens."""
        ada = await world.user()
        for _ in range(2):
            await ada.post("/api/v1/workflows", json=flow())
        token = None
        for _ in range(2):
            async with client_of(app(world.core)) as visitor:
                visitor.headers["Authorization"] = ada.headers["Authorization"]
                query = {"pageSize": 1} if token is None else {"pageSize": 1, "pageToken": token}
                page = await visitor.get("/api/v1/workflows", params=query)
                assert page.status_code == 200
                token = token or page.json()["nextPageToken"]
        assert len(page.json()["workflows"]) == 1

    async def test_a_smaller_limit_can_be_set(self, world: World) -> None:
        """`max_request_bytes` bounds bodies."""
        ada = await world.user()
        async with client_of(app(world.core, max_request_bytes=10)) as visitor:
            visitor.headers["Authorization"] = ada.headers["Authorization"]
            answer = await visitor.post("/api/v1/workflows", json=flow())
            assert assert_envelope(answer, 413, "BAD_REQUEST", "INVALID_ARGUMENT")["info"] == {"maxBytes": 10}

    async def test_lifespan_and_websockets_are_answered(self, world: World) -> None:
        """Start-up and shutdown complete; a websocket is closed."""
        application, sent = app(world.core), list[str]()

        async def receive() -> dict[str, str]:
            return {"type": "lifespan.startup"}

        async def send(message: object) -> None:
            sent.append(message["type"])  # type: ignore[index]

        await application({"type": "lifespan"}, receive, send)
        await application({"type": "websocket"}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close"]

    async def test_a_path_with_an_old_style_root_is_found(self, world: World) -> None:
        """A server whose `path` leaves `root_path` out, or that gives no `raw_path`, is served too."""
        sent = list[int]()

        async def send(message: object) -> None:
            sent.append(message.get("status", 0))  # type: ignore[attr-defined]

        async def receive() -> dict[str, str]:
            return {"type": "http.request"}

        scope = {
            "type": "http",
            "method": "GET",
            "root_path": "/x",
            "path": "/healthz",
            "headers": [],
            "query_string": b"",
        }
        await app(world.core)(scope, receive, send)
        assert sent[0] == 200
