"""The canonical text form of ids, slugs, e-mail addresses, tokens and instants.

Each value has exactly one spelling, so equal values are equal texts. Other spellings that a library may accept
(braces around a UUID, `01` for 1, full-width digits, a trailing line feed) are refused.
"""

import hashlib
import hmac
import re
import string
from collections.abc import Iterator
from datetime import UTC, datetime

import attrs

ALPHABET = string.ascii_letters + string.digits
"""The characters of a token's prefix (8 characters) and secret (43 characters)."""

SLUG_LENGTH = 80
SLUG_FORM = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
"""The JSON Schema pattern of a slug."""

EMAIL_LENGTH = 254

_FALLBACK = {"workflow": "workflow", "skill": "scope"}

_HEX = "[0-9a-f]"
_UUID_FORM = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_UUID = re.compile(_UUID_FORM, re.ASCII)
_TOKEN = re.compile(f"svc_({_UUID_FORM})_([A-Za-z0-9]{{8}})_([A-Za-z0-9]{{43}})", re.ASCII)
_PATH_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_RUN_ID = re.compile(r"[!-~]{1,255}", re.ASCII)

_ATOM = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL = re.compile(rf"(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*", re.ASCII)


def is_uuid(text: str) -> bool:
    """Whether this is the canonical text of a UUID: lowercase, with hyphens, nothing around it (RFC 9562)."""
    return _UUID.fullmatch(text) is not None


def is_run_id(text: str) -> bool:
    """Whether this can name a run: 1 to 255 visible ASCII characters. Not `.` or `..` (RFC 3986, 5.2.4)."""
    return _RUN_ID.fullmatch(text) is not None and text not in (".", "..")


def parse_id(text: str) -> int | None:
    """The id of a resource from a URL path: canonical, positive, at most 16 digits; None for any other text."""
    return int(text) if _PATH_ID.fullmatch(text) else None


def normalize_email(text: str) -> str | None:
    """The e-mail address in lower case; None for a text that is not one in the dot-atom form of RFC 5321, ASCII only.

    Other letters are refused before the text is lowered: U+212A would become the `k` of another person.
    """
    if len(text) > EMAIL_LENGTH or not text.isascii():
        return None
    lowered = text.lower()
    return lowered if _EMAIL.fullmatch(lowered) else None


def slugify_name(name: str, kind: str, id: int) -> str:
    """The slug of a name: `[a-z0-9-]`, 1 to 80 characters; `workflow-7` or `scope-7` when no character is left.

    `kind` is `workflow` or `skill`. The same name gives the same slug on every machine.
    """
    from slugify import slugify

    plain = slugify(
        name, entities=False, decimal=False, hexadecimal=False, algorithm="modern", backend="text-unidecode"
    )
    return plain[:SLUG_LENGTH].strip("-") or f"{_FALLBACK[kind]}-{id}"


def slug_candidates(base: str) -> Iterator[str]:
    """`base`, `base-2`, `base-3`, ... without end, each of at most 80 characters; a caller takes the first free one."""
    number, slug = 1, base
    while True:
        yield slug
        number += 1
        suffix = f"-{number}"
        slug = base[: SLUG_LENGTH - len(suffix)].rstrip("-") + suffix


@attrs.frozen
class TokenParts:
    """The parts of a personal access token (interface, Authentication). `repr` omits the secret."""

    org_uuid: str
    prefix: str
    secret: str = attrs.field(repr=False)


def parse_token(text: str) -> TokenParts | None:
    """The parts of `svc_<org uuid>_<prefix>_<secret>`, or None for any other text."""
    found = _TOKEN.fullmatch(text)
    return TokenParts(*found.groups()) if found else None


def format_token(org_uuid: str, prefix: str, secret: str) -> str:
    """The inverse of `parse_token`. Raises ValueError when a part does not have its form."""
    text = f"svc_{org_uuid}_{prefix}_{secret}"
    if parse_token(text) != TokenParts(org_uuid, prefix, secret):
        raise ValueError("these are not the parts of a token")
    return text


def hash_secret(secret: str) -> str:
    """The SHA-256 of a token's secret, 64 hexadecimal digits: the store keeps it instead of the secret.

    A slow or salted hash protects secrets that can be guessed. 43 random characters out of 62 have 256 bits, so
    a fast hash is enough, and every request computes it.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def secret_matches(secret: str, digest: str) -> bool:
    """Whether `digest` is the stored hash of `secret`, compared in constant time."""
    return hmac.compare_digest(hash_secret(secret).encode(), digest.encode())


def iso(instant: datetime) -> str:
    """An aware datetime in the form of the interface: `2026-01-31T09:30:00.123Z` (UTC, truncated to milliseconds).

    Raises ValueError for a naive datetime.
    """
    if instant.tzinfo is None:
        raise ValueError("a datetime without a time zone is not an instant")
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
