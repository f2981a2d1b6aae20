"""Progress that tools report: what becomes an event, when, and what a report cannot break."""

import asyncio
import threading
from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, graph, one, opened
from played import Played, asks, enabled

from wfcore.adapters.tools.catalog import tool
from wfcore.ports.faults import ClaimLost
from wfcore.ports.providers import ToolCall
from wfcore.runtime.tools.progress import ProgressReports
from wfcore.testing.contracts.dispatcher import eventually
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


@tool
async def steps(call: ToolCall, count: int) -> int:
    """Report each of `count` steps."""
    for number in range(count):
        call.progress(number, total=count, message=f"step {number}")
        await asyncio.sleep(0)
    return count


@tool(idempotent=True)
def in_a_thread(call: ToolCall) -> str:
    """Report from the thread of a plain function."""
    call.progress(message="halfway")
    return threading.current_thread().name


@tool(idempotent=True)
async def wrong(call: ToolCall, progress: float | None = None, message: str = "") -> None:
    call.progress(progress, message=message)


@tool(idempotent=True)
async def failing(call: ToolCall) -> None:
    call.progress(1)
    raise RuntimeError("no")


TOOLS = [steps, in_a_thread, wrong, failing]


async def reported(bench: Bench, run_id: str) -> list[dict[str, Any]]:
    return [dict(event.data) for event in await bench.events(run_id) if event.kind == "tool_progress"]


async def test_the_first_and_the_last_report_are_events(database: str) -> None:
    """Those between, which come in the same second, are not; they are durable and stand before the result."""
    async with opened(database, tools=TOOLS) as bench:
        run = await bench.ran(one(act("steps", count=50)))
        kinds = [str(event.kind) for event in await bench.events(run.id)]
        first, last = await reported(bench, run.id)
        about = {"nodeId": "a", "toolId": "steps", "total": 50}
        assert first == {**about, "progress": 0, "message": "step 0"}
        assert last == {**about, "progress": 49, "message": "step 49"}
        assert (run.output, kinds[-2:]) == (50, ["node_finished", "done"])


async def test_nodes_side_by_side(database: str) -> None:
    """Each call has its own reports, whether its function is a plain one or a coroutine function."""
    async with opened(database, tools=TOOLS) as bench:
        graph_of_two = graph("s>a s>b", a=act("in_a_thread"), b=act("steps", count=1))
        run = await bench.ran(graph_of_two)
        found = {one["nodeId"]: one.get("message") for one in await reported(bench, run.id)}
        assert found == {"a": "halfway", "b": "step 0"}


async def test_a_call_of_a_model() -> None:
    """Its reports have the id of the call."""
    async with opened("sqlite://", tools=TOOLS, models={"default": Played(asks("steps", count=1), "ok")}) as bench:
        skill = await deployed_skill(bench, toolset=enabled("steps"))
        run = await bench.ran(one(agent(agent_id=skill, message="go")))
        assert [report["toolCallId"] for report in await reported(bench, run.id)] == ["c1"]


@pytest.mark.parametrize(
    ("params", "message"),
    [({"progress": -1}, "`progress` must be a finite number"), ({}, "`progress` or `message` is required")],
)
async def test_an_invalid_report_fails_the_call(params: dict[str, Any], message: str) -> None:
    async with opened("sqlite://", tools=TOOLS) as bench:
        run = await bench.ran(one(act("wrong", **params)))
        assert run.status == "error"
        assert message in str(run.row.result)


async def test_a_report_of_a_call_that_fails_is_kept() -> None:
    async with opened("sqlite://", tools=TOOLS) as bench:
        run = await bench.ran(one(act("failing")))
        assert (run.status, [one["progress"] for one in await reported(bench, run.id)]) == ("error", [1])


async def test_a_text_is_cut() -> None:
    """At the length of an exception's text."""
    async with opened("sqlite://", tools=TOOLS) as bench:
        run = await bench.ran(one(act("wrong", message="x" * 5_000)))
        (report,) = await reported(bench, run.id)
        assert (report["progress"], len(report["message"])) == (None, 500)


class Published:
    """What is published; the next publication raises `error`."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.error: Exception | None = None

    async def __call__(self, *report: Any) -> None:
        if self.error is not None:
            raise self.error
        self.reports.append(report[0])


async def test_the_latest_of_each_second_is_published() -> None:
    clock, published = FakeClock(), Published()
    reports = ProgressReports(published, clock, asyncio.get_running_loop())
    for number in range(3):
        reports.report(number, None, "")
    await eventually(lambda: published.reports == [2] and clock.next_timer)
    reports.report(3, None, "")
    reports.report(4, None, "")
    assert published.reports == [2]
    clock.advance(1)
    await eventually(lambda: published.reports == [2, 4] and clock.next_timer)
    clock.advance(1)
    reports.report(5, None, "")
    await reports.end()
    reports.report(6, None, "")
    assert published.reports == [2, 4, 5]


async def test_a_thread_that_ends_before_the_loop_sees_its_report() -> None:
    """Python 3.14 can return the result of a thread without a turn of the event loop."""
    published = Published()
    reports = ProgressReports(published, FakeClock(), asyncio.get_running_loop())
    thread = threading.Thread(target=reports.report, args=(1, None, ""))
    thread.start()
    thread.join()
    await reports.end()
    assert published.reports == [1]


async def test_a_report_that_cannot_be_stored_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The call goes on; a worker that has lost the execution stops."""
    published = Published()
    published.error = OSError("the disk is full")
    reports = ProgressReports(published, FakeClock(), asyncio.get_running_loop())
    reports.report(1, None, "")
    await reports.end()
    assert "a report of progress was not stored" in caplog.text
    published.error = ClaimLost()
    reports = ProgressReports(published, FakeClock(), asyncio.get_running_loop())
    reports.report(1, None, "")
    with pytest.raises(ClaimLost):
        await reports.end()


def test_a_call_that_nobody_follows() -> None:
    """Its reports are checked, and lost."""
    call = ToolCall("key", 1, "org", "run", "user")
    call.progress(1, 2, "half")
    with pytest.raises(ValueError, match="`progress`"):
        call.progress(-1)
