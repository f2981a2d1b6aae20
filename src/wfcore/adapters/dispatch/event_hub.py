"""The event sink of one process: who follows a run here hears of it without asking the store.

Everything happens on one event loop: publishing puts references to events into the readers' lists and wakes them.
Other processes are told (`tell`) that there is something new, not what: their readers (`hear`) look it up.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import Lagged

MOST: Final = 10_000
"""Events kept for a reader that is slow; with more it is told that it lags."""


class EventHub:
    """`wfcore.ports.providers.EventSink`. What nobody listens to costs one look into a dict."""

    def __init__(
        self, tell: Callable[[ExecutionRef], None] | None = None, in_company: Callable[[], bool] = lambda: True
    ) -> None:
        """`tell` passes on that an execution has something new, while another process is there to hear it; theirs is
        the `hear` of their hub.
        """
        self._tell = tell
        self._in_company = in_company
        self._listening: dict[ExecutionRef, set[HubSubscription]] = {}

    def wanted(self, execution: ExecutionRef) -> bool:
        """Whether somebody listens here, or might in another process."""
        return execution in self._listening or (self._tell is not None and self._in_company())

    def publish(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        """Hand `events` to whoever listens. One that has too many unread ones is dropped here and now."""
        if self._tell is not None and events:
            self._tell(execution)
        listening = self._listening.get(execution)
        if listening and events:
            for subscription in tuple(listening):
                subscription.hear(events)

    def hear(self, execution: ExecutionRef) -> None:
        """Another process published something: whoever listens here is sent to the journal."""
        for subscription in self._listening.get(execution, ()):
            subscription.send_to_journal()

    def subscribe(self, execution: ExecutionRef) -> "HubSubscription":
        subscription = HubSubscription(self, execution)
        self._listening.setdefault(execution, set()).add(subscription)
        return subscription

    def leave(self, execution: ExecutionRef, subscription: "HubSubscription") -> None:
        """Forget a subscription, and the execution with its last one; leaving twice is leaving once."""
        listening = self._listening.get(execution, set())
        listening.discard(subscription)
        if not listening:
            self._listening.pop(execution, None)


class HubSubscription:
    """What one reader has not taken yet. Once it lags it keeps nothing: the journal has everything."""

    __slots__ = ("_elsewhere", "_execution", "_heard", "_hub", "_lagged", "_waiting")

    def __init__(self, hub: EventHub, execution: ExecutionRef) -> None:
        self._hub = hub
        self._execution = execution
        self._heard: list[Event] = []
        self._lagged = False
        self._elsewhere = False
        self._waiting: asyncio.Future[None] | None = None

    def hear(self, events: Sequence[Event]) -> None:
        if len(self._heard) + len(events) > MOST:
            self._lagged = True
            self.close()
        else:
            self._heard += events
        if self._waiting is not None:
            _wake(self._waiting)

    def send_to_journal(self) -> None:
        """Have the reader end its wait as it would after its timeout."""
        self._elsewhere = True
        if self._waiting is not None:
            _wake(self._waiting)

    async def next(self, timeout: float) -> list[Event] | None:
        """`Subscription.next`. One reader at a time; RuntimeError for a second."""
        if not self._heard and not self._lagged and not self._elsewhere:
            await self._wait(timeout)
        if self._lagged:
            raise Lagged
        heard, self._heard = self._heard, []
        if heard:
            return heard
        self._elsewhere = False
        return None

    def close(self) -> None:
        """Hear no more; whoever still waits is left to its timeout."""
        self._hub.leave(self._execution, self)
        self._heard = []

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
