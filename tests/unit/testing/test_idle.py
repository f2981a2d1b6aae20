"""`run_until_idle`: what it waits for, which time it skips, and what it says when a run does not end."""

import asyncio
from typing import Any

import pytest

import wfcore
from wfcore.testing import FakeClock, run_until_idle, sketch

pytestmark = pytest.mark.anyio

DAY = 86_400


async def started(core: wfcore.Core, *edges: str, **data: Any) -> tuple[wfcore.Principal, str]:
    """A run of a new workflow, and who started it."""
    org = await core.directory.create_organization("Acme")
    me = core.principal(org.uuid, "ann", email="ann@acme.example")
    flow = await core.workflows.create(me, name="Flow", structure=sketch(*edges, **data))
    await core.workflows.deploy(me, flow.id)
    return me, (await core.runs.start(me, workflow=flow.id, input={})).id


async def status(core: wfcore.Core, me: wfcore.Principal, run_id: str) -> str:
    return str((await core.runs.get(me, run_id)).status)


async def test_waits_are_skipped() -> None:
    """A wait of three days and one of an hour end at once, each at its time."""
    clock = FakeClock()
    begun = clock.now()
    waits = {name: {"toolId": "core.wait", "params": {"seconds": wait}} for name, wait in (("a", 3 * DAY), ("b", 3600))}
    async with wfcore.open("sqlite://", ports=wfcore.Overrides(clock=clock)) as core:
        me, run_id = await started(core, "s -> a", "a -> b", **waits)
        await run_until_idle(core)
        assert await status(core, me, run_id) == "done"
    assert clock.now() - begun == (3 * DAY + 3600) * 1000


async def test_a_retry_is_not_waited_for() -> None:
    """The pause before the next attempt is skipped."""
    attempts = list[int]()

    async def flaky(call: wfcore.ToolCall) -> str:
        attempts.append(call.attempt)
        if call.attempt < 3:
            raise OSError("away")
        return "here"

    retry = {"maxAttempts": 3, "initialIntervalSeconds": 600}
    async with wfcore.open("sqlite://", tools=[flaky], ports=wfcore.Overrides(clock=FakeClock())) as core:
        me, run_id = await started(core, "s -> a", a={"toolId": "flaky", "retry": retry})
        await run_until_idle(core)
        assert (await core.runs.get(me, run_id)).output == "here"
    assert attempts == [1, 2, 3]


async def test_a_deadline_of_a_person_is_not_skipped() -> None:
    """An approval stays open until the test advances the clock itself; then its deadline passes."""
    clock = FakeClock()
    async with wfcore.open("sqlite://", ports=wfcore.Overrides(clock=clock)) as core:
        me, run_id = await started(core, "s -> ask", ask={"type": "humanApproval", "timeoutSeconds": DAY})
        await run_until_idle(core)
        assert await status(core, me, run_id) == "interrupted"
        clock.advance(DAY)
        await run_until_idle(core)
        last = (await core.runs.get(me, run_id)).resumed_by
        assert last is not None
        assert await status(core, me, last) == "done"


async def test_slow_tools_are_waited_for_in_real_time() -> None:
    """A tool under way is not a wait: the clock stands still until it returns, also beside a wait."""
    clock = FakeClock()
    seen = list[int]()

    def slow() -> None:
        """Runs in a worker thread."""
        seen.append(clock.now())

    async with wfcore.open("sqlite://", tools=[slow], ports=wfcore.Overrides(clock=clock)) as core:
        begun = clock.now()
        wait = {"toolId": "core.wait", "params": {"seconds": 60}}
        me, run_id = await started(core, "s -> a", "s -> b", a={"toolId": "slow"}, b=wait)
        await run_until_idle(core)
        assert await status(core, me, run_id) == "done"
    assert seen == [begun]


async def test_handlers_of_events_are_called() -> None:
    """A handler has been called for what has happened, before the core counts as idle."""
    events = list[str]()
    async with wfcore.open("sqlite://", ports=wfcore.Overrides(clock=FakeClock())) as core:
        core.on("interrupt.opened", lambda event: events.append(event.type), name="opened")
        core.on("run.finished", lambda event: events.append(event.type), name="finished")
        await run_until_idle(core)
        me, run_id = await started(core, "s -> ask", ask={"type": "humanApproval"})
        await run_until_idle(core)
        await core.runs.resume(me, run_id, decision="approve")
        await run_until_idle(core)
    assert events == ["interrupt.opened", "run.finished"]


async def test_a_due_schedule_fires() -> None:
    """After the clock was advanced to a slot, its run starts and ends."""
    clock = FakeClock()
    cron = {"frequency": "custom", "timezone": "UTC", "cron_expressions": ["0 12 * * *"], "cron_description": "noon"}
    trigger = {"trigger_type": "schedule", "schedule": cron}
    async with wfcore.open("sqlite://", ports=wfcore.Overrides(clock=clock)) as core:
        org = await core.directory.create_organization("Acme")
        await core.directory.add_member(org.uuid, "ann", "ann@acme.example")
        me = core.principal(org.uuid, "ann", email="ann@acme.example")
        data = {"toolId": "core.transform", "params": {"value": 1}}
        flow = await core.workflows.create(me, name="Daily", trigger=trigger, structure=sketch("s -> a", a=data))
        await core.workflows.deploy(me, flow.id)
        await core.workflows.toggle(me, flow.id, is_enabled=True)
        await run_until_idle(core)
        clock.advance(DAY)
        await run_until_idle(core)
        assert await status(core, me, "schedule-1-20260102T1200Z") == "done"


async def test_a_run_that_does_not_end_is_named() -> None:
    """After the time-out the error names the run."""
    free = asyncio.Event()

    async def hold() -> None:
        await free.wait()

    async with wfcore.open("sqlite://", tools=[hold], ports=wfcore.Overrides(clock=FakeClock())) as core:
        _, run_id = await started(core, "s -> a", a={"toolId": "hold"})
        with pytest.raises(TimeoutError, match=run_id):
            await run_until_idle(core, timeout=0.05)
        free.set()
        await run_until_idle(core)


async def test_another_clock_is_refused() -> None:
    """Time that passes by itself cannot be skipped."""
    async with wfcore.open("sqlite://", worker=False) as core:
        with pytest.raises(TypeError, match="`FakeClock`"):
            await run_until_idle(core)
