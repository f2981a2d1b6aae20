"""The sizes of the measurements: the full ones, and small ones that only test the benchmarks."""

from pathlib import Path

import attrs


@attrs.frozen
class Scale:
    directory: Path
    """The directory of databases; on a disk, not in memory."""

    nodes: int = 1_000
    lengths: tuple[int, ...] = (500, 1_000, 2_000, 5_000)
    rounds: int = 5
    runs: int = 100
    steps: int = 20
    parked: int = 1_000
    diamonds: int = 100
    wide: int = 50
    rows: int = 100_000
    deltas: int = 100_000
    readers: int = 50
    messages: int = 10_000
    starts: int = 100
    runs_a_day: int = 10_000_000

    @classmethod
    def quick(cls, directory: Path) -> "Scale":
        return cls(directory, 20, (200, 400), 1, 10, 3, 100, 5, 5, 400, 100, 3, 100, 5, 10_000)
