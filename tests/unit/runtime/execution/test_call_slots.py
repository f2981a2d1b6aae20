"""Calls with a `concurrencyKey`: at most so many of an organization are in progress at once; the others wait."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from bench import Bench, Toolbox, act, graph, one, opened

from wfcore.adapters.dispatch import embedded
from wfcore.adapters.tools.catalog import tool
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import Append, ExecutionRef
from wfcore.runtime.common.run_views import RunView
from wfcore.testing.contracts.dispatcher import eventually
from wfcore.testing.fakes import FakeClock, SequentialIds

pytestmark = pytest.mark.anyio

KEY = {"concurrencyKey": "crm"}


class Counted:
    """A tool that counts its calls in progress by name, and yields to the event loop while it works."""

    def __init__(self) -> None:
        self.now, self.most = Counter[str](), Counter[str]()
        self.order: list[Any] = []

    def all(self, *, idempotent: bool = True) -> list[Any]:
        @tool(idempotent=idempotent)
        async def work(name: str, item: Any = None) -> Any:
            self.order.append(item)
            self.now[name] += 1
            self.most[name] = max(self.most[name], self.now[name])
            for _ in range(20):
                await asyncio.sleep(0)
            self.now[name] -= 1
            return item

        return [work, *Toolbox().all()]


async def waits(bench: Bench, run: RunView) -> bool:
    """Whether no worker holds the run, which waits."""
    found = await bench.core.ports.journal.progress(run.row.execution)
    return found.claimed_by is None and bool(found.wake_at)


async def waiting(bench: Bench, flow: int) -> RunView:
    """A new run, once it waits."""
    run: RunView = await bench.core.runs.start(bench.me, workflow=flow, input={})
    await eventually(lambda: waits(bench, run))
    return run


async def test_a_call_waits_for_a_slot(database: str) -> None:
    """Without a worker, without an attempt; it begins as soon as the other has ended, in the order of coming."""
    async with opened(database) as bench:
        flow = await bench.deployed(one(act("hold", more=KEY)))
        first = await bench.core.runs.start(bench.me, workflow=flow, input={})
        await bench.until("it")
        second, third = [await waiting(bench, flow) for _ in range(2)]
        assert bench.tools.count("hold") == 1
        bench.tools.free["it"].set()
        assert [(await bench.ended(run)).status for run in (first, second, third)] == ["done"] * 3
        assert bench.tools.count("hold") == 3
        shown: Any = (await bench.core.runs.graph(bench.me, third.id)).to_wire()
        assert [visit["attempts"] for node in shown["nodes"] for visit in node["visits"]] == [1, 1]


@pytest.mark.parametrize("idempotent", [True, False], ids=["again", "once"])
async def test_items_share_the_limit(database: str, idempotent: bool) -> None:
    """Of several runs and of the items of a list, each by the key of its item; results keep their order."""
    counted = Counted()
    each = {"forEach": "[1, 2, 3, 4, 5, 6]", "concurrencyKey": "k-{{ item % 2 }}", "concurrencyLimit": 2}
    node = act("work", name="k-{{ item % 2 }}", item="{{ item }}", more=each)
    async with opened(database, tools=counted.all(idempotent=idempotent)) as bench:
        flow = await bench.deployed(one(node))
        runs = [await bench.core.runs.start(bench.me, workflow=flow, input={}) for _ in range(4)]
        ended = [await bench.ended(run) for run in runs]
        assert [run.output for run in ended] == [[1, 2, 3, 4, 5, 6]] * 4
        assert set(counted.most) == {"k-0", "k-1"}
        assert max(counted.most.values()) <= 2
        assert len(counted.order) == 24


async def test_as_many_calls_as_the_limit_begin(database: str) -> None:
    """The next one waits for the first that ends."""
    two = {**KEY, "concurrencyLimit": 2}
    async with opened(database) as bench:
        for name in ("a", "b"):
            await bench.started(one(act("hold", name=name, more=two)))
            await bench.until(name)
        third = await bench.started(one(act("echo", value=1, more=two)))
        await eventually(lambda: waits(bench, third))
        assert not bench.tools.count("echo")
        bench.tools.free["b"].set()
        assert (await bench.ended(third)).status == "done"
        bench.tools.free["a"].set()


async def test_a_slot_is_free_while_a_retry_waits(database: str) -> None:
    """Each attempt needs a slot of its own, so another run can begin in between."""
    retry = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 60}}
    async with opened(database) as bench:
        failing = await bench.started(one(act("flaky", more={**KEY, **retry})))
        await eventually(lambda: waits(bench, failing))
        other = await bench.ran(one(act("echo", value=1, more=KEY)))
        assert (other.status, bench.tools.count("flaky")) == ("done", 1)
        bench.clock.advance(61)
        assert (await bench.ended(failing)).output == 2


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_the_end_of_a_run_frees_its_slot(database: str, how: str) -> None:
    """Whichever way it ends; also a run that waits leaves its place."""
    beside = {"b": act("flaky", fails=9)} if how == "failed" else {"b": act("echo")}
    structure = graph("s>a s>b", a=act("hold", more=KEY), **beside)
    async with opened(database) as bench:
        flow = await bench.deployed(one(act("hold", name="late", more=KEY)))
        if how == "failed":
            first = await bench.ran(structure)
            assert first.status == "error"
        else:
            first = await bench.started(structure)
            await bench.until("it")
            leaving, staying = [await waiting(bench, flow) for _ in range(2)]
            for run in (leaving, first):
                await bench.core.runs.cancel(bench.me, run.id)
            await bench.until("late")
            bench.tools.free["late"].set()
            assert (await bench.ended(staying)).status == "done"
            return
        bench.tools.free["late"].set()
        run = await bench.core.runs.start(bench.me, workflow=flow, input={})
        assert (await bench.ended(run)).status == "done"


async def test_a_run_with_other_work_gets_a_slot(database: str) -> None:
    """A run that waits and works at the same time is notified too: its worker keeps it."""
    async with opened(database) as bench:
        first = await bench.started(one(act("hold", more=KEY)))
        await bench.until("it")
        both = graph("s>a s>b", a=act("echo", value=7, more=KEY), b=act("hold", name="beside"))
        run = await bench.started(both)
        await bench.until("beside")
        assert not bench.tools.count("echo")
        bench.tools.free["it"].set()
        assert (await bench.ended(first)).status == "done"
        await eventually(lambda: bench.tools.count("echo"))
        bench.tools.free["beside"].set()
        assert (await bench.ended(run)).status == "done"


async def test_a_slot_that_gets_free_while_a_call_asks_for_one(database: str) -> None:
    """A run with other work notices it, although its wake-up comes before the answer to its question."""
    async with opened(database) as bench:
        first = await bench.started(one(act("hold", more=KEY)))
        await bench.until("it")
        journal = bench.core.ports.journal
        take = journal.take_slot

        async def answered_late(*given: Any) -> int:
            if before := await take(*given):
                bench.tools.free["it"].set()
                await bench.ended(first)
            return before

        journal.take_slot = answered_late  # type: ignore[method-assign]
        run = await bench.started(graph("s>a s>b", a=act("echo", more=KEY), b=act("hold", name="beside")))
        await eventually(lambda: bench.tools.count("echo"))
        bench.tools.free["beside"].set()
        assert (await bench.ended(run)).status == "done"


async def test_a_slot_that_gets_free_while_a_run_begins_to_wait(database: str) -> None:
    """The run goes on at once, although nobody else tells it: another process freed the slot, which then ended."""
    async with opened(database) as bench:
        journal = bench.core.ports.journal
        held = (await bench.started(one(act("hold")))).row.execution
        await bench.until("it")
        found = await journal.execution(held)
        assert await journal.take_slot(held, "a", ("crm", 1), found.claimed_by) == 0
        append = journal.append

        async def freed_before(ref: ExecutionRef, given: Any) -> Any:
            if getattr(given, "awaits", ()):
                await append(held, Append(found.length, (), slots=()))
                journal.take_admitted()
            return await append(ref, given)

        journal.append = freed_before  # type: ignore[method-assign]
        assert (await bench.ran(one(act("echo", value=1, more=KEY)))).output == 1
        bench.tools.free["it"].set()


async def test_processes_share_the_slots(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of two processes on one store: never more calls than the limit, and every run ends."""
    monkeypatch.setattr(embedded, "STUCK_AFTER", 1e9)  # the clock goes on while a busy machine writes no heartbeat
    clock, counted = FakeClock(), Counted()
    shared: dict[str, Any] = {"tools": counted.all(), "clock": clock, "ids": SequentialIds()}
    each = {"forEach": "[1, 2, 3]", "concurrencyKey": "k", "concurrencyLimit": 2}
    async with opened(database, **shared) as bench, opened(database, org=bench.org, **shared) as again:
        flow = await bench.deployed(one(act("work", name="k", more=each)))
        runs = [await one_of.core.runs.start(one_of.me, workflow=flow, input={}) for one_of in [bench, again] * 4]

        async def ended() -> bool:
            clock.advance(1)
            return all([(await bench.core.runs.get(bench.me, run.id)).status == "done" for run in runs])

        await eventually(ended)
        assert counted.most["k"] <= 2
        assert len(counted.order) == 24


