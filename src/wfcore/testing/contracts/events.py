"""What every event sink has to keep, as a suite to inherit.

An adapter's author writes one method:

    class TestMySink(EventsContract):
        def open_sink(self) -> EventSink:
            return MySink()

`most` is the number of unread events that a reader may have before it lags. Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from contextlib import suppress

import pytest

from wfcore.domain.run.events import Event, EventKind
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import EventSink, Lagged
from wfcore.testing.contracts.on_asyncio import OnAsyncio

ONE = ExecutionRef("11111111-1111-4111-8111-111111111111", 1)
OTHER = ExecutionRef("11111111-1111-4111-8111-111111111111", 2)
FOREIGN = ExecutionRef("22222222-2222-4222-8222-222222222222", 1)

SHORT, LONG = 0.005, 30.0
"""Seconds: a wait that is meant to pass, and one that must not."""


def events(count: int, first: int = 1) -> list[Event]:
    """`count` events of one run, numbered from `first` on."""
    return [Event(EventKind.node_started, "r-1", first + n, 0, {"nodeId": "a"}) for n in range(count)]


class EventsContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_sink`."""

    most = 10_000

    @abstractmethod
    def open_sink(self) -> EventSink:
        """A sink that nobody listens to."""

    @pytest.fixture
    def sink(self) -> EventSink:
        return self.open_sink()

    # "Events of one execution from the moment of subscribing on, in order, in batches"

    async def test_all_that_came_in_is_given_at_once(self, sink: EventSink) -> None:
        """What several publications brought comes in their order, in one batch, and only once."""
        reading = sink.subscribe(ONE)
        sink.publish(ONE, events(2))
        sink.publish(ONE, events(3, 3))
        assert await reading.next(LONG) == events(5)
        assert await reading.next(SHORT) is None

    async def test_a_waiting_reader_is_woken(self, sink: EventSink) -> None:
        """Who waits gets an event as soon as it is published, long before its timeout."""
        reading = sink.subscribe(ONE)
        waiting = asyncio.ensure_future(reading.next(LONG))
        await asyncio.sleep(0)
        sink.publish(ONE, events(1))
        async with asyncio.timeout(1):
            assert await waiting == events(1)

    async def test_what_was_before_is_not_heard(self, sink: EventSink) -> None:
        """A subscription begins with its subscribing."""
        sink.publish(ONE, events(1))
        reading = sink.subscribe(ONE)
        sink.publish(ONE, events(1, 2))
        assert await reading.next(LONG) == events(1, 2)

    async def test_executions_are_kept_apart(self, sink: EventSink) -> None:
        """Neither another execution's events are heard, nor those of another organization's with the same number."""
        reading = sink.subscribe(ONE)
        sink.publish(OTHER, events(1))
        sink.publish(FOREIGN, events(1))
        assert await reading.next(SHORT) is None

    async def test_every_reader_hears_everything(self, sink: EventSink) -> None:
        """Readers of one execution take nothing from each other."""
        readings = [sink.subscribe(ONE) for _ in range(3)]
        sink.publish(ONE, events(2))
        assert [await reading.next(LONG) for reading in readings] == [events(2)] * 3

    # "None after `timeout` seconds without one"

    async def test_silence_is_none_and_not_too_early(self, sink: EventSink) -> None:
        """None comes when the timeout is over, and an empty publication does not shorten it."""
        reading = sink.subscribe(ONE)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = asyncio.ensure_future(reading.next(SHORT))
        await asyncio.sleep(0)
        sink.publish(ONE, [])
        assert await waiting is None
        assert loop.time() - began >= SHORT * 0.9

    async def test_a_cancelled_wait_loses_nothing(self, sink: EventSink) -> None:
        """Events that come in as a reader's wait is cancelled are there for its next one, in whatever order."""
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

    # "Whether somebody listens"

    async def test_wanted_while_somebody_listens(self, sink: EventSink) -> None:
        """From the first subscription of that execution to the close of its last; closing twice is closing once."""
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

    async def test_a_closed_subscription_hears_nothing(self, sink: EventSink) -> None:
        """After `close` nothing comes, neither what was unread nor what is published; others are not disturbed."""
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

    # "Publishing never waits for a listener; a slow one is dropped with `Lagged`"

    async def test_a_slow_reader_is_told_that_it_lags(self, sink: EventSink) -> None:
        """One event too many unread ones raise `Lagged`, now and for ever; the sink keeps nothing for it any more."""
        reading = sink.subscribe(ONE)
        sink.publish(ONE, events(self.most))
        sink.publish(ONE, events(1, self.most + 1))
        assert not sink.has_subscribers(ONE)
        for _ in range(2):
            with pytest.raises(Lagged):
                await reading.next(LONG)
        reading.close()

    async def test_as_many_as_promised_are_kept(self, sink: EventSink) -> None:
        """A reader with exactly `most` unread events gets them all, and then has room for as many again."""
        reading = sink.subscribe(ONE)
        for first in (1, self.most + 1):
            sink.publish(ONE, events(self.most, first))
            assert await reading.next(LONG) == events(self.most, first)

    async def test_a_slow_reader_slows_nobody(self, sink: EventSink) -> None:
        """While one reader lags, another one hears everything, and a new subscription starts afresh."""
        slow, quick = sink.subscribe(ONE), sink.subscribe(ONE)
        for first in (1, self.most + 1):
            sink.publish(ONE, events(self.most, first))
            assert await quick.next(LONG) == events(self.most, first)
        with pytest.raises(Lagged):
            await slow.next(LONG)
        again = sink.subscribe(ONE)
        sink.publish(ONE, events(1))
        assert await again.next(LONG) == events(1)
