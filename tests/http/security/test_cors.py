"""Pages of listed origins call the API with a bearer token; they cannot use a cookie, and other pages read nothing."""

import pytest
from clients import FORBIDDEN, World, assert_envelope, flow
from httpx import ASGITransport, AsyncClient, Response
from starlette.requests import HTTPConnection

from wfcore.adapters.http import app
from wfcore.adapters.http.core.cors import REQUEST_HEADERS
from wfcore.domain.resources.access import Principal

pytestmark = pytest.mark.anyio

PAGE = "https://app.example.org"
WANTED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


def page_of(world: World, *, cookie: bool = False, origins: tuple[str, ...] = (PAGE,)) -> AsyncClient:
    """The requests of a page of another origin, with a bearer token or with a cookie."""

    async def user(connection: HTTPConnection) -> Principal | None:
        name = connection.cookies.get("user") or connection.headers.get("Authorization", "").removeprefix("Bearer ")
        return world.core.principal(world.org, name) if name else None

    application = app(world.core, authenticate=user, browser_origins=origins, allowed_hosts=["product"])
    credential = {} if cookie else {"Authorization": "Bearer zoe"}
    headers = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site", **credential}
    cookies = {"user": "zoe"} if cookie else None
    return AsyncClient(
        transport=ASGITransport(application), base_url="http://product", headers=headers, cookies=cookies
    )


def allowed(response: Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


async def test_a_preflight_needs_no_credential(world: World) -> None:
    """It allows every method and header of the API, for this origin alone and without cookies."""
    async with page_of(world) as page:
        del page.headers["Authorization"]
        for path in ("/api/v1/workflows", "/agent/v1/runs/r/events", "/no/such/path"):
            response = await page.options(path, headers=WANTED)
            assert (response.status_code, response.content) == (204, b"")
            found = allowed(response)
            assert found["access-control-allow-origin"] == PAGE
            assert found["access-control-allow-headers"] == ", ".join(REQUEST_HEADERS)
            assert set(found["access-control-allow-methods"].split(", ")) >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
            assert "access-control-allow-credentials" not in found
            assert "Origin" in response.headers["Vary"]
        assert (await page.options("/api/v1/workflows", headers={**WANTED, "Host": "evil.example"})).status_code == 400


async def test_a_page_reads_writes_and_sees_errors(world: World) -> None:
    """Results, errors and streams have the headers; so does a 401, since the page must be able to renew its token."""
    async with page_of(world) as page:
        made = await page.post("/api/v1/workflows", json=flow())
        assert made.status_code == 201
        stream = await page.post("/agent/v1/runs", json={"workflowId": made.json()["id"]})
        missing = await page.get("/api/v1/workflows/999999")
        del page.headers["Authorization"]
        nobody = await page.get("/api/v1/workflows")
        assert (missing.status_code, nobody.status_code) == (404, 401)
        for response in (made, stream, missing, nobody):
            found = allowed(response)
            assert found["access-control-allow-origin"] == PAGE
            assert "Retry-After" in found["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in found
            assert response.headers["Vary"] == "Origin"


async def test_a_cookie_writes_nothing_from_another_origin(world: World) -> None:
    """The list allows a bearer token; a cookie from a page of another site is still refused."""
    async with page_of(world, cookie=True) as page:
        assert_envelope(await page.post("/api/v1/workflows", json=flow()), *FORBIDDEN)


@pytest.mark.parametrize("origin", ["https://evil.example", "https://app.example.org:444", "null", "", "*"])
async def test_other_origins_are_not_allowed(world: World, origin: str) -> None:
    """Without the headers the browser keeps the response from the page; a preflight is an unknown method."""
    async with page_of(world) as page:
        page.headers["Origin"] = origin
        for response in (
            await page.options("/api/v1/workflows", headers=WANTED),
            await page.get("/api/v1/workflows"),
        ):
            assert allowed(response) == {}
            assert response.headers["Vary"] == "Origin"
        assert (await page.options("/api/v1/workflows", headers=WANTED)).status_code == 405


async def test_without_a_list_nothing_changes(world: World) -> None:
    """No origin is allowed, and responses do not vary."""
    async with page_of(world, origins=()) as page:
        response = await page.get("/api/v1/workflows")
        assert (response.status_code, allowed(response), "Vary" in response.headers) == (200, {}, False)
        assert (await page.options("/api/v1/workflows", headers=WANTED)).status_code == 405
