"""Rows on a SQLite file: the cost of a durable step, and its growth."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from benchmarks import raw
from benchmarks.graphs import chain, diamonds
from benchmarks.library import opened
from benchmarks.measure import Stopwatch, Turns, commits, exponent
from benchmarks.runs.slow import slow_nodes
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate


def chains(scale: Scale) -> Iterator[Figure]:
    """One run at a time, each step durable before the next begins."""
    for synchronous, clock, goal in (("NORMAL", "cpu", 0.60), ("FULL", "wall", 0.95)):
        with asyncio.Runner() as runner:
            turns, a_node = runner.run(_chain(scale, synchronous))
        before, ours = (turns.typical(side, clock) for side in ("raw", "ours"))
        yield Figure(f"chain on disk, {synchronous}", f"speed to raw ({clock})", turns.ratio(clock), "%",
                     rate(scale.nodes, before), rate(scale.nodes, ours), at_least=goal)  # fmt: skip
        most = 45.0 if synchronous == "NORMAL" else None
        yield Figure("", "CPU a node", turns.typical("ours", "cpu") / scale.nodes * 1e6, "us", at_most=most)
        yield Figure("", "commits a node", a_node, at_most=1.05)


async def _chain(
    scale: Scale, synchronous: Literal["FULL", "NORMAL"], *, followed: bool = False
) -> tuple[Turns, float]:
    ours, theirs = files(scale, f"followed-{synchronous}" if followed else f"chain-{synchronous}")
    bare = raw.connect(theirs, synchronous)
    async with opened(ours, synchronous) as library:
        flow, timed = await library.deploy(chain(scale.nodes)), library.followed if followed else library.timed
        await timed(flow)
        before, pairs = commits(ours), []
        for number in range(scale.rounds):
            with Stopwatch() as watch:
                raw.commit_each(bare, number, scale.nodes)
            pairs.append((watch.cost, await timed(flow)))
        a_node = (commits(ours) - before) / scale.rounds / scale.nodes
    bare.close()
    return Turns(*zip(*pairs, strict=True)), a_node


def followed(scale: Scale) -> Iterator[Figure]:
    """One run whose events a reader follows, each step durable before the next begins."""
    with asyncio.Runner() as runner:
        turns, _ = runner.run(_chain(scale, "NORMAL", followed=True))
    yield Figure("chain on disk, NORMAL, one reader", "speed to raw (cpu)", turns.ratio("cpu"), "%", at_least=0.45)
    yield Figure("", "CPU a node", turns.typical("ours", "cpu") / scale.nodes * 1e6, "us")


def crowd(scale: Scale) -> Iterator[Figure]:
    """Many simultaneous runs, whose steps share commits."""
    with asyncio.Runner() as runner:
        turns, a_node = runner.run(_crowd(scale))
    count = scale.runs * scale.steps
    seconds = [turns.typical(side, "wall") for side in ("raw", "ours")]
    yield Figure(f"{scale.runs} runs x {scale.steps} nodes, FULL", "speed to raw (wall)", turns.ratio("wall"), "%",
                 *(rate(count, took) for took in seconds), at_least=0.50)  # fmt: skip
    yield Figure("", "speed to raw (cpu)", turns.ratio("cpu"), "%")
    yield Figure("", "CPU a node", turns.typical("ours", "cpu") / count * 1e6, "us")
    yield Figure("", "commits a node", a_node, at_most=0.05)


async def _crowd(scale: Scale) -> tuple[Turns, float]:
    ours, theirs = files(scale, "crowd")
    bare = raw.connect(theirs, "FULL")
    async with opened(ours) as library:
        flow = await library.deploy(chain(scale.steps))
        await library.timed(flow, scale.runs)
        before, pairs = commits(ours), []
        for number in range(scale.rounds):
            with Stopwatch() as watch:
                raw.commit_groups(bare, number * scale.runs, scale.runs, scale.steps)
            pairs.append((watch.cost, await library.timed(flow, scale.runs)))
        a_node = (commits(ours) - before) / scale.rounds / scale.runs / scale.steps
    bare.close()
    return Turns(*zip(*pairs, strict=True)), a_node


def growth(scale: Scale) -> Iterator[Figure]:
    """Runs of increasing length, with all outputs stored."""
    with asyncio.Runner() as runner:
        sizes, times = runner.run(_growth(scale))
    yield Figure("growth on disk, NORMAL", "of bytes", exponent(scale.lengths, sizes), "exponent", at_most=1.03)
    yield Figure("", "of CPU", exponent(scale.lengths, times), "exponent", at_most=1.03)
    yield Figure("", "disk a node", sizes[-1] / scale.lengths[-1], "B", at_most=200)


async def _growth(scale: Scale) -> tuple[list[float], list[float]]:
    sizes, times = [], []
    for length in scale.lengths:
        path, _ = files(scale, f"growth-{length}")
        async with opened(path, "NORMAL") as library:
            flow = await library.deploy(chain(length))
            await library.timed(flow)
            before = stored_bytes(path)
            costs = [await library.timed(flow) for _ in range(scale.rounds)]
            sizes.append((stored_bytes(path) - before) / scale.rounds)
            times.append(min(cost.cpu for cost in costs))
    return sizes, times


def stored_bytes(path: Path) -> int:
    """The size of the database after a checkpoint of its log, in bytes."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (pages,), (size,), (free,) = (
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size", "freelist_count")
        )
    connection.close()
    return int((pages - free) * size)


def parallel(scale: Scale) -> Iterator[Figure]:
    """Many simultaneous slow nodes, each durable."""
    ours, _ = files(scale, "parallel")
    yield slow_nodes(scale, ours, "FULL", goal=1.1)


def conditions(scale: Scale) -> Iterator[Figure]:
    """Diamonds, of which only the start is written: the raw code commits the same data, once for each run."""
    with asyncio.Runner() as runner:
        turns = runner.run(_diamonds(scale))
    seconds = [turns.typical(side, "cpu") for side in ("raw", "ours")]
    yield Figure("condition diamonds on disk, NORMAL", "speed to a raw commit each", turns.ratio("cpu"), "%",
                 *(rate(scale.diamonds, took) for took in seconds), at_least=0.40)  # fmt: skip


async def _diamonds(scale: Scale) -> Turns:
    ours, theirs = files(scale, "diamonds")
    bare = raw.connect(theirs, "NORMAL")
    async with opened(ours, "NORMAL") as library:
        flow = await library.deploy(diamonds(scale.diamonds))
        pairs = []
        for number in range(scale.rounds + 1):
            with Stopwatch() as theirs_watch:
                raw.commit_each(bare, number, scale.diamonds)
            with Stopwatch() as ours_watch:
                await library.core.runs.start(library.me, workflow=flow, input={"n": 0})
                await library.at_rest()
            pairs.append((theirs_watch.cost, ours_watch.cost))
    bare.close()
    return Turns(*zip(*pairs[1:], strict=True))


def files(scale: Scale, name: str) -> tuple[Path, Path]:
    return scale.directory / f"{name}.db", scale.directory / f"{name}-raw.db"
