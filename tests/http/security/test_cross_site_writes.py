"""Writes that a browser sends with the user's cookies: only pages of this server and of listed origins make them."""

import pytest
from clients import FORBIDDEN, MALFORMED, Json, World, assert_envelope, flow
from httpx import ASGITransport, AsyncClient
from starlette.requests import HTTPConnection

from wfcore.adapters.http import app
from wfcore.domain.resources.access import Principal

pytestmark = pytest.mark.anyio

OTHER_PAGE: list[Json] = [
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none, cross-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example.org"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://"},
    {"Origin": "http://product.evil.example"},
    {"Origin": "https://app.example.org:444"},
    {"Authorization": "Basic dTpw", "Sec-Fetch-Site": "cross-site"},
    {"Authorization": "Negotiate x", "Origin": "https://evil.example"},
]
OWN_PAGE: list[Json] = [
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none", "Origin": "https://evil.example"},
    {"Origin": "http://product"},
    {"Origin": "HTTPS://Product"},
    {"Origin": "https://flows.example.org"},
    {"Origin": "https://app.example.org"},
    {"Authorization": "Bearer x"},
    {"Authorization": "Basic dTpw"},
]
WRITES = [
    ("POST", "/api/v1/workflows", flow()),
    ("PATCH", "/api/v1/workflows/1", {"name": "Taken"}),
    ("DELETE", "/api/v1/workflows/1", None),
    ("POST", "/api/v1/workflows/1/deploy", None),
    ("PUT", "/api/v1/skills/1/supervision", {}),
    ("POST", "/agent/v1/runs/r/cancel", None),
]


def browser(world: World) -> AsyncClient:
    """A client whose cookie names the user: the product's own authentication."""

    async def by_cookie(connection: HTTPConnection) -> Principal | None:
        name = connection.cookies.get("user")
        return None if name is None else world.core.principal(world.org, name)

    application = app(
        world.core,
        authenticate=by_cookie,
        browser_origins=["https://app.example.org"],
        allowed_hosts=["product", "flows.example.org"],
    )
    return AsyncClient(transport=ASGITransport(application), base_url="http://product", cookies={"user": "zoe"})


@pytest.mark.parametrize("headers", OTHER_PAGE)
async def test_a_page_of_another_site_changes_nothing(world: World, headers: Json) -> None:
    """403 `cross_site` for every unsafe method, with an empty body and for an upload too; reads are not refused."""
    async with browser(world) as zoe:
        await zoe.post("/api/v1/workflows", json=flow(), headers={"Sec-Fetch-Site": "same-origin"})
        before = (await zoe.get("/api/v1/workflows", headers=headers)).json()
        for method, path, body in WRITES:
            answer = await zoe.request(method, path, json=body, headers=headers)
            assert assert_envelope(answer, *FORBIDDEN)["info"] == {"reason": "cross_site"}
        answer = await zoe.post("/agent/v1/uploads", content=b"text", headers={"Content-Type": "text/plain", **headers})
        assert assert_envelope(answer, *FORBIDDEN)["info"] == {"reason": "cross_site"}
        assert (await zoe.get("/api/v1/workflows", headers=headers)).json() == before


@pytest.mark.parametrize("headers", OWN_PAGE)
async def test_an_own_page_and_a_program_can_write(world: World, headers: Json) -> None:
    """By `Sec-Fetch-Site`, else by the `Origin` of this server or of `browser_origins`, or with a credential."""
    async with browser(world) as zoe:
        assert (await zoe.post("/api/v1/workflows", json=flow(), headers=headers)).status_code == 201
        assert (await zoe.post("/api/v1/workflows/1/deploy", headers=headers)).status_code != 403


async def test_without_a_credential_it_is_401(world: World) -> None:
    """The credential is checked first."""
    async with browser(world) as zoe:
        zoe.cookies.clear()
        assert (await zoe.post("/api/v1/workflows", json=flow())).status_code == 401


async def test_a_body_needs_a_content_type(world: World) -> None:
    """Without it a page of another site could send JSON without a preflight; an upload needs it too."""
    async with browser(world) as zoe:
        own = {"Sec-Fetch-Site": "same-origin"}
        for path, body in (("/api/v1/workflows", b'{"name": "a", "type": "workflow"}'), ("/agent/v1/uploads", b"text")):
            (issue,) = assert_envelope(await zoe.post(path, content=body, headers=own), *MALFORMED)["info"]["errors"]
            assert (issue["path"], issue["rule"]) == ("Content-Type", "header")


async def test_signed_messages_are_not_refused(world: World) -> None:
    """A webhook has no cookie: its signature is the credential."""
    async with browser(world) as sender:
        answer = await sender.post("/webhooks/none", json={}, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code != 403


async def test_only_the_allowed_hosts_are_served(world: World) -> None:
    """A request for another name is a 400, on every route but those of probes."""
    async with browser(world) as zoe:
        for host, status in (("product", 200), ("FLOWS.example.org:8443", 200), ("evil.example", 400), ("", 400)):
            answer = await zoe.get("/api/v1/workflows", headers={"Host": host})
            assert answer.status_code == status, host
        (issue,) = assert_envelope(answer, *MALFORMED)["info"]["errors"]
        assert (issue["path"], issue["rule"]) == ("Host", "header")
        assert (await zoe.get("/healthz", headers={"Host": "10.0.0.7"})).status_code == 200


@pytest.mark.parametrize(
    "names",
    [
        {"browser_origins": ["app.example.org"]},
        {"browser_origins": ["https://app.example.org/"]},
        {"browser_origins": ["*"]},
        {"allowed_hosts": ["flows.example.org:8080"]},
        {"allowed_hosts": ["https://flows.example.org"]},
    ],
)
async def test_an_invalid_name_is_refused_at_the_start(world: World, names: Json) -> None:
    """A value that could never match is not accepted."""
    with pytest.raises(ValueError, match="is not"):
        app(world.core, **names)
