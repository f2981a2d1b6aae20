"""Rate limits: requests of a principal and of its organization, failed authentications of an address.

All are per minute, and each process counts for itself. A request counts when it is admitted, a stream as one request.
A refused request does not count, so that a retry does not lengthen the wait. The times of the requests of the last
minute are kept (a sliding window).
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address
from time import monotonic_ns
from typing import Final, TypeVar

from starlette.requests import HTTPConnection

from wfcore.domain.kernel.errors import RateLimited, Unauthenticated
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal

SECOND: Final = 1_000_000_000
WINDOW: Final = 60 * SECOND
"""Length of the sliding window in nanoseconds: a limit holds for every window of this length."""

Key = tuple[str, ...]


class RateLimits:
    """Counts requests. A limit of None means no limit."""

    def __init__(
        self, principal: int | None, organization: int | None, *, now: Callable[[], int] = monotonic_ns
    ) -> None:
        self._principal = principal
        self._organization = organization
        self._now = now
        self._times: OrderedDict[Key, deque[int]] = OrderedDict()

    def __len__(self) -> int:
        """How many principals and organizations have requests in the window."""
        return len(self._times)

    def admit(self, me: Principal) -> None:
        """Count one more request of this principal.

        Raises RateLimited when that is too many. Its `info` has `limit` (`principal` or `organization`),
        `requestsPerMinute`, and `retryAfterSeconds`, after which one request is admitted.
        """
        now = self._now()
        self._drop_idle(now)
        limits = self._limits(me)
        waits = [(self._wait(key, limit, now), whose, limit) for whose, key, limit in limits]
        wait, whose, limit = max(waits, default=(0, "", 0))
        if wait > 0:
            info: dict[str, JSON] = {
                "limit": whose,
                "requestsPerMinute": limit,
                "retryAfterSeconds": -(-wait // SECOND),
            }
            raise RateLimited(f"more than {limit} requests in a minute by this {whose}", info)
        for _, key, _ in limits:
            self._times.setdefault(key, deque()).append(now)
            self._times.move_to_end(key)

    def _limits(self, me: Principal) -> list[tuple[str, Key, int]]:
        own = (me.org_uuid, me.user_id)
        both = (("principal", own, self._principal), ("organization", own[:1], self._organization))
        return [(whose, key, limit) for whose, key, limit in both if limit is not None]

    def _wait(self, key: Key, limit: int, now: int) -> int:
        """Nanoseconds until one more request would be admitted."""
        times = self._times.get(key, deque())
        while times and times[0] <= now - WINDOW:
            times.popleft()
        return times[0] + WINDOW - now if len(times) >= limit else 0

    def _drop_idle(self, now: int) -> None:
        """Drop callers without a request in the window. They are ordered by their latest request."""
        while self._times:
            key, times = next(iter(self._times.items()))
            if times and times[-1] > now - WINDOW:
                return
            del self._times[key]


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

    @contextmanager
    def counted(self, connection: HTTPConnection) -> Iterator[None]:
        """A block that authenticates the request. Raises RateLimited, with `info.limit` `address`, before it."""
        given = ",".join(connection.headers.getlist("Authorization"))
        if self._limit is None or not given:
            yield
            return
        address, credential = _address_of(connection), hashlib.sha256(given.encode()).digest()
        step, now = WINDOW // self._limit, self._now()
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
