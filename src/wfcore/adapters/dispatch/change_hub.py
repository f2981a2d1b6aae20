"""The feed of changes of one process. Everything happens on one event loop."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from wfcore.ports.changes import ChangeTransport, FeedChange, MissedChanges

MAX_UNREAD: Final = 1_000
"""Different changes buffered for a slow subscriber; with more, it has missed changes."""


class ChangeHub:
    """Implements the port `ChangeFeed`."""

    def __init__(self, transport: ChangeTransport | None = None) -> None:
        """Without `transport`, changes of other processes are not received."""
        self._transport = transport
        self._subscriptions: dict[str, set[HubChanges]] = {}

    def has_followers(self, org: str) -> bool:
        return org in self._subscriptions or (self._transport is not None and self._transport.has_peers())

    def publish(self, org: str, changes: Sequence[FeedChange]) -> None:
        if self._transport is not None and changes and self._transport.has_peers():
            self._transport.send_changes(org, changes)
        self.receive(org, changes)

    def receive(self, org: str, changes: Iterable[FeedChange]) -> None:
        """Deliver changes of this or of another process to the subscribers here."""
        for subscription in self._subscriptions.get(org, ()):
            subscription.receive(changes)

    def missed(self) -> None:
        """Changes of other processes were lost."""
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.miss()

    def subscribe(self, org: str) -> "HubChanges":
        if self._transport is not None and not self._subscriptions:
            self._transport.start_receiving(self.receive, self.missed)
        subscription = HubChanges(self, org)
        self._subscriptions.setdefault(org, set()).add(subscription)
        return subscription

    def unsubscribe(self, org: str, subscription: "HubChanges") -> None:
        """Remove a subscription. A second call does nothing."""
        subscriptions = self._subscriptions.get(org)
        if subscriptions is None or subscription not in subscriptions:
            return
        subscriptions.discard(subscription)
        if not subscriptions:
            del self._subscriptions[org]
        if self._transport is not None and not self._subscriptions:
            self._transport.stop_receiving()


class HubChanges:
    """The unread changes of one subscriber. A change that is unread is not buffered twice."""

    __slots__ = ("_hub", "_missed", "_org", "_unread", "_waiting")

    def __init__(self, hub: ChangeHub, org: str) -> None:
        self._hub = hub
        self._org = org
        self._unread: dict[FeedChange, None] = {}
        self._missed = False
        self._waiting: asyncio.Future[None] | None = None

    def receive(self, changes: Iterable[FeedChange]) -> None:
        if self._missed:
            return
        self._unread.update(dict.fromkeys(changes))
        if len(self._unread) > MAX_UNREAD:
            self.miss()
        self._wake()

    def miss(self) -> None:
        """Changes were lost: what is unread is of no use either."""
        self._missed = True
        self._unread = {}
        self._wake()

    async def next(self, timeout: float) -> list[FeedChange]:
        """`ChangeSubscription.next`. Raises RuntimeError while another call waits."""
        if not self._unread and not self._missed:
            await self._wait(timeout)
        if self._missed:
            self._missed = False
            raise MissedChanges
        changes, self._unread = list(self._unread), {}
        return changes

    def close(self) -> None:
        self._hub.unsubscribe(self._org, self)

    async def _wait(self, seconds: float) -> None:
        if self._waiting is not None:
            raise RuntimeError("a subscription has one reader at a time")
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
