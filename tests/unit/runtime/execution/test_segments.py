"""Calls of a straight segment that a session performs in one loop: nothing but the time it takes may differ."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import bench as benches
import pytest
from bench import Bench, Json, act, eventually, graph, kinds, why
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from waiting import HANG

from wfcore.adapters.system import SystemClock
from wfcore.adapters.tools.catalog import tool
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run.entries import Entry, Succeeded
from wfcore.ports.providers import ToolCall, ToolFailed
from wfcore.runtime.common.run_views import RunCancelled, RunFailed, RunView
from wfcore.runtime.execution import session
from wfcore.runtime.execution.time_slice import TimeSlice
from wfcore.runtime.tools.calls import PlainCall

pytestmark = pytest.mark.anyio


class Steps:
    """Tools that take their arguments alone. `before` is called with `name` before a call of `step` returns."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.before: Callable[[Any], Awaitable[object] | None] = lambda _: None

    def all(self) -> list[Any]:
        return [self.step, self.once, self.told, self.fails, self.odd]

    @tool(idempotent=True)
    async def step(self, name: Any = 0) -> Any:
        """The argument."""
        self.calls.append(name)
        waited = self.before(name)
        if waited is not None:
            await waited
        return {"name": name}

    @tool(idempotent=False)
    async def once(self, name: Any = 0) -> Any:
        """A call that must not be repeated."""
        self.calls.append(("once", name))
        return name

    @tool(idempotent=True)
    async def told(self, call: ToolCall, name: Any = 0) -> Any:
        """A call that gets more than its arguments."""
        self.calls.append(("told", name, call.key))
        return call.key

    @tool(idempotent=True)
    async def fails(self, name: int = 0) -> Any:
        """Fail every other time."""
        self.calls.append(("fails", name))
        if len([each for each in self.calls if each == ("fails", name)]) % 2:
            raise ValueError(name)
        return name

    @tool(idempotent=True)
    async def odd(self) -> Any:
        """A result that is not JSON."""
        return object()


@asynccontextmanager
async def opened(url: str, tools: Steps, **more: Any) -> AsyncIterator[Bench]:
    """A bench with these tools, in which time passes, and each tool was called before: it is known to be plain."""
    clock: Any = SystemClock()
    async with benches.opened(url, tools=tools.all(), clock=clock, **more) as bench:
        if "org" not in more:
            await bench.ran(chain(*(act(name) for name in ("step", "once", "told"))))
            await bench.ran(chain(act("fails", more=RETRY)))
            tools.calls.clear()
        yield bench


RETRY: Json = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 0.001}}


def chain(*nodes: Json) -> Json:
    """A graph of these nodes, `n1` and so on, one after the other."""
    names = ["s", *(f"n{number}" for number in range(1, len(nodes) + 1))]
    edges = " ".join(f"{one}>{then}" for one, then in pairwise(names))
    return graph(edges, **dict(zip(names[1:], nodes, strict=True)))


def steps(count: int, first: int = 1) -> list[Json]:
    return [act("step", name=number) for number in range(first, first + count)]


async def unwatched(bench: Bench, structure: Json) -> RunView:
    """The record of a run whose events nobody reads until its end."""
    run = await bench.started(structure)
    with suppress(RunFailed):
        await bench.core.runs.result(run)
    return await bench.core.runs.get(bench.me, run.id)


async def watched(bench: Bench, structure: Json) -> RunView:
    """The record of a run whose events are read from the first one on, each once and as they are recorded."""
    number = await bench.deployed(structure)
    async with asyncio.timeout(HANG):
        events = [event async for event in bench.core.runs.start(bench.me, workflow=number, input={})]
    run = await bench.core.runs.get(bench.me, events[0].run_id)
    assert events == await bench.events(run.id)
    return run


async def journal(bench: Bench, run_id: str) -> list[Entry]:
    """The entries of a run, all at the same time."""
    found = await bench.core.ports.journal.find_turn(bench.org, run_id)
    assert found is not None
    entries = await bench.core.ports.journal.read(found[1].ref)
    return [structs.replace(entry, at=0) for entry in entries]


