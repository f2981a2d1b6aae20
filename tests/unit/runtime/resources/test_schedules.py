"""Schedules that do not fire: overlapping slots, automatic pauses, and their reasons."""

import asyncio
from typing import Any

import pytest
from bench import Bench, act, graph, one, paths, private, start
from scheduling import (
    HOLD,
    HOUR,
    HOURLY,
    PLAIN,
    history,
    later,
    ms,
    run_ids,
    scheduled,
    slot,
    timer,
)

from wfcore.domain.kernel.errors import Invalid, Malformed
from wfcore.ports.repositories.audit import AuditFilter
from wfcore.ports.repositories.schedules import Missed
from wfcore.runtime.triggers.scheduler import slot_run_id

pytestmark = pytest.mark.anyio


class TestOverlap:
    """While the previous slot's run is active."""

    async def test_overlap_allow(self, bench: Bench) -> None:
        """With `overlap: allow` a slot fires while the previous run is active; a deploy can take that back."""
        number = await scheduled(bench, HOLD, {**HOURLY, "overlap": "allow"})
        await later(bench, HOUR)
        await bench.until("it")
        await later(bench, HOUR)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(n)) for n in (1, 2)}
        view = await bench.core.workflows.schedule(bench.me, number)
        assert view.timer
        assert (view.overlap, view.timer.missed) == ("allow", ())
        await bench.core.workflows.patch(bench.me, number, trigger={**HOURLY, "overlap": "skip"})
        await bench.core.workflows.deploy(bench.me, number)
        await later(bench, HOUR)
        found = await timer(bench, number)
        assert found
        assert found.missed == (Missed(ms(slot(3)), "overlap"),)

    @pytest.mark.parametrize(("overlap", "error"), [("queue", Invalid), ("", Invalid), (True, Malformed)])
    async def test_an_unknown_policy(self, bench: Bench, overlap: Any, error: type[Exception]) -> None:
        """Only `skip` and `allow` are policies of a schedule; for another trigger the key is opaque."""
        with pytest.raises(error) as found:
            await bench.core.workflows.create(bench.me, name="f", trigger={**HOURLY, "overlap": overlap})
        assert {path for path, _ in paths(found)} == {"trigger.overlap"}
        await bench.core.workflows.create(bench.me, name="f", trigger={"trigger_type": "api", "overlap": overlap})


class TestPause:
    """A schedule that cannot fire is disabled automatically, with a reason."""

    async def paused(self, bench: Bench, number: int) -> str:
        """Why it is paused; that it is, and that this was written down."""
        view = await bench.core.workflows.schedule(bench.me, number)
        assert not view.is_enabled
        assert view.timer
        assert (view.timer.next_at, view.timer.missed[-1].reason) == (None, "refused")
        assert await history(bench, number) == []
        async with bench.core.ports.storage.reading(bench.org) as work:
            rows = await work.audit.page(AuditFilter(action="workflow.pause"), limit=9, before=None)
        assert view.paused
        reason, message = view.paused
        assert [(row.resource_id, row.details) for row in rows] == [
            (str(number), {"reason": reason, "message": message})
        ]
        assert view.to_wire()["paused"] == rows[0].details
        return reason

    async def test_the_deployer_is_not_a_member_any_more(self, bench: Bench) -> None:
        """It fires again when another member deploys and enables it."""
        await bench.core.directory.add_member(bench.org, "me")
        number = await scheduled(bench, by=bench.other)
        await later(bench, HOUR)
        assert await self.paused(bench, number) == "deployer_gone"
        flows = bench.core.workflows
        await flows.patch(bench.me, number, structure=one(act("echo", value=1)))
        await flows.deploy(bench.me, number)
        await flows.toggle(bench.me, number)
        found = await timer(bench, number)
        assert found
        assert (found.paused, len(found.missed)) == (None, 1)
        await later(bench, HOUR)
        assert await run_ids(bench, number) == {slot_run_id(number, slot(2))}

    async def test_the_deployer_lost_access(self, bench: Bench) -> None:
        """The member's current groups and addresses decide."""
        for name in ("me", "other"):
            await bench.core.directory.add_member(bench.org, name)
        number = await scheduled(bench, by=bench.other)
        await bench.core.workflows.patch(bench.me, number, accessConfig=private())
        await later(bench, HOUR)
        assert await self.paused(bench, number) == "deployer_lost_access"

    async def test_an_input_that_is_refused(self, bench: Bench) -> None:
        """A start node that requires more than `{}` has no scheduled runs."""
        structure = graph("s>a", s=start(type="object", required=["n"]), a=act("echo", value=1))
        number = await scheduled(bench, structure)
        await later(bench, HOUR)
        assert await self.paused(bench, number) == "input_refused"

    async def test_a_run_id_that_is_taken(self, bench: Bench) -> None:
        """The slot is refused and the next one fires: another user's run does not count as the slot's."""
        number = await scheduled(bench)
        await bench.core.runs.start(bench.other, workflow=number, input={}, key=slot_run_id(number, slot(1)))
        await later(bench, HOUR)
        found = await timer(bench, number)
        assert found
        assert found.missed == (Missed(ms(slot(1)), "refused"),)
        await later(bench, HOUR)
        assert slot_run_id(number, slot(2)) in await run_ids(bench, number)


class TestWhyNothingFires:
    """`paused` says why there is no next slot."""

    async def test_each_reason(self, bench: Bench) -> None:
        """Through the lifecycle of a workflow: never deployed, off, on, without schedule, deleted."""
        flows, reasons = bench.core.workflows, list[Any]()
        number = (await flows.create(bench.me, name="f", structure=PLAIN, trigger=HOURLY)).id

        async def after(step: Any = None) -> None:
            await (step or asyncio.sleep(0))
            view = await flows.schedule(bench.me, number)
            reasons.append(view.paused and view.paused[0])
            assert (view.to_wire()["nextAt"] is None) == (view.paused is not None)

        async def deploy(trigger: Any) -> None:
            await flows.patch(bench.me, number, trigger=trigger)
            await flows.deploy(bench.me, number)

        await after()
        await after(flows.deploy(bench.me, number))
        await after(flows.toggle(bench.me, number))
        await after(deploy({"trigger_type": "manual"}))
        await after(flows.delete(bench.me, number))
        await after(flows.restore(bench.me, number))
        assert reasons == ["not_deployed", "disabled", None, "no_schedule", "deleted", "no_schedule"]

    async def test_a_paused_schedule_of_a_deleted_workflow(self, bench: Bench) -> None:
        """Deleted, its reason is the deletion; restored, it is the reason of the pause again."""
        await bench.core.directory.add_member(bench.org, "me")
        number = await scheduled(bench, by=bench.other)
        await later(bench, HOUR)
        for step, reason in (("delete", "deleted"), ("restore", "deployer_gone")):
            await getattr(bench.core.workflows, step)(bench.me, number)
            view = await bench.core.workflows.schedule(bench.me, number)
            assert view.paused
            assert view.paused[0] == reason
