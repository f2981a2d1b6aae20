"""The contracts of event sinks and of change feeds, as suites to inherit.

An adapter's author writes one method:

    class TestMySink(EventsContract):
        def open_sink(self) -> EventSink:
            return MySink()

`most` is the number of unread events that a reader can have before it lags. Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from contextlib import suppress

import pytest

from wfcore.domain.run.events import Event, EventKind
from wfcore.ports.changes import ChangeFeed, FeedChange, MissedChanges
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import EventSink, Lagged
from wfcore.testing.on_asyncio import OnAsyncio, limited

ONE = ExecutionRef("11111111-1111-4111-8111-111111111111", 1)
OTHER = ExecutionRef("11111111-1111-4111-8111-111111111111", 2)
FOREIGN = ExecutionRef("22222222-2222-4222-8222-222222222222", 1)

SHORT, LONG = 0.005, 3_600.0
"""Seconds: a timeout that the test expects to pass, and one that it does not."""


def events(count: int, first: int = 1) -> list[Event]:
    """`count` events of one run, numbered from `first` on."""
    return [Event(EventKind.node_started, "r-1", first + n, 0, {"nodeId": "a"}) for n in range(count)]


class EventsContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_sink`."""

    most = 10_000

    @abstractmethod
    def open_sink(self) -> EventSink:
        """A sink without subscriptions."""

    @pytest.fixture
    def sink(self) -> EventSink:
        return self.open_sink()

    # "Events of one execution from the moment of subscribing on, in order, in batches"

    async def test_events_come_in_one_batch(self, sink: EventSink) -> None:
        """Events of several publications arrive in order, in one batch, and once."""
        reading = sink.subscribe(ONE)
        sink.publish(ONE, events(2))
        sink.publish(ONE, events(3, 3))
        assert await reading.next(LONG) == events(5)
        assert await reading.next(SHORT) is None

    async def test_a_waiting_reader_is_woken(self, sink: EventSink) -> None:
        """A waiting reader receives an event at its publication, long before the timeout."""
        reading = sink.subscribe(ONE)
        waiting = asyncio.ensure_future(reading.next(LONG))
        await asyncio.sleep(0)
        sink.publish(ONE, events(1))
        async with limited():
            assert await waiting == events(1)

    async def test_earlier_events_are_not_received(self, sink: EventSink) -> None:
        """A subscription receives events from its start on."""
        sink.publish(ONE, events(1))
        reading = sink.subscribe(ONE)
        sink.publish(ONE, events(1, 2))
        assert await reading.next(LONG) == events(1, 2)

    async def test_executions_are_kept_apart(self, sink: EventSink) -> None:
        """A reader receives no event of another execution, nor of another organization's with the same number."""
        reading = sink.subscribe(ONE)
        sink.publish(OTHER, events(1))
        sink.publish(FOREIGN, events(1))
        assert await reading.next(SHORT) is None

    async def test_every_reader_receives_everything(self, sink: EventSink) -> None:
        """Every reader of an execution receives all its events."""
        readings = [sink.subscribe(ONE) for _ in range(3)]
        sink.publish(ONE, events(2))
        assert [await reading.next(LONG) for reading in readings] == [events(2)] * 3

    # "None after `timeout` seconds without one"

    async def test_a_timeout_returns_none_and_not_too_early(self, sink: EventSink) -> None:
        """None is returned at the timeout, and an empty publication does not shorten it."""
        reading = sink.subscribe(ONE)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = asyncio.ensure_future(reading.next(SHORT))
        await asyncio.sleep(0)
        sink.publish(ONE, [])
        assert await waiting is None
        assert loop.time() - began >= SHORT * 0.9

    async def test_a_cancelled_wait_loses_nothing(self, sink: EventSink) -> None:
        """Events that arrive during the cancel of a wait are returned by the next wait, whichever comes first."""
        reading = sink.subscribe(ONE)
        for first, early in ((1, True), (2, False)):
            waiting = asyncio.ensure_future(reading.next(LONG))
            await asyncio.sleep(0)
            if early:
                waiting.cancel()
            sink.publish(ONE, events(1, first))
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            assert waiting.cancelled()
            assert await reading.next(LONG) == events(1, first)

    # "Batches `pace` seconds apart at least; one that ends with the last event of a turn at once"

    async def test_a_paced_reader_gets_the_end_of_a_turn_at_once(self, sink: EventSink) -> None:
        """Events before it wait for their pace, and come in the same batch; a new turn begins with the pace again."""
        reading = sink.subscribe(ONE, pace=LONG)
        sink.publish(ONE, events(1))
        for last, end in ((3, EventKind.error), (6, EventKind.done)):
            waiting = asyncio.ensure_future(reading.next(LONG))
            await asyncio.sleep(0)
            sink.publish(ONE, events(1, last - 1))
            await asyncio.sleep(0)
            assert not waiting.done()
            sink.publish(ONE, [Event(end, "r-1", last, 0, {})])
            async with limited():
                assert [event.seq for event in await waiting or ()][-2:] == [last - 1, last]

    async def test_a_paced_reader_is_not_woken_too_early(self, sink: EventSink) -> None:
        """Events come when the pace has passed, whether they were published before the wait or during it."""
        reading, loop = sink.subscribe(ONE, pace=SHORT), asyncio.get_running_loop()
        for number in (1, 3):
            began = loop.time()
            if number == 1:
                sink.publish(ONE, events(2, number))
            waiting = asyncio.ensure_future(reading.next(LONG))
            await asyncio.sleep(0)
            if number == 3:
                sink.publish(ONE, events(1, number))
                sink.publish(ONE, events(1, number + 1))
            async with limited():
                assert await waiting == events(2, number)
            assert loop.time() - began >= SHORT * 0.8

    async def test_publications_at_once(self, sink: EventSink) -> None:
        """Of tasks that publish at the same time, no event is lost, and those of each task stay in order."""
        reading = sink.subscribe(ONE)

        async def publish(first: int) -> None:
            for number in range(first, first + 5):
                sink.publish(ONE, events(1, number))
                await asyncio.sleep(0)

        waiting = asyncio.ensure_future(reading.next(LONG))
        await asyncio.gather(*(publish(first) for first in (1, 101, 201)))
        found = [event.seq for event in (await waiting or []) + (await reading.next(SHORT) or [])]
        assert sorted(found) == [first + n for first in (1, 101, 201) for n in range(5)]
        assert all(part == sorted(part) for n in range(3) if (part := [seq for seq in found if seq // 100 == n]))

    async def test_a_close_beside_a_wait(self, sink: EventSink) -> None:
        """A reader that closes while others wait takes nothing from them."""
        first, second = sink.subscribe(ONE), sink.subscribe(ONE)
        waits = [asyncio.ensure_future(reading.next(LONG)) for reading in (first, second)]
        await asyncio.sleep(0)
        waits[0].cancel()
        first.close()
        sink.publish(ONE, events(1))
        assert await waits[1] == events(1)

    # "Whether somebody listens"

    async def test_wanted_while_a_subscription_is_open(self, sink: EventSink) -> None:
        """From the first subscription of an execution to the close of its last; a repeated close has no effect."""
        assert not sink.has_subscribers(ONE)
        first, second = sink.subscribe(ONE), sink.subscribe(ONE)
        assert sink.has_subscribers(ONE)
        assert not sink.has_subscribers(OTHER)
        assert not sink.has_subscribers(FOREIGN)
        first.close()
        first.close()
        assert sink.has_subscribers(ONE)
        second.close()
        assert not sink.has_subscribers(ONE)

    async def test_a_closed_subscription_receives_nothing(self, sink: EventSink) -> None:
        """After `close` it returns neither unread nor new events; other subscriptions are not affected."""
        closed, reading = sink.subscribe(ONE), sink.subscribe(ONE)
        sink.publish(ONE, events(1))
        assert await reading.next(LONG) == events(1)
        waiting = asyncio.ensure_future(reading.next(LONG))
        await asyncio.sleep(0)
        closed.close()
        assert await closed.next(SHORT) is None
        assert not waiting.done()
        sink.publish(ONE, events(1, 2))
        assert await closed.next(SHORT) is None
        assert await waiting == events(1, 2)

    # "A subscription without events"

    async def test_a_watcher_is_woken_when_a_turn_ends(self, sink: EventSink) -> None:
        """`settle` wakes every watcher of the execution, also one that begins to wait afterwards; events do not."""
        watching, late, other = sink.watch(ONE), sink.watch(ONE), sink.watch(OTHER)
        waiting = asyncio.ensure_future(watching.next(LONG))
        await asyncio.sleep(0)
        assert not sink.has_subscribers(ONE)
        sink.publish(ONE, events(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        sink.settle(ONE)
        async with limited():
            assert await waiting is None
            assert await late.next(LONG) is None
        for watcher in (watching, late, other):
            assert await watcher.next(SHORT) is None
            watcher.close()
        sink.settle(ONE)

    # "Publishing never waits for a listener; a slow one is dropped with `Lagged`"

    async def test_a_slow_reader_gets_lagged(self, sink: EventSink) -> None:
        """One unread event too many raises `Lagged`, from then on; the sink stores no more events for the reader."""
        reading = sink.subscribe(ONE)
        sink.publish(ONE, events(self.most))
        sink.publish(ONE, events(1, self.most + 1))
        assert not sink.has_subscribers(ONE)
        for _ in range(2):
            with pytest.raises(Lagged):
                await reading.next(LONG)
        reading.close()

    async def test_the_promised_number_is_kept(self, sink: EventSink) -> None:
        """A reader with exactly `most` unread events receives them all, and then has capacity for as many again."""
        reading = sink.subscribe(ONE)
        for first in (1, self.most + 1):
            sink.publish(ONE, events(self.most, first))
            assert await reading.next(LONG) == events(self.most, first)

    async def test_a_slow_reader_slows_nobody(self, sink: EventSink) -> None:
        """While one reader lags, another one receives everything, and a new subscription starts empty."""
        slow, quick = sink.subscribe(ONE), sink.subscribe(ONE)
        for first in (1, self.most + 1):
            sink.publish(ONE, events(self.most, first))
            assert await quick.next(LONG) == events(self.most, first)
        with pytest.raises(Lagged):
            await slow.next(LONG)
        again = sink.subscribe(ONE)
        sink.publish(ONE, events(1))
        assert await again.next(LONG) == events(1)


# Changes

ORG = "11111111-1111-4111-8111-111111111111"
OTHER_ORG = "22222222-2222-4222-8222-222222222222"


def changes(count: int, first: int = 1) -> list[FeedChange]:
    """`count` different changes."""
    return [FeedChange("workflow", number, "changed") for number in range(first, first + count)]


class ChangesContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_feed`.

    `most` is the number of different unread changes that a subscriber can have before it misses some.
    """

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
        one, two, other = feed.subscribe(ORG), feed.subscribe(ORG), feed.subscribe(OTHER_ORG)
        feed.publish(ORG, changes(1))
        assert await one.next(LONG) == await two.next(LONG) == changes(1)
        assert await other.next(SHORT) == []

    async def test_a_slow_subscriber_misses_changes(self, feed: ChangeFeed) -> None:
        """It is notified once, and receives what comes afterwards; others lose nothing."""
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

    async def test_a_cancelled_wait_loses_nothing(self, feed: ChangeFeed) -> None:
        """Changes that arrive during the cancel of a wait are returned by the next one."""
        following = feed.subscribe(ORG)
        for first, is_early in ((1, True), (2, False)):
            waiting = asyncio.ensure_future(following.next(LONG))
            await asyncio.sleep(0)
            if is_early:
                waiting.cancel()
            feed.publish(ORG, changes(1, first))
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            assert waiting.cancelled()
            assert await following.next(LONG) == changes(1, first)

    async def test_a_close_beside_a_wait(self, feed: ChangeFeed) -> None:
        """A subscriber that closes while another waits takes nothing from it."""
        first, second = feed.subscribe(ORG), feed.subscribe(ORG)
        waiting = asyncio.ensure_future(second.next(LONG))
        await asyncio.sleep(0)
        first.close()
        feed.publish(ORG, changes(1))
        assert await waiting == changes(1)
