"""Stopwatches, alternating rounds and growth: how a figure is measured."""

import gc
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Self

import attrs


@attrs.frozen
class Cost:
    """The duration of one piece of work, in seconds."""

    wall: float
    cpu: float


class Stopwatch:
    """Measures its `with` block, after a garbage collection."""

    cost: Cost

    def __enter__(self) -> Self:
        gc.collect()
        self._wall, self._cpu = perf_counter(), process_time()
        return self

    @property
    def so_far(self) -> float:
        """Seconds of wall time since the block began."""
        return perf_counter() - self._wall

    def __exit__(self, *_: object) -> None:
        self.cost = Cost(perf_counter() - self._wall, process_time() - self._cpu)


@attrs.frozen
class Turns:
    """Rounds of raw work and of wfcore's, alternating, so that variations of the machine affect both."""

    raw: Sequence[Cost]
    ours: Sequence[Cost]

    def ratio(self, clock: str) -> float:
        """Raw time by wfcore's, the median of the rounds: 1.0 is as fast as raw."""
        pairs = zip(self.raw, self.ours, strict=True)
        return median(getattr(raw, clock) / max(getattr(ours, clock), 1e-9) for raw, ours in pairs)

    def typical(self, side: str, clock: str) -> float:
        return median(getattr(cost, clock) for cost in getattr(self, side))


def take_turns(rounds: int, raw: Callable[[], Cost], ours: Callable[[], Cost]) -> Turns:
    """Both once to warm up, then alternating."""
    raw(), ours()
    pairs = [(raw(), ours()) for _ in range(rounds)]
    return Turns([pair[0] for pair in pairs], [pair[1] for pair in pairs])


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The exponent with which a cost grows with the size: the slope of a line through the logarithms."""
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    middle, level = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - middle) * (y - level) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - middle) ** 2 for x in xs)


def commits(database: Path) -> int:
    """How many transactions were committed to a SQLite file in WAL mode since its log was opened.

    Each costs one fdatasync under `synchronous=FULL`. It is the change counter of the WAL index (SQLite,
    "WAL-mode File Format", 2.1), 32 bits in the machine's byte order at offset 8 of the shared memory file.
    """
    index = database.with_name(database.name + "-shm").read_bytes()
    return int.from_bytes(index[8:12], "little")
