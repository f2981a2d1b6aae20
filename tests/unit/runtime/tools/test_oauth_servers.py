"""Authorization servers of MCP servers: found by metadata, or with the address of the MCP server itself."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

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
