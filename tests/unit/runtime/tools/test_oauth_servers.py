"""Authorization servers of MCP servers: found by metadata, or with the address of the MCP server itself."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from bench import Bench, opened

from wfcore.domain.kernel.errors import Conflict, WfcoreError
from wfcore.ports.outbound import OutboundResponse

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
ISSUER = "https://mcp.example.org"
SERVER = {
    "issuer": ISSUER, "authorization_endpoint": f"{ISSUER}/authorize", "token_endpoint": f"{ISSUER}/token",
    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
}  # fmt: skip


@attrs.define
class Pages:
    """Implements the port `Outbound`: these documents by path; 404 for any other."""

    documents: Mapping[str, Any]
    requested: list[str] = attrs.field(factory=list)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        return 404

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> OutboundResponse:
        self.requested.append(url)
        found = self.documents.get(urlsplit(url).path)
        if isinstance(found, OutboundResponse):
            return found
        return OutboundResponse(404 if found is None else 200, {}, b"" if found is None else json.dumps(found).encode())


async def authorized(bench: Bench, **config: str) -> str:
    body = {"name": "M", "provider": "m", "kind": "mcp", "config": {"url": f"{ISSUER}/mcp", **config}}
    row = await bench.core.connections.create(bench.me, body)
    return await bench.core.connections.authorize(bench.me, row.id, address="http://w.org")


async def test_a_server_without_metadata_is_its_own_issuer(database: str) -> None:
    """The metadata of the authorization server is then at the origin of the MCP server."""
    pages = Pages({"/.well-known/oauth-authorization-server": SERVER})
    async with opened(database, secrets=KEY, outbound=pages) as bench:
        url = await authorized(bench, clientId="c")
    assert url.startswith(f"{ISSUER}/authorize?")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({}, "no authorization server with metadata"),
        ({"/.well-known/oauth-authorization-server": SERVER}, "does not register clients: set `clientId`"),
    ],
)
async def test_what_cannot_be_authorized(database: str, documents: Mapping[str, Any], message: str) -> None:
    """The error says what is missing, and no client is stored."""
    async with opened(database, secrets=KEY, outbound=Pages(documents)) as bench:
        with pytest.raises(WfcoreError, match=message) as caught:
            await authorized(bench)
        assert isinstance(caught.value, Conflict)


PAGE = OutboundResponse(200, {"content-type": "text/html"}, b"<!doctype html><title>Everything is here</title>")
RESOURCE = {"resource": ISSUER, "authorization_servers": [ISSUER]}


async def test_a_server_that_answers_every_path_with_a_page(database: str) -> None:
    """Metadata are found at the next place: a page with the status 200 is none."""
    pages = Pages({
        "/.well-known/oauth-protected-resource/mcp": PAGE, "/.well-known/oauth-protected-resource": RESOURCE,
        "/.well-known/oauth-authorization-server": PAGE, "/.well-known/openid-configuration": SERVER,
    })  # fmt: skip
    async with opened(database, secrets=KEY, outbound=pages) as bench:
        assert (await authorized(bench, clientId="c")).startswith(f"{ISSUER}/authorize?")


@pytest.mark.parametrize(
    ("issuer", "reason"),
    [
        (ISSUER, None),
        ("https://evil.example.org", "the response came from another authorization server"),
        (None, "the response came from another authorization server"),
    ],
)
async def test_the_issuer_of_the_response(database: str, issuer: str | None, reason: str | None) -> None:
    """It is the one of the metadata, which the resource named with a slash; without it no code is sent (RFC 9207)."""
    token = {"access_token": "a", "token_type": "bearer"}
    pages = Pages({
        "/.well-known/oauth-protected-resource": {**RESOURCE, "authorization_servers": [f"{ISSUER}/"]},
        "/.well-known/oauth-authorization-server": {**SERVER, "authorization_response_iss_parameter_supported": True},
        "/token": token,
    })  # fmt: skip
    async with opened(database, secrets=KEY, outbound=pages) as bench:
        state = parse_qs(urlsplit(await authorized(bench, clientId="c")).query)["state"][0]
        assert (await bench.core.connects.finish(state, "code", None, issuer)).reason == reason
    assert (f"{ISSUER}/token" in pages.requested) is (reason is None)


async def test_a_client_that_the_server_has_forgotten(database: str) -> None:
    """After `invalid_client` the next authorization registers wfcore anew; before, it uses the client that it has."""
    refused = OutboundResponse(401, {}, b'{"error": "invalid_client"}')
    pages = Pages({
        "/.well-known/oauth-authorization-server": {**SERVER, "registration_endpoint": f"{ISSUER}/register"},
        "/register": {"client_id": "first"}, "/token": refused,
    })  # fmt: skip
    async with opened(database, secrets=KEY, outbound=pages) as bench:
        body = {"name": "M", "provider": "m", "kind": "mcp", "config": {"url": f"{ISSUER}/mcp"}}
        row = await bench.core.connections.create(bench.me, body)

        async def begun() -> Mapping[str, Any]:
            url = await bench.core.connections.authorize(bench.me, row.id, address="http://w.org")
            return parse_qs(urlsplit(url).query)

        await begun()
        query = await begun()
        assert (query["client_id"], pages.requested.count(f"{ISSUER}/register")) == (["first"], 1)
        finished = await bench.core.connects.finish(query["state"][0], "code", None, None)
        assert finished.reason == "the authorization server responded `invalid_client`"
        pages.documents = {**pages.documents, "/register": {"client_id": "second"}, "/token": {"access_token": "a"}}
        query = await begun()
        assert query["client_id"] == ["second"]
        assert (await bench.core.connects.finish(query["state"][0], "code", None, None)).reason is None
        assert (await begun())["client_id"] == ["second"]
