"""Rows of the host's event loop: the most CPU that one of its turns has during a use case."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from time import thread_time
from typing import Any

from benchmarks.graphs import chain
from benchmarks.library import ORG, opened
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.ports.providers import ToolConnection, ToolFailed

AT_MOST = 10
"""Milliseconds of CPU in one turn."""


class TimedLoop(asyncio.SelectorEventLoop):
    """An event loop that measures the CPU time of its thread in each turn."""

    longest = 0.0
    """Seconds."""

    def _run_once(self) -> None:
        began = thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, thread_time() - began)


def loop(scale: Scale) -> Iterator[Figure]:
    """Use cases of a web process that could keep its loop for long."""
    with asyncio.Runner(loop_factory=TimedLoop) as runner:
        yield from runner.run(_loop(scale))


async def _loop(scale: Scale) -> list[Figure]:
    async with opened(scale.directory / "loop.db", "NORMAL") as library:
        flow = await library.deploy(chain(20))
        run = (await library.start(flow))[0]
        await library.at_rest()
        core, me = library.core, library.me
        large, edited = chain(scale.lengths[-1]), chain(scale.lengths[-1] - 1)
        body = {"type": "workflow", "name": "Large", "workflowStructure": large}
        graphs = [
            ("validate", lambda: core.workflows.validate(me, body)),
            ("create", lambda: core.workflows.create(me, body)),
        ]

        async def reads() -> None:
            for _ in range(300):
                await core.runs.get(me, run)
                await core.workflows.get(me, flow)

        async def run_large() -> None:
            await library.run(number)

        async def first_connection() -> None:
            connection = ToolConnection("1", "docs", "mcp", {"url": "http://127.0.0.1:9/"})
            with suppress(ToolFailed):
                await core.ports.tool_servers.listing(ORG, connection)

        found = [
            await _figure("the first connection to an MCP server", first_connection),
            await _figure("300 reads in a row", reads),
            await _figure(f"{4 * scale.runs} gathered starts", lambda: library.run(flow, 4 * scale.runs)),
            *[await _figure(f"{name} {scale.lengths[-1]} nodes", use) for name, use in graphs],
        ]
        number = (await core.workflows.page(me))[-1].id
        return [
            *found,
            await _figure("deploy", lambda: core.workflows.deploy(me, number)),
            await _figure("patch", lambda: core.workflows.patch(me, number, structure=edited)),
            await _figure("impact", lambda: core.workflows.impact(me, number)),
            await _figure("run", run_large),
        ]


async def _figure(work: str, use: Callable[[], Awaitable[Any]]) -> Figure:
    turned = asyncio.get_running_loop()
    assert isinstance(turned, TimedLoop)
    gc.collect()
    gc.freeze()  # a collection of all objects of the process takes longer than a turn, whoever makes them
    await asyncio.sleep(0)
    turned.longest = 0.0
    await use()
    await asyncio.sleep(0)
    return Figure(work, "longest turn of the loop", turned.longest * 1e3, "ms CPU", at_most=AT_MOST)
