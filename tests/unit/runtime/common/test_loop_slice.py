"""Use cases on one event loop share the slice of each of its turns, and large work happens beside it."""

import asyncio
import inspect
import itertools
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from wfcore.bootstrap import open as open_core
from wfcore.domain.resources.content import WorkflowContent
from wfcore.runtime.common import loop_slice as slices
from wfcore.runtime.common.loop_slice import LARGE, LoopSlice, beside_loop, loop_slice, size_of, within_slice

pytestmark = pytest.mark.anyio

ORG = "00000000-0000-4000-8000-000000000001"


class Turns:
    """A slice whose time the test sets, and how many turns its loop has had."""

    def __init__(self) -> None:
        self.now, self.count = 0.0, 0
        self._loop = asyncio.get_running_loop()
        self.slice = LoopSlice(self)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> object:
        return self._loop.call_soon(callback)

    def create_future(self) -> asyncio.Future[None]:
        return self._loop.create_future()

    async def counted(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


@pytest.fixture
async def turns() -> AsyncIterator[Turns]:
    found = Turns()
    counting = asyncio.create_task(found.counted())
    await asyncio.sleep(0)
    yield found
    counting.cancel()


async def test_within_the_slice_nobody_yields(turns: Turns) -> None:
    """However many there are."""
    before = turns.count
    for _ in range(1_000):
        await turns.slice.take()
    assert turns.count == before


async def test_in_a_row_they_yield_after_the_slice(turns: Turns) -> None:
    """Ten of half a slice take five turns."""
    before = turns.count
    for _ in range(10):
        await turns.slice.take()
        turns.now += slices.SECONDS / 2
    assert 4 <= turns.count - before <= 10


async def test_gathered_they_continue_in_their_order(turns: Turns) -> None:
    """Each takes a whole slice, so each has a turn of its own."""
    began: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        await turns.slice.take()
        began.append((turns.count, number))
        turns.now += slices.SECONDS

    await asyncio.gather(*map(one, range(10)))
    assert [number for _, number in began] == list(range(10))
    assert len({turn for turn, _ in began}) == 10


async def test_a_newcomer_comes_after_those_that_have_yielded(turns: Turns) -> None:
    """Nobody waits for ever, although there are more than continue in one turn."""
    began: list[int] = []

    async def one(number: int) -> None:
        await turns.slice.take()
        began.append(number)
        if number == 0:
            turns.now += slices.SECONDS

    many = 66
    tasks = [asyncio.create_task(one(number)) for number in range(many)]
    await asyncio.sleep(0)
    await one(many)
    await asyncio.gather(*tasks)
    assert began == list(range(many + 1))


async def test_whoever_is_cancelled_takes_no_place(turns: Turns) -> None:
    """The others continue."""
    continued: list[int] = []

    async def one(number: int) -> None:
        await turns.slice.take()
        turns.now += slices.SECONDS
        continued.append(number)
        waiting[1].cancel()

    waiting = [asyncio.create_task(one(number)) for number in range(4)]
    await asyncio.wait(waiting)
    assert continued == [0, 2, 3]


async def test_each_loop_has_its_own() -> None:
    found = await asyncio.to_thread(asyncio.run, _slice())
    assert loop_slice() is loop_slice()
    assert found is not loop_slice()


async def _slice() -> LoopSlice:
    return loop_slice()


async def test_use_cases_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a slice of no time, each of them leaves the loop a turn: reads in a row, starts and gathered ones."""
    async with open_core("sqlite://") as core:
        await core.directory.create_organization("Acme", id=ORG)
        me = core.principal(ORG, "u1")
        flow = await core.workflows.create(me, name="F", structure={"nodes": [{"id": "s", "type": "start"}]})
        await core.workflows.deploy(me, flow.id)
        monkeypatch.setattr(slices, "SECONDS", 0)
        turns = Turns()
        counting = asyncio.create_task(turns.counted())
        for use in (lambda: core.workflows.get(me, flow.id), lambda: core.runs.start(me, workflow=flow.id)):
            before = turns.count
            for _ in range(10):
                await use()
            assert turns.count - before >= 10
        counting.cancel()


class TestLargeWork:
    """`beside_loop` and `size_of`."""

    async def test_only_large_work_is_in_a_thread(self) -> None:
        here = threading.get_ident()
        assert await beside_loop(LARGE - 1, threading.get_ident) == here
        assert await beside_loop(LARGE, threading.get_ident) != here

    async def test_an_error_is_raised(self) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            await beside_loop(LARGE, int, "x")

    @pytest.mark.parametrize(
        ("value", "size"),
        [
            (None, 0),
            ("text", 0),
            ([1, [2, 3]], 2),
            ({"nodes": [1, 2], "edges": [3], "name": "x"}, 3),
            ({"workflowStructure": {"nodes": [1, 2]}}, 2),
            ({"a": {"b": {"c": {"d": [1]}}}}, 0),
            (WorkflowContent(workflow_structure={"nodes": [1]}), 1),
            ({"nodes": [{"data": {"message": "{{ 1 }}" * 50_000}}]}, 700),
        ],
    )
    def test_the_size_counts_items_of_lists_and_long_texts(self, value: Any, size: int) -> None:
        assert size_of(value) == size


def chain(count: int) -> dict[str, Any]:
    """As many nodes, one after the other."""
    tool = {"toolId": "core.transform", "params": {"value": 1}}
    nodes: list[dict[str, Any]] = [{"id": "0", "type": "start"}]
    nodes += [{"id": str(number), "type": "action", "data": tool} for number in range(1, count)]
    edges = [{"id": f"e{end}", "source": str(end - 1), "target": str(end)} for end in range(1, count)]
    return {"nodes": nodes, "edges": edges}


async def calls_on_the_loop(work: Awaitable[object]) -> int:
    """How many calls of Python functions the thread of the loop makes until the work is done."""
    made = itertools.count()
    sys.setprofile(lambda _frame, event, _value: next(made) if event == "call" else None)
    try:
        await work
    finally:
        sys.setprofile(None)
    return next(made)


async def test_a_large_graph_is_searched_beside_the_loop(tmp_path: Path) -> None:
    """What the loop itself does for a deploy, a new draft and a look at its impact has no call for each node."""
    few, many = 2 * LARGE, 8 * LARGE
    counts: dict[int, list[int]] = {}
    async with open_core(f"sqlite:///{tmp_path}/wfcore.db") as core:
        await core.directory.create_organization("Acme", id=ORG)
        me = core.principal(ORG, "u1")
        for size in (few, few, many):  # the first one compiles statements too
            made = await core.workflows.create(me, name="F", structure=chain(size))
            uses = [
                core.workflows.deploy(me, made.id),
                core.workflows.patch(me, made.id, structure=chain(size - 1)),
                core.workflows.impact(me, made.id),
            ]
            counts[size] = [await calls_on_the_loop(use) for use in uses]
    grown = [much - little for much, little in zip(counts[many], counts[few], strict=True)]
    assert max(grown) < (many - few) / 2, grown


async def test_one_that_is_cancelled_before_it_begins_is_closed() -> None:
    """It would be reported as never awaited."""
    begun: list[bool] = []

    async def use_case() -> None:
        begun.append(True)

    work = use_case()
    task = asyncio.create_task(within_slice(work))
    loop_slice()._has_time()
    loop_slice()._waiting.append((-1, asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (begun, inspect.getcoroutinestate(work)) == ([], inspect.CORO_CLOSED)
