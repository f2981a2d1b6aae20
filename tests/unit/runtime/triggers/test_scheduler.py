"""Schedules that fire: once per slot, in time or not at all, and with the deployer's access."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench, act, eventually, one, opened, private
from scheduling import (
    DAY,
    HOLD,
    HOUR,
    HOURLY,
    MINUTE,
    MINUTELY,
    PLAIN,
    history,
    later,
    ms,
    run_ids,
    schedule,
    scheduled,
    slot,
    timer,
)

from wfcore.domain.kernel.errors import Invalid, NotFound
from wfcore.domain.triggers import schedule as schedules_of_domain
from wfcore.ports.repositories.schedules import Missed, Timer
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.triggers.scheduler import MISSED_KEPT, slot_run_id
from wfcore.testing.fakes import NOON, FakeClock

pytestmark = pytest.mark.anyio


class TestFire:
    """A due slot starts one run."""

    async def test_a_slot_starts_a_run(self, bench: Bench) -> None:
        """As the deployer, with the input `{}` and `run.scheduledAt`; not before its time, and once."""
        number = await scheduled(bench, by=bench.other)
        await later(bench, HOUR - 1)
        assert await run_ids(bench, number) == set()
        await later(bench, 1)
        await later(bench, 1)
        (run,) = await history(bench, number)
        assert run.id == f"schedule-{number}-20260101T1300Z"
        done = await bench.ended(run)
        assert (done.row.user_id, done.status) == ("other", "done")
        assert "2026-01-01T13:00:00.000Z" in str(done.output)
        assert await timer(bench, number) == Timer(
            number, (await bench.core.workflows.get(bench.me, number)).resource.active_variation_id or "",
            ms(slot(2)), None, run.id,
        )  # fmt: skip

    async def test_slots_fire_without_a_request(self, database: str) -> None:
        """The open core polls once a second."""
        async with opened(database, polls=True) as bench:
            number = await scheduled(bench)
            for hours in (1, 2):
                bench.clock.advance(HOUR)
                wanted = slot_run_id(number, slot(hours))

                async def is_there(wanted: str = wanted) -> bool:
                    bench.clock.advance(1)
                    return wanted in await run_ids(bench, number)

                await eventually(is_there)
                await bench.ended(wanted)
            assert len(await history(bench, number)) == 2

    async def test_each_workflow_has_a_timer_of_its_own(self, bench: Bench) -> None:
        """Two schedules fire at their own times; one that cannot be served does not delay the other."""
        first, second = await scheduled(bench), await scheduled(bench, trigger=schedule("30 * * * *"))
        await later(bench, HOUR / 2)
        assert [len(await history(bench, number)) for number in (first, second)] == [0, 1]
        await later(bench, HOUR / 2)
        assert [len(await history(bench, number)) for number in (first, second)] == [1, 1]


class TestSwitch:
    """The timer follows the workflow, in the same transaction."""

    @pytest.mark.parametrize("off", ["toggle", "delete", "restore", "rollback", "deploy"])
    async def test_a_disabled_schedule_does_not_fire(self, bench: Bench, off: str) -> None:
        """After toggle, delete (also after restore), and a deploy or rollback to content without a schedule."""
        flows = bench.core.workflows
        number = (await flows.create(bench.me, name="f", structure=PLAIN)).id
        await flows.deploy(bench.me, number)
        first = (await flows.get(bench.me, number)).resource.active_variation_id
        await flows.patch(bench.me, number, trigger=HOURLY)
        await flows.deploy(bench.me, number)
        await flows.toggle(bench.me, number)
        assert await timer(bench, number)
        ways: dict[str, list[Callable[[], Any]]] = {
            "toggle": [lambda: flows.toggle(bench.me, number)],
            "delete": [lambda: flows.delete(bench.me, number)],
            "restore": [lambda: flows.delete(bench.me, number), lambda: flows.restore(bench.me, number)],
            "rollback": [lambda: flows.rollback(bench.me, number, variation_id=first)],
            "deploy": [lambda: flows.patch(bench.me, number, trigger=None), lambda: flows.deploy(bench.me, number)],
        }
        for step in ways[off]:
            await step()
        assert await timer(bench, number) is None
        await later(bench, 3 * HOUR)
        assert await history(bench, number) == []

    async def test_a_deploy_with_another_schedule_sets_the_timer(self, bench: Bench) -> None:
        """The new schedule applies from the deploy on; that of a draft does not."""
        flows, number = bench.core.workflows, await scheduled(bench)
        await flows.patch(bench.me, number, trigger=schedule("30 * * * *"))
        found = await timer(bench, number)
        assert found
        assert found.next_at == ms(slot(1))
        await flows.deploy(bench.me, number)
        found = await timer(bench, number)
        assert found
        assert found.next_at == ms(slot(0.5))

    async def test_a_deploy_with_the_same_schedule_loses_no_slot(self, bench: Bench) -> None:
        """A slot that is due when other content is deployed still fires, with that content."""
        flows, number = bench.core.workflows, await scheduled(bench)
        await flows.patch(bench.me, number, structure=one(act("echo", value="new")))
        bench.clock._now += HOUR * 1000  # nobody wakes up
        await flows.deploy(bench.me, number)
        await bench.core.scheduler.fire_due()
        run = await bench.ended(slot_run_id(number, slot(1)))
        assert "new" in str(run.output)

    async def test_a_slot_before_a_deploy_with_another_schedule_fires(self, bench: Bench) -> None:
        """With the new content. The slots of the new schedule count from the deploy on."""
        flows, number = bench.core.workflows, await scheduled(bench)
        await flows.patch(bench.me, number, trigger=schedule("30 * * * *"), structure=one(act("echo", value="new")))
        bench.clock._now += (2 * HOUR + 45 * MINUTE) * 1000  # nobody wakes up
        await flows.deploy(bench.other, number)
        await bench.core.scheduler.fire_due()
        run = await bench.ended(slot_run_id(number, slot(2)))
        assert ("new" in str(run.output), run.row.user_id) == (True, "other")
        found = await timer(bench, number)
        assert found
        assert (found.missed, found.next_at) == ((Missed(ms(slot(1)), "late"),), ms(slot(3.5)))
        await later(bench, HOUR)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(hours)) for hours in (2, 3.5)}

    async def test_a_slot_before_a_deploy_with_another_description_fires(self, bench: Bench) -> None:
        """So does the next one, after a second deploy."""
        flows, number = bench.core.workflows, await scheduled(bench)
        for hours in (1, 2):
            bench.clock._now += HOUR * 1000
            text = {**HOURLY["schedule"], "cron_description": f"in words {hours}"}
            await flows.patch(bench.me, number, trigger={**HOURLY, "schedule": text, "overlap": "allow"})
            await flows.deploy(bench.me, number)
            await bench.core.scheduler.fire_due()
            assert slot_run_id(number, slot(hours)) in await run_ids(bench, number)

    async def test_edits_do_not_change_the_timer(self, bench: Bench) -> None:
        """A new name, other access or a draft has no effect on the schedule."""
        flows, number = bench.core.workflows, await scheduled(bench)
        before = await timer(bench, number)
        bench.clock._now += 10 * MINUTE * 1000
        await flows.patch(bench.me, number, name="g", accessConfig=private("other@x.org"))
        await flows.patch(bench.me, number, structure=HOLD)
        assert await timer(bench, number) == before

    async def test_hidden_and_unknown_schedules_are_not_found(self, bench: Bench) -> None:
        """A caller who cannot see the workflow cannot see its schedule."""
        number = await scheduled(bench, accessConfig=private())
        for caller, wanted in ((bench.other, number), (bench.me, 99)):
            with pytest.raises(NotFound):
                await bench.core.workflows.schedule(caller, wanted)


class TestUnknownZone:
    """A time zone database of a later release can lack a zone."""

    async def test_the_schedule_is_paused(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It says why, has no next times, and is switched on again with another zone only."""
        trigger = {**HOURLY, "schedule": {**HOURLY["schedule"], "timezone": "Europe/Kyiv"}}
        number, flows = await scheduled(bench, trigger=trigger), bench.core.workflows
        monkeypatch.setattr(schedules_of_domain, "time_zones", lambda: frozenset({"UTC"}))
        assert await flows.next_runs(bench.me, number) == []
        await later(bench, HOUR)
        view = await flows.schedule(bench.me, number)
        assert view.paused == ("unknown_timezone", "this installation does not know the time zone `Europe/Kyiv`")
        assert view.timer is not None
        assert [(one.at, one.reason) for one in view.timer.missed] == [(ms(slot(1)), "refused")]
        assert not view.is_enabled
        with pytest.raises(Invalid) as refused:
            await flows.toggle(bench.me, number, is_enabled=True)
        assert [issue["path"] for issue in refused.value.info["errors"]] == ["trigger.schedule.timezone"]
        await flows.patch(bench.me, number, trigger=HOURLY)
        await flows.deploy(bench.me, number)
        await flows.toggle(bench.me, number, is_enabled=True)
        await later(bench, HOUR)
        assert slot_run_id(number, slot(2)) in await run_ids(bench, number)


