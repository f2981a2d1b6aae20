"""Rows on what can be reached on PostgreSQL: the statements that wfcore sends for a piece of work, sent again by bare
libpq, one exchange after the other.

Their speed to the raw code is what wfcore would have if the rest of it took no time, and if it never sent anything
while it waits for a result.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks import raw
from benchmarks.graphs import Structure, chain
from benchmarks.library import opened
from benchmarks.measure import Cost, Stopwatch, Turns
from benchmarks.runs.postgres import NEEDS, copied, new_database
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate

if TYPE_CHECKING:
    import psycopg

    from wfcore.adapters.sql.postgres.pipeline import Request


@attrs.frozen
class Exchange:
    """Statements that were sent together. `connection` is the number of connections that sent something before."""

    connection: int
    requests: "Sequence[Request]"


@attrs.frozen
class Work:
    """Some simultaneous runs of so many steps."""

    name: str
    runs: int
    structure: Structure
    bare: "Callable[[psycopg.Connection[Any]], None]"

    @property
    def steps(self) -> int:
        """Of all runs."""
        return self.runs * (len(self.structure["nodes"]) - 1)


def statements_in_postgres(scale: Scale) -> Iterator[Figure]:
    """The time of the raw code to that of wfcore's statements alone, and to that of wfcore."""
    works = [
        Work("chain on PostgreSQL", 1, chain(scale.nodes),
             partial(raw.commit_each_in_postgres, first=0, runs=1, steps=scale.nodes)),
        Work(f"{scale.runs} runs x {scale.steps} nodes, PostgreSQL", scale.runs, chain(scale.steps),
             partial(raw.commit_groups_in_postgres, first=0, runs=scale.runs, steps=scale.steps)),
    ]  # fmt: skip
    for work in works:
        rounds = [one for _ in range(min(scale.rounds, 3)) if (one := _measured(scale, work)) is not None]
        if not rounds:
            print(NEEDS, file=sys.stderr, flush=True)
            return
        bare, replayed, ours = zip(*rounds, strict=True)
        alone, all_of_it = Turns(bare, replayed), Turns(bare, ours)
        seconds = [alone.typical(side, "wall") for side in ("raw", "ours")]
        yield Figure(f"{work.name}, its statements alone", "speed to raw (wall)", alone.ratio("wall"), "%",
                     *(rate(work.steps, took) for took in seconds))  # fmt: skip
        yield Figure("", "with wfcore", all_of_it.ratio("wall"), "%")


def _measured(scale: Scale, work: Work) -> tuple[Cost, Cost, Cost] | None:
    """The costs of the raw code, of the statements and of wfcore; None without a server."""
    with new_database(scale) as url, asyncio.Runner() as runner:
        if url is None:
            return None
        flow = runner.run(_prepare(work, url))
        with copied(url) as copy:
            exchanges, ours = runner.run(_recorded(work, url, flow))
            replayed = replay(copy, exchanges)
        connection = raw.connect_to_postgres(url)
        with Stopwatch() as watch:
            work.bare(connection)
        connection.close()
        return watch.cost, replayed, ours


async def _prepare(work: Work, url: str) -> int:
    async with opened(url) as library:
        flow = await library.deploy(work.structure)
        await library.run(flow)
        return flow


async def _recorded(work: Work, url: str, flow: int) -> tuple[list[Exchange], Cost]:
    async with opened(url, again=True) as library:
        with recorded_exchanges() as exchanges, Stopwatch() as watch:
            await library.start(flow, work.runs)
            await library.at_rest()
        return exchanges, watch.cost


@contextmanager
def recorded_exchanges() -> "Iterator[list[Exchange]]":
    """What all connections send meanwhile."""
    from wfcore.adapters.sql.postgres.pipeline import PipelineConnection

    send, exchanges, numbers = PipelineConnection.send, list[Exchange](), dict[PipelineConnection, int]()

    def recorded(connection: PipelineConnection, statements: "Sequence[Request]", **options: Any) -> Any:
        exchanges.append(Exchange(numbers.setdefault(connection, len(numbers)), list(statements)))
        return send(connection, statements, **options)

    PipelineConnection.send = recorded  # type: ignore[method-assign]
    try:
        yield exchanges
    finally:
        PipelineConnection.send = send  # type: ignore[method-assign]


def replay(url: str, exchanges: "Sequence[Exchange]") -> Cost:
    """Send them again, on a copy of the database as it was before them."""
    import psycopg

    with ExitStack() as stack:
        connections = {
            number: _Replayed(stack.enter_context(psycopg.connect(url, autocommit=True)))
            for number in {exchange.connection for exchange in exchanges}
        }
        work = [
            (connections[one.connection].exchange, connections[one.connection].prepared(one.requests))
            for one in exchanges
        ]
        with Stopwatch() as watch:
            for exchange, prepared in work:
                exchange(prepared)
    return watch.cost


class _Replayed:
    """A connection that sends prepared statements as wfcore does, and waits for their results."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        from psycopg.adapt import Transformer
        from psycopg.types.numeric import Int8Dumper

        from wfcore.adapters.sql.postgres.connections import _PLANNER_SETTINGS
        from wfcore.adapters.sql.postgres.pipeline import BY_KEY

        connection.adapters.register_dumper(int, Int8Dumper)
        connection.execute(f"{_PLANNER_SETTINGS}; {BY_KEY}")
        self._inner = connection.pgconn
        self._transformer = Transformer(connection)
        self._names: dict[str, bytes] = {}

    def prepared(self, requests: "Sequence[Request]") -> list[tuple[bytes, Any]]:
        from psycopg.adapt import PyFormat

        found = []
        for statement, values in requests:
            dumped = self._transformer.dump_sequence(values, [PyFormat.TEXT] * len(values))
            text = statement.server("wfcore")
            if text not in self._names:
                self._names[text] = b"replayed_%d" % len(self._names)
                self._inner.prepare(self._names[text], text.encode(), self._transformer.types or ())
            found.append((self._names[text], dumped))
        return found

    def exchange(self, prepared: list[tuple[bytes, Any]]) -> None:
        """RuntimeError if a statement fails."""
        from psycopg.pq import ExecStatus

        inner = self._inner
        inner.enter_pipeline_mode()
        for name, values in prepared:
            inner.send_query_prepared(name, values)
        inner.pipeline_sync()
        while inner.flush():
            pass
        while (result := inner.get_result()) is None or result.status != ExecStatus.PIPELINE_SYNC:
            if result is not None and result.status in (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED):
                raise RuntimeError(result.error_message.decode())
        inner.exit_pipeline_mode()
