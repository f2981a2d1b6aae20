"""Connections to external services: their configuration and its secret fields (interface, connections).

The name of a field is its key, or `headers.<name>` for a header. Secret fields are stored apart from the others,
sealed, and never returned to clients.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import urlsplit

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_readers import as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import URL_RULE, is_url

HEADERS: Final = "headers."
SECRET: Final = frozenset({"apiKey", "clientSecret"})
URLS: Final = ("url", "tokenUrl", "authorizeUrl")
MAX_HEADERS: Final = 50
RESERVED_HEADERS: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of the connection and of the target host (RFC 9110, 7.6.1): customers cannot set them."""

T = TypeVar("T")


class ConnectionKind(StrEnum):
    """How wfcore authenticates to the service; `mcp` is a server of tools."""

    API_KEY = "api_key"
    OAUTH2 = "oauth2"
    MCP = "mcp"


class ConnectionStatus(StrEnum):
    """The status of a connection.

    `refused`: the service refused the credentials at the last use; the next use tries again.
    `unreadable` is only shown, not stored: its secrets were sealed with a key that is not configured.
    """

    ACTIVE = "active"
    DISABLED = "disabled"
    REFUSED = "refused"
    UNREADABLE = "unreadable"


@attrs.frozen
class Connection:
    """One connection: the visible fields of its `config`, and its secret fields, `sealed`."""

    id: str
    name: str
    provider: str
    kind: ConnectionKind
    config: Mapping[str, JSON]
    sealed: Mapping[str, str] = attrs.field(repr=False)
    status: ConnectionStatus = ConnectionStatus.ACTIVE
    last_checked_at: datetime | None = None

    def to_wire(self) -> dict[str, JSON]:
        """The connection on the wire: `{"set": true}` replaces each secret."""
        checked = self.last_checked_at
        return {
            "id": self.id,
            "name": self.name,
            "provider": self.provider,
            "kind": self.kind.value,
            "config": joined(self.config, {name: {"set": True} for name in self.sealed}),
            "status": self.status.value,
            "lastCheckedAt": None if checked is None else iso(checked),
        }


def split(config: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The visible and the secret fields of a configuration."""
    plain = {name: value for name, value in config.items() if name not in SECRET and name != "headers"}
    secret = {name: value for name, value in config.items() if name in SECRET}
    return plain, secret | {HEADERS + name: value for name, value in _headers(config).items()}


def _headers(config: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return optional_object(config.get("headers")) or {}


def expand_null_headers(config: Mapping[str, JSON], sealed: Mapping[str, str]) -> Mapping[str, JSON]:
    """A change of a configuration, with `"headers": null` replaced by null for each stored header."""
    if config.get("headers", {}) is not None:
        return config
    return {**config, "headers": dict.fromkeys(_headers(joined({}, sealed)))}


def joined(plain: Mapping[str, JSON], secret: Mapping[str, JSON]) -> dict[str, JSON]:
    """The configuration of these fields: the inverse of `split`."""
    headers = {name.removeprefix(HEADERS): value for name, value in secret.items() if name.startswith(HEADERS)}
    others = {name: value for name, value in secret.items() if not name.startswith(HEADERS)}
    return {**plain, **others} | ({"headers": headers} if headers else {})


def merged(old: Mapping[str, T], new: Mapping[str, T | None]) -> dict[str, T]:
    """The fields `old`, updated by `new`; None removes a field (RFC 7396). Names of headers ignore case."""
    named = {name.lower() for name in new}
    kept = {name: value for name, value in old.items() if name.lower() not in named}
    return kept | {name: value for name, value in new.items() if value is not None}


def config_issues(config: Mapping[str, JSON]) -> list[Issue]:
    """Issues that the shape does not cover: URLs and headers. Messages do not show values."""
    return [*_url_issues(config), *_header_issues(list(_headers(config))), *_reserved_issues(config)]


def _url_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    for name in URLS:
        url = optional_text(config.get(name))
        if url is not None and not is_url(url):
            yield Issue(f"config.{name}", URL_RULE, "url")


def _header_issues(names: list[str]) -> Iterator[Issue]:
    if len(names) > MAX_HEADERS:
        yield Issue("config.headers", f"must have at most {MAX_HEADERS} entries", "maxItems")
    if len({name.lower() for name in names}) < len(names):
        yield Issue("config.headers", "has the same name twice, in different case", "duplicate")


def _reserved_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    names = {f"config.{HEADERS}{name}": name for name in _headers(config)}
    for path, name in {**names, "config.header": as_text(config.get("header") or "")}.items():
        if name.lower() in RESERVED_HEADERS:
            yield Issue(path, "is a reserved header and cannot be set", "reserved")


def kept_secret_issues(old: Connection, new: Connection, given: Iterable[str]) -> list[Issue]:
    """One issue for each secret not in `given` if the receiver changes: it must not get a stored secret."""
    if _receivers(old) == _receivers(new):
        return []
    kept = new.sealed.keys() - set(given)
    message = "must be given again or removed, because the receiver has changed"
    return [Issue(f"config.{name}", message, "required_anew") for name in sorted(kept)]


def _receivers(connection: Connection) -> tuple[object, ...]:
    urls = [urlsplit(as_text(connection.config[name])) for name in ("url", "tokenUrl") if name in connection.config]
    return connection.provider, [(url.scheme, url.hostname, url.port) for url in urls]
