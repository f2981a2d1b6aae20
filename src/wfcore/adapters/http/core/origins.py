"""From where a browser may ask, so that no page speaks through it (Model Context Protocol, Streamable HTTP, Security).

A page reaches a server in its reader's network by letting its own name lead there (DNS rebinding): the browser then
sends that name as `Host`. An address and `localhost` cannot be such a name; any other has to be known.
"""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from wfcore.domain.kernel.errors import Forbidden


def check_origin(headers: Headers, hosts: Collection[str]) -> None:
    """Refuse a request to a server of another name, and one of a page of another origin.

    `hosts` are the names of this server, in lower case; without any, programs may call it whatever they like, and
    browsers may by its address. Forbidden, with `info.reason` `host` or `origin`.
    """
    place = headers.get("Host", "").lower()
    origins = [origin.lower() for origin in headers.getlist("Origin")]
    if _name(place) not in hosts and (hosts or (origins and not _is_sure(_name(place)))):
        raise Forbidden("the setting `hosts` does not know this name of the server", {"reason": "host"})
    if any(not _is_of(origin, place, hosts) for origin in origins):
        raise Forbidden("pages of other origins may not ask here", {"reason": "origin"})


def _is_of(origin: str, place: str, hosts: Collection[str]) -> bool:
    scheme, _, asking = origin.partition("://")
    return scheme in ("http", "https") and (asking == place or _name(asking) in hosts)


def _name(place: str) -> str:
    """The host without its port; "" for what is none."""
    try:
        return urlsplit(f"//{place}").hostname or ""
    except ValueError:
        return ""


def _is_sure(name: str) -> bool:
    """Whether no page's own name can be this."""
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
