"""Rows of lists beside many rows of others: the cost of a page must not depend on them."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.graphs import Structure, chain
from benchmarks.library import ORG, opened
from benchmarks.scale import Scale
from benchmarks.table import Figure

AT_MOST = 2
"""Milliseconds of CPU for a page."""

FIRST = 10**6
"""The key of the first row of others."""

APPROVAL: Structure = {
    "nodes": [{"id": "s", "type": "start"}, {"id": "a", "type": "humanApproval", "data": {"message": "May I?"}}],
    "edges": [{"id": "e", "source": "s", "target": "a"}],
}
TABLES = {
    "wfcore_executions": lambda key: {"id": key},
    "wfcore_runs": lambda key: {"key": key, "id": f"r-{key}", "execution": key},
    "wfcore_interrupts": lambda key: {"key": key, "execution": key},
}


def lists(scale: Scale) -> Iterator[Figure]:
    """Pages of a member who can use one workflow, beside waiting runs of a workflow that it cannot use."""
    path, others = scale.directory / "lists.db", 10 * scale.rows
    number = asyncio.run(_filled(path))
    _multiply(path, others)
    figures = asyncio.run(_lists(path, number))
    yield from (Figure(f"{name}, beside {others} of others", "CPU", ms, "ms", at_most=AT_MOST) for name, ms in figures)


async def _filled(path: Path) -> int:
    """The member's own workflow with a run, and one of somebody else with a waiting run."""
    async with opened(path, "NORMAL") as library:
        core, other = library.core, library.core.principal(ORG, "u2", email="u2@example.org")
        hidden = await core.workflows.create(other, name="A", structure=APPROVAL, access={"visibility": "private"})
        await core.workflows.deploy(other, hidden.id)
        await core.runs.start(other, workflow=hidden.id)
        number = await library.deploy(chain(3))
        await library.run(number)
        return number


def _multiply(path: Path, count: int) -> None:
    """Copy the waiting run so many times."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        for table, other in TABLES.items():
            row = dict(connection.execute(f"SELECT * FROM {table} ORDER BY 1 LIMIT 1").fetchone())
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            rows = (tuple({**row, **other(FIRST + number)}.values()) for number in range(count))
            connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
    connection.close()


async def _lists(path: Path, number: int) -> list[tuple[str, float]]:
    async with opened(path, "NORMAL", again=True) as library:
        runs, me = library.core.runs, library.me
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "runs": lambda: runs.page(me),
            "runs of one workflow": lambda: runs.page(me, workflow=number),
            "runs of one status": lambda: runs.page(me, status="interrupted"),
            "runs of a status that none has": lambda: runs.page(me, status="error"),
            "the inbox": lambda: runs.interrupts(me),
        }
        return [(name, await _milliseconds(call)) for name, call in calls.items()]


async def _milliseconds(call: Callable[[], Awaitable[Any]], count: int = 20) -> float:
    await call()
    began = process_time()
    for _ in range(count):
        await call()
    return (process_time() - began) / count * 1e3
