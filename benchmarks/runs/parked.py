"""Rows on waiting runs: to park them, to resume them after a restart, and the cost of each meanwhile."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks import raw
from benchmarks.graphs import approval
from benchmarks.library import Library, opened
from benchmarks.measure import Cost, Stopwatch, Turns
from benchmarks.runs.durable import files, stored_bytes
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunFilter

STEPS = (2, 10, 50, 100)
"""The lengths of runs whose resumes are measured."""


def parked(scale: Scale) -> Iterator[Figure]:
    """Runs that wait for a person, in batches of a hundred."""
    with asyncio.Runner() as runner:
        parking, disk = runner.run(_park(scale))
        resuming, ready, empty = runner.run(_resume(scale))
        memory = runner.run(_memory(scale))
        long = {steps: runner.run(_long(scale, steps)) for steps in STEPS}
    for turns, what, goal in ((parking, "parked", 0.16), (resuming, "resumed by another process", 0.10)):
        seconds = [turns.typical(side, "wall") for side in ("raw", "ours")]
        yield Figure(f"{scale.parked} runs {what}, FULL", "speed to raw (wall)", turns.ratio("wall"), "%",
                     *(rate(scale.parked, took) for took in seconds), at_least=goal)  # fmt: skip
        yield Figure("", "CPU a run", turns.typical("ours", "cpu") / scale.parked * 1e6, "us")
    yield Figure("a parked run", "disk", disk, "B", at_most=400)
    yield Figure("", "memory", memory, "B", at_most=512)
    for steps, (resumed, stored) in long.items():
        yield Figure(f"a run parked after {steps} steps", "CPU a resume", resumed * 1e6, "us")
        yield Figure("", "disk", stored, "B")
    yield Figure(f"opening with {scale.parked} parked", "more than with none", (ready - empty) * 1e3, "ms", at_most=20)
    yield Figure("", "in all", ready * 1e3, "ms")


async def _park(scale: Scale) -> tuple[Turns, float]:
    ours, theirs = files(scale, "parked")
    bare = raw.connect(theirs, "FULL")
    async with opened(ours) as library:
        flow = await library.deploy(approval())
        await library.start(flow, 10)
        before = stored_bytes(ours)
        with Stopwatch() as theirs_watch:
            raw.park(bare, 0, scale.parked)
        cost = await in_hundreds(library, flow, scale.parked)
        disk = (stored_bytes(ours) - before) / scale.parked
    bare.close()
    return Turns([theirs_watch.cost], [cost]), disk


async def in_hundreds(library: Library, flow: int, count: int) -> Cost:
    with Stopwatch() as watch:
        for _ in range(0, count, 100):
            await library.start(flow, min(count, 100))
    return watch.cost


async def _resume(scale: Scale) -> tuple[Turns, float, float]:
    """On the existing file, with nothing in memory: the state of a new process after its imports."""
    ours, theirs = files(scale, "parked")
    empty = median([await _opening(scale, f"empty-{number}") for number in range(3)])
    ready = median([await _opening(scale, "parked") for _ in range(3)])
    bare = raw.connect(theirs, "FULL")
    with Stopwatch() as theirs_watch:
        raw.resume(bare, 0, scale.parked)
    bare.close()
    async with opened(ours, again=True) as library:
        waiting = await waiting_runs(library, scale.parked)
        with Stopwatch() as watch:
            await approve_in_hundreds(library, waiting)
    return Turns([theirs_watch.cost], [watch.cost]), ready, empty


async def _opening(scale: Scale, name: str) -> float:
    """Seconds until an existing database is open."""
    path, _ = files(scale, name)
    async with opened(path, again=path.exists()):
        pass
    with Stopwatch() as watch:
        async with opened(path, again=True):
            served = watch.so_far
    return served


async def waiting_runs(library: Library, count: int) -> list[str]:
    rows = await library.core.ports.journal.list_runs(
        library.me.org_uuid, limit=count, where=RunFilter(status=RunStatus.interrupted)
    )
    return [row.id for row in rows]


async def approve(library: Library, runs: Sequence[str]) -> None:
    await asyncio.gather(*(library.core.runs.resume(library.me, run, decision="approve") for run in runs))


async def approve_in_hundreds(library: Library, waiting: Sequence[str]) -> None:
    for first in range(0, len(waiting), 100):
        await approve(library, waiting[first : first + 100])
    await library.at_rest()


async def _long(scale: Scale, steps: int) -> tuple[float, float]:
    """Seconds of CPU of a resume by another process, and bytes on disk, of runs that have gone so many steps."""
    path, _ = files(scale, f"long-{steps}")
    async with opened(path) as library:
        flow = await library.deploy(approval(steps))
        await library.start(flow, 10)
        await library.at_rest()
        before = stored_bytes(path)
        await library.start(flow, scale.runs)
        await library.at_rest()
        disk = (stored_bytes(path) - before) / scale.runs
    async with opened(path, again=True) as library:
        first, *waiting = await waiting_runs(library, scale.runs + 10)
        await approve(library, [first])
        await library.at_rest()
        with Stopwatch() as watch:
            await approve(library, waiting)
            await library.at_rest()
    return watch.cost.cpu / len(waiting), disk


async def _memory(scale: Scale) -> float:
    """Bytes of Python memory for each parked run."""
    path, _ = files(scale, "memory")
    async with opened(path) as library:
        flow = await library.deploy(approval())
        await in_hundreds(library, flow, 100)
        gc.collect()
        tracemalloc.start()
        await in_hundreds(library, flow, scale.parked)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return kept / scale.parked
