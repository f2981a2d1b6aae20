"""One SQLite file: its connections, its transactions, and who may write.

In one process a single writer works at a time, whoever it is: `lock` is held around every write, so that
writers wait for each other here, where waiting is fair and can be cancelled, and not inside SQLite. Other
processes are kept apart by SQLite itself: a writer begins with BEGIN IMMEDIATE and never finds out half-way
that it may not write. Readers see the last committed state and wait for nobody.

Statements run on the event loop: a local file answers a look-up in microseconds, where a thread takes hundreds.
What may take long goes to a thread: a commit that waits for the disk, another process's lock, a walk over many rows.

Everything that is particular to SQLite is in this module.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import anyio
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import QueuePool

from wfcore.adapters.sql.sqlite.busy import BUSY_SECONDS, INLINE_BUSY_MS, is_busy
from wfcore.adapters.sql.sqlite.group_commit import GroupCommit
from wfcore.adapters.sql.store import Commits, Result, Rows, Synchronous, Transaction, Values, shielded
from wfcore.domain.kernel.errors import Unavailable

READERS: Final = 4
WAL_BYTES: Final = 64 * 1024 * 1024
"""What is left of the write-ahead log after a checkpoint. Only a reader that never ends keeps it longer."""

SAFE_VERSION: Final = (3, 51, 3)

log = logging.getLogger(__name__)

T = TypeVar("T")


class SqliteTransaction:
    """One transaction, to whoever works in it. Implements `Transaction`."""

    def __init__(self, inner: sa.Connection) -> None:
        self._inner = inner

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> Result:
        return self._inner.execute(statement, parameters)

    async def scan(self, statement: str, values: Values) -> Rows:
        """In a thread."""
        return await shielded(asyncio.to_thread(self._scanned, statement, values))

    def _scanned(self, statement: str, values: Values) -> Rows:
        return [tuple(row) for row in self._inner.exec_driver_sql(statement, values)]

    async def exec_driver_sql(self, text: str, parameters: Any = None) -> Result:
        return self._inner.exec_driver_sql(text, parameters)

    async def run_sync(self, work: Callable[[sa.Connection], T]) -> T:
        return work(self._inner)


class Database:
    """A SQLite database file. Implements `Store`. `url` is `sqlite:///relative/path` or `sqlite:////absolute/path`.

    `synchronous` FULL survives a power cut; NORMAL may lose the last transactions then, but nothing when only
    the process dies. Raises ValueError for any other URL.
    """

    def __init__(self, url: str, *, synchronous: Synchronous = "FULL") -> None:
        self.path = _path(url)
        self.durable = synchronous == "FULL"
        self.lock = asyncio.Lock()
        self._synchronous = synchronous
        self._slots = asyncio.Semaphore(READERS)
        self._hot: sqlite3.Connection | None = None
        self._quick: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._writer: sa.Engine
        self._reader: sa.Engine

    @property
    def hot(self) -> sqlite3.Connection:
        """A plain connection for writes that must cost little. Use it only while holding `lock`.

        It is in autocommit mode: begin and end transactions yourself. Raises Unavailable when not open.
        """
        if self._hot is None:
            raise Unavailable("the database is closed")
        return self._hot

    @property
    def quick(self) -> sqlite3.Connection:
        """A plain connection for short reads by key on the event loop, a fiftieth of the cost of a reader's thread.

        It cannot write, never waits for a writer, and sees what is committed. Raises Unavailable when not open.
        """
        if self._quick is None:
            raise Unavailable("the database is closed")
        return self._quick

    @property
    def thread(self) -> Executor:
        """A thread for commits on `hot` that would stand in the way of the event loop. It ends with `close`."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "wfcore-commit")
        return self._thread

    async def open(self) -> None:
        """Open the file, or make it. Raises Unavailable when it cannot be opened."""
        if self._hot is not None:
            return
        _warn_of_old_sqlite()
        with _translated():
            await shielded(self._open())

    async def close(self) -> None:
        """Wait for whoever is at work, then close every connection. Nothing to do when closed already."""
        await shielded(self._close())

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        """The only write transaction of this process. Unavailable too when locked for too long, full or broken."""
        async with self.lock:
            with self._transaction("_writer") as connection:
                await self._begin_immediate(connection)
                yield SqliteTransaction(connection)
                await self._commit(connection)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """A transaction that sees one state of the database throughout. It cannot write."""
        async with self._slots:
            with self._transaction("_reader") as connection:
                _inner(connection).execute("BEGIN")
                yield SqliteTransaction(connection)

    async def look_up(self, statement: str, *values: Any) -> Rows:
        """A short read by key, on the event loop."""
        try:
            return self.quick.execute(statement, values).fetchall()
        except sqlite3.OperationalError:  # locked for a moment, or broken: a reader waits, or says so
            async with self.reading() as connection:
                return [tuple(row) for row in await connection.exec_driver_sql(statement, values)]

    def commits(self, told: Callable[[float], None] | None = None) -> Commits:
        return GroupCommit(self, told)

    @contextmanager
    def _transaction(self, engine: Literal["_reader", "_writer"]) -> Iterator[sa.Connection]:
        """A connection, which goes back to its pool in the end; that rolls back what was not committed."""
        if self._hot is None:
            raise Unavailable("the database is closed")
        with _translated(), getattr(self, engine).connect() as connection:
            yield connection

    async def _begin_immediate(self, connection: sa.Connection) -> None:
        """Begin to write. Another process that writes is waited for in a thread."""
        inner = _inner(connection)
        inner.execute(f"PRAGMA busy_timeout = {INLINE_BUSY_MS}")
        try:
            inner.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            inner.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
            await shielded(self._in_thread(inner.execute, "BEGIN IMMEDIATE"))
        else:
            inner.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")

    async def _commit(self, connection: sa.Connection) -> None:
        if self.durable:
            await shielded(self._in_thread(_inner(connection).commit))
        else:
            _inner(connection).commit()

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self.thread, work, *args)

    async def _open(self) -> None:
        self._hot = await self._connect()
        self._quick = await self._connect()
        self._quick.execute("PRAGMA query_only = ON")
        self._writer = self._engine(1)
        self._reader = self._engine(READERS, "PRAGMA query_only = ON")

    async def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        try:
            await _switch_to_wal(connection)
            for pragma in self._pragmas():
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    def _pragmas(self) -> tuple[str, ...]:
        return (
            f"PRAGMA synchronous = {self._synchronous}",
            "PRAGMA foreign_keys = ON",
            f"PRAGMA journal_size_limit = {WAL_BYTES}",
            "PRAGMA wal_autocheckpoint = 1000",
        )

    def _engine(self, size: int, *pragmas: str) -> sa.Engine:
        """An engine of `size` connections. Neither the driver nor SQLAlchemy begins a transaction: we do."""
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            poolclass=QueuePool,
            pool_size=size,
            max_overflow=0,
            pool_use_lifo=True,
            connect_args={"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False},
        )
        statements = (*self._pragmas(), *pragmas)

        @event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _record: Any) -> None:
            for statement in statements:
                connection.execute(statement)

        return engine

    async def _close(self) -> None:
        async with self.lock:
            plain = [connection for connection in (self._quick, self._hot) if connection is not None]
            self._hot = self._quick = None
            for _ in range(READERS):
                await self._slots.acquire()
            self._writer.dispose()
            self._reader.dispose()
            for connection in plain:
                connection.close()
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.shutdown()
            for _ in range(READERS):
                self._slots.release()


