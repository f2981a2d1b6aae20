"""Rows on what can be reached: the statements that wfcore executes for a piece of work, executed again without wfcore.

They write what the raw code leaves out: claims, checksums, lists, the inbox, audit. Their speed to the raw code is the
highest that wfcore could have with them; the rest of its time is Python.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs

from benchmarks import raw
from benchmarks.graphs import Structure, approval, chain
from benchmarks.library import Library, opened
from benchmarks.measure import Cost, Stopwatch
from benchmarks.runs.durable import files
from benchmarks.runs.parked import approve_in_hundreds, in_hundreds, waiting_runs
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate
from wfcore.adapters.sql.sqlite.numbered import CONNECTION


@attrs.frozen
class Call:
    """A call of a connection. `connection` is the number of connections that were opened before it."""

    connection: int
    method: str
    statement: str
    values: Any


class Recorded(CONNECTION):
    """A connection that records its calls. Those of cursors, which SQLAlchemy uses, are not recorded."""

    calls: list[Call] | None = None
    """Of all connections; None: nothing is recorded."""
    number = 0

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        self._record("execute", statement, values)
        return super().execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        rows = list(rows)
        self._record("executemany", statement, rows)
        return super().executemany(statement, rows)

    def _record(self, method: str, statement: str, values: Any) -> None:
        if Recorded.calls is not None:
            Recorded.calls.append(Call(self.number, method, statement, values))


@contextmanager
def recorded_connections() -> Iterator[None]:
    """Connections that are opened meanwhile can record their calls."""
    connect, count = sqlite3.connect, 0

    def recorded(*args: Any, **options: Any) -> Recorded:
        nonlocal count
        connection: Recorded = connect(*args, **{**options, "factory": Recorded})
        connection.number, count = count, count + 1
        return connection

    sqlite3.connect = recorded  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect, Recorded.calls = connect, None


def replay(path: Path, synchronous: str, calls: Sequence[Call]) -> Cost:
    """Repeat the calls on a copy of the file as it was before them."""
    connections = {number: raw.connect(path, synchronous) for number in {call.connection for call in calls}}
    work = [(getattr(connections[call.connection], call.method), call.statement, call.values) for call in calls]
    with Stopwatch() as watch:
        for execute, statement, values in work:
            execute(statement, values).fetchall()
    for connection in connections.values():
        connection.close()
    return watch.cost


Do = Callable[[Library, int, Sequence[str]], Awaitable[object]]
"""Does the work with a deployed workflow and runs that wait."""


@attrs.frozen
class Work:
    """A piece of work of `count` runs or nodes: with raw code, and with wfcore."""

    name: str
    count: int
    structure: Structure
    bare: Callable[[sqlite3.Connection], None]
    do: Do
    waiting: int = 0
    """How many runs wait before."""
    synchronous: Literal["FULL", "NORMAL"] = "FULL"


async def _chain(library: Library, flow: int, _: Sequence[str], count: int = 1) -> None:
    await library.run(flow, count)


def _works(scale: Scale) -> Iterator[Work]:
    yield Work("chain on disk, NORMAL", scale.nodes, chain(scale.nodes),
               partial(raw.commit_each, run=0, steps=scale.nodes), _chain, synchronous="NORMAL")  # fmt: skip
    yield Work(f"{scale.runs} runs x {scale.steps} nodes, FULL", scale.runs * scale.steps, chain(scale.steps),
               partial(raw.commit_groups, first=0, runs=scale.runs, steps=scale.steps),
               partial(_chain, count=scale.runs))  # fmt: skip
    yield Work(f"{scale.parked} runs parked, FULL", scale.parked, approval(),
               partial(raw.park, first=0, runs=scale.parked),
               lambda library, flow, _: in_hundreds(library, flow, scale.parked))  # fmt: skip
    yield Work(f"{scale.parked} runs resumed, FULL", scale.parked, approval(),
               partial(raw.resume, first=0, runs=scale.parked),
               lambda library, _, waiting: approve_in_hundreds(library, waiting), waiting=scale.parked)  # fmt: skip


def statements(scale: Scale) -> Iterator[Figure]:
    """The CPU of the raw code to that of wfcore's statements alone, and to that of wfcore."""
    for number, work in enumerate(_works(scale)):
        bare, replayed, ours = _measured(work, scale, number)
        yield Figure(f"{work.name}, its statements alone", "speed to raw (cpu)", bare.cpu / replayed.cpu, "%",
                     rate(work.count, bare.cpu), rate(work.count, replayed.cpu))  # fmt: skip
        yield Figure("", "CPU each", replayed.cpu / work.count * 1e6, "us")
        yield Figure("", "with wfcore", bare.cpu / ours.cpu, "%")


def _measured(work: Work, scale: Scale, number: int) -> tuple[Cost, Cost, Cost]:
    ours, theirs = files(scale, f"statements-{number}")
    copy = ours.with_suffix(".copy")
    with asyncio.Runner() as runner:
        flow = runner.run(_prepare(work, ours))
        shutil.copy(ours, copy)
        with recorded_connections():
            calls, cost = runner.run(_recorded(work, ours, flow))
    bare = raw.connect(theirs, work.synchronous)
    if work.waiting:
        raw.park(bare, 0, work.waiting)
    with Stopwatch() as watch:
        work.bare(bare)
    bare.close()
    return watch.cost, replay(copy, work.synchronous, calls), cost


async def _prepare(work: Work, path: Path) -> int:
    async with opened(path, work.synchronous) as library:
        flow = await library.deploy(work.structure)
        await library.start(flow, 10)
        await library.at_rest()
        if work.waiting:
            await in_hundreds(library, flow, work.waiting)
        return flow


async def _recorded(work: Work, path: Path, flow: int) -> tuple[list[Call], Cost]:
    async with opened(path, work.synchronous, again=True) as library:
        waiting = await waiting_runs(library, work.waiting) if work.waiting else []
        calls = Recorded.calls = list[Call]()
        with Stopwatch() as watch:
            await work.do(library, flow, waiting)
        Recorded.calls = None
        return calls, watch.cost
