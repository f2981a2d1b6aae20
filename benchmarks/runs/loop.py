"""Rows of the host's event loop: the most CPU that one of its turns has during a use case."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from time import perf_counter, thread_time
from typing import Any, Literal

from benchmarks.graphs import chain
from benchmarks.library import ORG, opened
from benchmarks.measure import Stopwatch
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate
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


def neighbours(scale: Scale) -> Iterator[Figure]:
    """What the host's other coroutines notice of runs on a SQLite file, with statements on the loop and in threads."""
    for driver in ("", "+aiosqlite"):
        for synchronous in ("NORMAL", "FULL"):
            with asyncio.Runner(loop_factory=TimedLoop) as runner:
                yield from runner.run(_neighbours(scale, driver, synchronous))


async def _neighbours(scale: Scale, driver: str, synchronous: Literal["NORMAL", "FULL"]) -> list[Figure]:
    url, turned = f"sqlite{driver}:///{scale.directory}/{driver}{synchronous}.db", _timed_loop()
    delays: list[float] = []

    async def neighbour() -> None:
        while True:
            began = perf_counter()
            await asyncio.sleep(0.001)
            delays.append(perf_counter() - began - 0.001)

    async with opened(url, synchronous) as library:
        flow = await library.deploy(chain(scale.steps))
        await library.run(flow, scale.runs)
        gc.collect()
        gc.freeze()
        await asyncio.sleep(0)
        turned.longest = 0.0
        beside = asyncio.create_task(neighbour())
        with Stopwatch() as watch:
            for _ in range(scale.rounds):
                await library.run(flow, scale.runs)
        longest = turned.longest
        beside.cancel()
        alone = await library.timed(await library.deploy(chain(scale.nodes)))
        (run,) = await library.start(flow)
        await library.at_rest()
        with Stopwatch() as reading:
            for _ in range(scale.starts):
                await library.core.runs.get(library.me, run)
    work = f"{scale.runs} x {scale.steps} on sqlite{driver}, {synchronous}"
    steps = scale.rounds * scale.runs * scale.steps
    return [
        Figure(work, "longest turn of the loop", longest * 1e3, "ms CPU", at_most=AT_MOST),
        Figure(work, "p99 delay of a neighbour", sorted(delays)[len(delays) * 99 // 100] * 1e3, "ms"),
        Figure(work, "CPU of a step", watch.cost.cpu / steps * 1e6, "us", ours=rate(steps, watch.cost.wall)),
        Figure(work, "one run: CPU of a step", alone.cpu / scale.nodes * 1e6, "us", ours=rate(scale.nodes, alone.wall)),
        Figure(work, "CPU of reading a run", reading.cost.cpu / scale.starts * 1e6, "us"),
    ]


def _timed_loop() -> TimedLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimedLoop)
    return loop


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
    turned = _timed_loop()
    gc.collect()
    gc.freeze()  # a collection of all objects of the process takes longer than a turn, whoever makes them
    await asyncio.sleep(0)
    turned.longest = 0.0
    await use()
    await asyncio.sleep(0)
    return Figure(work, "longest turn of the loop", turned.longest * 1e3, "ms CPU", at_most=AT_MOST)
