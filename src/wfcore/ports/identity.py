"""Who an access token of an issuer outside speaks for (interface, Authentication 2)."""

from typing import Protocol

import attrs


@attrs.frozen
class Identity:
    """What a genuine token says. It grants nothing by itself: the organization's own member row decides that.

    `email` and `groups` are None where the token does not speak of them, and then the member row's count.
    """

    org_uuid: str
    user_id: str
    scopes: frozenset[str]
    email: str | None = None
    email_verified: bool = False
    groups: frozenset[str] | None = None


@attrs.frozen
class ClaimNames:
    """Which claims of a token hold what. One that is None is not read, and the member row counts."""

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
        """What a token has to be made out to: this server."""
        ...

    async def verify(self, token: str) -> Identity | None:
        """Who the token speaks for; None for every text that is no token, or none that counts here and now.

        Implementers: never raise because of the text, whatever it is. Raise `Unavailable` when no token can be
        judged.
        """
        ...
