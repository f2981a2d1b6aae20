"""The addresses that a customer's request can reach: public ones, and those that the operator allows.

A host is an address in canonical form, or a name. A name is resolved once, each of its addresses is checked, and the
connection is made to an address that passed: a later change of the name has no effect. The refused networks are those
of the IANA special-purpose address registries (RFC 6890), multicast, and one that a cloud reserves.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import SOCK_STREAM
from typing import Final, Self

import attrs

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Iterable[str]]]
"""Returns the addresses of a name and port, as text. Raises OSError when there are none."""

_log = logging.getLogger(__name__)

RESERVED_V4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space of carriers; metadata service of some clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host agent, in public space
        "169.254.0.0/16",  # link-local; metadata service of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnelling
        "192.88.99.0/24",  # relays to 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
GLOBAL_V6: Final = IPv6Network("2000::/3")
"""Global unicast. Loopback, mapped and compatible IPv4, link-local, unique local and multicast are outside."""

RESERVED_V6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which embeds an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses embedded in IPv6 (RFC 6052): the embedded address decides."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_URL = re.compile(
    r"https?://(?:\[[0-9a-f:.]+\]|[^/?#@:\\\[\]\s]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?#][^\x00-\x1f\x7f]*)?",
    re.ASCII | re.IGNORECASE,
)
_ENTRY = re.compile(
    r"(?:\[(?P<boxed>[0-9a-f:./]+)\]|(?P<four>[0-9./]+))(?::(?P<port>[0-9]{1,5}))?|(?P<six>[0-9a-f:./]+)",
    re.ASCII | re.IGNORECASE,
)
LONGEST_URL: Final = 8_000
LONGEST_NAME: Final = 253
LAST_PORT: Final = 65_535


class AddressRefused(Exception):
    """The request or its response is not allowed. A retry cannot succeed."""


def check_url(url: str) -> None:
    """Raises AddressRefused unless the URL has http or https, a host, no user, and no port or one in range."""
    found = _URL.fullmatch(url) if len(url) <= LONGEST_URL else None
    if found is None or not _is_port(found["port"]):
        shown = url.partition("?")[0][:100] if "@" not in url else "…"
        raise AddressRefused(
            f"`{shown}` is not a URL that can be called: use http or https, a host, no user, a port up to 65535"
        )


def _is_port(text: str | None) -> bool:
    return text is None or 0 < int(text) <= LAST_PORT


def parse_host(host: str) -> Address | None:
    """The address in `host`, or None for a name. Raises AddressRefused for an ambiguous spelling.

    `host` is in lower case, an IPv6 address without brackets.
    """
    with suppress(ValueError):
        if ":" in host and "%" not in host:
            return IPv6Address(host)
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            return IPv4Address(host)
        if len(host) <= LONGEST_NAME and _NAME.fullmatch(host):
            return None
    raise AddressRefused(f"`{host[:100]}` is neither a name nor an address in canonical form")


def is_public(address: Address) -> bool:
    """Whether the address is globally routed unicast that does not embed another address."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in RESERVED_V4)
    if address.scope_id is not None:
        return False
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in GLOBAL_V6 and not any(address in network for network in RESERVED_V6)


@attrs.frozen
class AllowedAddress:
    """An address or network that the operator allows, at one port or at all ports."""

    network: IPv4Network | IPv6Network
    port: int | None = None

    @classmethod
    def parse(cls, entry: str) -> Self:
        """From `127.0.0.1:9000`, `10.0.0.0/8`, `fd00::/8` or `[::1]:9000`. Raises ValueError for others and names."""
        found = _ENTRY.fullmatch(entry)
        if found is not None and _is_port(found["port"]):
            with suppress(ValueError):
                network = ip_network(found["boxed"] or found["four"] or found["six"])
                return cls(network, None if found["port"] is None else int(found["port"]))
        raise ValueError(f"`{entry}` is not an address or network, with or without a port")

    def covers(self, address: Address, port: int) -> bool:
        return address in self.network and self.port in (None, port)


async def resolve_by_system(name: str, port: int) -> list[str]:
    """The addresses of a name by the resolver of the operating system."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@attrs.frozen
class AddressGuard:
    """Decides which addresses a connection can be made to."""

    allowed: Sequence[AllowedAddress] = ()
    resolve: Resolver = resolve_by_system

    @classmethod
    def allowing(cls, entries: Iterable[str]) -> Self:
        """A guard that also allows these. Raises ValueError as `AllowedAddress.parse`."""
        return cls(tuple(map(AllowedAddress.parse, entries)))

    def passes(self, address: Address, port: int) -> bool:
        return is_public(address) or any(entry.covers(address, port) for entry in self.allowed)

    async def addresses(self, host: str, port: int) -> list[Address]:
        """The allowed addresses of `host`. Raises AddressRefused if there are none; OSError as the resolver.

        The refusal does not contain the resolved addresses: they would show the operator's network to customers.
        """
        address = parse_host(host)
        found = [ip_address(text) for text in await self.resolve(host, port)] if address is None else [address]
        passed = [each for each in found if self.passes(each, port)]
        if not passed:
            _log.warning("a request to %s port %d was refused: %s", host, port, ", ".join(map(str, found)))
            raise AddressRefused(f"`{host}` is not public, and the operator does not allow its port {port}")
        return passed
