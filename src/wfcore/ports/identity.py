"""Access tokens of external issuers, and the identities that they state (interface, Authentication 2)."""

from datetime import datetime
from typing import Protocol

import attrs


@attrs.frozen
class Identity:
    """The claims of a verified token. They grant nothing by themselves: the organization's member row decides.

    `email` and `groups` are None where the token does not state them; those of the member row are used then.
    """

    org_uuid: str
    user_id: str
    scopes: frozenset[str]
    email: str | None = None
    email_verified: bool = False
    groups: frozenset[str] | None = None
    expires_at: datetime | None = attrs.field(default=None, eq=False)


@attrs.frozen
class ClaimNames:
    """The names of the claims to read. A claim whose name is None is not read; the member row is used instead."""

    organization: str = "org_id"
    user: str = "sub"
    email: str | None = None
    email_verified: str = "email_verified"
    groups: str | None = None


class TokenVerifier(Protocol):
    """Verifies access tokens."""

    @property
    def issuer(self) -> str:
        """The URL that names the authorization server (RFC 8414, 2)."""
        ...

    @property
    def audience(self) -> str:
        """The audience that a token must have: the identifier of this server."""
        ...

    async def verify(self, token: str) -> Identity | None:
        """The identity that the token states; None for a text that is not a valid token for this server now.

        Implementers: never raise because of the text. Raise `Unavailable` when tokens cannot be verified at present.
        """
        ...
