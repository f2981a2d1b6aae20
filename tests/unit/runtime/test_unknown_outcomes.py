"""Tools that must not be called twice: announced before the call, and failed when nobody knows how it ended."""

import asyncio
from typing import Any

import pytest
from bench import Bench, Disk, act, eventually, graph, one, opened, why
from waiting import HANG

from wfcore.adapters.tools.catalog import tool
from wfcore.domain.run import entries as e
from wfcore.ports.providers import ToolCall

pytestmark = pytest.mark.anyio


class Till:
    """Takes money: `charge` must not be called twice, `note` may."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.began = asyncio.Event()
        self.free = asyncio.Event()

    def all(self) -> list[Any]:
        return [self.charge, self.note, self.wobbly]

    async def charge(self, call: ToolCall, wait: bool = False) -> str:
        self.calls.append((call.key.partition(":")[2], call.attempt))
        self.began.set()
        if wait:
            await self.free.wait()
        return "charged"

    @tool(idempotent=True)
    async def note(self, call: ToolCall) -> str:
        self.calls.append((call.key.partition(":")[2], call.attempt))
        self.began.set()
        await self.free.wait()
        return "noted"

    async def wobbly(self, call: ToolCall) -> int:
        self.calls.append((call.key.partition(":")[2], call.attempt))
        if call.attempt < 3:
            raise RuntimeError("not yet")
        return call.attempt


def charge(**more: Any) -> dict[str, Any]:
    return act("charge", wait=True, more=more)


async def left_in(database: str, structure: Any) -> tuple[str, str, Till]:
    """Organization and run of a process that was stopped while the first tool ran."""
    till = Till()
    async with opened(database, tools=till.all()) as bench:
        run = await bench.started(structure)
        async with asyncio.timeout(HANG):
            await till.began.wait()
    return bench.org, run.id, till


@pytest.mark.parametrize("beside", [False, True])
async def test_stopped_while_it_ran(database: str, beside: bool) -> None:
    """Whoever takes the run up calls it no second time, retries or not: the node has failed, and its edge is taken."""
    structure = graph("s>a a>b a:error>c" + (" s>n" if beside else ""), a=charge(retry={"maxAttempts": 5}),
                      b=act("note"), c=act("core.transform", value="requested"),
                      **({"n": act("note")} if beside else {}))  # fmt: skip
    org, run_id, before = await left_in(database, structure)
    async with opened(database, tools=(after := Till()).all(), org=org) as again:
        after.free.set()
        ended = await again.ended(run_id)
        assert ended.output == ({"c": "requested", "n": "noted"} if beside else "requested")
        (failed,) = [event for event in await again.events(run_id) if event.kind == "node_failed"]
        assert failed.data["error"]["info"]["reason"] == "unknown_outcome"
        assert [key for key, _ in after.calls] == (["n:1"] if beside else [])
        assert ("a:1", 1) in before.calls


async def test_without_an_error_edge(database: str) -> None:
    """The run ends in error and says which tool it was."""
    org, run_id, _ = await left_in(database, one(charge()))
    async with opened(database, tools=Till().all(), org=org) as again:
        message = "the outcome of `charge` is unknown: the worker ended while it ran"
        assert why(await again.ended(run_id)) == (message, "unknown_outcome")


async def test_an_idempotent_tool_is_called_again(database: str) -> None:
    """Under the same key, as the same attempt."""
    org, run_id, before = await left_in(database, one(act("note")))
    async with opened(database, tools=(after := Till()).all(), org=org) as again:
        after.free.set()
        assert (await again.ended(run_id)).output == "noted"
        assert before.calls == after.calls == [("a:1", 1)]


async def test_announcing_costs_no_write_of_its_own() -> None:
    """But for the first of a run, the announcement goes along with the outcome before it."""
    till, written = Till(), []
    async with opened("sqlite://", tools=till.all()) as bench:
        journal = bench.core.ports.journal
        append = journal.append

        async def watched(ref: Any, change: Any) -> None:
            written.append([type(entry) for entry in change.entries])
            await append(ref, change)

        journal.append = watched  # type: ignore[method-assign]
        run = await bench.ran(graph("s>a a>b b>c", **dict.fromkeys("abc", act("charge"))))
        assert run.status == "done"
    assert written == [[e.Sent], [e.Succeeded, e.Sent], [e.Succeeded, e.Sent], [e.Succeeded]]


async def test_every_attempt_is_announced() -> None:
    """An attempt that failed by itself has a known outcome: the next one is made, and announced before."""
    till = Till()
    async with opened("sqlite://", tools=till.all()) as bench:
        run = await bench.ran(one(act("wobbly", more={"retry": {"maxAttempts": 3, "initialIntervalSeconds": 0}})))
        assert run.output == 3
        entries = await bench.core.ports.journal.read(run.row.execution)
        assert [entry.attempt for entry in entries if isinstance(entry, e.Sent)] == [1, 2, 3]


async def test_not_called_before_it_is_durable(caplog: pytest.LogCaptureFixture) -> None:
    """While the announcement cannot be written the tool is not called; then it is, once."""
    till = Till()
    async with opened("sqlite://", tools=till.all()) as bench:
        disk = Disk(bench, full=True)
        run = await bench.started(one(act("charge")))
        await eventually(lambda: "an execution could not be driven" in caplog.text)
        assert till.calls == []
        disk.full = False
        bench.clock.advance(10)
        assert (await bench.ended(run)).output == "charged"
        assert len(till.calls) == 1


async def test_an_outcome_that_was_not_written_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """The call was made and its result was lost with the store: it is not made again."""
    till = Till()
    async with opened("sqlite://", tools=till.all()) as bench:
        disk = Disk(bench, full=False)
        run = await bench.started(one(charge()))
        await till.began.wait()
        disk.full = True
        till.free.set()
        await eventually(lambda: "an execution could not be driven" in caplog.text)
        disk.full = False
        bench.clock.advance(10)
        assert why(await bench.ended(run))[1] == "unknown_outcome"
        assert len(till.calls) == 1


async def test_a_sibling_that_was_stopped_in_vain(bench: Bench) -> None:
    """A tool that was stopped because its sibling ended the run is never called again."""
    structure = graph("s>a s>b", a=act("hold"), b=act("flaky", fails=9))
    run = await bench.ran(structure)
    assert why(run)[0] == "RuntimeError: attempt 1 fails"
    assert bench.tools.count("hold") == 1
