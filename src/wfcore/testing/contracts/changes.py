"""The contract of change feeds, as a suite to inherit.

An adapter's author writes one method:

    class TestMyFeed(ChangesContract):
        def open_feed(self) -> ChangeFeed:
            return MyFeed()

`most` is the number of different unread changes that a subscriber can have before it misses some. Needs the extra
`testing`.
"""

import asyncio
from abc import abstractmethod

import pytest

from wfcore.ports.changes import Change, ChangeFeed, MissedChanges
from wfcore.testing.on_asyncio import OnAsyncio

ORG = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"

SHORT, LONG = 0.005, 30.0
"""Seconds: a timeout that the test expects to pass, and one that it does not."""


def changes(count: int, first: int = 1) -> list[Change]:
    """`count` different changes."""
    return [Change("workflow", number, "changed") for number in range(first, first + count)]


class ChangesContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_feed`."""

    most = 1_000

    @abstractmethod
    def open_feed(self) -> ChangeFeed:
        """A feed without subscriptions."""

    @pytest.fixture
    def feed(self) -> ChangeFeed:
        return self.open_feed()

    async def test_changes_come_in_one_batch(self, feed: ChangeFeed) -> None:
        """Changes of several publications arrive in order, in one batch; one that is unread comes once."""
        following = feed.subscribe(ORG)
        feed.publish(ORG, changes(2))
        feed.publish(ORG, changes(2, 2))
        assert await following.next(LONG) == changes(3)
        assert await following.next(SHORT) == []

    async def test_a_waiting_subscriber_is_woken(self, feed: ChangeFeed) -> None:
        """A change arrives at its publication, long before the timeout."""
        following = feed.subscribe(ORG)
        waiting = asyncio.ensure_future(following.next(LONG))
        await asyncio.sleep(0)
        feed.publish(ORG, changes(1))
        assert await waiting == changes(1)

    async def test_organizations_are_separate(self, feed: ChangeFeed) -> None:
        """A change reaches all subscribers of its organization, and no other."""
        one, two, other = feed.subscribe(ORG), feed.subscribe(ORG), feed.subscribe(OTHER)
        feed.publish(ORG, changes(1))
        assert await one.next(LONG) == await two.next(LONG) == changes(1)
        assert await other.next(SHORT) == []

    async def test_a_slow_subscriber_misses_changes(self, feed: ChangeFeed) -> None:
        """It is told so once, and receives what comes afterwards; others lose nothing."""
        slow, quick = feed.subscribe(ORG), feed.subscribe(ORG)
        feed.publish(ORG, changes(self.most))
        assert len(await quick.next(LONG)) == self.most
        feed.publish(ORG, changes(1, self.most + 1))
        with pytest.raises(MissedChanges):
            await slow.next(LONG)
        feed.publish(ORG, changes(1))
        assert await slow.next(LONG) == changes(1)
        assert await quick.next(LONG) == [*changes(1, self.most + 1), *changes(1)]

    async def test_a_closed_subscription_receives_nothing(self, feed: ChangeFeed) -> None:
        """Closing twice is allowed; without subscribers an organization has no followers in this process."""
        following = feed.subscribe(ORG)
        assert feed.has_followers(ORG)
        following.close()
        following.close()
        feed.publish(ORG, changes(1))
        assert await following.next(SHORT) == []
