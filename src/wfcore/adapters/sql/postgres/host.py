"""The product's own connection to the same PostgreSQL database: of psycopg, or of SQLAlchemy with any driver."""

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, Final, TypeVar, cast

import psycopg
import sqlalchemy as sa
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from sqlalchemy.dialects.postgresql.psycopg import AsyncAdapt_psycopg_connection
from sqlalchemy.util import await_, greenlet_spawn

from wfcore.adapters.sql.host import (
    KINDS,
    NO_TRANSACTION,
    Host,
    HostStore,
    HostTransaction,
    TupleRows,
    on_driver,
    sqlalchemy_host,
)
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.postgres.connections import domain_errors
from wfcore.adapters.sql.postgres.names import TableNames
from wfcore.adapters.sql.schema.statement import Statement, Values, named
from wfcore.adapters.sql.store import CommitTransaction, Cursor, Result, Store
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import JournalConflict

T = TypeVar("T")

IDENTITY: Final = Statement(lambda _: "SELECT current_database(), CAST(pg_postmaster_start_time() AS text)")
"""The database, and the server by the microsecond of its start."""

NOTIFY: Final = Statement(lambda d: f"SELECT pg_notify({d[1]}, 'host w//0')")
"""A hint for all workers, which the server delivers when the product commits. It names no execution."""


_ENGINE: Final = sa.create_engine("postgresql+psycopg://", use_native_hstore=False)
_ASYNC_ENGINE: Final = sa.create_engine("postgresql+psycopg_async://", use_native_hstore=False)
"""They have no connections: statements are constructed in their dialects."""


def _in_schema(engine: sa.Engine, connection: Any, schema: str) -> sa.Connection:
    """SQLAlchemy's connection on one of a driver, whose constructed statements name the tables of the schema."""
    dialect = copy(engine.dialect)
    dialect.identifier_preparer = TableNames(dialect, schema)
    return on_driver(sa.Engine(engine.pool, dialect, engine.url), connection)


def _tuple_rows(connection: Connection[Any] | AsyncConnection[Any]) -> TupleRows:
    return TupleRows(connection, partial(connection.cursor, row_factory=tuple_row))


def _psycopg2_cursor(connection: Any) -> Any:
    """A cursor of psycopg2 whose binary values are bytes; by default they are memoryviews."""
    driver: Any = sys.modules["psycopg2"]  # that of the product: wfcore does not need it
    binary, extensions = driver.BINARY, driver.extensions

    def read(value: str | None, cursor: Any) -> bytes | None:
        return None if value is None else bytes(binary(value, cursor))

    cursor = connection.cursor(cursor_factory=extensions.cursor)
    extensions.register_type(extensions.new_type(binary.values, "BYTES", read), cursor)
    return cursor


