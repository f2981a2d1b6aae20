"""Effects and the installation's own store: a store that is away is never the outcome of an effect."""

import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, eventually, graph, kinds, one, opened
from played import Played, asks, enabled

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.tools.catalog import tool
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.providers import ToolCall
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

CANARY = 'connection to server at "10.0.0.7" failed'


def performing() -> bool:
    """Whether an effect is what calls."""
    return any(frame.filename.endswith("execution/performer.py") for frame in traceback.extract_stack())


class Outage:
    """The next `left` reads of the store that effects make fail; `error` is how."""

    def __init__(self, bench: Bench, error: Exception | None = None, left: int = 3) -> None:
        ports = bench.core.ports
        self.left, self.failed = left, 0
        self._error = error or Unavailable(CANARY)
        self._reading = ports.storage.reading
        ports.storage.reading = self._read  # type: ignore[method-assign]
        for owner, name in (
            (ports.memories, "add"), (ports.memories, "search"), (ports.journal.usage, "sums"), (ports.blobs, "get"),
        ):  # fmt: skip
            setattr(owner, name, self._failing(getattr(owner, name)))

    def _fail(self) -> None:
        if self.left and performing():
            self.left -= 1
            self.failed += 1
            raise self._error

    @asynccontextmanager
    async def _read(self, org: str) -> AsyncIterator[Any]:
        self._fail()
        async with self._reading(org) as work:
            yield work

    def _failing(self, method: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._fail()
            return await method(*args, **kwargs)

        return call


async def finished(bench: Bench, run_id: str) -> Any:
    """The run when it has ended, while the clock advances."""

    async def ended() -> Any:
        bench.clock.advance(1)
        run = await bench.core.runs.get(bench.me, run_id)
        return None if run.status.under_way else run

    return await eventually(ended)


async def assert_outlived(bench: Bench, outage: Outage, run_id: str) -> Any:
    run = await finished(bench, run_id)
    assert run.status == "done", run.error
    assert (outage.left, outage.failed) == (0, 3)
    events = await bench.events(run_id)
    assert not {"node_failed", "node_retrying"} & set(kinds(events))
    assert CANARY not in str([event.to_wire() for event in events])
    return run


@tool(provider="payments")
async def pay(call: ToolCall) -> int:
    """Pays; it must not be called twice."""
    return call.attempt


class TestOutages:
    """Each kind of effect waits for the store, and is repeated as the same attempt."""

    async def test_children_are_opened(self, database: str) -> None:
        async with opened(database) as bench:
            child = await bench.deployed(one(act("core.transform", value=1)))
            outage = Outage(bench)
            node = act("core.workflow", more={"forEach": "[1, 2, 3]"}, workflowId=child, input={})
            run = await bench.started(one(node))
            assert (await assert_outlived(bench, outage, run.id)).output == [1, 1, 1]

    async def test_contexts_are_composed(self, database: str) -> None:
        async with opened(database, models={"default": ScriptedModel("hello")}) as bench:
            number = await deployed_skill(bench)
            outage = Outage(bench)
            run = await bench.core.runs.chat(bench.me, number, message="hi")
            assert (await assert_outlived(bench, outage, run.id)).output == "hello"

    async def test_connections_are_looked_up(self, database: str) -> None:
        """A tool that must not repeat is called once, as the first attempt."""
        async with opened(database, tools=[pay], secrets=b"k" * 32) as bench:
            config = {"apiKey": "x"}
            await bench.core.connections.create(
                bench.me, name="Till", provider="payments", kind="api_key", config=config
            )
            outage = Outage(bench)
            run = await bench.started(one(act("pay")))
            assert (await assert_outlived(bench, outage, run.id)).output == 1

    async def test_budgets_are_read(self, database: str) -> None:
        budget = Budget("organization", "day", 1_000_000)
        settings = Settings(budgets=[budget])
        async with opened(database, models={"default": ScriptedModel("hello")}, settings=settings) as bench:
            outage = Outage(bench)
            run = await bench.started(one(agent(message="hi")))
            assert (await assert_outlived(bench, outage, run.id)).output == "hello"

    @pytest.mark.parametrize("call", [asks("core_remember", memory="tea"), asks("core_recall", query="tea")])
    async def test_memories_are_written_and_found(self, database: str, call: Any) -> None:
        """The built-in tools are ours; what they cannot reach is our store."""
        async with opened(database, models={"default": Played(call, "noted")}) as bench:
            number = await deployed_skill(bench, toolset=enabled("core.remember", "core.recall"))
            outage = Outage(bench)
            run = await bench.core.runs.chat(bench.me, number, message="I like tea")
            assert (await assert_outlived(bench, outage, run.id)).output == "noted"

    async def test_time_without_a_store_is_not_the_tool_s(self, database: str) -> None:
        """An outage that is longer than the node's timeout does not end it."""
        async with opened(database, tools=[pay], secrets=b"k" * 32) as bench:
            config = {"apiKey": "x"}
            await bench.core.connections.create(
                bench.me, name="Till", provider="payments", kind="api_key", config=config
            )
            outage = Outage(bench)
            run = await bench.started(one(act("pay", more={"timeoutSeconds": 1})))
            assert (await assert_outlived(bench, outage, run.id)).output == 1


class TestFaults:
    """What the installation itself fails with is for its log."""

    async def test_the_database_is_not_quoted(self, database: str, caplog: pytest.LogCaptureFixture) -> None:
        """An exception of an adapter ends the node as an internal error; its text stands in the log alone."""
        async with opened(database) as bench:
            child = await bench.deployed(one(act("core.transform", value=1)))
            Outage(bench, RuntimeError(CANARY), left=1)
            with caplog.at_level(logging.ERROR):
                run = await bench.ended(await bench.started(one(act("core.workflow", workflowId=child, input={}))))
            assert run.error["code"] == "INTERNAL_ERROR"
            assert run.error["info"]["reason"] == "defect"
            shown = str([event.to_wire() for event in await bench.events(run.id)]) + str(run.to_wire())
            assert CANARY not in shown
            assert CANARY in caplog.text

    async def test_a_tool_s_own_exception_is_shown(self, database: str) -> None:
        """A tool of the product that raises Unavailable has failed: that says nothing about the store."""

        async def broken() -> None:
            raise Unavailable("the warehouse is closed")

        async with opened(database, tools=[broken]) as bench:
            run = await bench.ran(graph("s>a", a=act("broken")))
            assert "the warehouse is closed" in run.error["message"]
            assert (run.error["code"], run.error["status"]) == ("BAD_REQUEST", "INVALID_ARGUMENT")
