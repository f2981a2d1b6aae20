"""Connections to services outside: their configuration, and which of it is secret (interface, connections).

The fields of a configuration have names: those of its keys, and `headers.<name>` for one header. Secret fields are
kept apart from the others, sealed, and never shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import urlsplit

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import URL_RULE, is_url

HEADERS: Final = "headers."
SECRET: Final = frozenset({"apiKey", "clientSecret"})
URLS: Final = ("url", "tokenUrl", "authorizeUrl")
MAX_HEADERS: Final = 50
OURS: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that say how a message travels (RFC 9110, 7.6.1) and where to: no customer sets them."""

T = TypeVar("T")


class ConnectionKind(StrEnum):
    """How the service knows the caller."""

    API_KEY = "api_key"
    OAUTH2 = "oauth2"
    MCP = "mcp"


class ConnectionStatus(StrEnum):
    """Whether it is in use.

    `refused`: its service did not take the credentials when it was last used; it is tried again all the same.
    `unreadable` is seen and never kept: no key that is configured has sealed its secrets.
    """

    ACTIVE = "active"
    DISABLED = "disabled"
    REFUSED = "refused"
    UNREADABLE = "unreadable"


@attrs.frozen
class Connection:
    """One connection: the fields of its `config` that may be seen, and its secret ones, `sealed`."""

    id: str
    name: str
    provider: str
    kind: ConnectionKind
    config: Mapping[str, JSON]
    sealed: Mapping[str, str] = attrs.field(repr=False)
    status: ConnectionStatus = ConnectionStatus.ACTIVE
    last_checked_at: datetime | None = None

    def to_wire(self) -> dict[str, JSON]:
        """As clients see it: in the place of each secret stands that there is one."""
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
    """The fields of a configuration that may be seen, and the secret ones."""
    plain = {name: value for name, value in config.items() if name not in SECRET and name != "headers"}
    secret = {name: value for name, value in config.items() if name in SECRET}
    return plain, secret | {HEADERS + name: value for name, value in config.get("headers", {}).items()}


def each_header(config: Mapping[str, JSON], sealed: Mapping[str, str]) -> Mapping[str, JSON]:
    """The change of a configuration in which null stands for all headers, with null for each that is kept."""
    if config.get("headers", {}) is not None:
        return config
    return {**config, "headers": dict.fromkeys(joined({}, sealed).get("headers", {}))}


def joined(plain: Mapping[str, JSON], secret: Mapping[str, JSON]) -> dict[str, JSON]:
    """The configuration of these fields."""
    headers = {name.removeprefix(HEADERS): value for name, value in secret.items() if name.startswith(HEADERS)}
    others = {name: value for name, value in secret.items() if not name.startswith(HEADERS)}
    return {**plain, **others} | ({"headers": headers} if headers else {})


def merged(old: Mapping[str, T], new: Mapping[str, T | None]) -> dict[str, T]:
    """The fields `old` with `new` over them; None removes (RFC 7396). Headers have their names in either case."""
    named = {name.lower() for name in new}
    kept = {name: value for name, value in old.items() if name.lower() not in named}
    return kept | {name: value for name, value in new.items() if value is not None}


def config_issues(config: Mapping[str, JSON]) -> list[Issue]:
    """What a shape cannot say: the form of URLs, which headers there can be together. No value is repeated."""
    return [*_url_issues(config), *_header_issues(list(config.get("headers") or {})), *_reserved_issues(config)]


def _url_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    for name in URLS:
        if config.get(name) is not None and not is_url(config[name]):
            yield Issue(f"config.{name}", URL_RULE, "url")


def _header_issues(names: list[str]) -> Iterator[Issue]:
    if len(names) > MAX_HEADERS:
        yield Issue("config.headers", f"must have at most {MAX_HEADERS} entries", "maxItems")
    if len({name.lower() for name in names}) < len(names):
        yield Issue("config.headers", "has the same name twice, in another case", "duplicate")


def _reserved_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    names = {f"config.{HEADERS}{name}": name for name in config.get("headers") or {}}
    for path, name in {**names, "config.header": config.get("header") or ""}.items():
        if name.lower() in OURS:
            yield Issue(path, "says how a message travels, and cannot be set", "reserved")


def kept_issues(old: Connection, new: Connection, given: Iterable[str]) -> list[Issue]:
    """Secrets go to nobody else unseen: a change of where they are sent takes all of them anew."""
    if _receivers(old) == _receivers(new):
        return []
    kept = new.sealed.keys() - set(given)
    message = "must be given anew, or removed: where it is sent has changed"
    return [Issue(f"config.{name}", message, "required_anew") for name in sorted(kept)]


def _receivers(connection: Connection) -> tuple[object, ...]:
    urls = [urlsplit(connection.config[name]) for name in ("url", "tokenUrl") if name in connection.config]
    return connection.provider, [(url.scheme, url.hostname, url.port) for url in urls]
