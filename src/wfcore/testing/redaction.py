"""Secrets are removed from what a cassette stores: by the names of fields, by known forms, and by your own rules."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON

REDACTED: Final = "***"

SECRET_FIELDS: Final = frozenset(
    {
        "accesstoken", "apikey", "authorization", "clientsecret", "cookie", "credentials", "idtoken", "passphrase",
        "password", "privatekey", "refreshtoken", "secret", "setcookie", "token", "xapikey",
    }
)  # fmt: skip
"""Names of fields whose values are secret, in lower case and without other characters than letters."""

SECRET_FORMS: Final = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"\b(?:sk|pk|rk|whsec|svc|ghp|gho|xox[abprs])[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
)
"""Texts that are secrets: headers of HTTP authentication, keys with the usual prefixes, JSON web tokens, PEM keys."""

_NOT_LETTERS = re.compile(r"[^a-z]")


class Redactor:
    """Replaces secrets by `***` in any JSON value. `rules` are texts, or patterns, that are replaced too; `fields` are
    further names of secret fields.
    """

    def __init__(self, rules: Iterable[str | re.Pattern[str]] = (), fields: Iterable[str] = ()) -> None:
        own = [re.compile(re.escape(rule)) if isinstance(rule, str) else rule for rule in rules if rule]
        self._patterns = (*own, *SECRET_FORMS)
        self._fields = SECRET_FIELDS | {_letters(name) for name in fields}

    def of(self, value: JSON) -> JSON:
        """The value without secrets. A text that is a JSON object or array is redacted inside as well."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._plain(key): self._field(key, each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(each) for each in value]
        return value

    def _field(self, name: str, value: JSON) -> JSON:
        is_secret = _letters(name) in self._fields and value is not None and not isinstance(value, bool)
        return REDACTED if is_secret and not isinstance(value, Mapping) else self.of(value)

    def _text(self, text: str) -> str:
        if text[:1] in ("{", "["):
            try:
                read = json.loads(text)
            except ValueError:
                return self._plain(text)
            redacted = self.of(read)
            return text if redacted == read else dumps(redacted)
        return self._plain(text)

    def _plain(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return text


def _letters(name: str) -> str:
    return _NOT_LETTERS.sub("", name.lower())
