"""Connections to external services: their configuration and its secret fields (interface, connections).

The name of a field is its key, or `headers.<name>` for a header. Secret fields are stored apart from the others,
sealed, and never returned to clients.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Final, TypeVar
from urllib.parse import urlsplit

import attrs

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_readers import as_text, optional_object, optional_text, optional_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import URL_RULE, is_url

HEADERS: Final = "headers."
AUTHORIZATION: Final = f"{HEADERS}authorization"
CLIENT_CREDENTIALS: Final = "client_credentials"
SECRET: Final = frozenset({"apiKey", "clientSecret", "accessToken"})
"""`accessToken` is only in the configuration that a tool receives."""

URLS: Final = ("url", "tokenUrl", "authorizeUrl", "revocationUrl")
MAX_HEADERS: Final = 50
RESERVED_HEADERS: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of the connection and of the target host (RFC 9110, 7.6.1): customers cannot set them."""

HOST_RULE: Final = (
    "must be a host, with or without a port: such as `api.example.com`, `*.example.com` or `127.0.0.1:9000`"
)
_HOST = re.compile(
    r"(?:\[(?P<six>[0-9a-f:.]{2,45})\]|(?P<name>(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII | re.IGNORECASE,
)

LAST_PORT: Final = 65_535

T = TypeVar("T")


class ConnectionKind(StrEnum):
    """How wfcore authenticates to the service; `mcp` is a server of tools."""

    API_KEY = "api_key"
    OAUTH2 = "oauth2"
    MCP = "mcp"


class Ownership(StrEnum):
    """Whose authorization a connection uses: one of the organization, or one of each user."""

    ORGANIZATION = "organization"
    USER = "user"


