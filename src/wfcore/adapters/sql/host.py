"""Writes in a transaction of the product: on a connection that it opened, and that it alone commits.

A write is done under a savepoint, so that a refused one leaves the transaction usable.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import sqlalchemy as sa

from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.journal.steps import claim
from wfcore.adapters.sql.schema.statement import Statement, Values
from wfcore.adapters.sql.store import Commits, CommitTransaction, Cursor, Result, Rows, Store, Transaction, Transactions

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

SAVEPOINT: Final = "wf_in_transaction"

_BEGIN: Final = Statement(lambda _: f"SAVEPOINT {SAVEPOINT}")
_ROLL_BACK: Final = Statement(lambda _: f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
_RELEASE: Final = Statement(lambda _: f"RELEASE SAVEPOINT {SAVEPOINT}")

KINDS: Final = (
    "a connection or session of SQLAlchemy with any driver, sync or async, or a connection of sqlite3 or psycopg"
)

NO_TRANSACTION: Final = "`connection` has no transaction: it is in autocommit mode"


class Host(Protocol):
    """A connection of the product."""

    async def run(self, work: Callable[["HostTransaction"], T], *, begin: bool = True) -> T:
        """Call `work` with the product's connection. With `begin`, its transaction begins if it has not begun.

        Raises ValueError for a connection in autocommit mode without a transaction.
        """
        ...


class HostTransaction:
    """Implements `CommitTransaction` on a function that executes one statement.

    `connection` returns a connection of SQLAlchemy in the same transaction, which it never ends.
    """

    def __init__(
        self, execute: Callable[[Statement, Sequence[Any]], Cursor], connection: Callable[[], sa.Connection]
    ) -> None:
        self._execute = execute
        self.connection = connection

    def execute(self, statement: Statement, values: Sequence[Any] = (), /) -> Cursor:
        return self._execute(statement, values)

    def executemany(self, statement: Statement, rows: Sequence[Sequence[Any]], /) -> None:
        for row in rows:
            self._execute(statement, row)

    def change(self, statement: Statement, values: Sequence[Any], error: Exception, /) -> None:
        if not self._execute(statement, values).rowcount:
            raise error

    def insert(self, statement: Statement, values: Sequence[Any], /) -> int:
        ((key,),) = self._execute(statement, values).fetchall()
        return int(key)

    def may_find(self, statement: Statement, /) -> bool:
        return self._execute(statement, ()).fetchone() is not None


class HostDialect(Protocol):
    """The differences between the databases. `name` is that of SQLAlchemy's dialect."""

    name: str

    async def begin(self, connection: sa.Connection) -> None:
        """Begin the transaction in the driver where it does not do that by itself, without blocking the event loop
        on another writer of this process.
        """
        ...

    def begin_here(self, connection: sa.Connection) -> None:
        """The same outside the event loop."""
        ...

    def execute(self, connection: sa.Connection, statement: Statement, values: Values) -> Result:
        """Execute a statement on SQLAlchemy's connection."""
        ...

    def named(self, connection: sa.Connection) -> sa.Connection:
        """The same connection, on which constructed statements have the names of the tables in this database."""
        ...

    async def check(self, host: Host) -> None:
        """Raises ValueError unless the connection is to the database of the store."""
        ...

    def errors(self) -> AbstractContextManager[None]:
        """Converts errors of any driver to those of the domain, and refused rows to JournalConflict."""
        ...

    def on_write(self, transaction: CommitTransaction) -> None:
        """Called at the end of each write."""
        ...

    def lock_execution(self, transaction: CommitTransaction, execution: int) -> None:
        """Lock the execution against other writers until the transaction ends."""
        ...


class SqlalchemyHost:
    """A sync connection, or that of a session."""

    def __init__(self, connection: Callable[[], sa.Connection], dialect: HostDialect) -> None:
        self._connection = connection
        self._dialect = dialect

    async def run(self, work: Callable[[HostTransaction], T], *, begin: bool = True) -> T:
        connection = self._connection()
        if begin:
            _check_mode(connection)
            await self._dialect.begin(connection)
        return work(_transaction(connection, self._dialect))


class AsyncSqlalchemyHost:
    """An async connection, or that of a session."""

    def __init__(self, connection: "Callable[[], Awaitable[AsyncConnection]]", dialect: HostDialect) -> None:
        self._connection = connection
        self._dialect = dialect

    async def run(self, work: Callable[[HostTransaction], T], *, begin: bool = True) -> T:
        def inside(connection: sa.Connection) -> T:
            if begin:
                _check_mode(connection)
                self._dialect.begin_here(connection)
            return work(_transaction(connection, self._dialect))

        return await (await self._connection()).run_sync(inside)


