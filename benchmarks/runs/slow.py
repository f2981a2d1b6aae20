"""Slow nodes: the time that wfcore adds."""

import asyncio
from pathlib import Path

from benchmarks import raw
from benchmarks.graphs import fan
from benchmarks.library import opened
from benchmarks.measure import Stopwatch, Turns
from benchmarks.scale import Scale
from benchmarks.table import Figure


def slow_nodes(scale: Scale, place: Path | None, where: str, *, goal: float) -> Figure:
    """Simultaneous nodes of 10 ms, against as many sleeps; `goal` is the greatest ratio of the durations."""
    with asyncio.Runner() as runner:
        turns = runner.run(_turns(scale, place))
    seconds = [turns.typical(side, "wall") * 1e3 for side in ("raw", "ours")]
    return Figure(f"{scale.wide} parallel nodes of 10 ms, {where}", "time to raw", 1 / turns.ratio("wall"), "",
                  *(f"{took:.1f} ms" for took in seconds), at_most=goal)  # fmt: skip


async def _turns(scale: Scale, place: Path | None) -> Turns:
    async with opened(place) as library:
        flow = await library.deploy(fan(scale.wide, "nap"))
        await library.timed(flow)
        pairs = []
        for _ in range(scale.rounds):
            with Stopwatch() as watch:
                await raw.gather(scale.wide, 0.01)
            pairs.append((watch.cost, await library.timed(flow)))
        return Turns(*zip(*pairs, strict=True))
