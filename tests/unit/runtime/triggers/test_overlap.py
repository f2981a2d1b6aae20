"""With `overlap` `skip` a slot is missed while a run of the schedule is active, and at no other time."""

from typing import Any

import attrs
import pytest
from bench import Bench, act, ask, graph, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import HOLD, HOUR, HOURLY, history, later, ms, run_ids, scheduled, slot, timer

from wfcore.ports.journal import RunRow
from wfcore.ports.repositories.schedules import Missed
from wfcore.runtime.triggers.scheduler import slot_run_id

pytestmark = pytest.mark.anyio

ASK_AND_HOLD = graph("s>h h:approved>a", h=ask(), a=act("hold"))
HOLD_FIRST = graph(
    "s>c c:first>a",
    c={"type": "condition", "data": {"branches": [{"handle": "first", "when": "run.scheduledAt.contains('T13')"}]}},
    a=act("hold"),
)


async def missed(bench: Bench, number: int) -> tuple[Missed, ...]:
    found = await timer(bench, number)
    assert found
    return found.missed


class TestActiveRuns:
    """Every run of the schedule counts, and no other run."""

    async def test_the_slot_before(self, bench: Bench) -> None:
        """The next slot is skipped and listed as `overlap`; after the run's end, slots fire again."""
        number = await scheduled(bench, HOLD)
        await later(bench, HOUR)
        await bench.until("it")
        await later(bench, HOUR)
        assert await missed(bench, number) == (Missed(ms(slot(2)), "overlap"),)
        assert len(await history(bench, number)) == 1
        bench.tools.free["it"].set()
        await bench.ended(slot_run_id(number, slot(1)))
        await later(bench, HOUR)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(1)), slot_run_id(number, slot(3))}

    @pytest.mark.parametrize("resumed", [1, 2])
    async def test_a_parked_run_does_not_block_slots(self, bench: Bench, resumed: int) -> None:
        """A parked run is not active; after a resume it is, also if a later slot has fired since."""
        number = await scheduled(bench, ASK_AND_HOLD)
        for hours in (1, 2):
            await later(bench, HOUR)
            assert (await bench.ended(slot_run_id(number, slot(hours)))).status == "interrupted"
        await bench.core.runs.resume(bench.me, slot_run_id(number, slot(resumed)), decision="approve")
        await bench.until("it")
        await later(bench, HOUR)
        assert await missed(bench, number) == (Missed(ms(slot(3)), "overlap"),)

    async def test_a_retried_run(self, bench: Bench) -> None:
        """The turn that retries a failed run is active as well."""
        number = await scheduled(bench, graph("s>f f>a", f=act("core.fail", message="no"), a=act("hold")))
        await later(bench, HOUR)
        failed = await bench.ended(slot_run_id(number, slot(1)))
        await bench.core.runs.retry(bench.me, failed.id, skip=["f"])
        await bench.until("it")
        await later(bench, HOUR)
        assert await missed(bench, number) == (Missed(ms(slot(2)), "overlap"),)

    async def test_a_run_from_before_the_schedule_was_disabled(self, bench: Bench) -> None:
        """Disabling and enabling the schedule forgets no active run."""
        number = await scheduled(bench, HOLD)
        await later(bench, HOUR)
        await bench.until("it")
        for _ in range(2):
            await bench.core.workflows.toggle(bench.me, number)
        await later(bench, HOUR)
        assert await missed(bench, number) == (Missed(ms(slot(2)), "overlap"),)

    async def test_a_run_from_before_skip_was_deployed(self, bench: Bench) -> None:
        """A run that another one has overtaken under `allow` is active too."""
        number = await scheduled(bench, HOLD_FIRST, {**HOURLY, "overlap": "allow"})
        await later(bench, HOUR)
        await bench.until("it")
        await later(bench, HOUR)
        await bench.ended(slot_run_id(number, slot(2)))
        await bench.core.workflows.patch(bench.me, number, trigger=HOURLY)
        await bench.core.workflows.deploy(bench.me, number)
        await later(bench, HOUR)
        assert await missed(bench, number) == (Missed(ms(slot(3)), "overlap"),)

    async def test_a_run_of_a_clock_that_was_ahead(self, bench: Bench) -> None:
        """The run of a slot that is still to come is active, also after the slots before it were looked at again."""
        number = await scheduled(bench, HOLD)
        await later(bench, HOUR)
        bench.tools.free["it"].set()
        await bench.ended(slot_run_id(number, slot(1)))
        bench.tools.free["it"].clear()
        bench.clock.step(2 * HOUR)
        await bench.core.scheduler.fire_due()
        bench.clock.step(-2.5 * HOUR)
        await bench.core.scheduler.fire_due()
        await later(bench, HOUR)
        await later(bench, HOUR)
        assert (await missed(bench, number))[-1] == Missed(ms(slot(2)), "overlap")

    async def test_runs_that_no_slot_started(self, bench: Bench) -> None:
        """A run that a person started, and those of another workflow's schedule, block no slot."""
        other, number = await scheduled(bench, HOLD), await scheduled(bench, HOLD_FIRST)
        await bench.core.runs.start(bench.me, workflow=other, input={})
        await bench.until("it")
        for _ in range(2):
            await later(bench, HOUR)
        assert await run_ids(bench, number) >= {slot_run_id(number, slot(1))}
        assert await missed(bench, other) == (Missed(ms(slot(2)), "overlap"),)


