"""An issuer's keys, and a forge: tokens with any header, any claims and any signature."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Any

from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from wfcore.testing.fakes import NOON

ISSUER, AUDIENCE = "https://issuer.example/realm", "https://wfcore.example"
ORG = "0d9c3a3e-0000-4000-8000-000000000001"
NOW = NOON // 1000

RSA = RSAKey.generate_key(2048)
EC = ECKey.generate_key("P-256")
ED = OKPKey.generate_key("Ed25519")
FOREIGN = ECKey.generate_key("P-256")
PRIVATE: dict[str, tuple[str, Key]] = {"rsa": ("RS256", RSA), "ec": ("ES256", EC), "ed": ("Ed25519", ED)}

Part = dict[str, Any] | bytes


def jwk(kid: Any, key: Key, **more: Any) -> dict[str, Any]:
    """The public key as an issuer shows it."""
    return {**key.as_dict(private=False), "kid": kid, "use": "sig"} | more


def jwks(*kids: str) -> dict[str, Any]:
    return {"keys": [jwk(kid, PRIVATE[kid][1]) for kid in kids or PRIVATE]}


def claims(**more: Any) -> dict[str, Any]:
    """Those of a good token; None leaves one out."""
    whole = {"iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 300, "iat": NOW, "sub": "ann", "org_id": ORG, "scope": "a"}
    return {name: value for name, value in (whole | more).items() if value is not None}


def header(kid: str = "ec", /, **more: Any) -> dict[str, Any]:
    whole = {"alg": PRIVATE.get(kid, PRIVATE["ec"])[0], "typ": "at+jwt", "kid": kid} | more
    return {name: value for name, value in whole.items() if value is not None}


def b64(part: Part) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def signed(head: Part, body: Part, key: Any = None, algorithm: str | None = None) -> str:
    """A token with these claims and a valid signature, by default of the key that its `kid` names."""
    kid = head.get("kid", "ec") if isinstance(head, dict) else "ec"
    own_algorithm, own_key = PRIVATE.get(kid if isinstance(kid, str) else "ec", PRIVATE["ec"])
    message = f"{b64(head)}.{b64(body)}"
    signer = JWSRegistry.algorithms[algorithm or own_algorithm]
    return f"{message}.{b64(signer.sign(message.encode(), key or own_key))}"


def token(kid: str = "ec", head: Iterable[tuple[str, Any]] = (), **more: Any) -> str:
    """A good token, but for what is said here."""
    return signed(header(kid, **dict(head)), claims(**more))
