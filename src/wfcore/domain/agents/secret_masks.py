"""Texts and values of a service without the secrets that were sent to it: `***` replaces each form of them."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self
from urllib.parse import quote, quote_plus

import attrs

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON

SHORTEST_PART: Final = 8
"""The length from which a part of a secret is replaced too. A shorter one can be an ordinary word, as at the beginning
of a key such as `test_...`, and is of no use to others.
"""
MASK: Final = "***"

_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9_-]*) +(?P<token>\S+)", re.ASCII)
"""An authentication scheme and its credentials in one word (RFC 9110, 11.4)."""


@attrs.frozen
class SecretMask:
    """Replaces secrets of at least `shortest` characters, also within a longer word, in any form of `_forms_of`."""

    _forms: tuple[str, ...] = attrs.field(repr=False)
    """The longest first: a shorter one can be a part of it."""
    _ends: tuple[str, ...] = attrs.field(repr=False)

    @classmethod
    def of(cls, secrets: Iterable[str], shortest: int) -> Self:
        words = [word for secret in secrets if len(secret) >= shortest for word in _words_of(secret)]
        forms = sorted({form for word in words for form in _forms_of(word)}, key=len, reverse=True)
        # the beginning of `Bearer ...` is an ordinary word
        ends = {form for word in words if not _CREDENTIALS.fullmatch(word) for form in _forms_of(word)}
        return cls(tuple(forms), tuple(ends))

    def text(self, text: str) -> str:
        """The text of a message. One that was cut can end with the beginning of a secret, which is replaced too."""
        text = self._whole(text)
        cuts = [cut for form in self._ends if (cut := _begins_at(form, text)) is not None]
        return f"{text[: min(cuts)]}{MASK}" if cuts else text

    def value(self, value: JSON) -> JSON:
        """The value with every string and key replaced."""
        return _replaced(value, self._whole) if self._forms else value

    def _whole(self, text: str) -> str:
        """Without the forms. `str.replace` takes linear time, a pattern the product of both lengths."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text


def _words_of(secret: str) -> Iterator[str]:
    """The secret and, of a scheme with credentials, these alone: of `Basic` as the service reads them too."""
    yield secret
    found = _CREDENTIALS.fullmatch(secret)
    if found is None:
        return
    pair = _decoded(found["token"]) if found["scheme"].lower() == "basic" else ""
    user, _, password = pair.partition(":")
    yield from (word for word in (found["token"], pair, password or user) if len(word) >= SHORTEST_PART)


def _decoded(token: str) -> str:
    """The text in base64; "" for anything else."""
    try:
        return base64.b64decode(token, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _forms_of(secret: str) -> Iterator[str]:
    """The secret as it is, in JSON, in a URL, and in base64 at each position of a longer text."""
    yield from (secret, dumps(secret)[1:-1], quote(secret, safe=""), quote(secret), quote_plus(secret))
    raw = secret.encode()
    for skipped in range(3):
        start, end = -(-skipped * 8 // 6), (skipped + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            inner = encode(bytes(skipped) + raw).decode()[start:end]
            if len(inner) > SHORTEST_PART:
                yield inner
    yield from (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode())


def _begins_at(form: str, text: str) -> int | None:
    """Where the text ends with the beginning of the form, of at least SHORTEST_PART characters; None without that."""
    start = text.find(form[:SHORTEST_PART], max(0, len(text) - len(form)))
    while start >= 0:
        if len(text) - start >= SHORTEST_PART and form.startswith(text[start:]):
            return start
        start = text.find(form[:SHORTEST_PART], start + 1)
    return None


def _replaced(value: JSON, replace: Callable[[str], str]) -> JSON:
    """The JSON value with every string and key replaced."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_replaced(item, replace) for item in value]
    if isinstance(value, dict):
        return {replace(key): _replaced(item, replace) for key, item in value.items()}
    return value
