"""The event sink of one process: who follows a run here hears of it without asking the store."""

import asyncio
from collections.abc import Sequence

from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import Lagged

MOST = 10_000
"""Events kept for a reader that is slow; with more it is told that it lags."""


class EventHub:
    """`wfcore.ports.providers.EventSink`. What nobody listens to costs one look into a dict."""

    def __init__(self) -> None:
        self._listening: dict[ExecutionRef, set[HubSubscription]] = {}

    def wanted(self, execution: ExecutionRef) -> bool:
        return execution in self._listening

    def publish(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        for subscription in self._listening.get(execution, ()):
            subscription.hear(events)

    def subscribe(self, execution: ExecutionRef) -> "HubSubscription":
        subscription = HubSubscription(self, execution)
        self._listening.setdefault(execution, set()).add(subscription)
        return subscription

    def leave(self, execution: ExecutionRef, subscription: "HubSubscription") -> None:
        listening = self._listening.get(execution)
        if listening is not None:
            listening.discard(subscription)
            if not listening:
                del self._listening[execution]


class HubSubscription:
    """What one reader has not taken yet."""

    def __init__(self, hub: EventHub, execution: ExecutionRef) -> None:
        self._hub = hub
        self._execution = execution
        self._heard: list[Event] = []
        self._lagged = False
        self._waiting: asyncio.Future[None] | None = None

    def hear(self, events: Sequence[Event]) -> None:
        if len(self._heard) + len(events) > MOST:
            self._lagged = True
            self._heard.clear()
        if not self._lagged:
            self._heard += events
        self._wake()

    async def next(self, timeout: float) -> list[Event] | None:
        if not self._heard and not self._lagged:
            await self._wait(timeout)
        if self._lagged:
            raise Lagged
        heard, self._heard = self._heard, []
        return heard or None

    def close(self) -> None:
        self._hub.leave(self._execution, self)
        self._heard.clear()

    async def _wait(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(timeout, self._wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
