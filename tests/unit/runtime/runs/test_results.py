"""`core.runs.result`: the output when the execution has ended, however many turns it takes."""

import asyncio

import pytest
from bench import Bench, act, ask, graph, one, private
from waiting import HANG

import wfcore
from wfcore.domain.kernel.errors import Forbidden
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio

ASK = graph("s>a a:approved>b", a=ask(), b=act("echo", value="paid"))


async def waiting_for(bench: Bench, run: RunView) -> "asyncio.Task[object]":
    """A task that awaits the result, and has begun to wait."""
    task = asyncio.create_task(bench.core.runs.result(run))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


class TestResult:
    """The end of an execution."""

    async def test_the_output_of_a_run(self, bench: Bench) -> None:
        """As soon as the run ends, and again afterwards."""
        run = await bench.started(one(act("hold")))
        await bench.until("it")
        task = await waiting_for(bench, run)
        bench.tools.free["it"].set()
        async with asyncio.timeout(HANG):
            assert await task == "it"
            assert await bench.core.runs.result(run) == "it"

    async def test_it_follows_the_turns_that_resume(self, bench: Bench) -> None:
        """A parked run has no result yet; the result is that of the turn that ends the execution."""
        run = await bench.ended(await bench.started(ASK))
        task = await waiting_for(bench, run)
        await bench.core.runs.resume(bench.me, run.id, decision="approve")
        async with asyncio.timeout(HANG):
            assert await task == "paid"

    async def test_it_makes_no_events(self, bench: Bench) -> None:
        """Waiting for the result is not a subscription, and a result leaves nothing behind."""
        run = await bench.started(one(act("hold")))
        await bench.until("it")
        task = await waiting_for(bench, run)
        assert not bench.core.ports.events.has_subscribers(run.row.execution)
        bench.tools.free["it"].set()
        async with asyncio.timeout(HANG):
            await task
        assert not bench.core.ports.events._watchers  # type: ignore[attr-defined]

    async def test_a_failed_run(self, bench: Bench) -> None:
        """RunFailed with the error of the record."""
        run = await bench.started(one(act("core.fail", message="no lamps left")))
        with pytest.raises(wfcore.RunFailed, match=r"run `.*` failed: .*no lamps left") as failed:
            await bench.core.runs.result(run, timeout=HANG)
        assert failed.value.error == (await bench.core.runs.get(bench.me, run.id)).error
        assert failed.value.run.status == "error"

    async def test_a_cancelled_run(self, bench: Bench) -> None:
        """RunCancelled, also for who waits already."""
        run = await bench.ended(await bench.started(ASK))
        task = await waiting_for(bench, run)
        await bench.core.runs.cancel(bench.me, run.id)
        with pytest.raises(wfcore.RunCancelled, match=f"run `{run.id}` was cancelled"):
            async with asyncio.timeout(HANG):
                await task

    async def test_a_timeout(self, bench: Bench) -> None:
        """TimeoutError that says which run has not ended, after how long, and what to do; the run goes on."""
        run = await bench.ended(await bench.started(ASK))
        told = rf"^run `{run.id}` has not ended after 0\.01 seconds: it goes on, so call `result` again, .*interrupts"
        with pytest.raises(TimeoutError, match=told):
            await bench.core.runs.result(run, timeout=0.01)
        assert (await bench.core.runs.get(bench.me, run.id)).status == "interrupted"

    async def test_an_approver_without_use(self, bench: Bench) -> None:
        """A view that hides the result is no proof: Forbidden."""
        approvers = {"emails": ["ann@x.org"]}
        number = await bench.deployed(graph("s>a", a=ask(approvers=approvers)), access=private())
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        view = await bench.core.runs.get(bench.person("ann"), run.id)
        with pytest.raises(Forbidden):
            await bench.core.runs.result(view)
