"""Rates of tools: a call above the rate waits, without a worker and without an attempt, and then begins."""

from typing import Any

import pytest
from bench import Bench, Toolbox, act, graph, one, opened

from wfcore.adapters.rate_limits.counts import MemoryRateLimiter
from wfcore.adapters.tools.catalog import tool
from wfcore.adapters.tools.functions import tool_of
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.run_views import RunView
from wfcore.testing.contracts.dispatcher import eventually
from wfcore.testing.fakes import FakeClock, SequentialIds

pytestmark = pytest.mark.anyio


class Letters:
    """Tools with a rate: a letter is sent once, a look can be repeated."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.looks = 0

    def all(self) -> list[Any]:
        @tool(calls="2/minute")
        async def send(name: str) -> str:
            self.sent.append((name, 1))
            return name

        @tool(calls="2/minute", idempotent=True)
        async def look(name: str = "") -> int:
            self.looks += 1
            return self.looks

        @tool(calls="1/minute", idempotent=True)
        async def fail() -> None:
            self.looks += 1
            raise RuntimeError("fails")

        return [send, look, fail, *Toolbox().all()]


@pytest.fixture
def letters() -> Letters:
    return Letters()


async def wakes(bench: Bench, run: RunView) -> int:
    """When the run that no worker holds is driven again, in seconds from now."""

    async def released() -> int | None:
        found = await bench.core.ports.journal.progress(run.row.execution)
        return None if found.claimed_by is not None or not found.wake_at else found.wake_at

    return int((await eventually(released) - bench.clock.now()) / 1000)


async def admitted(bench: Bench, flow: int) -> RunView:
    """A run whose call the rate admits, at its end."""
    run: RunView = await bench.core.runs.start(bench.me, workflow=flow, input={})
    assert (await bench.ended(run)).status == "done"
    return run


@pytest.mark.parametrize("name", ["send", "look"])
async def test_a_call_above_the_rate_waits(database: str, letters: Letters, name: str) -> None:
    """No worker holds its run meanwhile. It begins once, as its first attempt, and is announced only then."""
    async with opened(database, tools=letters.all()) as bench:
        flow = await bench.deployed(one(act(name, name="x")))
        runs = [await admitted(bench, flow) for _ in range(2)]
        runs.append(await bench.core.runs.start(bench.me, workflow=flow, input={}))
        assert await wakes(bench, runs[2]) == 60
        assert len(letters.sent) + letters.looks == 2
        journal = await bench.core.ports.journal.read(runs[2].row.execution)
        assert "Sent" not in [type(entry).__name__ for entry in journal]
        bench.clock.advance(60)
        done = await bench.ended(runs[2])
        assert (done.status, len(letters.sent) + letters.looks) == ("done", 3)
        shown: Any = (await bench.core.runs.graph(bench.me, runs[2].id)).to_wire()
        assert [visit["attempts"] for node in shown["nodes"] for visit in node["visits"]] == [1, 1]


async def test_calls_of_one_run_side_by_side(database: str, letters: Letters) -> None:
    """Branches wait for the same rate while others go on; each attempt of a call is a call."""
    structure = graph("s>a s>b s>c s>e", a=act("look"), b=act("look"), c=act("look"), e=act("echo", value=1))
    async with opened(database, tools=letters.all()) as bench:
        run = await bench.started(structure)
        assert await wakes(bench, run) == 60
        assert letters.looks == 2
        bench.clock.advance(60)
        assert ((await bench.ended(run)).status, letters.looks) == ("done", 3)
        retried = await bench.started(one(act("fail", more={"retry": {"maxAttempts": 2, "initialIntervalSeconds": 1}})))
        await eventually(lambda: letters.looks == 4)
        bench.clock.advance(2)
        assert await wakes(bench, retried) > 50
        bench.clock.advance(61)
        assert ((await bench.ended(retried)).status, letters.looks) == ("error", 5)


async def test_each_organization_has_the_rate(letters: Letters) -> None:
    """Calls of one organization use nothing of another's rate."""
    async with opened("sqlite://", tools=letters.all()) as bench:
        flood = await bench.deployed(one(act("look")))
        for _ in range(5):
            await bench.core.runs.start(bench.me, workflow=flood, input={})
        other = await bench.core.directory.create_organization("Other")
        me = bench.core.principal(other.uuid, "me", email="me@y.org")
        flow = await bench.core.workflows.create(me, name="F", structure=one(act("look")))
        await bench.core.workflows.deploy(me, flow.id)
        run = await bench.core.runs.start(me, workflow=flow.id, input={})
        assert await bench.core.runs.result(run) == 3


