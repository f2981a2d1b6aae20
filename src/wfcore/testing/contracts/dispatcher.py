"""The contract of the port `Dispatcher`, over any journal.

    class TestMine(DispatcherContract):
        def make(self, journal, clock, concurrency): ...

The journal has the organization `journal_values.ORG`. A fake clock drives all waiting: nothing here sleeps.

An engine that measures time itself sets `real_time`: the tests then wait, as long as the delays of the dispatcher
are. Only due times, which are wall times, are still advanced.
"""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from inspect import isawaitable
from itertools import count
from math import ceil
from pathlib import Path
from time import monotonic_ns
from typing import Any, ClassVar

import pytest

from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.journal import Append, Claimed, ExecutionRef, Journal, JournalConflict
from wfcore.testing.contracts.interrupted.dispatchers import InterruptedDispatcher
from wfcore.testing.contracts.journal_values import NOW, begin, due, steps
from wfcore.testing.fakes import FakeClock, journal_in_memory
from wfcore.testing.on_asyncio import OnAsyncio, limited

HOUR = 3_600
"""Seconds."""


class RealTimeClock(FakeClock):
    """Timers take their real time. The wall time stands still until a test advances it."""

    def monotonic(self) -> int:
        return monotonic_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        return asyncio.get_running_loop().call_later(seconds, callback).cancel

    def advance(self, seconds: float) -> None:
        self.step(seconds)

    @property
    def next_timer(self) -> float:
        return 1.0