def _check_mode(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise ValueError(NO_TRANSACTION)


def _transaction(connection: sa.Connection, dialect: HostDialect) -> HostTransaction:
    if connection.dialect.name != dialect.name:
        raise ValueError(f"`connection` is to another database: use one to {dialect.name}")
    return HostTransaction(
        lambda statement, values: dialect.execute(connection, statement, values), lambda: dialect.named(connection)
    )


class TupleRows:
    """A connection of a driver whose cursors return tuples, whatever the product has set."""

    def __init__(self, connection: Any, cursor: Callable[[], Any]) -> None:
        self._connection = connection
        self.cursor = cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def on_driver(engine: sa.Engine, connection: Any) -> sa.Connection:
    """SQLAlchemy's connection on one of a driver. It has no pool, so that nothing ends the transaction."""
    return sa.Connection(engine, connection, _has_events=False)


def sqlalchemy_host(connection: object, dialect: HostDialect) -> Host | None:
    """The connection of SQLAlchemy, or of its session; None for any other value."""
    if isinstance(connection, sa.Connection):
        return SqlalchemyHost(lambda: connection, dialect)
    if "sqlalchemy.orm" in sys.modules:  # a product without it has no session, and its import takes long
        from sqlalchemy.orm import Session, scoped_session

        if isinstance(connection, Session | scoped_session):
            return SqlalchemyHost(connection.connection, dialect)
    return _async_host(connection, dialect)


def _async_host(connection: object, dialect: HostDialect) -> Host | None:
    """The async connection. SQLAlchemy's asyncio needs greenlet: a product without it has no such connection."""
    if "sqlalchemy.ext.asyncio" not in sys.modules:
        return None
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    match connection:
        case AsyncSession() | async_scoped_session():
            return AsyncSqlalchemyHost(connection.connection, dialect)
        case AsyncConnection():
            return AsyncSqlalchemyHost(lambda: _itself(connection), dialect)
    return None


async def _itself(connection: "AsyncConnection") -> "AsyncConnection":
    return connection


class HostCommits:
    """Implements `Commits`: nothing is committed."""

    def __init__(self, host: Host, dialect: HostDialect) -> None:
        self._host = host
        self._dialect = dialect

    def insert_alone(self, row: tuple[Any, ...]) -> bool:
        """False: the transaction is the product's."""
        return False

    async def insert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        await self.run(lambda transaction: transaction.executemany(sql.APPEND, rows))

    async def run(self, work: Callable[[Any], T], conflict_key: Hashable = None) -> T:
        """Call `work` under a savepoint. Raises what it raises, after its effects were rolled back."""

        def write(transaction: CommitTransaction) -> T:
            transaction.execute(_BEGIN)
            try:
                outcome = work(transaction)
                self._dialect.on_write(transaction)
            except BaseException:
                transaction.execute(_ROLL_BACK)
                transaction.execute(_RELEASE)
                raise
            transaction.execute(_RELEASE)
            return outcome

        with self._dialect.errors():
            return await self._host.run(write)

    async def claim(self, execution: int, worker: int, now: int, org: int | None) -> Rows:
        return await self.run(partial(claim, (execution, worker, now, org)))

    def lock_execution(self, transaction: CommitTransaction, execution: int) -> None:
        self._dialect.lock_execution(transaction, execution)


class PartOfTransaction:
    """Implements `Transaction` in the transaction of the product."""

    def __init__(self, host: Host, dialect: HostDialect) -> None:
        self._host = host
        self._dialect = dialect

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> Result:
        return await self.run_sync(lambda connection: connection.execute(statement, parameters))

    async def scan(self, statement: Statement, values: Values) -> Rows:
        return [tuple(row) for row in await self.run(statement, values)]

    async def run(self, statement: Statement, values: Values = ()) -> Result:
        return await self.run_sync(lambda connection: self._dialect.execute(connection, statement, values))

    async def run_sync(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._host.run(lambda transaction: work(transaction.connection()))


class HostStore:
    """Implements `Store` in the product's transaction, whose own changes it sees. Lists are those of committed rows."""

    def __init__(self, database: Store, host: Host, dialect: HostDialect) -> None:
        self.durable = database.durable
        self.schema = database.schema
        self._database = database
        self._host = host
        self._dialect = dialect

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        """A part of the product's transaction, under a savepoint."""
        with self._dialect.errors():
            await self._host.run(lambda transaction: transaction.execute(_BEGIN))
            try:
                yield PartOfTransaction(self._host, self._dialect)
                await self._host.run(self._dialect.on_write)
            except BaseException:
                await self._host.run(lambda transaction: transaction.execute(_ROLL_BACK))
                await self._host.run(lambda transaction: transaction.execute(_RELEASE))
                raise
            await self._host.run(lambda transaction: transaction.execute(_RELEASE))

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        return self._database.reading()

    async def look_up(self, statement: Statement, *values: Any) -> Rows:
        def read(transaction: CommitTransaction) -> Rows:
            return [tuple(row) for row in transaction.execute(statement, values).fetchall()]

        with self._dialect.errors():
            return await self._host.run(read)

    async def scan(self, statement: Statement, *values: Any) -> Rows:
        return await self._database.scan(statement, *values)

    async def revision(self) -> str | None:
        return None

    async def create_tables(self, statements: Callable[[], Iterable[str]]) -> bool:
        return False

    def commits(self, on_commit: Callable[[float], None] | None) -> Commits:
        return HostCommits(self._host, self._dialect)  # type: ignore[return-value]

    def beside_loop(self) -> Transactions:
        return self

    async def joined(self, connection: object) -> Store:
        return await self._database.joined(connection)

    async def commit_problem(self) -> str | None:
        return None

    async def scrub(self) -> None:
        """Raises RuntimeError: the files cannot be rewritten within the transaction of the product."""
        raise RuntimeError("the files cannot be rewritten within the transaction of the product")

    async def close(self) -> None:
        """Does nothing: the connection is the product's."""
