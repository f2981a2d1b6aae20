"""The claim of an execution: tools get its number, and a call that must not repeat is made under the claim only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bench import Bench, act, ask, eventually, graph, one, opened

from wfcore.adapters.tools.catalog import tool
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import ToolCall

pytestmark = pytest.mark.anyio

OTHER_WORKER = 77


class Cash:
    """A tool that must not repeat, with a connection, and one without."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def all(self) -> list[Any]:
        return [self.pay, self.number]

    @tool(provider="payments")
    async def pay(self, call: ToolCall) -> int:
        """Pay."""
        self.calls.append(call.fencing)
        return call.fencing

    @tool
    async def number(self, call: ToolCall) -> int:
        """The number of the claim."""
        return call.fencing


class TakeOver:
    """When an effect looks up its connection, another worker claims the execution."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._journal = bench.core.ports.journal
        self._reading = bench.core.ports.storage.reading
        self.taken: list[ExecutionRef] = []
        bench.core.ports.storage.reading = self._read  # type: ignore[method-assign]

    @asynccontextmanager
    async def _read(self, org: str) -> AsyncIterator[Any]:
        for holder in [] if self.taken else await self._journal.holders():
            await self._journal.release(holder.worker)
            self.taken = await self._journal.claim_due(OTHER_WORKER, self._bench.clock.now(), 9)
        async with self._reading(org) as work:
            yield work


async def connected(bench: Bench) -> None:
    await bench.core.connections.create(
        bench.me, name="Till", provider="payments", kind="api_key", config={"apiKey": "x"}
    )


async def test_the_number_grows_with_each_claim(database: str) -> None:
    """Calls under one claim have the same number; those after an approval, in a new claim, have a greater one."""
    async with opened(database, tools=Cash().all()) as bench:
        nodes = {
            "a": act("number"),
            "h": ask(),
            "b": act("number"),
            "out": act("core.transform", value="{{ [nodes.a.output, nodes.b.output] }}"),
        }
        run = await bench.ended(await bench.started(graph("s>a a>h h:approved>b b>out", **nodes)))
        again = await bench.core.runs.resume(bench.me, run.id, decision="approve")
        assert (await bench.ended(again)).output == [1, 2]


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_lost_claim_prevents_the_call(database: str, parallel: bool) -> None:
    """The call was announced; the claim went to another worker before the call. Only that worker decides about it."""
    cash = Cash()
    async with opened(database, tools=cash.all(), secrets=b"k" * 32) as bench:
        await connected(bench)
        number = await bench.deployed(
            graph("s>a s>b", a=act("pay"), b=act("core.wait", seconds=600)) if parallel else one(act("pay"))
        )
        run = await bench.core.runs.start(bench.me, workflow=number, input={})
        take_over = TakeOver(bench)
        await eventually(lambda: take_over.taken)
        await eventually(lambda: not bench.core.driver.lengths())
        assert cash.calls == []
        await bench.core.ports.journal.release(OTHER_WORKER)
        bench.core.ports.dispatcher.wake(take_over.taken[0])
        found = await bench.ended(run)
        assert found.error["info"]["reason"] == "unknown_outcome"
        assert cash.calls == []
