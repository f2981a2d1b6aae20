"""Runs and schedules while the wall clock is set back or forward, and with clocks that differ between processes."""

from itertools import pairwise
from typing import Any

import pytest
from bench import Bench, act, ask, eventually, graph, one, opened, why
from scheduling import DAY, HOUR, HOURLY, MINUTE, MINUTELY, history, later, ms, run_ids, scheduled, slot, timer

from wfcore.domain.run.entries import Limits
from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.repositories.schedules import Missed
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.execution.time_slice import ExecutionTime
from wfcore.runtime.triggers.scheduler import BATCH, slot_run_id
from wfcore.testing.fakes import NOON, FakeClock

pytestmark = pytest.mark.anyio

HOLD = graph("s>a a>b", a=act("hold"), b=act("echo", value="after"))
RETRY = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 1}}


async def times_of(bench: Bench, execution: ExecutionRef) -> list[int]:
    """The times of the execution's entries."""
    return [entry.at for entry in await bench.core.ports.journal.read(execution)]


def in_order(events: list[Event]) -> bool:
    return all(one.at <= other.at for one, other in pairwise(events))


class TestExecutionTime:
    """The time of one execution."""

    def test_it_is_the_wall_time(self) -> None:
        """It follows the wall clock, also when that is set forward."""
        clock = FakeClock(NOON)
        time = ExecutionTime(clock, NOON)
        clock.advance(1)
        assert time.now() == NOON + 1_000
        clock.step(HOUR)
        assert time.now() == NOON + 1_000 + HOUR * 1_000

    def test_it_continues_by_monotonic_time(self) -> None:
        """After a step back, until the wall clock has caught up."""
        clock = FakeClock(NOON)
        time = ExecutionTime(clock, NOON)
        clock.step(-10)
        clock.advance(4)
        assert time.now() == NOON + 4_000
        clock.step(20)
        assert time.now() == clock.now() == NOON + 14_000

    def test_it_is_not_before_the_last_entry(self) -> None:
        """Which a process with a faster clock has written, before or meanwhile."""
        clock = FakeClock(NOON)
        time = ExecutionTime(clock, NOON + 5_000)
        assert time.now() == NOON + 5_000
        time.reach(NOON + 9_000)
        clock.advance(1)
        assert time.now() == NOON + 10_000


class TestSteps:
    """The clock of the process that drives a run is set back or forward."""

    async def test_a_short_back_off(self, bench: Bench) -> None:
        """It ends after its duration, although the clock is set back meanwhile."""
        run = await bench.started(one(act("flaky", fails=1, more=RETRY)))
        await bench.seen(run, "node_retrying")
        bench.clock.step(-HOUR)
        bench.clock.advance(1)
        assert (await bench.ended(run)).output == 2

    async def test_a_back_off_that_begins_after_the_step(self, bench: Bench) -> None:
        """It lasts as long as configured, although the entries before it are later than the wall time."""
        structure = graph("s>h h>a", h=act("hold"), a=act("flaky", fails=1, more=RETRY))
        run = await bench.started(structure)
        await bench.until("it")
        bench.clock.advance(30)
        bench.clock.step(-20)
        bench.tools.free["it"].set()
        await bench.seen(run, "node_retrying")
        assert bench.tools.count("flaky") == 1
        bench.clock.advance(1)
        assert (await bench.ended(run)).output == 2

    async def test_the_bound_on_the_duration(self, database: str) -> None:
        """A run that goes on for too long ends in time, although the clock is set back meanwhile."""
        async with opened(database, settings=Settings(limits=Limits(max_run_seconds=50))) as bench:
            run = await bench.started(HOLD)
            await bench.until("it")
            bench.clock.step(-HOUR)
            bench.clock.advance(51)
            assert why(await bench.ended(run)) == ("the run went on for longer than 50 seconds", "bounds")

    @pytest.mark.parametrize("seconds", [-HOUR, HOUR])
    async def test_times_do_not_go_backwards(self, bench: Bench, seconds: int) -> None:
        """The times of entries and events are in order, and a run does not end before it began."""
        run = await bench.started(HOLD)
        await bench.until("it")
        bench.clock.step(seconds)
        bench.tools.free["it"].set()
        ended = await bench.ended(run)
        times = await times_of(bench, run.row.execution)
        assert (ended.output, times) == ("after", sorted(times))
        assert in_order(await bench.events(run.id))
        assert ended.row.finished_at is not None
        assert ended.row.finished_at >= ended.row.created_at

    @pytest.mark.parametrize("verb", ["resume", "cancel"])
    async def test_requests_after_a_step_back(self, bench: Bench, verb: str) -> None:
        """A decision and a cancel take effect, and are recorded no earlier than what was before."""
        run = await bench.ran(graph("s>h h:approved>a", h=ask(), a=act("echo", value="a")))
        bench.clock.step(-HOUR)
        if verb == "resume":
            turn = await bench.core.runs.resume(bench.me, run.id, decision="approve")
            assert (await bench.ended(turn)).output == "a"
        else:
            await bench.core.runs.cancel(bench.me, run.id)
        times = await times_of(bench, run.row.execution)
        assert times == sorted(times)

    async def test_new_runs_start(self, bench: Bench) -> None:
        """Runs that begin after a step back are driven at once."""
        await bench.ran(one(act("echo")))
        bench.clock.step(-HOUR)
        for _ in range(2):
            assert (await bench.ran(one(act("echo", value=1)))).output == 1
            bench.clock.advance(1)


