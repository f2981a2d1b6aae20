"""A PostgreSQL connection in pipeline mode (libpq, "Pipeline Mode"): statements are sent without waiting for earlier
results, and the results of statements that were sent together arrive together.

This costs a third of the driver's cursors. A statement is prepared on its first use.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
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

from wfcore.adapters.sql.postgres.connections import PostgresAddress, domain_errors
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Rows

Request = tuple[Statement, Sequence[Any]]
"""A statement with numbered parameters, and their values."""

_BEGIN: Final = Statement(lambda _: "BEGIN")
_COMMIT: Final = Statement(lambda _: "COMMIT")
_ROLL_BACK: Final = Statement(lambda _: "ROLLBACK")

BY_KEY: Final = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off"
"""Settings of the planner for statements that find their rows by an index, for any values, even if the planner saw a
small table. A bitmap scan would not mark the entries of dead rows, and read those of all claims since the last vacuum
at each look at the claims.
"""

BY_VALUES: Final = "SET default_transaction_read_only = on"
"""Settings for lists, whose best index depends on the values: the planner decides."""

_FORGET_PLANS: Final = "DISCARD PLANS"
"""Plans for small tables can use an index by which they read all rows of an organization. The server makes new plans,
by the size of the tables now, after the first `_PLANNED` exchanges, after twice as many, and so on.
"""

_PLANNED: Final = 32

MOST_PREPARED: Final = 256
"""Prepared statements of a connection: each holds memory of the server, and lists have one for each set of filters."""

_FORGET_STATEMENTS: Final = "DEALLOCATE ALL"

_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)


@attrs.frozen
class StatementResult:
    """The result of a statement. Implements `Cursor`."""

    rowcount: int
    rows: Rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def fetchall(self) -> Rows:
        return self.rows


Execute = Callable[[Sequence[Request]], Awaitable[list[StatementResult]]]


_Given = tuple[str, Any, tuple[int, ...]]
"""The text of a statement, its values for the server, and their types."""


@attrs.define(eq=False)
class _Exchange:
    """Statements that were sent together, those that were prepared for them, and the results so far.

    `settle` receives the results of all statements, or the first error.
    """

    settle: Callable[[list[StatementResult], psycopg.Error | None], None]
    prepared: list[str]
    results: list[StatementResult] = attrs.field(factory=list)
    error: psycopg.Error | None = None

    def end(self) -> None:
        self.settle(self.results[len(self.prepared) :], self.error)


@attrs.frozen(eq=False)
class _LookUp:
    """A statement that can be repeated, and its result to come."""

    given: _Given
    future: "asyncio.Future[StatementResult]"


class PipelineConnection:
    """A pipeline on an exclusive connection in autocommit mode. It raises errors of the driver.

    Results arrive in the order of sending. A statement whose caller was cancelled is executed all the same.
    """

    def __init__(
        self,
        connection: AsyncConnection[Any],
        schema: str = DEFAULT_SCHEMA,
        *,
        on_notification: Callable[[str], None] | None = None,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_notification` receives the texts of notifications, if the connection listens. `on_loss` is called when
        the connection is closed, or found to be broken.
        """
        connection.adapters.register_dumper(int, Int8Dumper)  # prepare statements for integers of any size
        self._loss: Exception | None = None
        self._schema = schema
        self._inner = connection.pgconn
        self._socket = self._inner.socket
        self._transformer = Transformer(connection)
        self._loop = asyncio.get_running_loop()
        self._names: dict[str, bytes] = {}
        self._numbers = count(1)
        self._planned = self._until_planned = _PLANNED
        self._waiting: deque[_Exchange] = deque()
        self._gathered: list[_LookUp] = []
        self._on_notification = on_notification
        self._on_loss = on_loss
        self._inner.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._read)

    @property
    def lost(self) -> bool:
        """Whether it was closed, or found to be broken."""
        return self._loss is not None

    @property
    def waiting(self) -> int:
        """How many exchanges have no result yet."""
        return len(self._waiting) + bool(self._gathered)

    def send(self, statements: Sequence[Request], *, aborted: bool = False) -> "asyncio.Future[list[StatementResult]]":
        """Send statements as one transaction, unless they begin or end one. The first error is raised for all.

        `aborted` means that a statement of the transaction has failed: the server accepts nothing but its end.
        """
        self._send_gathered()
        future: asyncio.Future[list[StatementResult]] = self._loop.create_future()
        self._send([self._given(*request) for request in statements], partial(_settle, future), aborted=aborted)
        return future

    def look_up(self, statement: Statement, values: Sequence[Any]) -> "asyncio.Future[StatementResult]":
        """Send a statement that can be repeated.

        While results are awaited, those of one turn of the loop are sent together: an exchange costs more than a
        statement that finds its rows by key.
        """
        one = _LookUp(self._given(statement, values), self._loop.create_future())
        if not self.waiting:
            self._send_look_ups([one])
            return one.future
        if not self._gathered:
            self._loop.call_soon(self._send_gathered)
        self._gathered.append(one)
        return one.future

    def _send_gathered(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._send_look_ups(gathered)

    def _send_look_ups(self, together: list[_LookUp]) -> None:
        self._send([one.given for one in together], partial(self._settle_look_ups, together))

    def _settle_look_ups(
        self, together: list[_LookUp], results: list[StatementResult], error: psycopg.Error | None
    ) -> None:
        """After an error of one of them, each is repeated by itself, which attributes the error."""
        left = [(place, one) for place, one in enumerate(together) if not one.future.done()]
        for place, one in left:
            if error is None:
                one.future.set_result(results[place])
            elif len(together) == 1:
                one.future.set_exception(error)
            elif self.lost:
                one.future.set_exception(psycopg.OperationalError(str(error)))
            else:
                self._send_look_ups([one])

    def _send(
        self,
        given: Sequence[_Given],
        settle: Callable[[list[StatementResult], psycopg.Error | None], None],
        *,
        aborted: bool = False,
    ) -> None:
        forgotten = [] if aborted else self._forgotten()
        fresh = {text: types for text, _, types in given if text not in self._names}
        self._waiting.append(_Exchange(settle, [*forgotten, *fresh]))
        try:
            for text in forgotten:
                self._inner.send_query_params(text.encode(), None)
            for text, types in fresh.items():
                name = self._names[text] = b"wfcore_%d" % next(self._numbers)
                self._inner.send_prepare(name, text.encode(), types)
            for text, values, _ in given:
                self._inner.send_query_prepared(self._names[text], values)
            self._inner.pipeline_sync()
            if self._inner.flush():
                self._loop.add_writer(self._socket, self._write)
        except psycopg.Error as error:
            self.fail(error)

    def _forgotten(self) -> list[str]:
        """What the server has to forget before the next statements: its plans, or statements when they are too many."""
        found = []
        self._until_planned -= 1
        if not self._until_planned:
            self._planned = self._until_planned = 2 * self._planned
            found.append(_FORGET_PLANS)
        if len(self._names) > MOST_PREPARED:
            self._names.clear()
            found.append(_FORGET_STATEMENTS)
        return found

    @asynccontextmanager
    async def transaction(self) -> "AsyncIterator[PipelineTransaction]":
        """A transaction, rolled back on any exception. Nothing else can use the connection meanwhile."""
        transaction = PipelineTransaction(self.send)
        try:
            yield transaction
            await transaction.commit()
        except Exception:
            if transaction.has_begun and not self.lost:
                await self._roll_back()
            raise
        except BaseException:
            self.fail(psycopg.OperationalError("a transaction was interrupted"))
            raise

    async def _roll_back(self) -> None:
        """Roll back, or close the connection: its next user must not find a transaction of another."""
        try:
            await self.send([(_ROLL_BACK, ())], aborted=True)
        except psycopg.Error as error:
            self.fail(error)

    async def close(self) -> None:
        """Close the connection after all results have arrived."""
        if not self.lost:
            with suppress(psycopg.Error):
                await self.send(())
        self.fail(psycopg.OperationalError("the connection was closed"))

    def fail(self, error: Exception) -> None:
        """Close a broken connection. Each caller, also a later one, gets an exception of its own with the cause."""
        if self._loss is None:
            self._loss = error
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._inner.finish()
            self._on_loss()
        while self._waiting:
            exchange = self._waiting.popleft()
            exchange.error = exchange.error or psycopg.OperationalError(str(self._loss))
            exchange.end()

    def _given(self, statement: Statement, values: Sequence[Any]) -> _Given:
        dumped = self._transformer.dump_sequence(values, [PyFormat.TEXT] * len(values))
        return statement.server(self._schema), dumped, self._transformer.types or ()

    def _write(self) -> None:
        """Send the rest of the output buffer."""
        try:
            if not self._inner.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self.fail(error)

    def _read(self) -> None:
        try:
            self._inner.consume_input()
            while self._waiting and not self._inner.is_busy():
                self._receive(self._inner.get_result())
            while self._on_notification is not None and (note := self._inner.notifies()):
                self._on_notification(note.extra.decode())
        except psycopg.Error as error:
            self.fail(error)

    def _receive(self, result: PGresult | None) -> None:
        exchange = self._waiting[0]
        if result is None:
            if self._inner.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the server closed the connection")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            self._waiting.popleft()
            if exchange.error is not None:
                for text in exchange.prepared:
                    self._names.pop(text, None)
            exchange.end()
        elif result.status in _FAILED:
            exchange.error = exchange.error or error_from_result(result)
        else:
            exchange.results.append(self._loaded(result))

    def _loaded(self, result: PGresult) -> StatementResult:
        if not result.nfields:
            return StatementResult(result.command_tuples or 0, [])
        self._transformer.set_pgresult(result)
        return StatementResult(result.ntuples, self._transformer.load_rows(0, result.ntuples, tuple))


def _settle(
    future: "asyncio.Future[list[StatementResult]]", results: list[StatementResult], error: psycopg.Error | None
) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(results)
    else:
        future.set_exception(error)


class PipelineTransaction:
    """A transaction. Queued statements are sent together with the next ones, or with the commit."""

    def __init__(self, send: Execute) -> None:
        self._send = send
        self._queued: list[Request] = []
        self.has_begun = False
        """Whether the server has it open, or had when it failed."""

    def queue(self, statements: Sequence[Request]) -> None:
        """Execute them before the next ones, or before the commit. What they return is not needed."""
        self._queued += statements

    async def execute(self, statements: Sequence[Request]) -> list[StatementResult]:
        before = self._queued if self.has_begun else [(_BEGIN, ()), *self._queued]
        self._queued, self.has_begun = [], True
        return (await self._send([*before, *statements]))[len(before) :]

    async def commit(self) -> None:
        """Commit. Statements that were all queued are sent together, which makes them one transaction."""
        if self.has_begun:
            await self.execute([(_COMMIT, ())])
        elif self._queued:
            await self._send(self._queued)


class PipelineClient:
    """A pipeline that is connected on first use, and again after it was lost. It raises errors of the domain."""

    def __init__(self, server: PostgresAddress, planner: str = BY_KEY) -> None:
        """`planner`: `BY_KEY` or `BY_VALUES`."""
        self._server = server
        self._planner = planner
        self._connection: PipelineConnection | None = None
        self._connecting = asyncio.Lock()
        self._turn = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """How many results are still to arrive."""
        return 0 if self._connection is None else self._connection.waiting

    @property
    def free_connection(self) -> PipelineConnection | None:
        """The connection, for statements that are sent at once; None while it is not connected or used exclusively."""
        connection = self._connection
        return None if connection is None or connection.lost or self._turn.locked() else connection

    async def execute(self, statement: Request) -> StatementResult:
        """Execute one statement that can be repeated, concurrently with those of other callers.

        It is sent once more if the connection was lost before its result arrived.
        """
        return await self._repeated(lambda connection: _only(connection.send([statement])))

    async def look_up(self, statement: Request) -> StatementResult:
        """The same for a statement that locks and writes nothing: it can share a transaction with others."""
        return await self._repeated(lambda connection: connection.look_up(*statement))

    async def _repeated(self, send: Callable[[PipelineConnection], Awaitable[StatementResult]]) -> StatementResult:
        with domain_errors():
            connection = await self._connected()
            try:
                return await send(connection)
            except psycopg.OperationalError:
                if not connection.lost:
                    raise
                return await send(await self._connected())

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[PipelineConnection]:
        """The connection for exclusive use; callers get it in the order of their calls."""
        async with self._turn:
            with domain_errors():
                yield await self._connected()

    async def close(self) -> None:
        """Wait for exclusive users, then close the connection."""
        async with self._turn:
            if self._connection is not None:
                await self._connection.close()

    async def _connected(self) -> PipelineConnection:
        if self._connection is None or self._connection.lost:
            async with self._connecting:
                if self._connection is None or self._connection.lost:
                    connection = await self._server.connect(autocommit=True, also=self._planner)
                    self._connection = PipelineConnection(connection, self._server.schema)
        return self._connection


async def _only(results: Awaitable[list[StatementResult]]) -> StatementResult:
    (result,) = await results
    return result
