"""Tokens with which the pages of a portal call the product: signed by the portal's backend, valid for ten minutes.

The format is a JSON Web Token (RFC 7519), so that the elements see when it expires and request the next one in time.
"""

import base64
import hashlib
import hmac
import json
import os
import time

KEY = os.environ.get("PORTAL_KEY", "shared by the product and the portal").encode()
SECONDS = 600


def token_for(user: str) -> str:
    """A token with which a page acts for this user of the product."""
    claims = _encoded({"sub": user, "exp": int(time.time()) + SECONDS})
    signed = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{claims}"
    return f"{signed}.{_signature(signed)}"


def user_in(token: str) -> str | None:
    """The user of a valid token; None for any other."""
    signed, _, signature = token.rpartition(".")
    if not signed.isascii() or not hmac.compare_digest(_signature(signed).encode(), signature.encode()):
        return None
    text = signed.rpartition(".")[2]
    claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return str(claims["sub"]) if claims["exp"] > time.time() else None


def _encoded(claims: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def _signature(signed: str) -> str:
    digest = hmac.digest(KEY, signed.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
