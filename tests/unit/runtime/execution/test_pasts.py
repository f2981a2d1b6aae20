"""Readers of one execution share a replay: however many join or stall, other work waits for one."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from bench import Bench, act, eventually, graph, opened

from wfcore.domain.run.events import Event
from wfcore.domain.run.state import IllegalEntry
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.execution import event_stream, pasts

pytestmark = pytest.mark.anyio

LONG = graph("s>a a>w w>b", a=act("echo", value=1), w=act("hold"), b=act("echo", value=2))

SHORT = LONG | {"nodes": LONG["nodes"][:2], "edges": LONG["edges"][:1]}


async def collected(bench: Bench, run: RunView, after: int = 0) -> list[Event]:
    return [event async for batch in bench.core.runs.batches(run, after=after) for event in batch]


def counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A line for each replay of a whole journal for a reader."""
    plans, made = bench.core.runs._plans, list[Any]()
    replayed = plans.replayed

    async def counting(execution: Any) -> Any:
        made.append(execution.ref)
        return await replayed(execution)

    monkeypatch.setattr(plans, "replayed", counting)
    return made


async def stalled(bench: Bench, run: RunView) -> Any:
    """A stream whose reader has taken the first batch and reads no more."""
    batches = bench.core.runs.batches(run)
    await anext(batches)
    return batches


async def test_readers_share_one_replay(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred readers that stall, and those that join later, cost one replay; each gets every event."""
    run = await bench.started(LONG)
    await bench.until("it")
    made = counted(bench, monkeypatch)
    readers = await asyncio.gather(*(stalled(bench, run) for _ in range(100)))
    late = asyncio.create_task(collected(bench, run, after=2))
    bench.tools.free["it"].set()
    whole = await collected(bench, run)
    assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
    assert await late == whole[2:]
    assert len(made) == 1
    rest = [[event async for batch in reader for event in batch] for reader in readers]
    assert all(one == whole[len(whole) - len(one) :] and one[-1].terminal for one in rest)


async def test_who_starts_a_run_reads_no_journal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a start come from its own entries, and are those of the journal; nothing is kept of them."""
    flow, made = await bench.deployed(SHORT), counted(bench, monkeypatch)
    events = [event async for event in bench.core.runs.start(bench.me, workflow=flow, input={})]
    assert not made
    assert events[-1].terminal
    assert events == await bench.core.runs.events(bench.me, events[0].run_id)
    assert not bench.core.runs._pasts._begun


async def test_a_run_that_another_process_drives_is_not_replayed(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who starts it goes on from its own entries, also if the other process was done before they were read."""
    monkeypatch.setattr(event_stream, "MISSED", 0.001)
    async with opened(database) as drives, opened(database, org=drives.org, worker=False) as starts:
        flow, made = await drives.deployed(SHORT), counted(starts, monkeypatch)
        stream = aiter(starts.core.runs.start(starts.me, workflow=flow, input={}))
        events = [await anext(stream)]
        rest = asyncio.create_task(collected_from(stream))
        await eventually(lambda: beat(drives) and rest.done())
        events += await rest
        assert not made
        assert events[-1].terminal
        assert events == await drives.core.runs.events(drives.me, events[0].run_id)


async def collected_from(stream: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in stream]


def beat(bench: Bench) -> bool:
    """Let the worker look for runs that are due."""
    bench.clock.advance(1_000)
    return True


async def test_who_joins_a_started_run_later_reads_its_journal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader who has its first events from the start gets every event once, and so does who joins later."""
    flow, made = await bench.deployed(LONG), counted(bench, monkeypatch)
    stream = aiter(bench.core.runs.start(bench.me, workflow=flow, input={}))
    first = await anext(stream)
    await bench.until("it")
    async with aclosing(bench.core.runs.batches(await bench.core.runs.get(bench.me, first.run_id))) as joined:
        seen = await anext(joined)
        assert len(made) == 1
        bench.tools.free["it"].set()
        whole = [first, *[event async for event in stream]]
        seen += [event async for batch in joined for event in batch]
    assert seen == whole == await bench.core.runs.events(bench.me, first.run_id)
    assert len(made) == 1


async def test_a_past_ends_with_its_last_reader(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of a run that nobody follows."""
    run = await bench.ran(SHORT)
    made = counted(bench, monkeypatch)
    for number in (1, 2):
        assert (await collected(bench, run))[-1].terminal
        assert len(made) == number
    gc.collect()
    assert not bench.core.runs._pasts._shared


async def test_a_long_past_is_not_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, what all readers have read is dropped; who joins then gets it from the journal."""
    monkeypatch.setattr(pasts, "SHARED", 2)
    run = await bench.started(LONG)
    await bench.until("it")
    made = counted(bench, monkeypatch)
    async with aclosing(bench.core.runs.batches(run)) as first:
        seen = await anext(first)
        (past,) = bench.core.runs._pasts._shared.values()
        assert past._events == []
        joined = asyncio.create_task(collected(bench, run))
        bench.tools.free["it"].set()
        seen += [event async for batch in first for event in batch]
    assert await joined == seen
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert len(made) == 2


async def test_entries_that_were_lost_are_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the journal does not follow on what was read, as after a failover that lost entries, it is replayed; a
    reader goes on with the next `seq`.
    """
    run = await bench.started(LONG)
    await bench.until("it")
    made = counted(bench, monkeypatch)
    plans = bench.core.runs._plans
    catch_up, illegal = plans.catch_up, [IllegalEntry("no effect waits for this outcome", "stale")]

    async def refusing(execution: Any, machine: Any) -> None:
        if machine.sink is not None and illegal:
            raise illegal.pop()
        await catch_up(execution, machine)

    async with aclosing(bench.core.runs.batches(run)) as batches:
        seen = await anext(batches)
        monkeypatch.setattr(plans, "catch_up", refusing)
        monkeypatch.setattr(bench.core.ports.events, "publish", lambda *_: None)
        bench.tools.free["it"].set()
        seen += [event async for batch in batches for event in batch]
    assert not illegal
    assert len(made) == 2
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].terminal