async def test_a_new_process_has_the_slots_of_the_one_before(database: str) -> None:
    """A call that was in progress keeps its slot; what waited waits on."""
    clock = FakeClock()
    async with opened(database, clock=clock) as bench:
        flow = await bench.deployed(one(act("hold", more=KEY)))
        first = await bench.core.runs.start(bench.me, workflow=flow, input={})
        await bench.until("it")
        second = await waiting(bench, flow)
    async with opened(database, clock=clock, org=bench.org) as again:
        await again.until("it")
        clock.advance(5)
        assert again.tools.count("hold") == 1
        again.tools.free["it"].set()
        assert [(await again.ended(run.id)).status for run in (first, second)] == ["done"] * 2


async def test_each_organization_has_its_slots() -> None:
    """The same key of another organization is another one."""
    async with opened("sqlite://") as bench:
        await bench.started(one(act("hold", more=KEY)))
        await bench.until("it")
        other = await bench.core.directory.create_organization("Other")
        me = bench.core.principal(other.uuid, "me", email="me@y.org")
        flow = await bench.core.workflows.create(me, name="F", structure=one(act("echo", value=3, more=KEY)))
        await bench.core.workflows.deploy(me, flow.id)
        assert await bench.core.runs.result(await bench.core.runs.start(me, workflow=flow.id, input={})) == 3


