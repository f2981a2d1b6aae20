"""How many requests a principal, and its organization, may make in any minute. Each process counts for itself.

A request counts when it is let in, a stream as one. What is refused counts for nothing, so that trying again does
not lengthen the wait. What is kept are the times of the requests of the last minute.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from wfcore.domain.kernel.errors import RateLimited
from wfcore.domain.resources.access import Principal

SECOND: Final = 1_000_000_000
WINDOW: Final = 60 * SECOND
"""Nanoseconds that a bound is for: at no time are more than that many requests let in within so long."""

Key = tuple[str, ...]


class RateLimits:
    """Counts requests. A bound that is None does not exist."""

    def __init__(
        self, principal: int | None, organization: int | None, *, now: Callable[[], int] = monotonic_ns
    ) -> None:
        self._principal = principal
        self._organization = organization
        self._now = now
        self._times: OrderedDict[Key, deque[int]] = OrderedDict()

    def __len__(self) -> int:
        """Of how many callers something is kept."""
        return len(self._times)

    def admit(self, me: Principal) -> None:
        """Count one more request of this principal.

        `RateLimited` when that is too many, with `limit` (whose: `principal` or `organization`), `requestsPerMinute`
        and `retryAfterSeconds` in `info`: so much later one is let in, if no other comes first.
        """
        now = self._now()
        self._forget(now)
        bounds = self._bounds(me)
        waits = [(self._wait(key, most, now), whose, most) for whose, key, most in bounds]
        wait, whose, most = max(waits, default=(0, "", 0))
        if wait > 0:
            info = {"limit": whose, "requestsPerMinute": most, "retryAfterSeconds": -(-wait // SECOND)}
            raise RateLimited(f"more than {most} requests in a minute by this {whose}", info)
        for _, key, _ in bounds:
            self._times.setdefault(key, deque()).append(now)
            self._times.move_to_end(key)

    def _bounds(self, me: Principal) -> list[tuple[str, Key, int]]:
        own = (me.org_uuid, me.user_id)
        both = (("principal", own, self._principal), ("organization", own[:1], self._organization))
        return [(whose, key, most) for whose, key, most in both if most is not None]

    def _wait(self, key: Key, most: int, now: int) -> int:
        """Nanoseconds until one more would be let in."""
        times = self._times.get(key, deque())
        while times and times[0] <= now - WINDOW:
            times.popleft()
        return times[0] + WINDOW - now if len(times) >= most else 0

    def _forget(self, now: int) -> None:
        """Those who have not been let in for a minute. The order is that of the latest request."""
        while self._times:
            key, times = next(iter(self._times.items()))
            if times and times[-1] > now - WINDOW:
                return
            del self._times[key]
