"""Verification of a JWT access token (RFC 9068), with the recommendations of RFC 8725.

A token cannot choose how it is verified: the algorithms are an allow-list, the key comes from the issuer's own set, and
its type must match. Before the signature is verified, only the parts that select the key are read.
"""

import logging
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from wfcore.adapters.oauth.cache import KeyCache
from wfcore.adapters.oauth.issuer import Issuer
from wfcore.adapters.oauth.keys import VerificationKey, algorithm_of
from wfcore.domain.json.parsing import JsonLimits, parse_json
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.ids import is_uuid, normalize_email
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.identity import ClaimNames, Identity
from wfcore.ports.system import Clock

logger = logging.getLogger(__name__)

LATEST: Final = 253_402_300_799
"""The last second that a `datetime` can have."""

LEEWAY: Final = 60
"""Seconds by which two clocks can differ."""
MAX_CHARACTERS: Final = 16_384

_JWS: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_REFUSED: Final = ("b64", "crit", "cty", "enc", "jku", "jwk", "x5c", "x5u", "zip")
"""Header parameters that would supply a key, an address, another encoding or additional rules."""
_LIMITS: Final = JsonLimits(max_depth=16, max_values=4_000)

Tree = dict[str, Any]


class TokenRefused(Exception):
    """The token is invalid; the message gives the reason, which only the operator's log shows."""


class AccessTokens:
    """Implements the port `TokenVerifier` for one issuer; a token must be issued for `audience`."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        clock: Clock,
        *,
        jwks_url: str | None = None,
        claims: ClaimNames | None = None,
    ) -> None:
        self.issuer = issuer
        self.audience = audience
        self._clock = clock
        self._names = claims or ClaimNames()
        self._keys = KeyCache(Issuer(issuer, jwks_url).keys, clock)

    async def verify(self, token: str) -> Identity | None:
        try:
            claims = await self._verified_claims(token)
            self._check(claims)
            return _identity(claims, self._names)
        except TokenRefused as reason:
            logger.info("an access token was refused: %s", reason)
            return None

    async def _verified_claims(self, token: str) -> Tree:
        """The claims of a token whose signature is valid."""
        found = _JWS.fullmatch(token) if len(token) <= MAX_CHARACTERS else None
        if found is None:
            raise TokenRefused(f"not a signed JWT of at most {MAX_CHARACTERS} characters")
        header, payload, signature = (_decoded(part) for part in found.groups())
        kid, algorithm = _header(_object(header))
        message = token.rpartition(".")[0].encode()
        keys = await self._keys.find(kid, algorithm)
        if not _any_verifies(keys, algorithm, message, signature) and not _any_verifies(
            await self._keys.find_other(keys, kid, algorithm), algorithm, message, signature
        ):
            unknown = "the issuer has no such key" if kid else "it names no key, and not exactly one of the issuer fits"
            raise TokenRefused("the signature is invalid" if keys else unknown)
        return _object(payload)

    def _check(self, claims: Tree) -> None:
        """The rules of RFC 9068, 4, and RFC 7519, 4.1."""
        now, audience = self._clock.now() / 1000, claims.get("aud")
        if claims.get("iss") != self.issuer:
            raise TokenRefused("issued by another issuer")
        if self.audience not in (_texts(audience, "aud") if isinstance(audience, list) else [audience]):
            raise TokenRefused("issued for another audience")
        _text(claims, "sub")
        if _instant(claims, "exp") <= now - LEEWAY:
            raise TokenRefused("expired")
        for name in ("nbf", "iat"):
            if name in claims and _instant(claims, name) > now + LEEWAY:
                raise TokenRefused(f"`{name}` is in the future")


def _any_verifies(keys: Iterable[VerificationKey], algorithm: str, message: bytes, signature: bytes) -> bool:
    return any(key.verifies(algorithm, message, signature) for key in keys)


def _header(header: Tree) -> tuple[str | None, str]:
    """The key id, if the header has one, and the algorithm."""
    if any(name in header for name in _REFUSED):
        raise TokenRefused("the header has an unsupported parameter")
    kind, algorithm = header.get("typ"), algorithm_of(header.get("alg"))
    if not isinstance(kind, str) or not kind.isascii() or kind.lower() not in _TYPES:
        raise TokenRefused("the type is not `at+jwt`")
    if algorithm is None:
        raise TokenRefused("the algorithm is not supported")
    return (None if "kid" not in header else _text(header, "kid")), algorithm


def _identity(claims: Tree, names: ClaimNames) -> Identity:
    org, email = _text(claims, names.organization), claims.get(names.email) if names.email else None
    if not is_uuid(org):
        raise TokenRefused(f"`{names.organization}` is not a UUID in lower case with hyphens")
    return Identity(
        org,
        _text(claims, names.user),
        frozenset(TOKEN_SCOPES) & _scopes(claims),
        normalize_email(email) if isinstance(email, str) else None,
        claims.get(names.email_verified) is True,
        None if names.groups is None else frozenset(_texts(claims.get(names.groups, []), names.groups)),
        datetime.fromtimestamp(min(_instant(claims, "exp"), LATEST), UTC),
    )


def _scopes(claims: Tree) -> frozenset[str]:
    """The scopes: a text separated by spaces (RFC 8693, 4.2); some issuers send a list."""
    scope = claims.get("scope", "")
    return frozenset(scope.split(" ") if isinstance(scope, str) else _texts(scope, "scope"))


def _text(tree: Tree, name: str) -> str:
    value = tree.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= 255:
        raise TokenRefused(f"`{name}` is not a text of 1 to 255 characters")
    return value


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TokenRefused(f"`{name}` is not a list of texts")
    return value


def _instant(claims: Tree, name: str) -> float:
    """A NumericDate: seconds since the Unix epoch, fractions allowed. A boolean is refused."""
    value: Any = claims.get(name)
    if type(value) not in (int, float):
        raise TokenRefused(f"`{name}` is not a number")
    return float(value)


def _object(text: bytes) -> Tree:
    try:
        tree = parse_json(text, _LIMITS)
    except WfcoreError:
        raise TokenRefused("the header or the payload is not strict JSON") from None
    if not isinstance(tree, dict):
        raise TokenRefused("the header or the payload is not an object")
    return tree


def _decoded(part: str) -> bytes:
    """Canonical base64url only: with other trailing bits, two texts would stand for one token."""
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        decoded = b""
    if urlsafe_b64encode(decoded).rstrip(b"=") != part.encode():
        raise TokenRefused("a part of the token is not base64url")
    return decoded
