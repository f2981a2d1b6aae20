"""Rate limits of a principal and of its organization, in requests per minute. Each process counts for itself.

A request counts when it is admitted, a stream as one request. A refused request does not count, so that a retry does
not lengthen the wait. The times of the requests of the last minute are kept (a sliding window).
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from wfcore.domain.kernel.errors import RateLimited
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
            info = {"limit": whose, "requestsPerMinute": limit, "retryAfterSeconds": -(-wait // SECOND)}
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