class TestTwoClocks:
    """The clock of one process is an hour behind that of another."""

    async def test_a_queued_run(self, database: str) -> None:
        """A worker whose clock is behind drives what a server has queued."""
        async with opened(database, worker=False) as front:
            run = await front.started(one(act("echo", value=1)))
            assert run.status == "queued"
            behind = FakeClock(NOON - HOUR * 1_000)
            async with opened(database, org=front.org, clock=behind, toolbox=front.tools) as bench:
                assert (await bench.ended(run)).output == 1

    async def test_a_resumed_run(self, database: str) -> None:
        """The same for a run whose decision the server has taken."""
        async with opened(database) as bench:
            org, run = bench.org, await bench.ran(graph("s>h h:approved>a", h=ask(), a=act("echo", value="a")))
        async with opened(database, worker=False, org=org) as front:
            turn = await front.core.runs.resume(front.me, run.id, decision="approve")
            async with opened(database, org=org, clock=FakeClock(NOON - HOUR * 1_000)) as bench:
                assert (await bench.ended(turn)).output == "a"

    async def test_a_run_that_another_process_began(self, database: str) -> None:
        """It goes on at once, waits as long as configured, and its times are in order."""
        structure = graph("s>h h>a", h=act("hold"), a=act("flaky", fails=1, more=RETRY))
        async with opened(database) as bench:
            org, run = bench.org, await bench.started(structure)
            await bench.until("it")
        async with opened(database, org=org, clock=FakeClock(NOON - HOUR * 1_000)) as bench:
            bench.tools.free["it"].set()
            await eventually(lambda: bench.tools.count("flaky") == 1)
            await eventually(lambda: bench.clock.next_timer)
            bench.clock.advance(1)
            assert (await bench.ended(run)).output == 2
            times = await times_of(bench, run.row.execution)
            assert times == sorted(times)


async def rested(bench: Bench, number: int, seconds: float) -> None:
    """Advance the clock, and let the run that is due then end."""
    await later(bench, seconds)
    found = await timer(bench, number)
    if found is not None and found.last_run_id is not None:
        await bench.ended(found.last_run_id)


