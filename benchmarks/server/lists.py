"""Rows of lists beside many rows of others: the cost of a page must not depend on them."""

import asyncio
import math
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.copies import copies, runs_like
from benchmarks.graphs import Structure, chain
from benchmarks.library import ORG, opened
from benchmarks.runs.postgres import NEEDS, new_database
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.runtime.runs.inbox import Inbox

AT_MOST = 2
"""Milliseconds of CPU for a page."""

WAITING = 5_700
"""The requests that wait for the member itself, in the rows of its inbox."""

APPROVAL: Structure = {
    "nodes": [{"id": "s", "type": "start"}, {"id": "a", "type": "humanApproval", "data": {"message": "May I?"}}],
    "edges": [{"id": "e", "source": "s", "target": "a"}],
}
TABLES = frozenset({"executions", "runs", "interrupts", "resources", "grants"})


def lists(scale: Scale) -> Iterator[Figure]:
    """Pages of a member who can use one workflow, beside waiting runs and workflows of others, on both stores."""
    copied = 10 * scale.rows // 2
    path = scale.directory / "lists.db"
    number, own = asyncio.run(_filled(path))
    with sqlite3.connect(path) as connection:
        for statement in copies(copied, TABLES):
            connection.execute(statement)
        for statement in runs_like(own, range(copied + 1, copied + WAITING)):
            connection.execute(statement)
    connection.close()
    figures = asyncio.run(_lists(path, number))
    beside = f"beside {2 * copied} of others"
    yield from (Figure(f"{name}, {beside}", "CPU", ms, "ms", at_most=AT_MOST) for name, (ms, _) in figures)
    with new_database(scale) as url:
        if url is None:
            print(NEEDS, file=sys.stderr, flush=True)
            return
        figures = asyncio.run(_on_server(url, copied))
    for name, (cpu, wall) in figures:
        work = f"{name}, {beside}, PostgreSQL"
        yield Figure(work, "CPU of the library", cpu, "ms", at_most=AT_MOST)
        yield Figure(work, "shortest duration, with the server", wall, "ms")


async def _on_server(url: str, copied: int) -> list[tuple[str, tuple[float, float]]]:
    import psycopg

    number, own = await _filled(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in copies(copied, TABLES, on_server=True):
            connection.execute(statement)  # type: ignore[call-overload]
        for statement in runs_like(own, range(copied + 1, copied + WAITING), on_server=True):
            connection.execute(statement)  # type: ignore[call-overload]
        connection.execute("VACUUM ANALYZE")
    return await _lists(url, number)


async def _filled(place: Path | str) -> tuple[int, int]:
    """The member's own workflow with a run, and one of somebody else with a waiting run. Returns the number of the own
    workflow, and of the execution of another one that waits for the member.
    """
    async with opened(place, "NORMAL") as library:
        core, other = library.core, library.core.principal(ORG, "u2", email="u2@example.org")
        hidden = await core.workflows.create(other, name="A", structure=APPROVAL, access={"visibility": "private"})
        await core.workflows.deploy(other, hidden.id)
        await core.runs.start(other, workflow=hidden.id)
        number = await library.deploy(chain(3))
        await library.run(number)
        (waiting,) = await library.start(await library.deploy(APPROVAL))
        await library.at_rest()
        row = await core.ports.journal.find_run(ORG, waiting)
        assert row is not None
        return number, row.execution.id


async def _lists(place: Path | str, number: int) -> list[tuple[str, tuple[float, float]]]:
    async with opened(place, "NORMAL", again=True) as library:
        workflows, runs, me = library.core.workflows, library.core.runs, library.me
        inbox = Inbox(library.core.ports, runs)
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "runs": lambda: runs.page(me),
            "runs of one workflow": lambda: runs.page(me, workflow=number),
            "runs of one status": lambda: runs.page(me, status="interrupted"),
            "runs of a status that none has": lambda: runs.page(me, status="error"),
            f"the inbox of {WAITING}": lambda: inbox.page(me),
            f"the count of {WAITING}": lambda: inbox.count(me),
            "workflows": lambda: workflows.page(me),
        }
        return [(name, await _milliseconds(call)) for name, call in calls.items()]


async def _milliseconds(call: Callable[[], Awaitable[Any]], count: int = 20) -> tuple[float, float]:
    """CPU of this process on average, and the shortest duration."""
    await call()
    cpu, shortest = process_time(), math.inf
    for _ in range(count):
        began = perf_counter()
        await call()
        shortest = min(shortest, perf_counter() - began)
    return (process_time() - cpu) / count * 1e3, shortest * 1e3
