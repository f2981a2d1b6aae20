"""Checks of `Host` and `Origin` against DNS rebinding (Model Context Protocol, Streamable HTTP, Security).

A page can reach a server in the user's network when the page's own domain name resolves to that server's address: the
browser then sends that name as `Host`. An address and `localhost` cannot be such a name; any other must be configured.
"""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from wfcore.domain.kernel.errors import Forbidden


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


def _is_same_origin(origin: str, host: str, hosts: Collection[str]) -> bool:
    scheme, _, origin_host = origin.partition("://")
    return scheme in ("http", "https") and (origin_host == host or _hostname(origin_host) in hosts)


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
