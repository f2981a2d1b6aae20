"""The least code that does the same work: no validation, no recovery, no tenancy. It marks how far one could go."""

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
"""A row of the size that wfcore's journal writes for a small step."""

Graph = tuple[list[str], list[list[int]], list[int], int]
Walked = tuple[dict[str, Any], list[tuple[int, str, str]]]
"""Outputs by node id, and events: number, kind, node id."""


def prepare(structure: Structure) -> Graph:
    """Ids, successors and joins by position, and where to begin."""
    names = [node["id"] for node in structure["nodes"]]
    position = {name: index for index, name in enumerate(names)}
    targets: list[list[int]] = [[] for _ in names]
    joins = [0] * len(names)
    for edge in structure["edges"]:
        targets[position[edge["source"]]].append(position[edge["target"]])
        joins[position[edge["target"]]] += 1
    return names, targets, joins, position["start"]


def interpret(graph: Graph) -> Walked:
    """Walk the graph with ready counters, calling a function per node, keeping outputs and two events a node."""
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
    """So many diamonds: a test of the last output, one of two branches, a join; outputs and events are kept."""
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
    """A journal of its own with the pragmas that wfcore sets."""
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
    """Many runs at once: a transaction for each step of them all."""
    for pos in range(steps):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(run, pos, ENTRY) for run in range(first, first + runs)]
        connection.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")


def park(connection: sqlite3.Connection, first: int, runs: int) -> None:
    """Runs that begin and wait: a row each, and their first entry, by the hundred."""
    for start in range(first, first + runs, 100):
        numbers = range(start, start + 100)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO runs VALUES (?, 'interrupted')", [(run,) for run in numbers])
        connection.executemany("INSERT INTO journal VALUES (?, 0, ?)", [(run, ENTRY) for run in numbers])
        connection.execute("COMMIT")


def resume(connection: sqlite3.Connection, first: int, runs: int, group: int = 100) -> None:
    """Their answers: read what there is, write the answer and one step, change the row; by the hundred."""
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
    """The same journal on PostgreSQL; each statement outside a transaction is one of its own."""
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
    """Many runs at once: a transaction for each step of them all."""
    for pos in range(steps):
        with connection.transaction():
            rows = [(run, pos, ENTRY) for run in range(first, first + runs)]
            connection.cursor().executemany(_INSERT, rows)


async def gather(width: int, seconds: float) -> Sequence[None]:
    """So many waits at once."""
    return await asyncio.gather(*(asyncio.sleep(seconds) for _ in range(width)))
