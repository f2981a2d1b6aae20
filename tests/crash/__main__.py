"""Kill real processes at every point of every scene, and print what became of it: `make crash`.

    python tests/crash [--store sqlite|postgres] [--seconds S] [--scene NAME ...] [--point NAME] [--storm S]

Without `--seconds` every point is killed at; with it as many as that time allows, evenly over scenes and boundaries,
the same ones each time. `--point` tells the story of one, `write/amid/3`, as the list of problems names it. The exit
status is 1 when a completed step was repeated, an acknowledged event lost, a run stranded, or one came to something
else.
"""

import argparse
import itertools
import queue
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from scenes import spec
from stores import PostgresServer, SqliteFiles, Store
from stories import FAULTS, SCENES, Undisturbed, Verdict
from storm import Storm
from zygote import Zygote

GOLDEN = 0.6180339887498949
MIDWAY = "append/told/4"
"""Where the first process of `recovery` dies: its points are those of the process that takes over."""

Task = tuple[Undisturbed, str]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="crash-") as root:
        zygotes = [Zygote(*_to_warm_up_on(options.store)) for _ in range(2)]
        try:
            store = _store(options.store, Path(root), zygotes[0])
            faults = _tell_all(options, Path(root), store, zygotes)
            if options.storm:
                faults += Storm(Path(root), store, zygotes, options.storm).rage()
        finally:
            for zygote in zygotes:
                zygote.close()
    return int(faults > 0)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--scene", action="append", choices=(*SCENES, "recovery", "none"))
    parser.add_argument("--point")
    parser.add_argument("--storm", type=float, default=0.0)
    return parser.parse_args(arguments)


def _to_warm_up_on(store: str) -> list[str]:
    return [PostgresServer().url] if store == "postgres" else []


def _store(name: str, root: Path, zygote: Zygote) -> Store:
    store = SqliteFiles(root) if name == "sqlite" else PostgresServer()
    assert zygote.run(spec(root, store.url, "seed", "seed")) == 0, (root / "seed.out").read_text()
    return store


def _tell_all(options: argparse.Namespace, root: Path, store: Store, zygotes: list[Zygote]) -> int:
    """How many faults were found. They are printed, the table last."""
    wholes = [_undisturbed(name, root, store, zygotes[0]) for name in options.scene or (*SCENES, "recovery")
              if name != "none"]  # fmt: skip
    tasks = [(whole, point) for whole in wholes for point in whole.points if options.point in (None, point)]
    verdicts, began = [], time.monotonic()
    for verdict in _verdicts(_evenly(tasks), root, zygotes, options.seconds):
        verdicts.append(verdict)
        for problem in verdict.problems:
            print(problem, flush=True)
    _print_table(tasks, verdicts)
    print(f"{len(verdicts)} stories in {time.monotonic() - began:.0f} s")
    return sum(len(verdict.problems) for verdict in verdicts)


def _undisturbed(name: str, root: Path, store: Store, zygote: Zygote) -> Undisturbed:
    place = root / name
    place.mkdir()
    if name == "recovery":
        return Undisturbed("demo", place, store, zygote, kills=[MIDWAY])
    return Undisturbed(name, place, store, zygote)


def _evenly(tasks: list[Task]) -> list[Task]:
    """In an order of which every beginning is spread evenly over the whole."""
    return [task for _, task in sorted(enumerate(tasks), key=lambda numbered: numbered[0] * GOLDEN % 1)]


def _verdicts(tasks: list[Task], root: Path, zygotes: list[Zygote], seconds: float) -> Iterator[Verdict]:
    """Two stories at a time, until all are told or the time is over."""
    end = time.monotonic() + (seconds or float("inf"))
    free: queue.Queue[Zygote] = queue.Queue()
    for zygote in zygotes:
        free.put(zygote)
    numbers = itertools.count()

    def tell(task: Task) -> Verdict | None:
        if time.monotonic() > end:
            return None
        whole, point = task
        zygote = free.get()
        try:
            with tempfile.TemporaryDirectory(dir=root, prefix=f"{next(numbers)}-") as place:
                return whole.tell(Path(place), zygote, point)
        finally:
            free.put(zygote)

    with ThreadPoolExecutor(len(zygotes)) as pool:
        yield from (verdict for verdict in pool.map(tell, tasks) if verdict)


def _print_table(tasks: list[Task], verdicts: list[Verdict]) -> None:
    """A row for each scene and boundary. Points that a life did not reach, for it was earlier done, are not killed."""
    points = Counter((whole.label, point.partition("/")[0]) for whole, point in tasks)
    killed = Counter((told.scene, told.kills[-1].partition("/")[0]) for told in verdicts if told.reached)
    faults = {
        name: Counter((told.scene, told.kills[-1].partition("/")[0]) for told in verdicts for _ in getattr(told, name))
        for name in FAULTS
    }
    print(f"{'scene':<12}{'boundary':<10}" + "".join(f"{name:>10}" for name in ("points", "killed", *FAULTS)))
    for row in points:
        print(f"{row[0]:<12}{row[1]:<10}{points[row]:>10}{killed[row]:>10}"
              + "".join(f"{faults[name][row]:>10}" for name in FAULTS))  # fmt: skip
    totals = [points.total(), killed.total(), *(faults[name].total() for name in FAULTS)]
    print(f"{'all':<22}" + "".join(f"{total:>10}" for total in totals), flush=True)


if __name__ == "__main__":
    sys.exit(main())