class ConnectionStatus(StrEnum):
    """The status of a connection.

    The store has `active`, `disabled` and `error`: the service refused the credentials at the last use; the next use
    tries again. The others are those of its authorization (`connection_grants`), and only shown.
    """

    ACTIVE = "active"
    DISABLED = "disabled"
    ERROR = "error"
    CONNECTED = "connected"
    NEEDS_AUTHORIZATION = "needs_authorization"
    EXPIRED = "expired"


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
    status_reason: str | None = None
    ownership: Ownership = Ownership.ORGANIZATION
    client: str = attrs.field(default="", repr=False)
    """The sealed registration at the authorization server of an MCP server, "" without one."""

    @property
    def uses_oauth(self) -> bool:
        """Whether calls carry an access token. An MCP server shows with its first refusal that it requires one."""
        if self.kind is ConnectionKind.MCP:
            return bool(self.client) or "clientId" in self.config or self.ownership is Ownership.USER
        return self.kind is ConnectionKind.OAUTH2

    @property
    def can_authorize(self) -> bool:
        """Whether a user can authorize it: an OAuth connection, or an MCP server without credentials of its own."""
        if self.kind is ConnectionKind.MCP:
            return AUTHORIZATION not in {name.lower() for name in self.sealed}
        return self.kind is ConnectionKind.OAUTH2 and not self.is_of_client

    @property
    def is_of_client(self) -> bool:
        """Whether it acts for wfcore itself, without a user (RFC 6749, 4.4)."""
        return self.config.get("grant") == CLIENT_CREDENTIALS

    def owner(self, user_id: str) -> str:
        """Whose authorization a call for this user needs: the user's own, or that of the organization ("")."""
        return user_id if self.ownership is Ownership.USER else ""

    def to_wire(self) -> dict[str, JSON]:
        """The connection on the wire: `{"set": true}` replaces each secret."""
        checked = self.last_checked_at
        return {
            "id": self.id,
            "name": self.name,
            "provider": self.provider,
            "kind": self.kind.value,
            "config": joined(self.config, {name: {"set": True} for name in self.sealed}),
            "ownership": self.ownership.value,
            "status": self.status.value,
            "statusReason": self.status_reason,
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
    """Issues that the shape does not cover: URLs, hosts and headers. Messages do not show values."""
    headers = _header_issues(list(_headers(config)))
    return [*_url_issues(config), *_host_issues(config), *headers, *_reserved_issues(config)]


def ownership_issues(connection: Connection) -> Iterator[Issue]:
    """An issue for a connection of each user whose credentials are in its own configuration."""
    if connection.ownership is Ownership.USER and (connection.is_of_client or not connection.can_authorize):
        yield Issue("ownership", "`user` is for connections that each user authorizes: use `organization`", "ownership")


def grant_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    """Fields that the grant of a whole configuration of kind `oauth2` requires."""
    if "tokenUrl" not in config:
        return
    if config.get("grant") == CLIENT_CREDENTIALS:
        if "clientSecret" not in config:
            yield Issue("config.clientSecret", "is required for the grant `client_credentials`", "required_if")
    elif "authorizeUrl" not in config:
        yield Issue("config.authorizeUrl", "is required unless `grant` is `client_credentials`", "required_if")


def _host_issues(config: Mapping[str, JSON]) -> Iterator[Issue]:
    for index, host in enumerate(optional_texts(config.get("hosts")) or ()):
        if not _is_host(host):
            yield Issue(f"config.hosts[{index}]", HOST_RULE, "host")


def _is_host(entry: str) -> bool:
    """Whether a URL can have this host and port. Another entry would have no effect."""
    found = _HOST.fullmatch(entry)
    if found is None or not 0 < int(found["port"] or 1) <= LAST_PORT:
        return False
    return found["six"] is None or _address(found["six"]) is not None


def goes_to(hosts: Iterable[str], url: str) -> bool:
    """Whether one of these `hosts` of a connection covers the URL, so that its credentials can be sent there.

    An entry without a port covers the default ports. `*.example.com` covers every name below `example.com`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    standard = {"http": 80, "https": 443}.get(parts.scheme)
    return standard is not None and any(_covers(entry, host, port or standard, standard) for entry in hosts)


def _covers(entry: str, host: str, port: int, standard: int) -> bool:
    found = _HOST.fullmatch(entry.lower())
    if found is None or int(found["port"] or standard) != port:
        return False
    if found["six"] is not None:
        address = _address(found["six"])
        return address is not None and address == _address(host)
    name = found["name"]
    return host.endswith(name[1:]) and host != name[2:] if name.startswith("*.") else host == name


def _address(text: str) -> IPv6Address | None:
    """The IPv6 address of any spelling; None for another text."""
    try:
        return IPv6Address(text)
    except ValueError:
        return None


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
    has_hosts = new.kind is ConnectionKind.API_KEY and _added_hosts(old, new)
    if _receivers(old) == _receivers(new) and not has_hosts:
        return []
    kept = new.sealed.keys() - set(given)
    message = "must be given again or removed, because the receiver has changed"
    return [Issue(f"config.{name}", message, "required_anew") for name in sorted(kept)]


def keeps_grants(old: Connection, new: Connection) -> bool:
    """Whether what users authorized for the old connection holds for the new one.

    It does not for another owner, client or receiver: nobody allowed that one to get the tokens.
    """
    return _holders(old) == _holders(new) and not _added_hosts(old, new)


def grant_fingerprint(connection: Connection) -> str:
    """A digest of the owner, the client and the receivers, with the `hosts`: what a user authorizes."""
    return fingerprint([*_holders(connection), [*sorted(_hosts(connection))]])


def _holders(connection: Connection) -> list[JSON]:
    """The owner, the client and the receivers of what users authorize, without the `hosts`."""
    names = ("clientId", "url", "scopes") if connection.kind is ConnectionKind.MCP else ("clientId",)
    client = [connection.config.get(name) for name in names]
    return [connection.ownership.value, client, _receivers(connection)]


def _hosts(connection: Connection) -> set[str]:
    return set(optional_texts(connection.config.get("hosts")) or ())


def _added_hosts(old: Connection, new: Connection) -> set[str]:
    return _hosts(new) - _hosts(old)


def _receivers(connection: Connection) -> list[JSON]:
    config = connection.config
    urls = [urlsplit(as_text(config[name])) for name in ("url", "tokenUrl", "revocationUrl") if name in config]
    return [connection.provider, *([url.scheme, url.hostname, url.port] for url in urls)]
