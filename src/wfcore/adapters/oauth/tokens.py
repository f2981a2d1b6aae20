"""Verifying a JWT access token (RFC 9068), with the lessons of RFC 8725.

What a token says of itself chooses nothing: algorithms are an allow-list, the key comes from the issuer's own set, and
its type must fit. Nothing of a token is looked at before its signature has been verified but what finds the key.
"""

import logging
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

from wfcore.adapters.oauth.cache import KeyCache
from wfcore.adapters.oauth.issuer import Issuer
from wfcore.adapters.oauth.keys import algorithm_of
from wfcore.domain.json.parsing import JsonLimits, parse_json
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.ids import is_uuid, normalize_email
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.identity import ClaimNames, Identity
from wfcore.ports.system import Clock

logger = logging.getLogger(__name__)

LEEWAY: Final = 60
"""Seconds by which two clocks may differ."""
MOST_CHARACTERS: Final = 16_384

_JWS: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_REFUSED: Final = ("b64", "crit", "cty", "enc", "jku", "jwk", "x5c", "x5u", "zip")
"""Header parameters that would bring a key, an address, another form or a rule of their own."""
_LIMITS: Final = JsonLimits(max_depth=16, max_values=4_000)

Tree = dict[str, Any]


class TokenRefused(Exception):
    """The token is no good; the message says why, for the operator's log and for nobody else."""


class AccessTokens:
    """Implements the port `TokenVerifier` for one issuer; a token has to be made out to `audience`."""

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
            claims = await self._genuine(token)
            self._check(claims)
            return _identity(claims, self._names)
        except TokenRefused as reason:
            logger.info("an access token was refused: %s", reason)
            return None

    async def _genuine(self, token: str) -> Tree:
        """The claims of a token whose signature is the issuer's."""
        found = _JWS.fullmatch(token) if len(token) <= MOST_CHARACTERS else None
        if found is None:
            raise TokenRefused("it is no signed JWT, or a very long one")
        header, payload, signature = (_decoded(part) for part in found.groups())
        kid, algorithm = _header(_object(header))
        message = token.rpartition(".")[0].encode()
        keys = await self._keys.find(kid, algorithm)
        if not any(key.verifies(algorithm, message, signature) for key in keys):
            raise TokenRefused("the signature is none of the issuer's" if keys else "the issuer has no such key")
        return _object(payload)

    def _check(self, claims: Tree) -> None:
        """The rules of RFC 9068, 4, and RFC 7519, 4.1."""
        now, audience = self._clock.now() / 1000, claims.get("aud")
        if claims.get("iss") != self.issuer:
            raise TokenRefused("another issuer's")
        if self.audience not in (_texts(audience, "aud") if isinstance(audience, list) else [audience]):
            raise TokenRefused("made out to another audience")
        _text(claims, "sub")
        if _instant(claims, "exp") <= now - LEEWAY:
            raise TokenRefused("expired")
        for name in ("nbf", "iat"):
            if name in claims and _instant(claims, name) > now + LEEWAY:
                raise TokenRefused(f"`{name}` lies in the future")


def _header(header: Tree) -> tuple[str | None, str]:
    """The key's id, if one is named, and the algorithm."""
    if any(name in header for name in _REFUSED):
        raise TokenRefused("its header asks for what is not offered")
    kind, algorithm = header.get("typ"), algorithm_of(header.get("alg"))
    if not isinstance(kind, str) or not kind.isascii() or kind.lower() not in _TYPES:
        raise TokenRefused("it is not typed `at+jwt`")
    if algorithm is None:
        raise TokenRefused("its algorithm is not offered")
    return (None if "kid" not in header else _text(header, "kid")), algorithm


def _identity(claims: Tree, names: ClaimNames) -> Identity:
    org, email = _text(claims, names.organization), claims.get(names.email) if names.email else None
    if not is_uuid(org):
        raise TokenRefused("its organization is no UUID in lower case with hyphens")
    return Identity(
        org,
        _text(claims, names.user),
        frozenset(TOKEN_SCOPES) & _scopes(claims),
        normalize_email(email) if isinstance(email, str) else None,
        claims.get(names.email_verified) is True,
        None if names.groups is None else frozenset(_texts(claims.get(names.groups, []), names.groups)),
    )


def _scopes(claims: Tree) -> frozenset[str]:
    """RFC 8693, 4.2: a text with spaces; some issuers send a list."""
    scope = claims.get("scope", "")
    return frozenset(scope.split(" ") if isinstance(scope, str) else _texts(scope, "scope"))


def _text(tree: Tree, name: str) -> str:
    value = tree.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= 255:
        raise TokenRefused(f"`{name}` is no text of 1 to 255 characters")
    return value


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TokenRefused(f"`{name}` is no list of texts")
    return value


def _instant(claims: Tree, name: str) -> float:
    """A NumericDate: seconds since the Unix epoch, fractions allowed; a boolean is no number."""
    value: Any = claims.get(name)
    if type(value) not in (int, float):
        raise TokenRefused(f"`{name}` is no number")
    return float(value)


def _object(text: bytes) -> Tree:
    try:
        tree = parse_json(text, _LIMITS)
    except WfcoreError:
        raise TokenRefused("a part of it is not strict JSON") from None
    if not isinstance(tree, dict):
        raise TokenRefused("a part of it is no object")
    return tree


def _decoded(part: str) -> bytes:
    """Base64url in its one spelling: other trailing bits would be another text for the same token."""
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        decoded = b""
    if urlsafe_b64encode(decoded).rstrip(b"=") != part.encode():
        raise TokenRefused("a part of it is not base64url")
    return decoded