class PsycopgHost:
    """A sync connection. Its statements run in a thread, because they can wait for other transactions."""

    def __init__(self, connection: Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def run(self, work: Callable[[HostTransaction], T], *, begin: bool = True) -> T:
        if begin:
            _check_mode(self._connection)
        return await asyncio.to_thread(work, HostTransaction(self._execute, self._connected))

    def _execute(self, statement: Statement, values: Sequence[Any]) -> Cursor:
        cursor = RawCursor(self._connection, row_factory=tuple_row)
        return cursor.execute(statement.server(self._schema).encode(), values)

    def _connected(self) -> sa.Connection:
        return _in_schema(_ENGINE, _tuple_rows(self._connection), self._schema)


class AsyncPsycopgHost:
    """An async connection."""

    def __init__(self, connection: AsyncConnection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def run(self, work: Callable[[HostTransaction], T], *, begin: bool = True) -> T:
        if begin:
            _check_mode(self._connection)
        return await greenlet_spawn(work, HostTransaction(self._execute, self._connected))

    def _execute(self, statement: Statement, values: Sequence[Any]) -> Cursor:
        return await_(self._fetched(statement.server(self._schema).encode(), values))

    async def _fetched(self, text: bytes, values: Sequence[Any]) -> Cursor:
        cursor = AsyncRawCursor(self._connection, row_factory=tuple_row)
        await cursor.execute(text, values)
        return _Fetched(cursor.rowcount, await cursor.fetchall() if cursor.description else [])

    def _connected(self) -> sa.Connection:
        adapted = AsyncAdapt_psycopg_connection(_ASYNC_ENGINE.dialect.dbapi, _tuple_rows(self._connection))
        return _in_schema(_ASYNC_ENGINE, adapted, self._schema)


class _Fetched:
    """Implements `Cursor` on rows that were fetched."""

    def __init__(self, rowcount: int, rows: list[tuple[Any, ...]]) -> None:
        self.rowcount = rowcount
        self._rows = rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def _check_mode(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise ValueError(NO_TRANSACTION)


class PostgresHostDialect:
    """Implements `HostDialect`."""

    name = "postgresql"

    def __init__(self, database: Store) -> None:
        self._database = database
        self._schema = database.schema

    async def begin(self, connection: sa.Connection) -> None:
        self.begin_here(connection)

    def begin_here(self, connection: sa.Connection) -> None:
        """Drivers begin by themselves, but a commit of SQLAlchemy does nothing before a statement of its own."""
        if connection.dialect.detect_autocommit_setting(cast("Any", connection.connection.dbapi_connection)):
            raise ValueError(NO_TRANSACTION)
        if not connection.in_transaction():
            connection.begin()

    def execute(self, connection: sa.Connection, statement: Statement, values: Values) -> Result:
        given, options = named(values), {"preserve_rowcount": True}
        clause = statement.clause(self._schema)
        match connection.dialect.driver:
            case "asyncpg":  # the server infers the types of its parameters, which is ambiguous for numbers
                numbers = [name for name, value in given.items() if type(value) is int]
                clause = clause.bindparams(*(sa.bindparam(name, type_=sa.BigInteger) for name in numbers))
            case "psycopg2":
                connection = self.named(connection)
        return connection.execute(clause, given, execution_options=options)

    def named(self, connection: sa.Connection) -> sa.Connection:
        driver: Any = connection.connection
        if connection.dialect.driver == "psycopg2":
            driver = TupleRows(driver, partial(_psycopg2_cursor, driver))
        return _in_schema(connection.engine, driver, self._schema)

    async def check(self, host: Host) -> None:
        def identity(transaction: CommitTransaction) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in transaction.execute(IDENTITY).fetchall()]

        ours = await self._database.look_up(IDENTITY)
        with self.errors():
            found = await host.run(identity, begin=False)
        if found != ours:
            raise ValueError(f"`connection` is to another database: use one to `{ours[0][0]}` of the same server")

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            with domain_errors():
                yield
        except (psycopg.IntegrityError, sa.exc.IntegrityError) as error:
            raise JournalConflict("the journal does not have the expected length, or the claim is lost") from error
        except (psycopg.Error, sa.exc.DBAPIError) as error:
            cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
            raise Unavailable(f"the database does not answer: {cause}") from error

    def on_write(self, transaction: CommitTransaction) -> None:
        transaction.execute(NOTIFY, (self._schema,))

    def lock_execution(self, transaction: CommitTransaction, execution: int) -> None:
        transaction.execute(sql.LOCK_EXECUTION, (execution,))


async def joined(database: Store, connection: object) -> Store:
    """The store in the transaction of the connection.

    Raises ValueError for a connection to another database, TypeError for a value that is not a connection.
    """
    dialect = PostgresHostDialect(database)
    host: Host | None = None
    match connection:
        case Connection():
            host = PsycopgHost(connection, database.schema)
        case AsyncConnection():
            host = AsyncPsycopgHost(connection, database.schema)
        case sqlite3.Connection():
            raise ValueError("`connection` is to another database: use one to the same PostgreSQL database")
        case _:
            host = sqlalchemy_host(connection, dialect)
    if host is None:
        raise TypeError(f"`connection` must be {KINDS}")
    await dialect.check(host)
    return HostStore(database, host, dialect)