class TestLate:
    """After a time without a worker."""

    async def test_the_latest_missed_slot_fires_and_the_others_are_listed(self, bench: Bench) -> None:
        """One run after a long pause; the other slots are listed as `late`."""
        number = await scheduled(bench)
        await later(bench, 3.5 * HOUR)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(3))}
        found = await timer(bench, number)
        assert found
        assert found.missed == (Missed(ms(slot(1)), "late"), Missed(ms(slot(2)), "late"))
        assert found.next_at == ms(slot(4))

    async def test_a_slot_too_old_does_not_fire(self, database: str) -> None:
        """After the catch-up window the latest slot is missed as well; at the very end of the window it still fires."""
        async with opened(database, settings=Settings(catch_up=600), worker=False) as bench:
            number = await scheduled(bench)
            await later(bench, HOUR + 601)
            assert await run_ids(bench, number) == set()
            await later(bench, HOUR - 1)
            assert await run_ids(bench, number) == {slot_run_id(number, slot(2))}
            found = await timer(bench, number)
            assert found
            assert found.missed == (Missed(ms(slot(1)), "late"),)

    async def test_a_long_pause_is_cheap(self, bench: Bench) -> None:
        """A year of a schedule of every minute costs little, and only the latest missed slots are kept."""
        number = await scheduled(bench, trigger=MINUTELY)
        await later(bench, 365 * DAY)
        found = await timer(bench, number)
        assert found
        newest = [one.at for one in found.missed]
        assert len(await history(bench, number)) == 1
        assert newest == [ms(slot(365 * 24)) - 60_000 * n for n in range(MISSED_KEPT - 1, 0, -1)]
        for _ in range(2):
            await bench.ended(found.last_run_id or "")
            await later(bench, 5 * MINUTE)
        found = await timer(bench, number)
        assert found
        assert len(found.missed) == MISSED_KEPT


