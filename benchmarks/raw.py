"""The least code for the same work, without validation, recovery and tenancy: a bound for comparison."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.graphs import Structure

if TYPE_CHECKING:
    import psycopg

ENTRY = json.dumps(["ok", 1, 1_767_268_800_000, 500, 1, 0, 1, {"n": 500}])
"""A row with the size of a journal entry of a small step."""

Graph = tuple[list[str], list[list[int]], list[int], int]
Walked = tuple[dict[str, Any], list[tuple[int, str, str]]]
"""Outputs by node id, and events: number, kind, node id."""


def prepare(structure: Structure) -> Graph:
    """Ids, successors and joins by position, and the first position."""
    names = [node["id"] for node in structure["nodes"]]
    position = {name: index for index, name in enumerate(names)}
    targets: list[list[int]] = [[] for _ in names]
    joins = [0] * len(names)
    for edge in structure["edges"]:
        targets[position[edge["source"]]].append(position[edge["target"]])
        joins[position[edge["target"]]] += 1
    return names, targets, joins, position["start"]


def interpret(graph: Graph) -> Walked:
    """Walk the graph with ready counters; for each node call a function, and keep its output and two events."""
    names, targets, joins, start = graph
    need = joins.copy()
    outputs: dict[str, Any] = {}
    events: list[tuple[int, str, str]] = []
    ready, seq, output = [start], 0, None
    while ready:
        node = ready.pop()
        name = names[node]
        events.append((seq, "node_started", name))
        outputs[name] = output = _step(output)
        events.append((seq + 1, "node_finished", name))
        seq += 2
        for target in targets[node]:
            need[target] -= 1
            if not need[target]:
                ready.append(target)
    return outputs, events


def _step(_: Any) -> Any:
    return {"n": 500}


def branch(count: int) -> Walked:
    """`count` diamonds: a test of the last output, one of two branches, a join; outputs and events are kept."""
    outputs: dict[str, Any] = {"start": {"n": 0}}
    events: list[tuple[int, str, str]] = []
    last, seq = "start", 0
    for number in range(count):
        taken, skipped = (f"left{number}", f"right{number}") if outputs[last]["n"] >= 0 else ("", "")
        events.append((seq, "node_skipped", skipped))
        for name in (taken, f"join{number}"):
            events.append((seq + 1, "node_started", name))
            outputs[name] = {"n": number}
            events.append((seq + 2, "node_finished", name))
            seq += 2
        last = f"join{number}"
        seq += 1
    return outputs, events


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A separate journal with the pragmas of wfcore."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS journal (run INTEGER NOT NULL, pos INTEGER NOT NULL, entry TEXT NOT NULL,"
        " PRIMARY KEY (run, pos)) WITHOUT ROWID"
    )
    connection.execute("CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
    return connection


def commit_each(connection: sqlite3.Connection, run: int, steps: int) -> None:
    """One run: a transaction for every step."""
    for pos in range(steps):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO journal VALUES (?, ?, ?)", (run, pos, ENTRY))
        connection.execute("COMMIT")


def commit_groups(connection: sqlite3.Connection, first: int, runs: int, steps: int) -> None:
    """Many simultaneous runs: one transaction for each step of all runs."""
    for pos in range(steps):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(run, pos, ENTRY) for run in range(first, first + runs)]
        connection.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")


def park(connection: sqlite3.Connection, first: int, runs: int) -> None:
    """Runs that begin and wait: one row and the first entry for each, in batches of a hundred."""
    for start in range(first, first + runs, 100):
        numbers = range(start, start + 100)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO runs VALUES (?, 'interrupted')", [(run,) for run in numbers])
        connection.executemany("INSERT INTO journal VALUES (?, 0, ?)", [(run, ENTRY) for run in numbers])
        connection.execute("COMMIT")


def resume(connection: sqlite3.Connection, first: int, runs: int, group: int = 100) -> None:
    """Their decisions: read the run, write the decision and one step, change the row; in batches of a hundred."""
    for start in range(first, first + runs, group):
        numbers = range(start, start + group)
        for run in numbers:
            json.loads(connection.execute("SELECT entry FROM journal WHERE run = ?", (run,)).fetchone()[0])
        connection.execute("BEGIN IMMEDIATE")
        rows = [(run, pos, ENTRY) for run in numbers for pos in (1, 2)]
        connection.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
        connection.executemany("UPDATE runs SET status = 'done' WHERE id = ?", [(run,) for run in numbers])
        connection.execute("COMMIT")


def connect_to_postgres(url: str) -> "psycopg.Connection[Any]":
    """The same journal on PostgreSQL; each statement outside a transaction is a separate transaction."""
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS raw_journal"
        " (run bigint NOT NULL, pos bigint NOT NULL, entry text NOT NULL, PRIMARY KEY (run, pos))"
    )
    return connection


_INSERT = "INSERT INTO raw_journal VALUES (%s, %s, %s)"


def commit_each_in_postgres(connection: "psycopg.Connection[Any]", first: int, runs: int, steps: int) -> None:
    """A transaction for every step, one run after the other."""
    for run in range(first, first + runs):
        for pos in range(steps):
            connection.execute(_INSERT, (run, pos, ENTRY))


def commit_groups_in_postgres(connection: "psycopg.Connection[Any]", first: int, runs: int, steps: int) -> None:
    """Many simultaneous runs: one transaction for each step of all runs."""
    for pos in range(steps):
        with connection.transaction():
            rows = [(run, pos, ENTRY) for run in range(first, first + runs)]
            connection.cursor().executemany(_INSERT, rows)


async def gather(width: int, seconds: float) -> Sequence[None]:
    """`width` simultaneous waits."""
    return await asyncio.gather(*(asyncio.sleep(seconds) for _ in range(width)))
