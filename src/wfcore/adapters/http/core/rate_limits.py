"""Rate limits: requests of a principal and of its organization, failed authentications of an address.

All are per minute: requests by the rate limiter, failed authentications in each process. A request counts when it is
admitted, a stream as one request. A refused request does not count, so that a retry does not lengthen the wait.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ipaddress import IPv6Address, ip_address
from time import monotonic_ns
from typing import Final, TypeVar

from starlette.requests import HTTPConnection

from wfcore.domain.kernel.errors import RateLimited, Unauthenticated
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.system import Rate, RateLimiter

SECOND: Final = 1_000_000_000
WINDOW: Final = 60 * SECOND
"""A minute in nanoseconds."""


class RateLimits:
    """Counts requests. A limit of None means no limit."""

    def __init__(self, limiter: RateLimiter, principal: int | None, organization: int | None) -> None:
        self._limiter = limiter
        self._principal = principal
        self._organization = organization

    async def admit(self, me: Principal) -> None:
        """Count one more request of this principal.

        Raises RateLimited when that is too many. Its `info` has `limit` (`principal` or `organization`),
        `requestsPerMinute`, and `retryAfterSeconds`, after which one request is admitted.
        """
        rates = self._rates(me)
        if not rates:
            return
        waits = await self._limiter.admit([rate for _, rate in rates])
        wait, whose, limit = max((wait, whose, rate.count) for wait, (whose, rate) in zip(waits, rates, strict=True))
        if wait > 0:
            info: dict[str, JSON] = {"limit": whose, "requestsPerMinute": limit, "retryAfterSeconds": -(-wait // 1000)}
            raise RateLimited(f"more than {limit} requests in a minute by this {whose}", info)

    def _rates(self, me: Principal) -> list[tuple[str, Rate]]:
        """The principal's own first: a request that only the organization's refuses can count for it."""
        own = f"{me.org_uuid}:requests"
        both = (("principal", f"{own}:{me.user_id}", self._principal), ("organization", own, self._organization))
        return [(whose, Rate(key, limit)) for whose, key, limit in both if limit is not None]


K = TypeVar("K")
V = TypeVar("V")
MAX_ADDRESSES: Final = 10_000
"""How many addresses, and how many credentials, are remembered: the latest ones."""


class FailedAuthentications:
    """Limits the invalid credentials of an address: a token bucket each. A limit of None means no limit.

    A request without a credential does not count. A credential that was valid lately is accepted from any address, so
    that others behind the same proxy cannot lock its user out.
    """

    def __init__(self, per_minute: int | None, *, now: Callable[[], int] = monotonic_ns) -> None:
        self._limit = per_minute
        self._now = now
        self._full_at: OrderedDict[str, int] = OrderedDict()
        """When the bucket of each address is full again."""
        self._valid: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        """How many addresses and credentials are remembered."""
        return len(self._full_at) + len(self._valid)

    def counted(self, connection: HTTPConnection) -> AbstractContextManager[None]:
        """A block that authenticates the request. Raises RateLimited, with `info.limit` `address`, before it."""
        given = "" if self._limit is None else ",".join(connection.headers.getlist("Authorization"))
        return self._counted(connection, given, WINDOW // self._limit) if self._limit and given else nullcontext()

    @contextmanager
    def _counted(self, connection: HTTPConnection, given: str, step: int) -> Iterator[None]:
        address, credential = _address_of(connection), hashlib.sha256(given.encode()).digest()
        now = self._now()
        missing = max(0, self._full_at.get(address, 0) - now)
        if missing > WINDOW - step and credential not in self._valid:
            info: dict[str, JSON] = {"limit": "address", "retryAfterSeconds": -(-(missing - WINDOW + step) // SECOND)}
            raise RateLimited(f"more than {self._limit} failed authentications in a minute by this address", info)
        try:
            yield
        except Unauthenticated:
            self._valid.pop(credential, None)
            _remember(self._full_at, address, now + missing + step)
            raise
        _remember(self._valid, credential, None)


def _remember(latest: OrderedDict[K, V], key: K, value: V) -> None:
    latest[key] = value
    latest.move_to_end(key)
    if len(latest) > MAX_ADDRESSES:
        latest.popitem(last=False)


def _address_of(connection: HTTPConnection) -> str:
    """The client's address; of IPv6 the network of 64 bits, which one client can have."""
    host = connection.client.host if connection.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    return str(address.ipv4_mapped or address.exploded[:19])
