"""The product's own connection to the same SQLite file: of sqlite3, or of SQLAlchemy with any driver."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from wfcore.adapters.sql.host import (
    KINDS,
    Host,
    HostStore,
    HostTransaction,
    TupleRows,
    on_driver,
    sqlalchemy_host,
)
from wfcore.adapters.sql.schema.statement import Statement, Values
from wfcore.adapters.sql.sqlite.numbered import ARE_NAMED, CURSOR, by_name
from wfcore.adapters.sql.store import CommitTransaction, Cursor, Result, Store
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import JournalConflict

T = TypeVar("T")

BEGIN: Final = "BEGIN IMMEDIATE"

_ENGINE: Final = sa.create_engine("sqlite://")
"""It has no connections: statements are constructed in its dialect."""

_FILES: Final = Statement(lambda _: "PRAGMA database_list")


class SqliteHost:
    """A connection of the driver. Statements run on the thread of the caller, which the driver requires."""

    def __init__(self, connection: sqlite3.Connection, lock: asyncio.Lock) -> None:
        self._connection = connection
        self._lock = lock

    async def run(self, work: Callable[[HostTransaction], T], *, begin: bool = True) -> T:
        if begin and not self._connection.in_transaction:
            if self._connection.isolation_level is None:
                raise ValueError(f"`connection` has no transaction: execute `{BEGIN}` first")
            async with self._lock:
                self._connection.execute(BEGIN)
        texts = self._connection.text_factory
        self._connection.text_factory = str  # unlike the row factory, a cursor has none of its own
        try:
            return work(HostTransaction(self._execute, self._connected))
        finally:
            self._connection.text_factory = texts

    def _execute(self, statement: Statement, values: Sequence[Any]) -> Cursor:
        return self._cursor().execute(statement.sqlite, values)

    def _connected(self) -> sa.Connection:
        return on_driver(_ENGINE, TupleRows(self._connection, self._cursor))

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor(CURSOR) if ARE_NAMED else self._connection.cursor()
        cursor.row_factory = None
        return cursor


class SqliteHostDialect:
    """Implements `HostDialect`. `lock` is held by the writers of this process."""

    name = "sqlite"

    def __init__(self, path: Path, lock: asyncio.Lock) -> None:
        self._path = path
        self._lock = lock

    async def begin(self, connection: sa.Connection) -> None:
        if not _has_begun(connection):
            async with self._lock:
                self.begin_here(connection)

    def begin_here(self, connection: sa.Connection) -> None:
        if not _has_begun(connection):
            connection.exec_driver_sql(BEGIN)

    def execute(self, connection: sa.Connection, statement: Statement, values: Values) -> Result:
        options = {"preserve_rowcount": True}
        given = values if isinstance(values, Mapping) else tuple(values)
        if ARE_NAMED:
            given = by_name(statement.sqlite, given)
        return connection.exec_driver_sql(statement.sqlite, given or None, execution_options=options)

    def named(self, connection: sa.Connection) -> sa.Connection:
        return connection

    async def check(self, host: Host) -> None:
        def file(transaction: CommitTransaction) -> str:
            rows = transaction.execute(_FILES).fetchall()
            return next((str(path) for _, name, path in rows if name == "main"), "")

        with self.errors():
            found = await host.run(file, begin=False)
        if not found or not self._path.samefile(found):
            raise ValueError(f"`connection` is to another database: use one to `{self._path}`")

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sa.exc.DBAPIError) as error:
            cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
            if isinstance(cause, sqlite3.IntegrityError):
                raise JournalConflict("the journal does not have the expected length, or the claim is lost") from error
            raise Unavailable(f"the database does not answer: {cause}") from error

    def on_write(self, transaction: CommitTransaction) -> None:
        """Does nothing: workers poll the file."""

    def lock_execution(self, transaction: CommitTransaction, execution: int) -> None:
        """Does nothing: the transaction already locks the whole file."""


def _has_begun(connection: sa.Connection) -> bool:
    """Whether the driver has begun: by itself it does so before a change only, and a savepoint is not one."""
    driver: Any = connection.connection.driver_connection
    return bool(driver.in_transaction)


async def joined(database: Store, path: Path, lock: asyncio.Lock, connection: object) -> Store:
    """The store in the transaction of the connection.

    Raises ValueError for a connection to another database, TypeError for a value that is not a connection.
    """
    dialect = SqliteHostDialect(path, lock)
    if isinstance(connection, sqlite3.Connection):
        host: Host | None = SqliteHost(connection, lock)
    else:
        host = sqlalchemy_host(connection, dialect)
    if host is None:
        raise _refusal(connection, path)
    await dialect.check(host)
    return HostStore(database, host, dialect)


def _refusal(connection: object, path: Path) -> Exception:
    if type(connection).__module__.partition(".")[0] == "psycopg":
        return ValueError(f"`connection` is to another database: use one to `{path}`")
    return TypeError(f"`connection` must be {KINDS}")
