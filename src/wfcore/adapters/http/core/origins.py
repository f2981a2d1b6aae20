"""Checks of `Host`, `Origin` and `Sec-Fetch-Site`: which names and which pages can reach this server.

**Cross-site writes.** A browser sends a cookie to its site whichever page makes the request. `check_same_site` refuses
unsafe requests of other pages (W3C, Fetch Metadata; RFC 6454).

**DNS rebinding** (Model Context Protocol, Streamable HTTP, Security). A page can reach a server in the user's network
when the page's own domain name resolves to that server's address: the browser then sends that name as `Host`. An
address and `localhost` cannot be such a name; any other must be configured.
"""

import re
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import attrs
from starlette.datastructures import Headers

from wfcore.domain.kernel.errors import Forbidden, Issue, Malformed

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_AMBIENT_SCHEMES: Final = frozenset({"basic", "digest", "negotiate", "ntlm"})
_ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}", re.ASCII)


def _texts(name: str, values: Iterable[str]) -> Iterable[str]:
    """The values of an argument. One text is a TypeError: its letters would be valid names."""
    if isinstance(values, str):
        raise TypeError(f"`{name}` must be a list of `str`, not one `str`: `[{values!r}]`")
    return values


def _hosts(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(name.lower() for name in _texts("allowed_hosts", names))
    for name in found:
        if not _HOST.fullmatch(name):
            raise ValueError(f"`{name}` is not a host name without a port")
    return found


def _origins(origins: Iterable[str]) -> frozenset[str]:
    """In the form that browsers send: lower case, without the default port of the scheme (RFC 6454, 6.2)."""
    found = frozenset(origin.lower() for origin in _texts("browser_origins", origins))
    for origin in found:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(f"`{origin}` is not an origin such as `https://app.example.org`")
    return frozenset(_without_default_port(origin) for origin in found)


def _without_default_port(origin: str) -> str:
    default = ":443" if origin.startswith("https:") else ":80"
    return origin.removesuffix(default)


def _origin_of(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    (origin,) = _origins([f"{parts.scheme}://{parts.netloc}"])
    return origin


@attrs.frozen
class Site:
    """The names of this server and of the pages that can write to it. Raises ValueError for an invalid name."""

    allowed_hosts: frozenset[str] = attrs.field(default=(), converter=_hosts)
    """Names without a port; when it is empty, clients can use any name."""
    browser_origins: frozenset[str] = attrs.field(default=(), converter=_origins)
    """Further origins whose pages can write, and call the API with a bearer token: `https://app.example.org`."""
    public_origin: str | None = attrs.field(default=None, converter=_origin_of)
    """The origin in links, from a URL; None: that of the request."""

    def check_host(self, headers: Headers) -> None:
        """Refuse a request for another server. Raises Malformed for a `Host` that is not among `allowed_hosts`."""
        if not self.allowed_hosts:
            return
        name = _hostname(headers.get("Host", ""))
        if name not in self.allowed_hosts:
            issue = Issue("Host", f"`{name[:100]}` is not a name of this server", "header")
            raise Malformed(f"`Host`: {issue.message}", {"errors": [issue.to_wire()]})

    def check_same_site(self, method: str, headers: Headers) -> None:
        """Refuse an unsafe request that a page of another site can send with the user's cookies.

        A request with an `Authorization` header is accepted, unless a browser adds that header by itself. Any other
        needs `Sec-Fetch-Site` `same-origin` or `none` or, without that header, an `Origin` of this server or of
        `browser_origins`. Raises Forbidden with `info.reason` `cross_site`.
        """
        if method in SAFE_METHODS or _is_deliberate(headers) or self._is_same_site(headers):
            return
        allowed = "`Sec-Fetch-Site: same-origin`, an `Origin` of this server or an `Authorization` header"
        raise Forbidden(f"pages of other sites cannot change anything: use {allowed}", {"reason": "cross_site"})

    def _is_same_site(self, headers: Headers) -> bool:
        if sites := headers.getlist("Sec-Fetch-Site"):
            return all(site in ("same-origin", "none") for site in sites)
        host, origins = headers.get("Host", "").lower(), [origin.lower() for origin in headers.getlist("Origin")]
        return bool(origins) and all(
            origin in self.browser_origins or _is_same_origin(origin, host, self.allowed_hosts) for origin in origins
        )


def check_origin(headers: Headers, hosts: Collection[str]) -> None:
    """Refuse a request whose `Host` is another name, or whose `Origin` is another origin.

    `hosts` are the names of this server, in lower case. When it is empty, programs can use any name, and browsers can
    use the server's address. Raises Forbidden, with `info.reason` `host` or `origin`.
    """
    host = headers.get("Host", "").lower()
    origins = [origin.lower() for origin in headers.getlist("Origin")]
    if _hostname(host) not in hosts and (hosts or (origins and not _cannot_be_rebound(_hostname(host)))):
        raise Forbidden("the setting `hosts` does not list this name of the server", {"reason": "host"})
    if any(not _is_same_origin(origin, host, hosts) for origin in origins):
        raise Forbidden("pages of other origins cannot call this endpoint", {"reason": "origin"})


def _is_deliberate(headers: Headers) -> bool:
    """Whether the sender added the credential: programs always do, browsers add those of some schemes themselves."""
    schemes = {value.partition(" ")[0].lower() for value in headers.getlist("Authorization")}
    from_browser = "Sec-Fetch-Site" in headers or "Origin" in headers
    return bool(schemes) and not (from_browser and schemes & _AMBIENT_SCHEMES)


def _is_same_origin(origin: str, host: str, hosts: Collection[str]) -> bool:
    scheme, _, origin_host = origin.partition("://")
    return (
        scheme in ("http", "https") and origin_host != "" and (origin_host == host or _hostname(origin_host) in hosts)
    )


def _hostname(host: str) -> str:
    """The host without its port; "" for an invalid one."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _cannot_be_rebound(name: str) -> bool:
    """Whether the name cannot be a page's own domain name: an address, or `localhost`."""
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
