"""Subscriptions to events of an organization, and the deliveries of these events. All times are epoch milliseconds.

A subscriber is a hook, named by its id, or a handler of the embedding program, named by `handler`. Handlers receive the
events of all organizations (`Storage.register_handler`). A delivery is written with the change that it reports, in the
same transaction.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

import attrs

from wfcore.domain.channels.hooks import DeliveryState
from wfcore.domain.projections.notices import Notice


@attrs.frozen
class Attempt:
    """One attempt: the HTTP status of the response, or why there was none, and its duration in milliseconds."""

    at: int
    status: int | None
    error: str | None
    ms: int


@attrs.frozen
class Delivery:
    """A notice for one subscriber. `hook` is empty for a handler, and `handler` for a hook.

    - `next_at`: when the next attempt is due; None when there is none, 0 for at once, whatever the clocks show.
    - `tries`: attempts since the delivery became pending, the current one included; negative while a process makes it.
    - `body`: what every attempt sends; None before the first one.
    """

    id: str
    hook: str
    handler: str
    notice: Notice
    state: DeliveryState = "pending"
    next_at: int | None = None
    tries: int = 0
    attempts: tuple[Attempt, ...] = ()
    body: str | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether a process has begun an attempt and has not recorded its outcome."""
        return self.tries < 0


@attrs.frozen
class DueDelivery:
    """A delivery that is due, and its organization."""

    org: str
    id: str


class DeliveryRepository(Protocol):
    """The subscriptions of one organization's hooks, and the deliveries of its events."""

    async def subscribe(self, hook: str, events: Collection[str], workflow_id: int | None = None) -> None:
        """Replace the subscriptions of a hook; without events it has none. `workflow_id` limits them to a workflow."""
        ...

    async def add(self, notices: Iterable[Notice]) -> None:
        """Add a pending delivery of each notice for each subscriber, due at once (`next_at` is 0).

        A handler that is registered and is also named by the notice gets one delivery.
        """
        ...

    async def get(self, id: str) -> Delivery | None: ...

    async def page(self, hook: str, *, limit: int, before: str | None = None) -> list[Delivery]:
        """The deliveries of a hook, newest first, made before the one with this id."""
        ...

    async def put(self, delivery: Delivery) -> None:
        """Replace state, `next_at`, tries, attempts and body of the delivery with this id."""
        ...

    async def remove(self, id: str) -> None: ...

    async def clear(self, hook: str, before: int | None = None) -> None:
        """Delete the deliveries of a hook; with `before`, only those of earlier events that are not pending."""
        ...
