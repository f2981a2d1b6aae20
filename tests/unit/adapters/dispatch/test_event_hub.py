"""The cost of the event hub: it leaves nothing behind, and creates nothing without need."""

import asyncio
from collections.abc import Sequence

import pytest
from waiting import HANG

from wfcore.adapters.dispatch.event_hub import EventHub
from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import Lagged
from wfcore.testing.contracts.events import LONG, ONE, OTHER, SHORT, events

pytestmark = pytest.mark.anyio


async def test_the_hub_is_empty_without_subscribers() -> None:
    """After all subscribers have left or lag, the hub holds nothing."""
    hub, too_many = EventHub(), events(10_000)
    for number in range(10):
        ref = ExecutionRef("org", number)
        readings = [hub.subscribe(ref) for _ in range(3)]
        hub.publish(ref, events(5))
        for reading in readings[:2]:
            reading.close()
        hub.publish(ref, too_many)
        with pytest.raises(Lagged):
            await readings[2].next(SHORT)
    assert hub._subscriptions == {}


async def test_waiting_creates_no_task() -> None:
    """A thousand waiting readers need no tasks beside their own."""
    hub = EventHub()
    readings = [hub.subscribe(ONE) for _ in range(1000)]
    before = asyncio.all_tasks()
    waits = [asyncio.ensure_future(reading.next(LONG)) for reading in readings]
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set(waits)
    hub.publish(ONE, events(1))
    assert await asyncio.gather(*waits) == [events(1)] * 1000
    assert asyncio.all_tasks() <= before


async def test_a_wait_leaves_no_timer_behind() -> None:
    """A wait that is woken, times out or is cancelled leaves no timer behind."""
    hub = EventHub()
    loop = asyncio.get_running_loop()
    before = set(loop._scheduled)  # type: ignore[attr-defined]  # other tests share the loop
    reading = hub.subscribe(ONE)
    waiting = asyncio.ensure_future(reading.next(LONG))
    await asyncio.sleep(0)
    hub.publish(ONE, events(1))
    await waiting
    assert await reading.next(SHORT) is None
    waiting = asyncio.ensure_future(reading.next(LONG))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    timers = [timer for timer in loop._scheduled if timer not in before and not timer.cancelled()]  # type: ignore[attr-defined]
    assert not [timer for timer in timers if timer.when() > loop.time() + LONG / 2]


async def test_a_second_concurrent_reader_is_refused() -> None:
    """Of two readers of one subscription the second gets an error, and the first still receives events."""
    hub = EventHub()
    reading = hub.subscribe(ONE)
    waiting = asyncio.ensure_future(reading.next(LONG))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one reader"):
        await reading.next(LONG)
    hub.publish(ONE, events(1))
    assert await waiting == events(1)


async def test_a_reader_can_lag_while_it_waits() -> None:
    """More events than the buffer holds raise `Lagged` also in a reader that already waits."""
    hub = EventHub()
    waiting = asyncio.ensure_future(hub.subscribe(ONE).next(LONG))
    await asyncio.sleep(0)
    hub.publish(ONE, events(10_001))
    async with asyncio.timeout(HANG):
        with pytest.raises(Lagged):
            await waiting


class Peers:
    """Hints to one other process, if it exists."""

    def __init__(self) -> None:
        self.exist = True
        self.sent: list[tuple[ExecutionRef, int]] = []
        self.followed: list[ExecutionRef] = []

    def has_peers(self) -> bool:
        return self.exist

    def notify_followers(self, execution: ExecutionRef, found: Sequence[Event]) -> None:
        self.sent.append((execution, len(found)))

    def follow(self, execution: ExecutionRef) -> None:
        self.followed.append(execution)

    def unfollow(self, execution: ExecutionRef) -> None:
        self.followed.remove(execution)


async def test_other_processes_are_notified() -> None:
    """Every publication sends a hint, and every execution can have subscribers elsewhere."""
    peers = Peers()
    hub = EventHub(peers)  # type: ignore[arg-type]
    assert hub.has_subscribers(ONE)
    hub.publish(ONE, events(2))
    hub.publish(ONE, [])
    assert peers.sent == [(ONE, 2)]


async def test_without_peers_only_local_subscribers_count() -> None:
    """Without peers, an execution without local subscribers has none; the peers are checked each time."""
    peers = Peers()
    peers.exist = False
    hub = EventHub(peers)  # type: ignore[arg-type]
    assert not hub.has_subscribers(ONE)
    reading = hub.subscribe(ONE)
    assert (hub.has_subscribers(ONE), hub.has_subscribers(OTHER)) == (True, False)
    reading.close()
    peers.exist = True
    assert hub.has_subscribers(ONE)


async def test_hints_are_followed_while_there_are_readers() -> None:
    """From the first reader of an execution, of either kind, to the last one; closing twice changes nothing."""
    peers = Peers()
    hub = EventHub(peers)  # type: ignore[arg-type]
    readings = [hub.subscribe(ONE), hub.watch(ONE), hub.subscribe(ONE)]
    other = hub.watch(OTHER)
    assert peers.followed == [ONE, OTHER]
    for reading in readings:
        assert ONE in peers.followed
        reading.close()
        reading.close()
    assert peers.followed == [OTHER]
    other.close()
    assert peers.followed == []


async def test_events_of_another_process_are_delivered() -> None:
    """The events that a hint carries reach the subscribers; those who watch read the journal."""
    hub = EventHub()
    reading, watching = hub.subscribe(ONE), hub.watch(ONE)
    hub.receive(ONE, events(2))
    assert await reading.next(LONG) == events(2)
    async with asyncio.timeout(HANG):
        assert await watching.next(LONG) is None


async def test_a_notification_makes_readers_read_the_journal() -> None:
    """It ends one wait of a reader, now or later, as its timeout would; buffered events are returned first."""
    hub = EventHub()
    reading, other = hub.subscribe(ONE), hub.subscribe(OTHER)
    waiting = asyncio.ensure_future(reading.next(LONG))
    await asyncio.sleep(0)
    hub.receive(ONE)
    async with asyncio.timeout(HANG):
        assert await waiting is None
    hub.publish(ONE, events(1))
    hub.receive(ONE)
    async with asyncio.timeout(HANG):
        assert [await reading.next(LONG), await reading.next(LONG)] == [events(1), None]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT):
            await reading.next(LONG)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT):
            await other.next(LONG)
