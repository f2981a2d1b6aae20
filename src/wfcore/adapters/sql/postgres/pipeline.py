"""A connection to PostgreSQL as a pipeline (libpq, "Pipeline Mode"): statements go out without waiting for the results
of those before them, and what is asked together comes back together.

That costs a third of what the driver's cursors do. A statement is prepared when it is first asked.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final

import attrs
import psycopg
from psycopg import AsyncConnection
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8Dumper

from wfcore.adapters.sql.postgres.connections import PostgresAddress, translated
from wfcore.adapters.sql.store import Rows

Asked = tuple[str, Sequence[Any]]
"""A statement whose values are called `$1`, `$2`, ..., and these."""

_BY_KEY: Final = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off"
"""What is asked here finds its rows along an index, whatever the values and however small the planner saw a table."""

_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)


@attrs.frozen
class Done:
    """What a statement did. Implements `Cursor`."""

    rowcount: int
    rows: Rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def fetchall(self) -> Rows:
        return self.rows


Ask = Callable[[Sequence[Asked]], Awaitable[list[Done]]]


@attrs.define(eq=False)
class _Exchange:
    """Statements that went out together, those that were prepared for it, and what has come back."""

    told: "asyncio.Future[list[Done]]"
    prepared: list[str]
    done: list[Done] = attrs.field(factory=list)
    error: psycopg.Error | None = None

    def settle(self) -> None:
        if self.told.done():
            return
        if self.error is None:
            self.told.set_result(self.done[len(self.prepared) :])
        else:
            self.told.set_exception(self.error)


class Wire:
    """A connection in autocommit mode that nobody else uses. Errors are the driver's own.

    Exchanges come back in the order in which they went out. What nobody waits for any more is done all the same.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        connection.adapters.register_dumper(int, Int8Dumper)  # a statement is prepared for integers of any size
        self.lost = False
        self._inner = connection.pgconn
        self._socket = self._inner.socket
        self._transformer = Transformer(connection)
        self._loop = asyncio.get_running_loop()
        self._names: dict[str, bytes] = {}
        self._numbers = count(1)
        self._waiting: deque[_Exchange] = deque()
        self._inner.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._read)

    def send(self, asked: Sequence[Asked]) -> "asyncio.Future[list[Done]]":
        """Ask statements: one transaction, unless they begin or end one. The first error stands for all."""
        given = [(text, *self._dumped(values)) for text, values in asked]
        fresh = {text: types for text, _, types in given if text not in self._names}
        exchange = _Exchange(self._loop.create_future(), list(fresh))
        self._waiting.append(exchange)
        try:
            for text, types in fresh.items():
                name = self._names[text] = b"wfcore_%d" % next(self._numbers)
                self._inner.send_prepare(name, text.encode(), types)
            for text, values, _ in given:
                self._inner.send_query_prepared(self._names[text], values)
            self._inner.pipeline_sync()
            if self._inner.flush():
                self._loop.add_writer(self._socket, self._write)
        except psycopg.Error as error:
            self.lose(error)
        return exchange.told

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Ask]:
        """A transaction on a wire that nobody else uses meanwhile: rolled back on any exception.

        It begins with what is asked first.
        """
        begin: list[Asked] = [("BEGIN", ())]

        async def ask(asked: Sequence[Asked]) -> list[Done]:
            first = begin.copy()
            begin.clear()
            return (await self.send([*first, *asked]))[len(first) :]

        try:
            yield ask
            await ask([("COMMIT", ())])
        except Exception:
            if not self.lost:
                await self.send([("ROLLBACK", ())])
            raise
        except BaseException:
            self.lose(psycopg.OperationalError("a transaction was broken off"))
            raise

    async def close(self) -> None:
        """Once everything that was asked has come back."""
        if not self.lost:
            with suppress(psycopg.Error):
                await self.send(())
        self.lose(psycopg.OperationalError("the connection was closed"))

    def lose(self, error: Exception) -> None:
        """The connection is of no use any more. Whoever waits is told, each by an exception of his own."""
        if not self.lost:
            self.lost = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._inner.finish()
        while self._waiting:
            exchange = self._waiting.popleft()
            exchange.error = exchange.error or psycopg.OperationalError(str(error))
            exchange.settle()

    def _dumped(self, values: Sequence[Any]) -> tuple[Any, tuple[int, ...]]:
        dumped = self._transformer.dump_sequence(values, [PyFormat.TEXT] * len(values))
        return dumped, self._transformer.types or ()

    def _write(self) -> None:
        """What did not go out at once."""
        try:
            if not self._inner.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self.lose(error)

    def _read(self) -> None:
        try:
            self._inner.consume_input()
            while self._waiting and not self._inner.is_busy():
                self._take(self._inner.get_result())
        except psycopg.Error as error:
            self.lose(error)

    def _take(self, result: PGresult | None) -> None:
        exchange = self._waiting[0]
        if result is None:
            if self._inner.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the server closed the connection")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            self._waiting.popleft()
            if exchange.error is not None:
                for text in exchange.prepared:
                    del self._names[text]
            exchange.settle()
        elif result.status in _FAILED:
            exchange.error = exchange.error or error_from_result(result)
        else:
            exchange.done.append(self._loaded(result))

    def _loaded(self, result: PGresult) -> Done:
        if not result.nfields:
            return Done(result.command_tuples or 0, [])
        self._transformer.set_pgresult(result)
        return Done(result.ntuples, self._transformer.load_rows(0, result.ntuples, tuple))


class Line:
    """A wire that is connected when it is first needed, and again after it was lost.

    Errors are in the words of the domain, as far as it has any.
    """

    def __init__(self, server: PostgresAddress) -> None:
        self._server = server
        self._wire: Wire | None = None
        self._connecting = asyncio.Lock()
        self._turn = asyncio.Lock()

    async def ask(self, asked: Asked) -> Done:
        """One statement, beside those of others."""
        with translated():
            (done,) = await (await self._connected()).send([asked])
        return done

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Wire]:
        """The wire, when everybody who asked for it before has had his turn."""
        async with self._turn:
            with translated():
                yield await self._connected()

    async def close(self) -> None:
        """Wait for those who are at work."""
        async with self._turn:
            if self._wire is not None:
                await self._wire.close()

    async def _connected(self) -> Wire:
        if self._wire is None or self._wire.lost:
            async with self._connecting:
                if self._wire is None or self._wire.lost:
                    self._wire = Wire(await self._server.connect(autocommit=True, also=_BY_KEY))
        return self._wire