async def test_waiting_runs_try_one_after_the_other(letters: Letters) -> None:
    """Seven runs wait for a rate of two a minute: two begin each minute, and the rate is tried some ten times."""
    clock, tries = FakeClock(), 0

    class Counting(MemoryRateLimiter):
        async def admit(self, rates: Any) -> Any:
            nonlocal tries
            tries += 1
            return await super().admit(rates)

    async with opened("sqlite://", tools=letters.all(), clock=clock, rate_limiter=Counting(now=clock.now)) as bench:
        flow = await bench.deployed(one(act("look")))
        runs, waits = [await admitted(bench, flow) for _ in range(2)], list[int]()
        for _ in range(7):
            runs.append(await bench.core.runs.start(bench.me, workflow=flow, input={}))
            waits.append(await wakes(bench, runs[-1]))
        assert waits == [60, 90, 120, 150, 180, 210, 240]
        assert tries == 9
        for minutes in range(1, 5):
            clock.advance(60)
            for run in runs[: min(9, 1 + 2 * minutes)]:
                assert (await bench.ended(run)).status == "done"
        assert tries < 20


async def test_a_call_after_the_clock_was_set_back(letters: Letters) -> None:
    """It does not wait for the time at which an earlier call tries again by the clock that was ahead."""
    clock, ids = FakeClock(), SequentialIds()
    limiter = MemoryRateLimiter(now=clock.monotonic)
    async with opened("sqlite://", tools=letters.all(), clock=clock, ids=ids, rate_limiter=limiter) as bench:
        flow = await bench.deployed(one(act("look")))
        for _ in range(2):
            await admitted(bench, flow)
        clock.step(3_600)
        await wakes(bench, await bench.core.runs.start(bench.me, workflow=flow, input={}))
        clock.step(-3_600)
        later = await bench.core.runs.start(bench.me, workflow=flow, input={})
        assert await wakes(bench, later) == 90


async def test_workers_share_the_rate(database: str, letters: Letters) -> None:
    """Two processes on one store and one limiter: together they begin as many calls as the rate allows."""
    clock = FakeClock()
    shared: dict[str, Any] = {"tools": letters.all(), "clock": clock, "ids": SequentialIds()}
    shared["rate_limiter"] = MemoryRateLimiter(now=clock.now)
    async with opened(database, **shared) as bench, opened(database, org=bench.org, **shared) as again:
        flow = await bench.deployed(one(act("look")))
        for each in (bench, again):
            await admitted(each, flow)
        runs = [await each.core.runs.start(each.me, workflow=flow, input={}) for each in [bench, again] * 2]
        waits = [await wakes(bench, run) for run in runs]
        assert (letters.looks, min(waits)) == (2, 60)


async def test_a_setting_replaces_the_rate_of_the_declaration(letters: Letters) -> None:
    """Also of built-in tools and of tools that declare none."""
    settings = Settings(tool_calls={"look": "5/hour", "echo": "1/day"})
    async with opened("sqlite://", tools=letters.all(), settings=settings) as bench:
        looks = await bench.started(one(act("look", more={"forEach": "[1, 2, 3, 4, 5]"})))
        assert (await bench.ended(looks)).status == "done"
        assert (await bench.ran(one(act("echo", value=1)))).output == 1
        assert await wakes(bench, await bench.started(one(act("echo", value=1)))) == 86_400


async def test_a_run_that_waits_can_be_cancelled(letters: Letters) -> None:
    """It ends at once, and its call never begins."""
    async with opened("sqlite://", tools=letters.all()) as bench:
        flow = await bench.deployed(one(act("look")))
        runs = [await admitted(bench, flow) for _ in range(2)]
        runs.append(await bench.core.runs.start(bench.me, workflow=flow, input={}))
        await wakes(bench, runs[2])
        assert (await bench.core.runs.cancel(bench.me, runs[2].id)).status == "cancelled"
        bench.clock.advance(120)
        assert ((await bench.ended(runs[2])).status, letters.looks) == ("cancelled", 2)


async def test_a_wait_ends_with_the_process(database: str, letters: Letters) -> None:
    """The next process drives the run when it is due; the first two calls are not made again."""
    clock = FakeClock()
    async with opened(database, tools=letters.all(), clock=clock) as bench:
        flow = await bench.deployed(one(act("send", name="x")))
        runs = [await admitted(bench, flow) for _ in range(2)]
        runs.append(await bench.core.runs.start(bench.me, workflow=flow, input={}))
        await wakes(bench, runs[2])
    clock.advance(60)
    async with opened(database, tools=letters.all(), clock=clock, org=bench.org) as again:
        assert (await again.ended(runs[2].id)).status == "done"
        assert len(letters.sent) == 3


@pytest.mark.parametrize("text", ["0/minute", "5", "5/week", "-1/day", "5 /day", "1/minute\n"])
def test_a_rate_that_is_not_valid(text: str) -> None:
    """A setting is refused at once, and a tool when it is made; the error says what can be used."""
    with pytest.raises(ValueError, match="is not a valid rate: use a number, `/` and second, minute, hour, day"):
        Settings(tool_calls={"echo": text})
    with pytest.raises(ValueError, match="is not a valid rate"):
        tool_of(tool(id="t", calls=text)(lambda: None))
