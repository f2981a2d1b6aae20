"""`python -m benchmarks [--quick] [--json] [ROW ...]`: measure, and print one table."""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.runs import durable, memory, parked, postgres
from benchmarks.runs.contexts import contexts
from benchmarks.runs.dispatch import dispatch
from benchmarks.runs.loop import loop, neighbours
from benchmarks.runs.postgres_statements import statements_in_postgres
from benchmarks.runs.statements import statements
from benchmarks.scale import Scale
from benchmarks.scaling.capacity import capacity
from benchmarks.server import streams
from benchmarks.server.fairness import fairness, stalled
from benchmarks.server.idle import idle_streams
from benchmarks.server.imports import imports, opening
from benchmarks.server.lists import lists
from benchmarks.server.management import management
from benchmarks.server.starts import http_starts
from benchmarks.server.throughput import throughput
from benchmarks.table import Figure, as_json, as_table

ROWS: Mapping[str, Callable[[Scale], Iterator[Figure]]] = {
    "memory": memory.chains,
    "diamonds": memory.conditions,
    "parallel": memory.parallel,
    "durable": durable.chains,
    "followed": durable.followed,
    "crowd": durable.crowd,
    "growth": durable.growth,
    "durable-diamonds": durable.conditions,
    "durable-parallel": durable.parallel,
    "postgres": postgres.chains,
    "postgres-crowd": postgres.crowd,
    "dispatch": dispatch,
    "parked": parked.parked,
    "statements": statements,
    "postgres-statements": statements_in_postgres,
    "deltas": streams.deltas,
    "frames": streams.frames,
    "idle-streams": idle_streams,
    "fairness": fairness,
    "stalled": stalled,
    "contexts": contexts,
    "management": management,
    "http-starts": http_starts,
    "throughput": throughput,
    "lists": lists,
    "loop": loop,
    "neighbours": neighbours,
    "import": imports,
    "opening": opening,
    "capacity": capacity,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], help="which rows; all of them by default")
    parser.add_argument("--quick", action="store_true", help="only test that every row runs; the figures mean nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    logging.getLogger("wfcore").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="wfcore-bench-") as directory:
        place = Path(directory)
        scale = Scale.quick(place) if chosen.quick else Scale(place)
        figures = list(_measured(chosen.rows or ROWS, scale))
    print(as_json(figures) if chosen.json else as_table(figures))


def _measured(names: list[str] | Mapping[str, object], scale: Scale) -> Iterator[Figure]:
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        work = ""
        for figure in ROWS[name](scale):
            work = figure.work or work
            yield figure.of(work)


if __name__ == "__main__":
    main()
