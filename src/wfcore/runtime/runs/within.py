"""The ports of use cases that write in a transaction of the embedding product.

Nothing leaves the transaction before the product commits: no worker is claimed, and no event is published.
"""

from collections.abc import Sequence

import attrs

from wfcore.domain.run.events import Event
from wfcore.ports.dispatcher import Dispatcher, Handler
from wfcore.ports.journal import ExecutionRef, Journal
from wfcore.ports.providers import EventSink, Subscription
from wfcore.runtime.common.ports import Ports


def ports_within(ports: Ports, journal: Journal) -> Ports:
    """The ports with the journal of the transaction."""
    dispatcher, events = _NoDispatcher(ports.dispatcher), _NoEvents(ports.events)
    return attrs.evolve(ports, journal=journal, dispatcher=dispatcher, events=events)


class _NoDispatcher:
    """Leaves executions to the workers, which find them once they are committed."""

    worker = None

    def __init__(self, inner: Dispatcher) -> None:
        self.delays = inner.delays

    def wake(self, execution: ExecutionRef, length: int | None = None) -> None:
        """Does nothing: the store notifies workers when the transaction is committed, and they poll."""

    def adopt(self, execution: ExecutionRef) -> None:
        """Does nothing: no worker has claimed the execution."""

    async def start(self, handler: Handler) -> None:
        """Does nothing."""

    async def stop(self, grace: float) -> None:
        """Does nothing."""


class _NoEvents:
    """Publishes nothing: subscribers read what was committed."""

    def __init__(self, inner: EventSink) -> None:
        self._inner = inner

    def has_subscribers(self, execution: ExecutionRef) -> bool:
        return False

    def publish(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        """Does nothing."""

    def subscribe(self, execution: ExecutionRef, pace: float = 0.0) -> Subscription:
        return self._inner.subscribe(execution, pace)

    def watch(self, execution: ExecutionRef) -> Subscription:
        return self._inner.watch(execution)

    def settle(self, execution: ExecutionRef) -> None:
        """Does nothing."""
