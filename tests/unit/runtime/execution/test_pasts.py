"""Readers of one execution share a replay: however many join or stall, other work waits for one."""

import asyncio
import gc
from contextlib import aclosing
from typing import Any

import pytest
from bench import Bench, act, graph

from wfcore.domain.run.events import Event
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.execution import pasts

pytestmark = pytest.mark.anyio

LONG = graph("s>a a>w w>b", a=act("echo", value=1), w=act("hold"), b=act("echo", value=2))


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


async def test_a_past_ends_with_its_last_reader(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of a run that nobody follows."""
    run = await bench.ran(LONG | {"nodes": LONG["nodes"][:2], "edges": LONG["edges"][:1]})
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
