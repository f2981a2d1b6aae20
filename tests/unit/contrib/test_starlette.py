"""An application that opens and mounts wfcore; the example products test the rest."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request

import wfcore
from wfcore.contrib.starlette import Automation

ORG = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01"


async def principal_of(core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
    user = connection.headers.get("X-User")
    return core.principal(ORG, user=user) if user else None


@pytest.mark.anyio
async def test_it_is_open_as_long_as_the_application() -> None:
    """Before and afterwards, a use is an error that says what to do."""
    automation = Automation("sqlite://", principal=principal_of, http={"studio": None})
    app = Starlette(lifespan=automation.lifespan, routes=[automation.mount("/flows")])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://shop.example") as client:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"pass `automation.lifespan` to the application"):
                _ = automation.core
            with pytest.raises(RuntimeError, match=r"pass `automation.lifespan` to the application"):
                await client.get("/flows/api/v1/me")
            async with app.router.lifespan_context(app):
                await automation.core.directory.ensure_organization("Acme", id=ORG)
                assert (await client.get("/flows/api/v1/me")).status_code == 401
                assert (await client.get("/flows/api/v1/me", headers={"X-User": "ann"})).status_code == 200


@pytest.mark.anyio
async def test_errors_of_others_are_not_answered() -> None:
    """The handler of errors has a response for those of wfcore alone."""
    automation = Automation("sqlite://", principal=principal_of)
    request = Request({"type": "http", "headers": [(b"x-request-id", b"r-1")], "method": "GET", "path": "/"})
    answer = await automation.error(request, wfcore.NotFound())
    assert answer.status_code == 404
    assert b'"requestId":"r-1"' in answer.body
    with pytest.raises(LookupError):
        await automation.error(request, LookupError())
    answer = await automation.error(Request({**request.scope, "headers": []}), wfcore.NotFound())
    assert f'"requestId":"{answer.headers["x-request-id"]}"'.encode() in answer.body
    assert answer.headers["x-request-id"]


@pytest.mark.anyio
async def test_an_error_in_an_own_route_is_answered_as_by_the_mounted_api() -> None:
    """The same headers, no words of another program, and no request id that is not safe to log."""
    automation = Automation("sqlite://", principal=principal_of)
    request = Request({"type": "http", "headers": [(b"x-request-id", b"a b")], "method": "GET", "path": "/"})
    refused = wfcore.Unavailable("the database is locked")
    refused.__cause__ = OSError("disk")
    answer = await automation.error(request, refused)
    assert (answer.status_code, answer.headers["retry-after"], b"locked" in bytes(answer.body)) == (503, "1", False)
    assert answer.headers["x-request-id"] != "a b"
    limited = await automation.error(request, wfcore.RateLimited("too many", {"retryAfterSeconds": 7}))
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
    unknown = await automation.error(request, wfcore.Unauthenticated("sign in first"))
    assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, "Bearer")