class Recorder:
    """A handler that records its executions and returns when a test lets it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.handled: Counter[ExecutionRef] = Counter()
        self.claimed: dict[ExecutionRef, Claimed | None] = {}
        self.under_way: set[ExecutionRef] = set()
        self.most = 0
        self.signals: list[ExecutionRef] = []
        self.doubled = False
        self.read: dict[ExecutionRef, int] = {}
        self.before: Callable[[ExecutionRef], Awaitable[Any]] | None = None
        self.after: Callable[[ExecutionRef], Awaitable[Any]] | None = None

    async def handle(self, execution: ExecutionRef, claimed: Claimed | None = None) -> None:
        self.doubled |= execution in self.under_way
        self.handled[execution] += 1
        self.claimed[execution] = claimed
        self.under_way.add(execution)
        self.most = max(self.most, len(self.under_way))
        try:
            self.read[execution] = (await self._journal.execution(execution)).length
            if self.before:
                await self.before(execution)
            await self._give_back(execution)
            if self.after:
                await self.after(execution)
        finally:
            self.under_way.discard(execution)
            self.read.pop(execution, None)

    async def _give_back(self, execution: ExecutionRef) -> None:
        while True:
            self.read[execution] = (await self._journal.execution(execution)).length
            try:
                await self._journal.append(execution, Append(self.read[execution], (), updates_claim=True))
            except JournalConflict:
                continue
            return

    def signal(self, execution: ExecutionRef) -> bool:
        self.signals.append(execution)
        return execution in self.under_way

    def has_read(self, execution: ExecutionRef, length: int) -> bool:
        return self.read.get(execution, 0) >= length

    def lengths(self) -> dict[ExecutionRef, int]:
        return dict(self.read)


class Bench:
    """A running dispatcher with its journal, clock and handler."""

    def __init__(self, journal: Journal, clock: FakeClock, make: Callable[[int], Dispatcher]) -> None:
        self.journal = journal
        self.clock = clock
        self.make = make
        self.handler = Recorder(journal)
        self.dispatcher = make(100)

    async def due(self, name: str, wake_at: int = NOW) -> ExecutionRef:
        """An execution that is due, with a `wake` of the dispatcher."""
        ref = await due(self.journal, name, wake_at)
        self.dispatcher.wake(ref)
        return ref

    async def write(self, ref: ExecutionRef, **moves: Any) -> None:
        length = (await self.journal.execution(ref)).length
        await self.journal.append(ref, Append(length, steps(1, length), **moves))

    async def until_handled(self, ref: ExecutionRef, times: int = 1) -> None:
        await eventually(lambda: self.handler.handled[ref] >= times)

    async def until_parked(self, ref: ExecutionRef, times: int = 1) -> None:
        """Wait until the execution was handled that often and its claim released."""
        await self.until_handled(ref, times)

        async def is_free() -> bool:
            return (await self.journal.execution(ref)).claimed_by is None

        await eventually(is_free)

    async def under_way(self) -> tuple[ExecutionRef, asyncio.Event]:
        """An execution whose handler returns once the event is set."""
        release = asyncio.Event()
        self.handler.before = lambda _: release.wait()
        await self.dispatcher.start(self.handler)
        ref = await self.due("r-1")
        await self.until_handled(ref)
        return ref, release

    async def given_back(self) -> tuple[ExecutionRef, asyncio.Event]:
        """A handled and released execution, whose handler returns only once the event is set."""
        returns = asyncio.Event()
        self.handler.after = lambda _: returns.wait()
        await self.dispatcher.start(self.handler)
        ref = await self.due("r-1")
        await self.until_parked(ref)
        return ref, returns

    async def beats(self, number: int) -> None:
        """Let that many polls happen: advance the clock by a second for each, once every task sleeps."""
        if isinstance(self.clock, RealTimeClock):
            await asyncio.sleep(number * self.dispatcher.delays.timer)
            return
        for _ in range(number):
            await eventually(lambda: self.clock.next_timer)
            self.clock.advance(1)
        await eventually(lambda: self.clock.next_timer)

    async def see(self, worker: int) -> None:
        """Three polls with heartbeats of this worker: in real time with each poll, else only after the last one."""
        for _ in range(3):
            await self.beats(1)
            if isinstance(self.clock, RealTimeClock):
                await self.journal.heartbeat(worker)
        await self.journal.heartbeat(worker)

    async def rounds(self) -> None:
        """Wait until the dispatcher has polled: executions that are due now are handled."""
        sentinel = await self.due(f"sentinel-{self.handler.handled.total()}", self.clock.now())
        await self.until_handled(sentinel)
        await eventually(lambda: sentinel not in self.handler.under_way)


async def eventually(condition: Callable[[], Any]) -> Any:
    """The first result of `condition` that is neither None nor False; the event loop runs meanwhile."""
    async with limited():
        attempts = count()
        while True:
            result = condition()
            if found := await result if isawaitable(result) else result:
                return found
            await asyncio.sleep(0 if next(attempts) < 100 else 0.001)


class DispatcherContract(InterruptedDispatcher, OnAsyncio):
    """Inherit, name the class `Test...`, and write `make`. `open_journal` proves it over another journal."""

    real_time: ClassVar[bool] = False
    """Whether timers and the detection of dead workers take their real time."""

    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        """An empty journal with the organization `ORG`; closed at the end of the block. By default one in memory."""
        return nullcontext(journal_in_memory())

    @abstractmethod
    def make(self, journal: Journal, clock: FakeClock, concurrency: int) -> Dispatcher:
        """A dispatcher before its start."""

    @pytest.fixture
    async def bench(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Bench]:
        async with self.open_journal(tmp_path) as journal:
            clock = RealTimeClock(NOW) if self.real_time else FakeClock(NOW)
            bench = Bench(journal, clock, lambda concurrency: self.make(journal, clock, concurrency))
            try:
                yield bench
                assert not bench.handler.doubled
            finally:
                bench.handler.before = bench.handler.after = None
                await bench.dispatcher.stop(0)

    # Wake-ups

    async def test_a_due_execution_is_handled(self, bench: Bench) -> None:
        """Due before the start, after a `wake`, or found by polling: each is handled once."""
        early = await due(bench.journal, "early", NOW)
        await bench.dispatcher.start(bench.handler)
        await bench.until_handled(early)
        woken = await bench.due("woken")
        await bench.until_handled(woken)
        lost = await due(bench.journal, "lost", NOW)
        bench.clock.advance(bench.dispatcher.delays.timer)
        await bench.until_handled(lost)
        assert bench.handler.handled == {early: 1, woken: 1, lost: 1}

    async def test_spurious_and_duplicate_wakes(self, bench: Bench) -> None:
        """A wake of an execution that is not due or is being handled, and repeated wakes, cause no second handling."""
        asleep = await begin(bench.journal, "asleep", wake_at=NOW + 99_000)
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        for _ in range(3):
            bench.dispatcher.wake(ref)
            bench.dispatcher.wake(asleep)
        await bench.until_handled(ref)
        await bench.rounds()
        assert (bench.handler.handled[ref], bench.handler.handled[asleep]) == (1, 0)

    async def test_a_wake_while_it_is_handled(self, bench: Bench) -> None:
        """The running handler receives a signal; no second handler starts."""
        ref, release = await bench.under_way()
        for _ in range(3):
            await bench.write(ref, wakes=True)
            bench.dispatcher.wake(ref)
        assert len(bench.handler.signals) >= 3
        assert set(bench.handler.signals) == {ref}
        release.set()
        await eventually(lambda: not bench.handler.under_way)

    async def test_a_wake_that_races_the_park(self, bench: Bench) -> None:
        """A wake between the release of the claim and the return of the handler causes another handling."""
        ref, returns = await bench.given_back()
        await bench.write(ref, wakes=True)
        bench.dispatcher.wake(ref)
        returns.set()
        await bench.until_handled(ref, 2)

    async def test_adopted_during_the_end_of_the_former_handling(self, bench: Bench) -> None:
        """A claim for this worker is handled, also if the former handler has not returned."""
        ref, returns = await bench.given_back()
        await bench.write(ref, updates_claim=True, wake_at=NOW, claimed_by=bench.dispatcher.worker)
        bench.dispatcher.adopt(ref)
        returns.set()
        await bench.until_parked(ref, 2)

    async def test_adopted_and_lost(self, bench: Bench) -> None:
        """A claim that is lost before its handling starts is not handled."""
        ref, returns = await bench.given_back()
        await bench.write(ref, updates_claim=True, wake_at=NOW, claimed_by=bench.dispatcher.worker)
        bench.dispatcher.adopt(ref)
        await bench.write(ref, updates_claim=True)
        returns.set()
        bench.handler.after = None
        await bench.rounds()
        assert bench.handler.handled[ref] == 1

    async def test_other_writers_are_signalled(self, bench: Bench) -> None:
        """Entries of another process, without a wake here, are signalled within one poll."""
        release = asyncio.Event()
        bench.handler.before = lambda _: release.wait()
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await eventually(bench.handler.lengths)
        await bench.write(ref)
        await eventually(lambda: bench.clock.next_timer)
        bench.clock.advance(bench.dispatcher.delays.timer)
        await eventually(lambda: ref in bench.handler.signals)
        release.set()

    # Time

    async def test_timers_outlive_a_restart(self, bench: Bench) -> None:
        """An execution with a later due time is handled then, by any worker, and not before."""
        ref = await due(bench.journal, "r-1", NOW + 60_000)
        await bench.dispatcher.start(bench.handler)
        await bench.rounds()
        await bench.dispatcher.stop(0)
        bench.dispatcher = bench.make(100)
        await bench.dispatcher.start(bench.handler)
        bench.clock.advance(59)
        await bench.rounds()
        assert bench.handler.handled[ref] == 0
        bench.clock.advance(1 + bench.dispatcher.delays.timer)
        await bench.until_handled(ref)

    # Wall clocks that are wrong

    async def test_the_clock_is_set_back(self, bench: Bench) -> None:
        """Rounds go on: what is due at once is handled within one poll, without a wake."""
        await bench.dispatcher.start(bench.handler)
        await bench.beats(1)
        bench.clock.step(-HOUR)
        await bench.beats(2)
        for number in range(3):
            ref = await due(bench.journal, f"r-{number}", 0)
            bench.clock.advance(bench.dispatcher.delays.timer)
            await bench.until_handled(ref)

    async def test_dead_workers_are_detected_after_a_step(self, bench: Bench) -> None:
        """A worker that ended is detected in the usual time, although the clock is set back meanwhile."""
        other = await bench.journal.register("another machine", 1)
        ref = await begin(bench.journal, "r-1", wake_at=0, claimed_by=other)
        await bench.dispatcher.start(bench.handler)
        await bench.beats(1)
        bench.clock.step(-HOUR)
        await bench.beats(ceil(bench.dispatcher.delays.dead_worker))
        await bench.until_handled(ref)

    async def test_steps_make_no_worker_dead(self, bench: Bench) -> None:
        """A worker that sends heartbeats keeps its claim, whatever steps the clock of the observer makes."""
        other = await bench.journal.register("another machine", 1)
        ref = await begin(bench.journal, "r-1", wake_at=0, claimed_by=other)
        await bench.dispatcher.start(bench.handler)
        for hours in (1, -2, 24, -48, 1, 1, 1, 1):
            bench.clock.step(hours * HOUR)
            await bench.see(other)
            await bench.beats(1)
        await bench.rounds()
        assert bench.handler.handled[ref] == 0

    async def test_due_times_are_wall_times(self, bench: Bench) -> None:
        """A clock that is set forward makes a later due time come early; one that is set back delays it as long."""
        early = await due(bench.journal, "early", NOW + HOUR * 1000)
        late = await due(bench.journal, "late", NOW + 2 * HOUR * 1000)
        await bench.dispatcher.start(bench.handler)
        await bench.beats(1)
        bench.clock.step(HOUR)
        bench.clock.advance(bench.dispatcher.delays.timer)
        await bench.until_handled(early)
        bench.clock.step(-HOUR)
        await bench.beats(1)
        bench.clock.advance(HOUR)
        await bench.rounds()
        assert bench.handler.handled[late] == 0
        bench.clock.advance(HOUR)
        await bench.until_handled(late)

    # Concurrency

    async def test_at_most_so_many_at_once(self, bench: Bench) -> None:
        """`concurrency` limits the handlers; at the limit no claim is adopted, and one end allows one start."""
        releases = [asyncio.Event() for _ in range(4)]
        bench.dispatcher = bench.make(2)
        refs = [await due(bench.journal, f"r-{number}", NOW) for number in range(4)]
        bench.handler.before = lambda ref: releases[refs.index(ref)].wait()
        await bench.dispatcher.start(bench.handler)
        for ref in refs[:2]:
            await bench.until_handled(ref)
        assert bench.dispatcher.worker is None
        for ended, begins in ((0, 2), (1, 3)):
            releases[ended].set()
            await bench.until_handled(refs[begins])
        assert bench.handler.most == 2
        for release in releases:
            release.set()
        await eventually(lambda: bench.dispatcher.worker)

    # Failures

    async def test_a_handler_that_raises(self, bench: Bench) -> None:
        """Polling continues, other executions are handled, and this one is tried again."""

        async def fail(execution: ExecutionRef) -> None:
            if execution == bad and bench.handler.handled[bad] < 2:
                raise OSError("the disk is full")

        bad = await due(bench.journal, "bad", NOW)
        bench.handler.before = fail
        await bench.dispatcher.start(bench.handler)
        await bench.until_handled(bad)
        await bench.rounds()
        assert self.real_time or bench.handler.handled[bad] == 1
        bench.clock.advance(60)
        await bench.until_parked(bad, 2)

    async def test_stop_releases_all_claims(self, bench: Bench) -> None:
        """After the grace time a handler is cancelled and its execution is due at once; no handler starts later."""
        bench.handler.before = lambda _: asyncio.Event().wait()
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        await bench.dispatcher.stop(0)
        assert (bench.dispatcher.worker, bench.handler.under_way) == (None, set())
        found = await bench.journal.next_wake()
        assert found is not None
        assert found <= NOW
        bench.dispatcher.wake(ref)
        bench.dispatcher.adopt(ref)
        bench.clock.advance(60)
        await asyncio.sleep(0)
        await bench.dispatcher.stop(0)
        assert bench.handler.handled[ref] == 1

    async def test_stop_waits_for_handlers_that_end(self, bench: Bench) -> None:
        """A handler that returns within the grace time is not cancelled."""
        _, release = await bench.under_way()
        stopping = asyncio.create_task(bench.dispatcher.stop(60))
        await asyncio.sleep(0)
        release.set()
        await stopping
        assert await bench.journal.next_wake() is None

    async def test_a_worker_on_another_machine_that_stops(self, bench: Bench) -> None:
        """Its executions are claimed after `death_detected_within`, and not while the worker can be slow only."""
        other = await bench.journal.register("another machine", 1)
        ref = await begin(bench.journal, "r-1", wake_at=NOW, claimed_by=other)
        await bench.dispatcher.start(bench.handler)
        await bench.see(other)
        await bench.beats(0 if self.real_time else 3)
        await bench.rounds()
        assert bench.handler.handled[ref] == 0
        await bench.beats(ceil(bench.dispatcher.delays.dead_worker))
        await bench.until_handled(ref)