def _inner(connection: sa.Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    return connection.connection.dbapi_connection  # type: ignore[return-value]


async def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait when two processes switch a new file at once, so this does."""
    with anyio.move_on_after(BUSY_SECONDS):
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                await asyncio.sleep(0.01)
            else:
                return
    raise Unavailable("the database is locked")


@contextmanager
def _translated() -> Iterator[None]:
    """What the driver says of a database that does not work, as the domain says it."""
    try:
        yield
    except (sqlite3.Error, sa.exc.DBAPIError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not isinstance(cause, sqlite3.OperationalError) and type(cause) is not sqlite3.DatabaseError:
            raise
        raise Unavailable(f"the database does not answer: {cause}") from error


def _path(url: str) -> Path:
    """The file of a URL; a relative one is taken from the working directory, now and not later."""
    parts = sa.make_url(url)
    database = parts.database or ":memory:"
    plain = sa.URL.create("sqlite", database=parts.database)
    if parts != plain or database == ":memory:":
        raise ValueError(f"`{parts.render_as_string()}` is not the `sqlite:///path` of a file")
    return Path(database).absolute()


@cache
def _warn_of_old_sqlite() -> None:
    if sqlite3.sqlite_version_info < SAFE_VERSION:
        safe = ".".join(map(str, SAFE_VERSION))
        log.warning(
            "SQLite %s can corrupt a database that several processes write to at once; with more than one, "
            "use SQLite %s or newer",
            sqlite3.sqlite_version,
            safe,
        )
