"""The event sink of one process: its subscribers receive events of a run without reading the store.

Everything happens on one event loop: publishing appends references to events to the subscriptions and wakes them.
Other processes receive hints that an execution has new events. What a hint does not carry they read from the journal.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from wfcore.domain.run.events import Event
from wfcore.ports.hints import Hints
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import Lagged

MAX_UNREAD: Final = 10_000
"""Events buffered for a slow subscriber; with more, its `next` raises Lagged."""


class EventHub:
    """Implements the port `EventSink`. An event without subscribers costs one look-up in a dict."""

    def __init__(self, hints: Hints | None = None) -> None:
        """Without `hints`, there are no subscribers in other processes. They must call `receive`."""
        self._hints = hints
        self._subscriptions: dict[ExecutionRef, set[HubSubscription]] = {}
        self._watchers: dict[ExecutionRef, set[HubSubscription]] = {}

    def has_subscribers(self, execution: ExecutionRef) -> bool:
        """Whether the execution has a subscriber here, or can have one in another process."""
        return execution in self._subscriptions or (self._hints is not None and self._hints.has_peers())

    def publish(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        """Deliver `events` to the subscribers. A subscriber with too many unread events is dropped at once."""
        if self._hints is not None and events:
            self._hints.notify_followers(execution, events)
        self._deliver(execution, events)

    def _deliver(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        subscriptions = self._subscriptions.get(execution)
        if subscriptions and events:
            for subscription in tuple(subscriptions):
                subscription.receive(events)

    def receive(self, execution: ExecutionRef, events: Sequence[Event] = ()) -> None:
        """Another process published events: deliver those that the hint carries, else refer to the journal."""
        self._deliver(execution, events)
        for subscription in () if events else self._subscriptions.get(execution, ()):
            subscription.send_to_journal()
        self.settle(execution)

    def settle(self, execution: ExecutionRef) -> None:
        for watcher in self._watchers.get(execution, ()):
            watcher.send_to_journal()

    def subscribe(self, execution: ExecutionRef, pace: float = 0.0) -> "HubSubscription":
        return self._added(self._subscriptions, execution, pace)

    def watch(self, execution: ExecutionRef) -> "HubSubscription":
        return self._added(self._watchers, execution)

    def unsubscribe(self, execution: ExecutionRef, subscription: "HubSubscription") -> None:
        """Remove a subscription, and the execution with its last one. A second call does nothing."""
        was_followed = self._is_followed(execution)
        for kept in (self._subscriptions, self._watchers):
            subscriptions = kept.get(execution, set())
            subscriptions.discard(subscription)
            if not subscriptions:
                kept.pop(execution, None)
        if self._hints is not None and was_followed and not self._is_followed(execution):
            self._hints.unfollow(execution)

    def _is_followed(self, execution: ExecutionRef) -> bool:
        return execution in self._subscriptions or execution in self._watchers

    def _added(
        self, kept: "dict[ExecutionRef, set[HubSubscription]]", execution: ExecutionRef, pace: float = 0.0
    ) -> "HubSubscription":
        if self._hints is not None and not self._is_followed(execution):
            self._hints.follow(execution)
        subscription = HubSubscription(self, execution, pace)
        kept.setdefault(execution, set()).add(subscription)
        return subscription


class HubSubscription:
    """The unread events of one subscriber. Once it lags, nothing is buffered: the journal has all events."""

    __slots__ = ("_due_at", "_events", "_execution", "_hub", "_lagged", "_pace", "_read_journal", "_waiting")

    def __init__(self, hub: EventHub, execution: ExecutionRef, pace: float) -> None:
        self._hub = hub
        self._execution = execution
        self._pace = pace
        self._due_at = 0.0
        """When the next batch is due, in seconds of the loop."""
        self._wait_for_pace()
        self._events: list[Event] = []
        self._lagged = False
        self._read_journal = False
        self._waiting: asyncio.Future[None] | None = None

    def receive(self, events: Sequence[Event]) -> None:
        is_first = not self._events
        if len(self._events) + len(events) > MAX_UNREAD:
            self._lagged = True
            self.close()
        else:
            self._events += events
        if self._waiting is not None:
            if self._is_ready():
                _wake(self._waiting)
            elif is_first:
                asyncio.get_running_loop().call_at(self._due_at, _wake, self._waiting)

    def send_to_journal(self) -> None:
        """End the wait of `next` as its timeout would, so that the caller reads the journal."""
        self._read_journal = True
        if self._waiting is not None:
            _wake(self._waiting)

    async def next(self, timeout: float) -> list[Event] | None:
        """`Subscription.next`. Raises RuntimeError while another call waits."""
        if not self._is_ready():
            await self._wait(self._due_at - asyncio.get_running_loop().time() if self._events else timeout)
        if self._lagged:
            raise Lagged
        events, self._events = self._events, []
        if events:
            self._wait_for_pace()
            return events
        self._read_journal = False
        return None

    def close(self) -> None:
        """Receive no more events. A call of `next` that waits ends with its timeout."""
        self._hub.unsubscribe(self._execution, self)
        self._events = []

    def _is_ready(self) -> bool:
        """Whether `next` returns at once: with events that are due or end the turn, or without any."""
        if self._lagged or self._read_journal or not self._events:
            return self._lagged or self._read_journal
        return not self._pace or self._events[-1].terminal or asyncio.get_running_loop().time() >= self._due_at

    def _wait_for_pace(self) -> None:
        if self._pace:
            self._due_at = asyncio.get_running_loop().time() + self._pace

    async def _wait(self, seconds: float) -> None:
        if self._waiting is not None:
            raise RuntimeError("a subscription has one reader at a time")
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(seconds, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
