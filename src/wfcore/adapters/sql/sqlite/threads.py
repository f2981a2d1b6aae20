"""Transactions of a SQLite file whose statements and commits run in threads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import attrs

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.statement import Statement, Values
from wfcore.adapters.sql.sqlite.driver import READERS, EngineName, domain_errors, driver_of, executed
from wfcore.adapters.sql.store import Result, Rows, Transaction, shielded

T = TypeVar("T")

BEGIN: Final = "BEGIN"
BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"


class File(Protocol):
    """What these transactions use of an open `Database`."""

    lock: asyncio.Lock
    slots: asyncio.Semaphore

    @property
    def thread(self) -> Executor: ...

    def executor(self, use: str, size: int = 1) -> Executor: ...

    async def engine(self, name: EngineName) -> "sa.Engine": ...

    def check_open(self) -> object: ...

    async def scrub(self) -> None: ...


class OffLoopTransaction:
    """Implements `Transaction`. A call is one hop to a thread, which also fetches the rows.

    A call that has begun is finished even if the caller is cancelled: the connection is never in use by two threads.
    """

    _inner: "sa.Connection"

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._is_connected = False

    async def begin(self, engine: "sa.Engine", statement: str) -> None:
        def begin() -> None:
            self._inner = engine.connect()
            self._is_connected = True
            driver_of(self._inner).execute(statement)

        await self._call(begin)

    async def commit(self) -> None:
        await self.run_sync(lambda inner: driver_of(inner).commit())

    async def end(self) -> None:
        """Return the connection to its pool, which rolls back what was not committed."""
        if self._is_connected:
            await self._call(self._inner.close)

    async def execute(self, statement: "sa.Executable", parameters: Any = None) -> Result:
        return await self.run_sync(lambda inner: _fetched(inner.execute(statement, parameters)))

    async def scan(self, statement: Statement, values: Values) -> Rows:
        return await self.run_sync(lambda inner: [tuple(row) for row in executed(inner, statement, values)])

    async def run(self, statement: Statement, values: Values = ()) -> Result:
        return await self.run_sync(lambda inner: _fetched(executed(inner, statement, values)))

    async def run_sync(self, work: "Callable[[sa.Connection], T]") -> T:
        return await self._call(work, self._inner)

    async def _call(self, work: Callable[..., T], *values: Any) -> T:
        return await shielded(asyncio.get_running_loop().run_in_executor(self._threads, work, *values))


def _fetched(result: Result) -> Result:
    """The result with its rows in memory, where the event loop reads them."""
    from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy

    if result.returns_rows:
        cursor: Any = result.cursor
        result.cursor_strategy = FullyBufferedCursorFetchStrategy(cursor)
        cursor.close()
    return result


@attrs.frozen
class OffLoopTransactions:
    """Implements `Transactions` on a file."""

    database: File

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        database = self.database
        async with database.lock, self._begun(database.thread, "_writer", BEGIN_IMMEDIATE) as transaction:
            yield transaction
            await transaction.commit()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        database = self.database
        async with database.slots, self._begun(database.executor("read", READERS), "_reader", BEGIN) as transaction:
            yield transaction

    async def scrub(self) -> None:
        await self.database.scrub()

    @asynccontextmanager
    async def _begun(self, threads: Executor, engine: EngineName, begin: str) -> AsyncIterator[OffLoopTransaction]:
        self.database.check_open()
        transaction = OffLoopTransaction(threads)
        with domain_errors():
            try:
                await transaction.begin(await self.database.engine(engine), begin)
                yield transaction
            finally:
                await transaction.end()
