"""The keys of an issuer: which keys of a JWK Set (RFC 7517) can verify a signature, and the verification."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry

from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.kernel.json_type import JSON

MAX_KEYS: Final = 100
RSA_BITS: Final = range(2048, 8193)

_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"Ed25519"}),
}
ALGORITHMS: Final = _RSA.union(*_CURVES.values())
"""Asymmetric algorithms only. The type of the key, not the token, selects the algorithm (RFC 8725, 3.1)."""

_RENAMED: Final = {"EdDSA": "Ed25519"}
"""The deprecated name and its replacement (RFC 9864)."""
_PUBLIC: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

_registry: Final = JWSRegistry(algorithms=sorted(ALGORITHMS))


@attrs.frozen
class VerificationKey:
    """A public key, and the algorithms that it can be used with."""

    kid: str | None
    algorithms: frozenset[str]
    key: Key = attrs.field(repr=False)

    def verifies(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Whether this key made the signature. `algorithm` must be one of `algorithms`."""
        try:
            return bool(_registry.get_alg(algorithm).verify(message, signature, self.key))
        except (JoseError, ValueError):
            return False


def algorithm_of(name: JSON) -> str | None:
    """The algorithm of this name; None for an unsupported one: `none`, every HMAC, and unknown names."""
    known = _RENAMED.get(name, name) if isinstance(name, str) else None
    return known if known in ALGORITHMS else None


def choose(keys: Sequence[VerificationKey], kid: str | None, algorithm: str) -> list[VerificationKey]:
    """The keys that can have made a signature. Without a `kid`, exactly one key must fit the algorithm."""
    fit = [key for key in keys if algorithm in key.algorithms]
    if kid is not None:
        return [key for key in fit if key.kid == kid]
    return fit if len(fit) == 1 else []


def read_keys(tree: JSON) -> tuple[VerificationKey, ...]:
    """The usable keys of a JWK Set; others are ignored (RFC 7517, 5). Raises ValueError if `tree` is not a JWK Set."""
    entries = tree.get("keys") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the response is not a JWK Set")  # noqa: TRY004  (a value from outside, not a caller's error)
    return tuple(_usable(entries[:MAX_KEYS]))


def _usable(entries: Sequence[JSON]) -> Iterator[VerificationKey]:
    for entry in entries:
        if not isinstance(entry, dict) or not _is_for_verifying(entry):
            continue
        algorithms, kid = _algorithms(entry), entry.get("kid")
        if algorithms and (kid is None or isinstance(kid, str)) and (key := _imported(entry)) is not None:
            yield VerificationKey(kid, algorithms, key)


def _is_for_verifying(entry: Mapping[str, JSON]) -> bool:
    operations = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _algorithms(entry: Mapping[str, JSON]) -> frozenset[str]:
    """The algorithms that the key's type and size allow, restricted to its `alg` if present."""
    kty, curve = entry.get("kty"), entry.get("crv")
    if kty == "RSA":
        allowed = _RSA if _bits(entry.get("n")) in RSA_BITS else frozenset()
    else:
        allowed = (
            _CURVES.get((kty, curve), frozenset()) if isinstance(kty, str) and isinstance(curve, str) else frozenset()
        )
    return allowed if "alg" not in entry else allowed & {algorithm_of(entry["alg"])}


def _bits(modulus: JSON) -> int:
    """The size of an RSA key in bits; 0 for an invalid modulus."""
    if not isinstance(modulus, str) or len(modulus) > RSA_BITS[-1] // 6 + 2 or not _BASE64URL.fullmatch(modulus):
        return 0
    return int.from_bytes(urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4))).bit_length()


def _imported(entry: Mapping[str, JSON]) -> Key | None:
    """The key, made from its public parameters only: private parameters, certificates and addresses are ignored."""
    public: dict[str, str | list[str]] = {
        name: str(entry.get(name)) for name in ("kty", *_PUBLIC[as_text(entry["kty"])])
    }
    try:
        key = JWKRegistry.import_key(public)
        key.get_op_key("verify")
    except (JoseError, ValueError, TypeError):
        return None
    return key