class TestTwice:
    """A slot fires once, in any number of processes and after any crash."""

    async def test_two_cores_on_one_file(self, database: str) -> None:
        """Both see every slot; together they start it once and advance the timer once."""
        clock = FakeClock()
        async with opened(database, clock=clock) as here, opened(database, clock=clock, org=here.org) as there:
            number = await scheduled(here)
            for _ in range(5):
                clock.advance(HOUR)
                await asyncio.gather(here.core.scheduler.fire_due(), there.core.scheduler.fire_due())
                found = await timer(here, number)
                assert found
                await here.ended(found.last_run_id or "")
            assert await run_ids(here, number) == {slot_run_id(number, slot(n)) for n in range(1, 6)}
            assert found.missed == ()
            assert here.tools.count("echo") + there.tools.count("echo") == 5

    async def test_a_restart_in_between(self, database: str) -> None:
        """The timer outlives the process; a slot that became due meanwhile fires."""
        async with opened(database) as bench:
            org, number = bench.org, await scheduled(bench)
        async with opened(database, org=org, clock=FakeClock(NOON + HOUR * 1000)) as bench:
            await bench.core.scheduler.fire_due()
            assert await run_ids(bench, number) == {slot_run_id(number, slot(1))}

    async def test_a_process_beside_it_whose_clock_was_ahead(self, database: str) -> None:
        """It advanced the timer by a day, and died; the other one sets it back within an hour."""
        async with opened(database, worker=False) as here:
            number = await scheduled(here, trigger=MINUTELY)
            await here.core.scheduler.fire_due()
            clock = FakeClock(NOON + DAY * 1000)
            async with opened(database, org=here.org, clock=clock, worker=False) as ahead:
                await ahead.core.scheduler.fire_due()
            for _ in range(2):
                await later(here, HOUR)
            found = await timer(here, number)
            assert found
            assert found.next_at == NOON + (2 * HOUR + MINUTE) * 1000

    @pytest.mark.parametrize("silence", [0, 2 * HOUR])
    async def test_a_crash_between_start_and_advance(self, bench: Bench, silence: int) -> None:
        """The run exists and the timer is still on its slot: the slot neither fires again nor counts as missed."""
        number = await scheduled(bench)
        before = await timer(bench, number)
        assert before
        await later(bench, HOUR)
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.schedules.put(before)
        await bench.ended(slot_run_id(number, slot(1)))
        await later(bench, silence)
        found = await timer(bench, number)
        assert found
        assert slot(1) not in [slot((one.at - NOON) / 3_600_000) for one in found.missed]
        assert bench.tools.count("echo") == (1 if silence == 0 else 2)
        assert len(await history(bench, number)) == (1 if silence == 0 else 2)

    async def test_disabled_while_it_fires(self, bench: Bench) -> None:
        """A change of the timer during a slot wins."""
        number = await scheduled(bench)
        runs, flows = bench.core.runs, bench.core.workflows
        begun = runs.start_for

        async def start_for(*args: Any, **fields: Any) -> RunView:
            await flows.toggle(bench.me, number, is_enabled=False)
            return await begun(*args, **fields)

        bench.core.scheduler._runs.start_for = start_for  # type: ignore[method-assign, assignment]
        await later(bench, HOUR)
        assert await timer(bench, number) is None
        assert len(await history(bench, number)) == 1
