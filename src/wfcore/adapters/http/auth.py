"""Who calls: the principal of a bearer token, or whoever the embedding product says it is."""

from collections.abc import Awaitable, Callable

from starlette.requests import HTTPConnection

from wfcore.domain.access import Principal
from wfcore.runtime.organization import Directory

Authenticate = Callable[[HTTPConnection], Awaitable[Principal | None]]
"""Gives the principal of a request, from its headers, cookies, session or state; None when there is none (401)."""


def by_token(directory: Directory) -> Authenticate:
    """Personal access tokens (interface, Authentication)."""

    async def authenticate(connection: HTTPConnection) -> Principal | None:
        token = bearer_token(connection)
        return None if token is None else await directory.authenticate(token)

    return authenticate


def bearer_token(connection: HTTPConnection) -> str | None:
    """The token of `Authorization: Bearer ...`; None when no such header, or more than one, was sent."""
    sent = connection.headers.getlist("Authorization")
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return token.strip(" ") if scheme.lower() == "bearer" else None


def challenge(connection: HTTPConnection) -> str:
    """`WWW-Authenticate` of a 401 (RFC 6750, 3): it says so when a token was sent and was no good."""
    return "Bearer" if bearer_token(connection) is None else 'Bearer error="invalid_token"'