async def test_a_call_waits_for_its_slot_before_its_rate() -> None:
    """A call without a slot uses nothing of the rate of its tool, and one with a slot keeps it while the rate waits."""

    @tool(calls="1/minute", idempotent=True)
    async def look() -> int:
        return 1

    async with opened("sqlite://", tools=[look, *Toolbox().all()]) as bench:
        flow = await bench.deployed(one(act("look", more=KEY)))
        assert (await bench.ended(await bench.core.runs.start(bench.me, workflow=flow, input={}))).status == "done"
        runs = [await waiting(bench, flow) for _ in range(2)]
        for run in runs:
            bench.clock.advance(61)
            assert (await bench.ended(run)).status == "done"


async def test_a_store_that_is_away_delays_the_call(database: str) -> None:
    """It is made once the store is back, as the first attempt; the run goes on by itself."""
    async with opened(database) as bench:
        journal = bench.core.ports.journal
        take, failures = journal.take_slot, iter([Unavailable("the disk is full")])

        async def fail_once(*given: Any) -> int:
            for failure in failures:
                raise failure
            return await take(*given)

        journal.take_slot = fail_once  # type: ignore[method-assign]
        run = await bench.started(one(act("echo", value=1, more=KEY)))

        async def ended() -> bool:
            bench.clock.advance(1)
            return (await bench.core.runs.get(bench.me, run.id)).status == "done"

        await eventually(ended)
        assert [attempt for *_, attempt in bench.tools.calls] == [1]


async def test_a_slow_worker_begins_no_call(database: str) -> None:
    """A worker whose run was given to another one takes no slot: it drops the run."""
    async with opened(database) as bench:
        journal = bench.core.ports.journal
        take, conflicts = journal.take_slot, 0

        async def lose_first(ref: ExecutionRef, *given: Any) -> int:
            nonlocal conflicts
            if not conflicts:
                conflicts += 1
                assert await journal.release((await journal.execution(ref)).claimed_by)  # type: ignore[arg-type]
                bench.core.ports.dispatcher.wake(ref)
            return await take(ref, *given)

        journal.take_slot = lose_first  # type: ignore[method-assign]
        run = await bench.started(one(act("echo", value=1, more=KEY)))
        assert (await bench.ended(run)).output == 1
        assert bench.tools.count("echo") == 1