class TestUsedSlots:
    """A slot whose run exists, because another process started it or this one ended before it advanced the timer."""

    async def test_started_by_another_process_meanwhile(self, bench: Bench) -> None:
        """The run of a slot is no reason to skip that slot."""
        number = await scheduled(bench, HOLD)
        before = await timer(bench, number)
        assert before
        await later(bench, HOUR)
        await bench.until("it")
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.schedules.put(before)
        journal = bench.core.ports.journal
        find, looks = journal.find_run, iter([None])

        async def find_run(org: str, run_id: str) -> RunRow | None:
            """Nothing is found at the first look, as before the other process writes."""
            return next(looks) if looks.__length_hint__() else await find(org, run_id)

        journal.find_run = find_run  # type: ignore[method-assign]
        await later(bench, 1)
        assert (await missed(bench, number), looks.__length_hint__()) == ((), 0)

    async def test_deployed_by_another_member_meanwhile(self, bench: Bench) -> None:
        """The run of the deployer before belongs to the slot: the slot was not missed."""
        number = await scheduled(bench)
        before = await timer(bench, number)
        assert before
        await later(bench, HOUR)
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.schedules.put(before)
        await bench.core.workflows.patch(bench.me, number, structure=HOLD)
        await bench.core.workflows.deploy(bench.other, number)
        await later(bench, 1)
        found = await timer(bench, number)
        assert found
        assert (found.missed, found.last_run_id) == ((), slot_run_id(number, slot(1)))

    async def test_deployed_and_started_by_others_meanwhile(self, bench: Bench) -> None:
        """The same if that run began after this process had looked for one."""
        number = await scheduled(bench)
        before = await timer(bench, number)
        assert before
        await later(bench, HOUR)
        await bench.ended(slot_run_id(number, slot(1)))
        await bench.core.workflows.patch(bench.me, number, structure=HOLD)
        await bench.core.workflows.deploy(bench.other, number)
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.schedules.put(before)
        journal = bench.core.ports.journal
        find, looks = journal.find_run, iter([None])

        async def find_run(org: str, run_id: str) -> RunRow | None:
            return next(looks) if looks.__length_hint__() else await find(org, run_id)

        journal.find_run = find_run  # type: ignore[method-assign]
        await later(bench, 1)
        found = await timer(bench, number)
        assert found
        assert (found.missed, found.last_run_id) == ((), slot_run_id(number, slot(1)))


STEPS = st.lists(st.sampled_from(["slot", "approve", "release", "cancel", "toggle", "allow", "skip"]), max_size=25)


@attrs.define
class _Walk:
    """A workflow whose runs wait for an approval and then in a call, and what its schedule is expected to do."""

    bench: Bench
    number: int
    overlap: str = "skip"
    hours: int = 0

    async def active(self) -> list[Any]:
        return [run for run in await history(self.bench, self.number) if run.status in ("queued", "running")]

    async def slot(self) -> None:
        self.hours += 1
        run_id, blocked = slot_run_id(self.number, slot(self.hours)), self.overlap == "skip" and await self.active()
        await later(self.bench, HOUR)
        assert (run_id in await run_ids(self.bench, self.number)) is not bool(blocked)
        skipped = Missed(ms(slot(self.hours)), "overlap") in await missed(self.bench, self.number)
        assert skipped is bool(blocked)
        if not blocked:
            await self.bench.ended(run_id)

    async def approve(self) -> None:
        """Let the oldest parked run continue."""
        rows = [run for run in await history(self.bench, self.number) if run.interrupts and not run.row.resumed_by]
        for run in rows[-1:]:
            await self.bench.core.runs.resume(self.bench.me, run.id, decision="approve")

    async def release(self) -> None:
        """Let every active run end."""
        running = await self.active()
        self.bench.tools.free["it"].set()
        for run in running:
            await self.bench.ended(run)
        self.bench.tools.free["it"].clear()

    async def cancel(self) -> None:
        for run in (await self.active())[:1]:
            await self.bench.core.runs.cancel(self.bench.me, run.id)
            await self.bench.ended(run)

    async def toggle(self) -> None:
        for _ in range(2):
            await self.bench.core.workflows.toggle(self.bench.me, self.number)

    async def allow(self) -> None:
        await self._deploy("allow")

    async def skip(self) -> None:
        await self._deploy("skip")

    async def _deploy(self, overlap: str) -> None:
        self.overlap = overlap
        await self.bench.core.workflows.patch(self.bench.me, self.number, trigger={**HOURLY, "overlap": overlap})
        await self.bench.core.workflows.deploy(self.bench.me, self.number)


class TestRule:
    """The rule as a whole."""

    @settings(max_examples=60)
    @given(STEPS)
    async def test_in_any_history(self, steps: list[str]) -> None:
        """A slot fires if and only if no run of the schedule is active, or they may overlap."""
        async with opened("sqlite://") as bench:
            walk = _Walk(bench, await scheduled(bench, ASK_AND_HOLD))
            for step in steps:
                await getattr(walk, step)()
