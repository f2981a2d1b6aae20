"""Following a run: every durable event once, in order, from any starting point (interface, Events)."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from bench import Bench, Toolbox, act, agent, ask, eventually, graph, kinds, opened

from wfcore.adapters.dispatch import event_hub as hub
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.events import Event
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.execution import event_stream as stream

pytestmark = pytest.mark.anyio

STEPS = graph(
    "s>a a>g g>w w>h",
    a=act("echo", value=1),
    g=agent(message="say a few words"),
    w=act("hold"),
    h=ask(),
)


async def collected(bench: Bench, run: RunView, after: int = 0) -> list[Event]:
    return [event async for batch in bench.core.runs.batches(run, after=after) for event in batch]


async def test_joined_at_every_seq(bench: Bench) -> None:
    """Live and after the end, from every `seq`, the remaining events are the same, and `events` agrees."""
    run = await bench.started(STEPS)
    await bench.until("it")
    soon = len(await bench.core.runs.events(bench.me, run.id))
    assert soon >= 7
    live = [asyncio.create_task(collected(bench, run, after)) for after in range(soon + 2)]
    await asyncio.sleep(0)
    bench.tools.free["it"].set()
    whole = await collected(bench, run)
    assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
    assert kinds(whole)[0] == "run_started"
    assert [event.kind for event in whole if event.terminal] == [whole[-1].kind] == ["done"]
    for after, task in enumerate(live):
        assert await task == whole[after:]
    for after in range(len(whole) + 3):
        assert await collected(bench, run, after) == whole[after:]
        assert await bench.core.runs.events(bench.me, run.id, after=after) == whole[after:]


async def test_each_turn_has_its_own_stream(bench: Bench) -> None:
    """A resumed run's events differ from those of the run before: both count from 1."""
    structure = graph("s>h h:approved>a", h=ask(), a=act("echo", value=1))
    run = await bench.ran(structure)
    before = await collected(bench, run)
    turn = await bench.core.runs.resume(bench.me, run.id, decision="approve")
    after = await collected(bench, turn)
    assert await collected(bench, run) == before
    assert {event.run_id for event in before} == {run.id}
    assert {event.run_id for event in after} == {turn.id}
    assert (after[0].seq, after[0].data["parentRunId"]) == (1, run.id)


async def test_a_published_event_is_durable(bench: Bench) -> None:
    """When an event is delivered, the journal already contains it."""
    run = await bench.started(STEPS)
    bench.tools.free["it"].set()
    async with aclosing(bench.core.runs.batches(run)) as batches:
        async for batch in batches:
            assert batch[-1] in await bench.core.runs.events(bench.me, run.id)


async def test_a_reader_that_lags_catches_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events beyond the limit are dropped for a slow reader; it reads the journal and misses none."""
    monkeypatch.setattr(hub, "MAX_UNREAD", 3)
    run = await bench.started(STEPS)
    await bench.until("it")
    async with aclosing(bench.core.runs.batches(run)) as batches:
        seen = await anext(batches)
        listening = next(iter(bench.core.ports.events._subscriptions[run.row.execution]))  # type: ignore[attr-defined]
        bench.tools.free["it"].set()
        await eventually(lambda: listening._lagged)
        seen += [event async for batch in batches for event in batch]
    assert seen == await bench.core.runs.events(bench.me, run.id)


async def test_a_follower_that_stops(bench: Bench) -> None:
    """It disturbs neither the run nor other followers, and leaves no subscription."""
    run = await bench.started(STEPS)
    other = asyncio.create_task(collected(bench, run))
    gone = asyncio.create_task(collected(bench, run))
    await bench.until("it")
    async with aclosing(bench.core.runs.batches(run)) as left:
        await anext(left)
    gone.cancel()
    bench.tools.free["it"].set()
    assert (await other)[-1].kind == "done"
    assert (await bench.core.runs.get(bench.me, run.id)).status == "interrupted"
    assert bench.core.ports.events._subscriptions == {}  # type: ignore[attr-defined]


async def test_two_cores_on_one_file(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower in one process sees the run that another one drives, to its end; a cancel arrives too."""
    monkeypatch.setattr(stream, "SOONEST", 0.01)
    monkeypatch.setattr(stream, "LATEST", 0.01)
    async with opened(database, tools := Toolbox()) as drives, opened(database, org=drives.org, worker=False) as looks:
        run = await drives.started(STEPS)
        await drives.until("it")
        seen = asyncio.create_task(collected(looks, run))
        tools.free["it"].set()
        assert await seen == await collected(drives, run)
        again = await drives.started(graph("s>b", b=act("hold", name="b")))
        await drives.until("b")
        await looks.core.runs.cancel(looks.me, again.id)
        await eventually(lambda: beat(drives, tools))
        assert kinds(await collected(drives, again))[-1] == "cancelled"


def beat(bench: Bench, tools: Toolbox) -> bool:
    bench.clock.advance(1)
    return tools.broken_off == ["b"]


async def test_a_run_that_is_deleted_meanwhile(bench: Bench) -> None:
    """Its followers are told, as those who wait for its result: they waited for ever."""
    run = await bench.started(STEPS)
    await bench.until("it")
    seen, told = asyncio.Event(), asyncio.Event()

    async def reading() -> None:
        try:
            async for _ in bench.core.runs.batches(run):
                seen.set()
        except NotFound:
            told.set()

    task = asyncio.create_task(reading())
    await seen.wait()
    await bench.core.ports.storage.maintenance.remove_execution(bench.org, run.row.execution.id)
    await told.wait()
    await task


async def test_access_to_events(bench: Bench) -> None:
    """`follow` yields single events to callers who can see the run; for others the run does not exist."""
    number = await bench.deployed(STEPS, access={"visibility": "private"})
    bench.tools.free["it"].set()
    run = await bench.core.runs.start(bench.me, workflow=number, input={})
    seen = [event async for event in await bench.core.runs.follow(bench.me, run.id, after=2)]
    assert seen == (await collected(bench, run))[2:]
    for call in (bench.core.runs.follow, bench.core.runs.events, bench.core.runs.get):
        with pytest.raises(NotFound):
            await call(bench.other, run.id)


async def test_an_event_belongs_to_its_reader(bench: Bench) -> None:
    """Who changes it changes neither the run, nor what others read, live and later."""
    value = {"deep": [{"list": [1]}]}
    steps = {"h": act("hold", name="h"), "a": act("echo", value=value), "w": act("hold")}
    number = await bench.deployed(graph("s>h h>a a>w w>b", **steps, b=act("echo", value="{{ nodes.a.output }}")))
    turn = bench.core.runs.start(bench.me, workflow=number, input={})
    other = asyncio.create_task(collected(bench, run := await turn))
    async for event in turn:
        bench.tools.free["h" if event.node_id == "h" else "it"].set()
        spoil(event.data)
    for event in await bench.core.runs.events(bench.me, run.id):
        spoil(event.data)
    assert await bench.core.runs.result(run) == value
    assert bench.tools.calls[-1][1] == value
    for events in (await other, await collected(bench, run)):
        assert [event.output for event in events if event.node_id in ("a", "b") and event.output] == [value, value]
        assert not any("spoiled" in event.data for event in events)


def spoil(value: Any) -> None:
    """Change every container of the value."""
    if isinstance(value, dict):
        value["spoiled"] = True
    if isinstance(value, (dict, list)):
        for item in list(value.values() if isinstance(value, dict) else value):
            spoil(item)
    if isinstance(value, list):
        value.append("spoiled")
