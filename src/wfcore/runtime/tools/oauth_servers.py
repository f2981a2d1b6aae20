"""The authorization servers of connections: which client wfcore is there, and requests to them.

The client of an `oauth2` connection is configured. That of an MCP server is found through its metadata (RFC 9728, RFC
8414), and registered there unless the connection names one (RFC 7591); it is stored sealed with the connection.
"""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import attrs

from wfcore.domain.agents.connections import Connection, ConnectionKind
from wfcore.domain.agents.oauth_client import (
    GrantedTokens,
    OAuthClient,
    OAuthRefused,
    ResourceMetadata,
    ServerMetadata,
    client_at,
    is_metadata,
    metadata_in,
    registered_client,
    registration_request,
    resource_metadata,
    resource_metadata_urls,
    server_metadata,
    server_metadata_urls,
    tokens_of,
)
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.json_readers import as_object, as_text, as_texts, optional_text, optional_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.outbound import OutboundResponse, Undelivered
from wfcore.ports.sealing import CLIENT, Unsealable, place_in_connection
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connection_secrets import open_config

TRANSIENT: Final = frozenset({"server_error", "temporarily_unavailable", "slow_down"})
"""Error codes of a server that can grant the same request later."""

T = TypeVar("T")


class OAuthServers:
    """Knows clients, and sends requests to authorization servers through the guard.

    Raises OAuthRefused for a server that refuses or is not valid, Undelivered for one that cannot be reached now.
    """

    def __init__(self, ports: Ports) -> None:
        self._outbound = ports.outbound
        self._sealer = ports.sealer
        self._storage = ports.storage

    def client_of(self, org: str, row: Connection) -> OAuthClient | None:
        """The client of a connection; None for an MCP server that nobody has authorized yet.

        Conflict `secret_unreadable` when its secret cannot be opened.
        """
        config = open_config(self._sealer, org, row)
        if row.kind is not ConnectionKind.MCP:
            return _configured(config)
        client = self._stored(org, row)
        secret = optional_text(config.get("clientSecret"))
        return client if client is None or secret is None else attrs.evolve(client, secret=secret)

    async def prepared(self, org: str, row: Connection, redirect_uri: str) -> OAuthClient:
        """The client for an authorization that returns to `redirect_uri`. That of an MCP server is found and stored."""
        client = self.client_of(org, row)
        if client is None or client.is_lost or client.redirect_uri not in ("", redirect_uri):
            client = await self._discovered(org, row, redirect_uri)
            await self._store(org, row, client)
        return client

    async def tokens(
        self, org: str, row: Connection, client: OAuthClient, request: tuple[dict[str, str], bytes]
    ) -> GrantedTokens:
        """The response of the token endpoint to this request.

        A client that wfcore has registered and that is no longer accepted is registered anew by the next authorization.
        """
        headers, body = request
        found = await self._outbound.request("POST", client.token_url, headers, body)
        try:
            return tokens_of(found.status, found.body)
        except OAuthRefused as error:
            busy = found.status >= HTTPStatus.INTERNAL_SERVER_ERROR or found.status == HTTPStatus.TOO_MANY_REQUESTS
            if busy or error.code in TRANSIENT:
                raise Undelivered(str(error)) from None
            if error.code == "invalid_client" and client.redirect_uri:
                lost = self._sealed(org, row, attrs.evolve(client, is_lost=True))
                await self.change(
                    org, row.id, lambda now: attrs.evolve(now, client=lost) if now.client == row.client else now
                )
            raise

    async def revoke(self, client: OAuthClient, request: tuple[dict[str, str], bytes]) -> None:
        headers, body = request
        await self._outbound.request("POST", client.revocation_url, headers, body)

    # MCP servers

    async def _discovered(self, org: str, row: Connection, redirect_uri: str) -> OAuthClient:
        config = open_config(self._sealer, org, row)
        url, number = as_text(config["url"]), optional_text(config.get("clientId"))
        resource = await self._resource(url)
        server = await self._server(resource.issuer)
        scopes = optional_texts(config.get("scopes")) or resource.scopes
        if number is not None:
            return client_at(server, number, "", scopes, resource.resource)
        if not server.registration_url:
            raise OAuthRefused("the authorization server does not register clients: set `clientId`")
        body = dumps(registration_request(server, redirect_uri, scopes)).encode()
        headers = {"content-type": "application/json", "accept": "application/json"}
        found = await self._outbound.request("POST", server.registration_url, headers, body)
        return registered_client(found.status, found.body, server, redirect_uri, scopes, resource.resource)

    async def _resource(self, url: str) -> ResourceMetadata:
        """The metadata of the MCP server. One without metadata is its own issuer (MCP 2025-03-26, 2.3)."""
        first = await self._outbound.request("GET", url, {"accept": "application/json, text/event-stream"})
        named = metadata_in(first.headers.get("www-authenticate", ""))
        found = await self._first([named] if named else resource_metadata_urls(url))
        if found is not None:
            return resource_metadata(found.body, url)
        parts = urlsplit(url)
        return ResourceMetadata("", urlunsplit((parts.scheme, parts.netloc, "", "", "")))

    async def _server(self, issuer: str) -> ServerMetadata:
        found = await self._first(server_metadata_urls(issuer))
        if found is None:
            raise OAuthRefused("the MCP server names no authorization server with metadata")
        return server_metadata(found.body, issuer)

    async def _first(self, urls: Iterable[str]) -> OutboundResponse | None:
        """The first response with metadata."""
        for url in urls:
            found = await self._outbound.request("GET", url, {"accept": "application/json"})
            if is_metadata(found.status, found.body):
                return found
        return None

    def _stored(self, org: str, row: Connection) -> OAuthClient | None:
        try:
            text = self._sealer.open(row.client, *place_in_connection(org, row.id, CLIENT))
        except Unsealable:
            return None
        found = as_object(parse_json(text.encode()))
        return OAuthClient(**{**found, "scopes": as_texts(found["scopes"])})  # type: ignore[arg-type]

    async def _store(self, org: str, row: Connection, client: OAuthClient) -> None:
        text = self._sealed(org, row, client)
        await self.change(org, row.id, lambda now: attrs.evolve(now, client=text) if now.config == row.config else now)

    def _sealed(self, org: str, row: Connection, client: OAuthClient) -> str:
        kept: dict[str, JSON] = {**attrs.asdict(client), "scopes": list(client.scopes)}
        return self._sealer.seal(dumps(kept), *place_in_connection(org, row.id, CLIENT))

    async def change(self, org: str, id: str, change: Callable[[Connection], Connection]) -> None:
        """Change the connection, if it still exists."""
        async with self._storage.transaction(org) as work:
            row = await work.connections.get(id)
            if row is not None and (new := change(row)) != row:
                await work.connections.save(new)


def _configured(config: dict[str, JSON]) -> OAuthClient:
    def text(name: str) -> str:
        return optional_text(config.get(name)) or ""

    return OAuthClient(
        text("clientId"), text("tokenUrl"), text("clientSecret"), text("authorizeUrl"), text("revocationUrl"),
        text("tokenAuth") or "basic", optional_texts(config.get("scopes")) or (),
    )  # fmt: skip
