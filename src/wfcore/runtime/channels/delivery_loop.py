"""Durable deliveries to other servers: what is due is delivered concurrently, and shared between organizations.

A process claims a delivery for a limited time in its row, delivers, and records the outcome. After a crash in between
it is due again, so the receiver gets it at least once, always with the same id.
"""

import asyncio
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import attrs

from wfcore.domain.triggers.webhooks import sign
from wfcore.ports.outbound import Undelivered
from wfcore.runtime.common.polling import ALL, CHECK_INTERVAL, LATEST, Poller, SetBacks
from wfcore.runtime.common.ports import Ports

log = logging.getLogger("wfcore.posting")

MAX_CONCURRENT: Final = 100
"""The most deliveries of one loop that a process makes at a time."""

MAX_PER_ORGANIZATION: Final = 25
"""The most of them that belong to one organization: its slow addresses do not delay the deliveries of others."""

CLAIM_DURATION: Final = 60_000
"""Milliseconds for which a process claims a delivery: longer than one can take."""

CHECKED: Final = 100
"""The most deliveries whose due times one poll checks."""

_FIRST_REDIRECT: Final = 300
"""Statuses from here on mean that the address did not accept the message (RFC 9110, 15)."""


class OfOrganization(Hashable, Protocol):
    """A due delivery: a value that names one row."""

    @property
    def org(self) -> str: ...

    @property
    def id(self) -> str: ...


class Claimable(Protocol):
    """The row of a delivery, compared by value."""

    @property
    def is_claimed(self) -> bool: ...


Due = TypeVar("Due", bound=OfOrganization)


class DeliveryLoop(Generic[Due]):
    """Delivers what is due for every organization, concurrently with other processes. A subclass knows the rows."""

    def __init__(self, ports: Ports, what: str) -> None:
        """`what` names the deliveries in log messages, in the plural."""
        self._ports = ports
        self._what = what
        self._poller = Poller(ports.clock, ports.outage, self.poll, f"due {what}")
        self._under_way: dict[Due, asyncio.Task[None]] = {}
        self._watched: dict[Due, tuple[Claimable, int]] = {}
        """Claims of others that are due by the wall clock, and since when they are, by the monotonic clock."""
        self._set_backs = SetBacks(ports.clock)
        self._listed_at: int | None = None
        self._unchecked: list[Due] = []
        """The deliveries that were pending when they were listed, without those that were checked since."""

    def start(self) -> None:
        """Start polling for due deliveries."""
        self._poller.start()

    async def stop(self) -> None:
        """Stop polling and cancel the deliveries in progress, which stay due."""
        await self._poller.stop()
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def under_way(self) -> Sequence[asyncio.Task[None]]:
        """The deliveries in progress."""
        return list(self._under_way.values())

    async def poll(self) -> list[asyncio.Task[None]]:
        """Begin the deliveries that are due now, without waiting for them."""
        await self._check_times()
        if len(self._under_way) >= MAX_CONCURRENT:
            return []
        due = await self._due(self._ports.clock.now(), MAX_CONCURRENT)
        self._watched = {one: self._watched[one] for one in due if one in self._watched}
        active = Counter(one.org for one in self._under_way)
        begun = []
        for one in due:
            if one in self._under_way or active[one.org] >= MAX_PER_ORGANIZATION:
                continue
            if len(self._under_way) >= MAX_CONCURRENT:
                break
            active[one.org] += 1
            begun.append(self._begin(one))
        return begun

    async def _check_times(self) -> None:
        """Correct the times that a wall clock that was ahead has set: some with each poll, to delay no delivery."""
        moment = self._ports.clock.monotonic()
        if self._set_backs.since() is not None:
            self._listed_at = None
        if self._listed_at is None or moment - self._listed_at >= CHECK_INTERVAL:
            self._unchecked = list(await self._due(LATEST, ALL))
            self._listed_at = moment
        checked, self._unchecked = self._unchecked[:CHECKED], self._unchecked[CHECKED:]
        for one in checked:
            await self._correct(one, self._ports.clock.now())

    @abstractmethod
    async def _correct(self, due: Due, now: int) -> None:
        """Make the next attempt no later than a process that waits for it from `now` on would."""

    @abstractmethod
    async def _due(self, now: int, limit: int) -> Sequence[Due]:
        """The deliveries that are due at `now`, those of all organizations in turn."""

    @abstractmethod
    async def _deliver(self, due: Due) -> None:
        """Claim the delivery, make one attempt, and record its outcome."""

    def _is_free(self, due: Due, read: Claimable) -> bool:
        """Whether no process makes the attempt: a wall clock that was set forward does not end a claim. It ends when
        this process has seen it unchanged for `CLAIM_DURATION` of monotonic time.
        """
        now = self._ports.clock.monotonic()
        seen, since = self._watched.get(due, (None, now))
        if read.is_claimed and (seen != read or now - since < CLAIM_DURATION):
            self._watched[due] = read, since if seen == read else now
            return False
        return True

    def _begin(self, due: Due) -> asyncio.Task[None]:
        task = self._under_way[due] = asyncio.create_task(self._try(due))
        task.add_done_callback(lambda _: self._under_way.pop(due, None))
        return task

    async def _try(self, due: Due) -> None:
        try:
            await self._deliver(due)
        except Exception as error:  # noqa: BLE001 - logged
            what = f"one of the {self._what} could not be made"
            self._ports.outage.failed(log, what, error, organization=due.org, delivery=due.id)


@attrs.frozen
class Answer:
    """The status of the response; None, with the reason in `error`, when none arrived."""

    status: int | None
    error: str | None = None

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and self.status < _FIRST_REDIRECT


async def post_signed(ports: Ports, url: str, secrets: Sequence[str], id: str, body: bytes) -> Answer:
    """Post a message that is signed with each of the secrets (Standard Webhooks 1.0.0). Redirects are not followed."""
    at = ports.clock.now() // 1000
    headers = {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(sign(secret, id, at, body) for secret in secrets),
    }
    try:
        return Answer(await ports.outbound.post(url, headers, body))
    except Undelivered as error:
        return Answer(None, str(error))
