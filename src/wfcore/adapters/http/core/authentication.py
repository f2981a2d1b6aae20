"""Authentication: the principal of a bearer token, or the one that the embedding product returns."""

import re
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from starlette.requests import HTTPConnection

from wfcore.domain.resources.access import Principal
from wfcore.ports.identity import TokenVerifier
from wfcore.runtime.organization.directory import Directory, unauthenticated
from wfcore.runtime.organization.embed_tokens import is_embed_token

Authenticate = Callable[[HTTPConnection], Awaitable[Principal | None]]
"""Returns the principal of a request, from its headers, cookies, session or state; None for a 401."""

AuthenticateOrSync = Callable[[HTTPConnection], Awaitable[Principal | None] | Principal | None]
"""The same function of a product, sync or async."""

_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)


def by_token(directory: Directory, oauth: TokenVerifier | None = None) -> Authenticate:
    """Accept personal access tokens and, with `oauth`, the issuer's access tokens (interface, Authentication 2)."""

    async def authenticate(connection: HTTPConnection) -> Principal | None:
        token = bearer_token(connection)
        if token is None:
            return None
        if oauth is None or token.startswith("svc_") or is_embed_token(token):
            return await directory.authenticate(token)
        identity = await oauth.verify(token)
        if identity is None:
            raise unauthenticated()
        return await directory.recognize(identity)

    return authenticate


def or_by_embed_token(directory: Directory, authenticate: AuthenticateOrSync) -> Authenticate:
    """The embedding product's own authentication, beside bearer tokens of its pages (`Tokens.embed`)."""

    async def authenticate_page(connection: HTTPConnection) -> Principal | None:
        token = bearer_token(connection)
        if token is not None and is_embed_token(token):
            return await directory.authenticate(token)
        found = authenticate(connection)
        return await found if isawaitable(found) else found

    return authenticate_page


def bearer_token(connection: HTTPConnection) -> str | None:
    """The token of `Authorization: Bearer ...`; None when that header is missing or repeated."""
    sent = connection.headers.getlist("Authorization")
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return token.strip(" ") if scheme.lower() == "bearer" else None


def challenge(connection: HTTPConnection, metadata: str) -> str:
    """`WWW-Authenticate` of a 401 (RFC 6750, 3), with `invalid_token` when a token was sent.

    `metadata` is the URL of the protected resource metadata (RFC 9728, 5.1).
    """
    error = "" if bearer_token(connection) is None else 'error="invalid_token", '
    return f'Bearer {error}resource_metadata="{metadata}"'


def origin_of(connection: HTTPConnection) -> str:
    """Scheme and host as the client wrote them; the server's own where `Host` is not a valid host."""
    written = connection.headers.get("Host", "")
    host, port = connection.scope.get("server") or ("localhost", None)
    own = f"{host}:{port}" if port else host
    return f"{connection.scope.get('scheme', 'http')}://{written if _HOST.fullmatch(written) else own}"
