"""Runs whose tools never wait still leave the event loop to others."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from bench import Bench, act, graph, opened

from wfcore.adapters.tools.catalog import tool
from wfcore.runtime.execution.time_slice import TimeSlice
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

STEPS = 50


def chain(tool_id: str) -> dict[str, Any]:
    names = ["s", *(f"n{number}" for number in range(STEPS))]
    edges = " ".join(f"{source}>{target}" for source, target in pairwise(names))
    return graph(edges, **{name: act(tool_id) for name in names[1:]})


def slow(clock: FakeClock, done: list[str], name: str, *, idempotent: bool) -> Callable[..., Any]:
    """A tool that takes a millisecond of the loop's time and waits for nothing."""

    @tool(id=name, idempotent=idempotent)
    async def work() -> None:
        clock.advance(0.001)
        done.append(name)

    return work


class TestTimeSlice:
    """When a session gives way."""

    def test_one_alone_gives_way_once_a_millisecond(self) -> None:
        """Not within the millisecond in which it began, but in each one after."""
        time_slice, me = TimeSlice(), object()
        assert [time_slice.is_due(me, now) for now in (5, 5, 6)] == [False, False, True]

    def test_those_who_take_turns_need_not(self) -> None:
        """Whoever goes on after another has only just begun, however late it is."""
        time_slice, one, other = TimeSlice(), object(), object()
        assert not any(time_slice.is_due(session, now) for now in range(9) for session in (one, other))

    async def test_giving_way_begins_anew(self) -> None:
        """After the time_slice was taken, nothing is due in the same millisecond."""
        time_slice, me = TimeSlice(), object()
        await time_slice.take(me, 5)
        await time_slice.take(me, 6)
        assert (time_slice.is_due(me, 6), time_slice.is_due(me, 7)) == (False, True)

    async def test_one_that_waits_need_not_give_way(self) -> None:
        """The loop had a turn while it waited: a millisecond begins then."""
        time_slice, me = TimeSlice(), object()
        await time_slice.take(me, 5)
        await time_slice.take(me, 6)
        await asyncio.sleep(0)
        assert [time_slice.is_due(me, now) for now in (6, 7, 7, 8)] == [False, False, False, True]


@pytest.mark.parametrize("idempotent", [True, False])
class TestRuns:
    """With a store and tools that never wait."""

    async def test_others_have_a_turn_at_every_millisecond(self, idempotent: bool) -> None:
        """Whoever else is on the loop goes on as often as the run takes milliseconds."""
        clock, done = FakeClock(), list[str]()
        work = slow(clock, done, "work", idempotent=idempotent)
        async with opened("sqlite://", clock=clock, tools=[work]) as bench:
            turns = await turns_beside(bench, done)
        assert len(done) == STEPS
        assert turns >= STEPS - 5, "a poll of the bench, on a slow machine, has a turn too"

    async def test_two_runs_take_turns(self, idempotent: bool) -> None:
        """Neither waits for the other's end."""
        clock, done = FakeClock(), list[str]()
        tools = [slow(clock, done, name, idempotent=idempotent) for name in ("one", "other")]
        async with opened("sqlite://", clock=clock, tools=tools) as bench:
            runs = [await bench.started(chain(name)) for name in ("one", "other")]
            for run in runs:
                assert (await bench.ended(run)).status == "done"
        assert len(done) == 2 * STEPS
        first_end = max(done.index("one"), done.index("other"))
        assert first_end < STEPS, "one had ended before the other began"


async def turns_beside(bench: Bench, done: list[str]) -> int:
    """How often a task beside a run goes on between its first step and its last."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 0 < len(done) < STEPS
            await asyncio.sleep(0)

    beside = asyncio.create_task(count())
    assert (await bench.ended(await bench.started(chain("work")))).status == "done"
    beside.cancel()
    with suppress(asyncio.CancelledError):
        await beside
    return turns
