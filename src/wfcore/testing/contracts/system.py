"""The contracts of the ports of `wfcore.ports.system`. Inherit one, write its factory, and inherit every test."""

import asyncio
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor

import pytest

from wfcore.domain.kernel.ids import ALPHABET, is_uuid
from wfcore.ports.system import Clock, Ids
from wfcore.testing.fakes import FakeClock
from wfcore.testing.on_asyncio import OnAsyncio, limited


class ClockContract(OnAsyncio):
    """The contract of clocks."""

    @abstractmethod
    def make_clock(self) -> Clock:
        """A new clock."""

    def let_pass(self, clock: Clock, seconds: float) -> None:
        """Let that much time pass soon. A fake clock is advanced, and a real one needs nothing."""
        if isinstance(clock, FakeClock):
            clock.advance(seconds)

    def test_now_is_in_milliseconds_since_1970(self) -> None:
        """A time of this century, as an integer, that does not go backwards."""
        clock = self.make_clock()
        first, second = clock.now(), clock.now()
        assert isinstance(first, int)
        assert 946_684_800_000 < first <= second < 4_102_444_800_000

    def test_monotonic_time_does_not_go_backwards(self) -> None:
        """In milliseconds, as an integer."""
        clock = self.make_clock()
        times = [clock.monotonic() for _ in range(1_000)]
        assert all(type(one) is int for one in times)
        assert times == sorted(times)

    async def test_sleep_waits_for_its_duration(self, anyio_backend: str) -> None:
        """A sleeper wakes up once that much time has passed, and not before."""
        clock = self.make_clock()
        began = clock.monotonic()
        sleeper = asyncio.create_task(clock.sleep(0.02))
        await asyncio.sleep(0)
        assert not sleeper.done()
        self.let_pass(clock, 0.02)
        async with limited():
            await sleeper
        assert clock.monotonic() - began >= 19  # rounding can lose a millisecond

    async def test_sleeping_no_time_returns(self, anyio_backend: str) -> None:
        """Zero and less return without a wait."""
        clock = self.make_clock()
        await clock.sleep(0)
        await clock.sleep(-1)

    async def test_a_timer_calls_back_once_and_not_before(self, anyio_backend: str) -> None:
        """In a separate iteration of the loop, once that much time has passed."""
        clock, rung = self.make_clock(), asyncio.Event()
        began = clock.monotonic()
        clock.call_later(0.02, rung.set)
        await asyncio.sleep(0)
        assert not rung.is_set()
        self.let_pass(clock, 0.02)
        async with limited():
            await rung.wait()
        assert clock.monotonic() - began >= 19

    async def test_a_cancelled_timer_does_not_call_back(self, anyio_backend: str) -> None:
        """Also after two cancels, and while other timers call back."""
        clock, rung, other = self.make_clock(), list[str](), asyncio.Event()
        call_off = clock.call_later(0.01, lambda: rung.append("off"))
        clock.call_later(0.02, other.set)
        call_off()
        call_off()
        self.let_pass(clock, 0.02)
        async with limited():
            await other.wait()
        assert rung == []

    async def test_a_cancelled_sleep(self, anyio_backend: str) -> None:
        """The sleeper ends at once, and others that sleep as long wake up."""
        clock = self.make_clock()
        first, second = (asyncio.create_task(clock.sleep(0.02)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        self.let_pass(clock, 0.02)
        async with limited():
            await second

    async def test_sleepers_wake_in_the_order_of_their_times(self, anyio_backend: str) -> None:
        """Whichever began first."""
        clock, due, woken = self.make_clock(), dict[int, int](), list[int]()

        async def sleep(ticks: int) -> None:
            due[ticks] = clock.monotonic() + 20 * ticks
            await clock.sleep(ticks / 50)
            woken.append(ticks)

        tasks = [asyncio.create_task(sleep(ticks)) for ticks in (3, 1, 2)]
        for _ in range(3):
            await asyncio.sleep(0)
            self.let_pass(clock, 0.02)
        async with limited():
            await asyncio.gather(*tasks)
        assert sorted(woken, key=due.__getitem__) == woken

    async def test_a_callback_sets_and_cancels_timers(self, anyio_backend: str) -> None:
        """A timer that a callback cancels does not call back, one that it sets does."""
        clock, done, rung = self.make_clock(), asyncio.Event(), list[str]()
        cancel = clock.call_later(0.06, lambda: rung.append("cancelled"))

        def first() -> None:
            cancel()
            clock.call_later(0.06, done.set)

        clock.call_later(0.02, first)
        for _ in range(4):
            self.let_pass(clock, 0.02)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        async with limited():
            await done.wait()
        assert rung == []


class IdsContract:
    """The contract of id generators."""

    @abstractmethod
    def make_ids(self) -> Ids:
        """A new id generator."""

    def test_uuids_are_canonical_version_7_and_new(self) -> None:
        """Lower case with hyphens, version 7 and the RFC 9562 variant, all different."""
        ids = self.make_ids()
        made = [ids.uuid() for _ in range(1_000)]
        assert len(set(made)) == len(made)
        assert all(is_uuid(text) and text[14] == "7" and text[19] in "89ab" for text in made)

    def test_uuids_sort_by_creation(self) -> None:
        """Later ids are greater: a list by id is a list by time."""
        ids = self.make_ids()
        made = [ids.uuid() for _ in range(100)]
        assert made == sorted(made)

    def test_tokens_are_of_the_alphabet_and_new(self) -> None:
        """Of the requested length, of [A-Za-z0-9] only, all different."""
        ids = self.make_ids()
        made = [ids.token(43) for _ in range(1_000)]
        assert len(set(made)) == len(made)
        assert all(len(text) == 43 and set(text) <= set(ALPHABET) for text in made)

    def test_ids_made_at_once(self) -> None:
        """Threads that make ids and tokens at the same time get no equal ones."""
        ids = self.make_ids()
        with ThreadPoolExecutor(4) as threads:
            uuids = list(threads.map(lambda _: [ids.uuid() for _ in range(200)], range(4)))
            tokens = list(threads.map(lambda _: [ids.token(43) for _ in range(200)], range(4)))
        for made in (uuids, tokens):
            assert len({each for part in made for each in part}) == 800
