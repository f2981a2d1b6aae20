"""Admission: how many requests of one organization are handled at once while others send requests too.

Beside others, one request of an organization is handled at a time and the rest wait in the order of their arrival, so
that the event loop and the store always have time for everybody. Requests of an organization with fewer of them go
first: while one is handled, those with more wait, for `PASSES` requests at most. So they do for `RETURN_SECONDS` after
it, if the organization has been that quick before. An organization alone has a higher limit.

A request counts until its response begins: an open stream does not count. One that takes long stops counting after
`COUNTED_SECONDS`, and after `COUNTED_SECONDS_IDLE` while the event loop has time: it waits for something else.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final

import attrs

from wfcore.domain.kernel.errors import RateLimited
from wfcore.domain.kernel.json_type import JSON

SHARE: Final = 1
"""Requests of one organization that are handled at once while others are present: two that share the loop take twice
the time, and each further one would add to that."""

SHARE_ALONE: Final = 8
"""The same while no other is present: enough to share commits, and little for one that comes."""

RETURN_SECONDS: Final = 0.003
"""How long after its response an organization that sends one request after the other still goes first."""

PASSES: Final = 4
"""How many requests of organizations with fewer of them go first, before one of an organization that waits."""

PRESENT_SECONDS: Final = 1.0
"""How long after its latest request an organization counts as present."""

COUNTED_SECONDS: Final = 0.25
"""How long a request counts at most: one that waits for a slow client or another server needs no share."""

COUNTED_SECONDS_IDLE: Final = 0.02
"""The same while the event loop has time: the request then waits for a disk, a client or a tool."""

LATE_SECONDS: Final = 0.005
"""By how much a timer is late when the event loop has no time."""


@attrs.define(eq=False)
class _Organization:
    seen: float = 0.0
    handled: dict["AdmissionSlot", float] = attrs.field(factory=dict)
    """When each request that counts began, in order."""
    waiting: deque[tuple["AdmissionSlot", asyncio.Future[None]]] = attrs.field(factory=deque)
    left: float = -1.0
    """When its latest response began."""
    is_quick: bool = False
    """Whether its latest request came within `RETURN_SECONDS` after a response."""
    passed: int = 0
    """How many requests of others went first since its own latest one."""

    @property
    def count(self) -> int:
        return len(self.handled) + len(self.waiting)


class Admission:
    """Admits the requests of one process. At most `max_waiting` requests of an organization wait."""

    def __init__(self, max_waiting: int, *, now: Callable[[], float] = monotonic) -> None:
        self._max_waiting = max_waiting
        self._now = now
        self._present: dict[str, _Organization] = {}
        self._active: dict[str, _Organization] = {}
        """Those with requests, and those that had one within `RETURN_SECONDS`: few of those that are present."""
        self._timer: asyncio.TimerHandle | None = None
        self._counted = COUNTED_SECONDS
        """How long a request counts now."""
        self._pruned_at = 0.0

    def __len__(self) -> int:
        """How many organizations are present."""
        return len(self._present)

    def turn(self, org: str) -> "AdmissionSlot":
        """A block that handles one request of the organization.

        Entering it waits for the turn, or raises RateLimited when too many requests wait. Its `info` has `limit`
        (`waiting`), `waitingRequests` and `retryAfterSeconds`.
        """
        return AdmissionSlot(self, org)

    async def enter(self, turn: "AdmissionSlot") -> None:
        now = self._now()
        if now - self._pruned_at > COUNTED_SECONDS:
            self._prune(now)
        one = self._present.get(turn.org)
        if one is None:
            one = self._present[turn.org] = _Organization()
        one.is_quick = now - one.left < RETURN_SECONDS
        one.seen = now
        self._active[turn.org] = one
        if one.waiting or not self._has_turn(one, now):
            await self._wait(one, turn)
        else:
            self._handle(one, turn, now)

    def leave(self, turn: "AdmissionSlot") -> None:
        """Count the request no more, and admit the next one."""
        one = self._present.get(turn.org)
        if one is None or one.handled.pop(turn, None) is None:
            return
        one.left = self._now()
        if self._admit_all():
            self._set_timer(RETURN_SECONDS)

    def _has_turn(self, one: _Organization, now: float) -> bool:
        """Whether another request of the organization can be handled now."""
        if len(one.handled) >= (SHARE if len(self._present) > 1 else SHARE_ALONE):
            return False
        return one.passed >= PASSES or not any(
            _goes_first(other, one, now) for other in self._active.values() if other is not one
        )

    def _handle(self, one: _Organization, turn: "AdmissionSlot", now: float) -> None:
        one.handled[turn] = now
        one.passed = 0
        for other in self._active.values():
            if other.waiting and other is not one:
                other.passed += 1

    async def _wait(self, one: _Organization, turn: "AdmissionSlot") -> None:
        if len(one.waiting) >= self._max_waiting:
            info: dict[str, JSON] = {"limit": "waiting", "waitingRequests": self._max_waiting, "retryAfterSeconds": 1}
            raise RateLimited(f"more than {self._max_waiting} requests of this organization wait", info)
        admitted = asyncio.get_running_loop().create_future()
        one.waiting.append((turn, admitted))
        self._set_timer(COUNTED_SECONDS_IDLE)
        try:
            await admitted
        except asyncio.CancelledError:
            if (turn, admitted) in one.waiting:
                one.waiting.remove((turn, admitted))
            self.leave(turn)
            raise

    def _admit_all(self) -> bool:
        """Admit what has a turn now. Returns whether requests still wait."""
        now = self._now()
        for org, one in list(self._active.items()):
            self._admit(one)
            if not one.count and now - one.left >= RETURN_SECONDS:
                del self._active[org]
        return any(one.waiting for one in self._active.values())

    def _admit(self, one: _Organization) -> None:
        """Admit the requests that waited longest, as many as the share allows."""
        while one.waiting and self._has_turn(one, self._now()):
            turn, admitted = one.waiting.popleft()
            if not admitted.cancelled():
                self._handle(one, turn, self._now())
                admitted.set_result(None)

    def _set_timer(self, seconds: float) -> None:
        """Look again after some seconds, or earlier if that is planned."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._look_again, due)

    def _look_again(self, due: float) -> None:
        """Admit requests that wait while others take long or have left."""
        self._timer = None
        late = asyncio.get_running_loop().time() - due > LATE_SECONDS
        self._counted = COUNTED_SECONDS if late else COUNTED_SECONDS_IDLE
        self._stop_counting(self._now())
        if self._admit_all():
            self._set_timer(COUNTED_SECONDS_IDLE)

    def _stop_counting(self, now: float) -> None:
        """Drop requests that took long."""
        for one in self._active.values():
            while one.handled and next(iter(one.handled.values())) <= now - self._counted:
                del one.handled[next(iter(one.handled))]

    def _prune(self, now: float) -> None:
        """Drop requests that took long, and organizations that have left."""
        self._pruned_at = now
        self._stop_counting(now)
        for org, one in list(self._present.items()):
            if not one.count and one.seen <= now - PRESENT_SECONDS:
                del self._present[org]
                self._active.pop(org, None)


def _goes_first(other: _Organization, one: _Organization, now: float) -> bool:
    """Whether `one` waits for `other`, which has fewer requests now, or will have the next one at once."""
    if other.handled:
        return other.count < one.count
    return other.is_quick and now - other.left < RETURN_SECONDS and max(other.count, 1) < one.count


@attrs.frozen(eq=False)
class AdmissionSlot:
    """One request of an organization."""

    admission: Admission
    org: str

    async def __aenter__(self) -> None:
        await self.admission.enter(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admission.leave(self)