@pytest.fixture
def tools() -> Steps:
    return Steps()


@pytest.fixture
def straight(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many results the machine learns of at once, each time."""
    found: list[int] = []
    original = session.go_straight

    def counted(run: Any, entries: Any) -> int:
        went = original(run, entries)
        found.append(went)
        return went

    monkeypatch.setattr(session, "go_straight", counted)
    return found


NODES = st.sampled_from(
    [
        *(act("step", name=name) for name in (0, "x", {"a": [1]}, "{{ nodes.n1.output }}", 1, 2, 3)),
        act("step", name="{{ nodes.n1.output.none.at.all }}"),
        act("step", more={"timeoutSeconds": 100}),
        act("fails", name="{{ nodes.n1.output }}"),
        act("once", name=7),
        act("told", name=7),
        act("fails", name=1),
        act("fails", name=2, more=RETRY),
        act("odd"),
        act("core.transform", value=1),
    ]
)


def outcome(nodes: list[Json], *, segments: bool, read: bool = False, waits: int = 0) -> Any:
    """Entries, events, calls and the record of a run of these nodes, of which one call in `waits` takes a while."""

    async def ran() -> Any:
        tools = Steps()
        async with opened("sqlite://", tools) as bench:
            tools.before = lambda _: asyncio.sleep(0) if waits and len(tools.calls) % waits == 0 else None
            run = await (watched if read else unwatched)(bench, chain(*nodes))
            events = [(event.kind, event.seq) for event in await bench.events(run.id)]
            entries = [str(entry).replace(run.id, "run") for entry in await journal(bench, run.id)]
            calls = [str(call).replace(run.id, "run") for call in tools.calls]
            return entries, events, calls, run.status, run.output

    with pytest.MonkeyPatch.context() as patch:
        if not segments:
            patch.setattr(session, "calls_after", lambda *_: iter(()))
        return asyncio.run(ran())


@settings(max_examples=40)
@given(st.lists(NODES, min_size=1, max_size=7), st.booleans(), st.integers(0, 3))
@example([*steps(2), act("once", name=7), *steps(2)], False, 0)
@example([*steps(2), act("step", more={"timeoutSeconds": 100}), *steps(2)], True, 2)
def test_a_segment_is_performed_as_any_other_part(nodes: list[Json], read: bool, waits: int) -> None:
    """The same entries, events, calls and results, whatever the calls are and however they end, with a reader too."""
    assert outcome(nodes, segments=True, read=read, waits=waits) == outcome(nodes, segments=False)


@pytest.mark.parametrize("ran", [unwatched, watched])
async def test_results_are_applied_together(tools: Steps, straight: list[int], ran: Any) -> None:
    """The last call of a segment ends the run by itself."""
    async with opened("sqlite://", tools) as bench:
        straight.clear()
        assert (await ran(bench, chain(*steps(5)))).output == {"name": 5}
        assert sum(straight) == 4
        assert max(straight) > 1
        assert tools.calls == [1, 2, 3, 4, 5]


async def test_each_result_is_written_before_the_next_call(database: str, tools: Steps) -> None:
    """So that nothing is called again after a crash."""
    written: list[list[Any]] = []
    async with opened(database, tools) as bench:
        number = await bench.deployed(chain(*steps(4)))
        ref: list[Any] = []

        async def look(name: Any) -> None:
            if not ref:
                row = (await bench.core.runs.page(bench.me, limit=1))[0]
                found = await bench.core.ports.journal.find_turn(bench.org, row.id)
                assert found is not None
                ref.append(found[1].ref)
            entries = await bench.core.ports.journal.read(ref[0])
            written.append([entry.output["name"] for entry in entries if isinstance(entry, Succeeded)])

        tools.before = look
        run = await bench.core.runs.start(bench.me, workflow=number)
        await bench.core.runs.result(run)
        assert written == [[], [1], [1, 2], [1, 2, 3]]


async def test_a_run_that_is_cancelled_within_a_segment(database: str, tools: Steps) -> None:
    """The call that is under way is stopped, and no other one begins."""
    began, stopped = asyncio.Event(), list[Any]()

    async def hold(name: Any) -> None:
        if name == 3:
            began.set()
            try:
                await asyncio.sleep(HANG)
            except asyncio.CancelledError:
                stopped.append(name)
                raise

    async with opened(database, tools) as bench:
        tools.before = hold
        run = await bench.started(chain(*steps(6)))
        await asyncio.wait_for(began.wait(), HANG)
        await bench.core.runs.cancel(bench.me, run.id)
        assert (await bench.ended(run)).status == "cancelled"
        await eventually(lambda: stopped == [3])
        assert tools.calls == [1, 2, 3]
        assert [type(entry).__name__ for entry in await journal(bench, run.id)] == [
            "Started", "Succeeded", "Succeeded", "Cancelled",
        ]  # fmt: skip


async def test_a_run_that_is_paused_within_a_segment(database: str, tools: Steps) -> None:
    """The result of the call under way is kept, although somebody else has written meanwhile."""
    began, free = asyncio.Event(), asyncio.Event()

    async def hold(name: Any) -> None:
        if name == 3:
            began.set()
            await free.wait()

    async with opened(database, tools) as bench:
        tools.before = hold
        run = await bench.started(chain(*steps(6)))
        await asyncio.wait_for(began.wait(), HANG)
        await bench.core.runs.interrupt(bench.me, run.id)
        free.set()
        paused = await bench.ended(run)
        assert paused.status == "interrupted"
        assert tools.calls == [1, 2, 3]
        resumed = await bench.core.runs.resume(bench.me, run.id)
        assert (await bench.ended(resumed.id)).output == {"name": 6}
        assert tools.calls == [1, 2, 3, 4, 5, 6]


async def test_a_reader_who_comes_within_a_segment(database: str, tools: Steps) -> None:
    """It gets every event once, in order."""
    began, free = asyncio.Event(), asyncio.Event()

    async def hold(name: Any) -> None:
        if name == 3:
            began.set()
            await free.wait()

    async with opened(database, tools) as bench:
        tools.before = hold
        run = await bench.started(chain(*steps(6)))
        await asyncio.wait_for(began.wait(), HANG)
        reading = asyncio.create_task(bench.events(run.id))
        await asyncio.sleep(0)
        free.set()
        events = await reading
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert kinds(events).count("node_finished") == 7
        assert kinds(events)[-1] == "done"


async def test_a_reader_waits_for_no_call(database: str, tools: Steps) -> None:
    """Whoever came during a call sees its end while the next one is under way."""
    began, free = defaultdict[Any, asyncio.Event](asyncio.Event), defaultdict[Any, asyncio.Event](asyncio.Event)

    async def hold(name: Any) -> None:
        if name in (3, 4):
            began[name].set()
            await free[name].wait()

    async with opened(database, tools) as bench:
        tools.before = hold
        run = await bench.started(chain(*steps(6)))
        await asyncio.wait_for(began[3].wait(), HANG)
        ended = list[Any]()

        async def read() -> None:
            async with aclosing(bench.core.runs.batches(run)) as batches:
                async for batch in batches:
                    ended.extend(event.data["nodeId"] for event in batch if event.kind == "node_finished")

        reading = asyncio.create_task(read())
        await eventually(lambda: "n2" in ended)
        free[3].set()
        await asyncio.wait_for(began[4].wait(), HANG)
        await eventually(lambda: "n3" in ended)
        free[4].set()
        await reading
        assert ended == ["s", "n1", "n2", "n3", "n4", "n5", "n6"]


async def test_a_reader_from_the_start_waits_for_no_call(
    database: str, tools: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the end of each call while the next one is under way, also within the time of one segment."""
    monkeypatch.setattr("wfcore.runtime.execution.time_slice.TimeSlice.is_due", lambda *_: False)
    for name in ("SOONEST", "LATEST"):  # it learns of events from the session alone
        monkeypatch.setattr(f"wfcore.runtime.execution.event_stream.{name}", 10 * HANG)
    free, ended = defaultdict[Any, asyncio.Event](asyncio.Event), list[Any]()

    async def hold(name: Any) -> None:
        await free[name].wait()

    async with opened(database, tools) as bench:
        number = await bench.deployed(chain(*steps(4)))
        tools.before = hold

        async def read() -> None:
            async for event in bench.core.runs.start(bench.me, workflow=number, input={}):
                if event.kind == "node_finished":
                    ended.append(event.data["nodeId"])

        reading = asyncio.create_task(read())
        for call, node in enumerate(["s", "n1", "n2", "n3"], 1):
            await eventually(lambda node=node: node in ended)
            free[call].set()
        await reading
        assert ended == ["s", "n1", "n2", "n3", "n4"]


async def test_a_reader_sees_only_what_was_written(tools: Steps) -> None:
    """While the last entry of a run is being written, the results of the segment before it are shown, and no more."""
    held, free = asyncio.Event(), asyncio.Event()
    async with opened("sqlite://", tools) as bench:
        number = await bench.deployed(chain(*steps(3)))
        append = bench.core.ports.journal.append

        async def hold(*args: Any) -> Any:
            if not args[1].is_plain:
                held.set()
                await free.wait()
            return await append(*args)

        bench.core.ports.journal.append = hold  # type: ignore[method-assign]
        seen = list[str]()

        async def read() -> None:
            turn = bench.core.runs.start(bench.me, workflow=number, input={})
            async for event in turn:
                if event.kind == "node_finished":
                    seen.append(event.data["nodeId"])

        reading = asyncio.create_task(read())
        await asyncio.wait_for(held.wait(), HANG)
        await eventually(lambda: "n2" in seen)
        assert seen == ["s", "n1", "n2"]
        free.set()
        await reading
        assert seen == ["s", "n1", "n2", "n3"]


async def test_others_have_turns(tools: Steps) -> None:
    """Calls that never wait do not hold the event loop for longer than a millisecond or two."""
    turns, seen, over = 0, list[int](), False

    async def count() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    def spend(_: Any) -> None:
        time.sleep(0.002)  # longer than the slice of a session, a millisecond: it must yield
        seen.append(turns)

    async with opened("sqlite://", tools) as bench:
        tools.before = spend
        counting = asyncio.create_task(count())
        await unwatched(bench, chain(*steps(8)))
        over = True
        await counting
        assert len(set(seen)) >= 6


async def test_a_segment_goes_on_after_a_turn_of_others(tools: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """One loop has all its calls, however long they take."""
    entered, original = list[Any](), session.Session._run_segment

    async def run(self: Any, effect: Any, *more: Any) -> Any:
        entered.append(effect.address)
        return await original(self, effect, *more)

    monkeypatch.setattr(session.Session, "_run_segment", run)
    async with opened("sqlite://", tools) as bench:
        entered.clear()
        tools.before = lambda _: time.sleep(0.002)  # longer than a slice
        assert (await unwatched(bench, chain(*steps(8)))).output == {"name": 8}
        assert len(entered) == 1


async def test_a_run_that_is_paused_in_a_turn_of_others(tools: Steps) -> None:
    """A segment notices news that came while others had a turn, and repeats no call."""
    pausing = list[asyncio.Task[Any]]()

    def pause(name: Any) -> None:
        time.sleep(0.002)  # longer than a slice
        if name == 3:
            pausing.append(asyncio.create_task(bench.core.runs.interrupt(bench.me, run.id)))

    async with opened("sqlite://", tools) as bench:  # a pause takes some turns there, and no time
        tools.before = pause
        run = await bench.started(chain(*steps(40)))
        assert (await bench.ended(run)).status == "interrupted"
        await pausing[0]
        assert 3 <= len(tools.calls) < 40
        resumed = await bench.core.runs.resume(bench.me, run.id)
        assert (await bench.ended(resumed.id)).output == {"name": 40}
        assert tools.calls == list(range(1, 41))


async def test_a_run_that_is_cancelled_in_a_turn_of_others(tools: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call begins once that is written."""
    take, made = TimeSlice.take, list[Any]()

    async def taken(time_slice: TimeSlice, session: object, now: int) -> None:
        await take(time_slice, session, now)
        if len(tools.calls) == 3 and not made:
            made.extend(tools.calls)
            await bench.core.runs.cancel(bench.me, run.id)

    async with opened("sqlite://", tools) as bench:
        tools.before = lambda _: time.sleep(0.002)  # longer than a slice
        monkeypatch.setattr(TimeSlice, "take", taken)
        run = await bench.started(chain(*steps(40)))
        with pytest.raises(RunCancelled):
            await bench.core.runs.result(run)
        await bench.ran(chain(*steps(1)))
        assert tools.calls == [*made, 1]


class Store:
    """The bench's journal, of which one append fails: before it is done, or with the response lost."""

    def __init__(self, bench: Bench, number: int, *, done: bool) -> None:
        journal = bench.core.ports.journal
        self._left, self._done = number, done
        self._append = journal.append
        journal.append = self._try  # type: ignore[method-assign]

    async def _try(self, *args: Any) -> Any:
        self._left -= 1
        if self._left:
            return await self._append(*args)
        if self._done:
            await self._append(*args)
        raise Unavailable("the store does not answer")


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("number", [1, 3])
async def test_a_store_that_is_away_for_a_moment(database: str, tools: Steps, number: int, done: bool) -> None:
    """Each result is written once, and no call is repeated."""
    async with opened(database, tools) as bench:
        graph_id = await bench.deployed(chain(*steps(5)))
        Store(bench, number, done=done)
        run = await bench.core.runs.start(bench.me, workflow=graph_id)
        assert await bench.core.runs.result(run) == {"name": 5}
        assert tools.calls == [1, 2, 3, 4, 5]
        assert len([entry for entry in await journal(bench, run.id) if isinstance(entry, Succeeded)]) == 5


async def test_a_worker_that_ends_within_a_segment(tools: Steps, tmp_path: Any) -> None:
    """The next one continues with the call that had no result."""
    began, url = asyncio.Event(), f"sqlite:///{tmp_path}/a.db"

    async def hold(name: Any) -> None:
        if name == 3 and tools.calls.count(3) == 1:
            began.set()
            await asyncio.sleep(HANG)

    async with opened(url, tools) as bench:
        tools.before = hold
        run = await bench.started(chain(*steps(5)))
        await asyncio.wait_for(began.wait(), HANG)
    async with opened(url, tools, org=bench.org) as again:
        assert (await again.ended(run.id)).output == {"name": 5}
    assert tools.calls == [1, 2, 3, 3, 4, 5]


async def test_a_tool_that_cancels_itself(tools: Steps) -> None:
    """It fails; the session goes on."""

    def cancel(name: Any) -> None:
        if name == 3:
            raise asyncio.CancelledError

    async with opened("sqlite://", tools) as bench:
        tools.before = cancel
        run = await unwatched(bench, chain(*steps(5)))
        assert why(run)[0] == "the tool was cancelled from inside"


async def test_prepared_calls() -> None:
    """Arguments that are not valid are refused at each call; the others belong to the call alone."""
    schema = compile_schema({"type": "object", "properties": {"n": {"type": "object"}}})

    async def changes(n: dict[str, int]) -> int:
        n["x"] += 1
        return n["x"]

    call = PlainCall(changes, schema, lambda output: output)
    begin, refused = call.prepared({"n": {"x": 1}}), call.prepared({"n": 1})
    assert [await begin() for _ in range(2)] == [2, 2]
    for _ in range(2):
        with pytest.raises(ToolFailed, match=r"`params\.n`: must be object"):
            refused()


async def test_a_time_limit_within_a_segment(tools: Steps) -> None:
    """A call that takes too long is stopped, although its tool is known to be plain."""
    async with opened("sqlite://", tools) as bench:
        tools.before = lambda name: asyncio.sleep(HANG) if name == 3 else None
        limited = act("step", name=3, more={"timeoutSeconds": 0.01})
        run = await unwatched(bench, chain(*steps(2), limited, *steps(2, 4)))
        assert "no answer within 0.01 seconds" in why(run)[0]
        assert tools.calls == [1, 2, 3]