class TestSchedules:
    """A slot runs once."""

    async def test_a_step_back_over_a_slot(self, bench: Bench) -> None:
        """The slot comes twice by the wall clock, and starts one run; the next one starts its own."""
        number = await scheduled(bench)
        await later(bench, HOUR + 60)
        bench.clock.step(-600)
        for _ in range(20):
            await later(bench, 60)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(1))}
        await later(bench, HOUR)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(hours)) for hours in (1, 2)}

    async def test_an_hour_forward_and_back(self, bench: Bench) -> None:
        """While the clock was ahead it fired one slot. Then the schedule goes on at once, and no slot runs twice."""
        number = await scheduled(bench, trigger=MINUTELY)
        await rested(bench, number, MINUTE)
        bench.clock.step(HOUR)
        await rested(bench, number, 0)
        assert len(await run_ids(bench, number)) == 2
        bench.clock.step(-HOUR)
        for _ in range(5):
            await rested(bench, number, MINUTE)
        fired = {slot_run_id(number, slot(minute / 60)) for minute in (1, 2, 3, 4, 5, 6, 61)}
        assert await run_ids(bench, number) == fired
        for _ in range(60):
            await rested(bench, number, MINUTE)
        runs = await bench.core.runs.page(bench.me, limit=100)
        assert {run.id for run in runs} == {slot_run_id(number, slot(minute / 60)) for minute in range(1, 67)}
        await eventually(lambda: bench.tools.count("echo") == len(runs))
        found = await timer(bench, number)
        assert found
        assert found.missed == ()

    async def test_a_skipped_slot_that_comes_twice(self, bench: Bench) -> None:
        """It is listed once."""
        number = await scheduled(bench, one(act("hold")))
        await later(bench, HOUR)
        await bench.until("it")
        await later(bench, HOUR)
        bench.clock.step(-600)
        for _ in range(2):
            await later(bench, 300)
        found = await timer(bench, number)
        assert found
        assert found.missed == (Missed(ms(slot(2)), "overlap"),)

    async def test_a_slot_that_is_skipped_after_later_ones(self, bench: Bench) -> None:
        """By the clock that was ahead these were late. All stand in their order."""
        number = await scheduled(bench, one(act("hold")))
        await later(bench, 4 * HOUR)
        await bench.until("it")
        bench.clock.step(MINUTE - 4 * HOUR)
        await later(bench, 1)
        await later(bench, HOUR)
        found = await timer(bench, number)
        assert found
        assert found.missed == (Missed(ms(slot(1)), "overlap"), *(Missed(ms(slot(n)), "late") for n in (2, 3)))

    async def test_a_slot_at_the_time_of_the_poll_before_the_step(self, bench: Bench) -> None:
        """By the clock that was ahead the slot was not due then. It is after the step back."""
        bench.clock.step(DAY)
        number = await scheduled(bench)
        await bench.core.scheduler.fire_due()
        bench.clock.step(HOUR - DAY)
        await later(bench, 0.5)
        await later(bench, 0.5)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(1))}

    @pytest.mark.parametrize("many", [1, BATCH + 1])
    async def test_a_restart_after_a_clock_that_was_ahead(self, database: str, many: int) -> None:
        """Schedules go on at once: those that a slot has advanced, and those that were enabled meanwhile."""
        ahead, trigger = FakeClock(NOON + 365 * DAY * 1_000), {**HOURLY, "overlap": "allow"}
        async with opened(database, clock=ahead, worker=False) as bench:
            fired = [await scheduled(bench, trigger=trigger) for _ in range(many)]
            await later(bench, HOUR)
            enabled, org = await scheduled(bench, trigger=trigger), bench.org
        async with opened(database, org=org, worker=False) as bench:
            for _ in range(1 + many // BATCH):
                await bench.core.scheduler.fire_due()
            for seconds in (HOUR, 1):
                await later(bench, seconds)
            for number in (fired[0], enabled):
                assert slot_run_id(number, slot(1)) in await run_ids(bench, number)

    async def test_a_restart_moves_no_other_timer(self, database: str) -> None:
        """A timer that is due, or that waits for its next slot, stays as it is."""
        async with opened(database, worker=False) as bench:
            org, number = bench.org, await scheduled(bench)
            before = await timer(bench, number)
        async with opened(database, org=org, clock=FakeClock(NOON + 1_000), worker=False) as bench:
            await bench.core.scheduler.fire_due()
            assert await timer(bench, number) == before

    async def test_two_processes_whose_clocks_differ(self, database: str) -> None:
        """The one whose clock is ahead starts the run of a slot; the other one does not start it again."""
        ahead = FakeClock(NOON + 1_800_000)
        async with opened(database) as here, opened(database, clock=ahead, org=here.org) as there:
            number = await scheduled(here)
            for _ in range(4):
                for bench in (there, here):
                    await later(bench, 1_800)
                    found: Any = await timer(here, number)
                    if found.last_run_id:
                        await here.ended(found.last_run_id)
            assert await run_ids(here, number) == {slot_run_id(number, slot(hours)) for hours in (1, 2)}
            assert len(await history(here, number)) == here.tools.count("echo") + there.tools.count("echo") == 2

    async def test_rounds_go_on_after_a_step_back(self, database: str) -> None:
        """The scheduler polls each second of monotonic time: a slot starts without a request."""
        async with opened(database, polls=True) as bench:
            number = await scheduled(bench)
            await eventually(lambda: bench.clock.next_timer)
            bench.clock.step(-HOUR)
            for _ in range(3):
                bench.clock.advance(HOUR)
                await eventually(lambda: bench.clock.next_timer)

            async def fired() -> bool:
                return bool(await history(bench, number))

            await eventually(fired)
