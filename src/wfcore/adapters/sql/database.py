"""One SQLite file: its connections, its transactions, and who may write.

In one process a single writer works at a time, whoever it is: `lock` is held around every write, so that
writers wait for each other here, where waiting is fair and can be cancelled, and not inside SQLite. Other
processes are kept apart by SQLite itself: a writer begins with BEGIN IMMEDIATE and never finds out half-way
that it may not write. Readers see the last committed state and wait for nobody.

Everything that is particular to SQLite is in this module.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import anyio
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from wfcore.domain.errors import Unavailable

READERS: Final = 4
BUSY_SECONDS: Final = 10.0
WAL_BYTES: Final = 64 * 1024 * 1024
"""What is left of the write-ahead log after a checkpoint. Only a reader that never ends keeps it longer."""

SAFE_VERSION: Final = (3, 51, 3)

log = logging.getLogger(__name__)

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL"]


class _Connection(sqlite3.Connection):
    """Rolls back before it closes.

    A call that is cancelled half-way closes its connection, but its statement is still held by a traceback,
    and for SQLite a connection with a statement lives on, its transaction and its lock too.
    """

    def close(self) -> None:
        if self.in_transaction:
            self.rollback()
        super().close()


class Database:
    """A SQLite database file. `url` is `sqlite:///relative/path` or `sqlite:////absolute/path`.

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
        self._engines = AsyncExitStack()
        self._writer: AsyncEngine
        self._reader: AsyncEngine

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
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """The only write transaction of this process: committed at the end, rolled back on any exception.

        A commit is never interrupted: cancelled while it runs, it is finished first, and the caller learns of
        the cancellation only. Raises Unavailable when the database is closed, locked for too long, full or
        broken.
        """
        async with self.lock, self._transaction() as connection:
            yield connection
            await shielded(connection.commit())

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one state of the database throughout. It cannot write."""
        async with self._slots, self._transaction(read_only=True) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, *, read_only: bool = False) -> AsyncIterator[AsyncConnection]:
        if self._hot is None:
            raise Unavailable("the database is closed")
        connection = (self._reader if read_only else self._writer).connect()
        try:
            with _translated():
                await shielded(_begin(connection))
                yield connection
        finally:
            await shielded(_release(connection))

    async def _open(self) -> None:
        self._hot = await self._connect()
        self._quick = await self._connect()
        self._quick.execute("PRAGMA query_only = ON")
        self._writer = self._engine(1, "BEGIN IMMEDIATE")
        self._reader = self._engine(READERS, "BEGIN", "PRAGMA query_only = ON")

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

    def _engine(self, size: int, begin: str, *pragmas: str) -> AsyncEngine:
        """An engine of `size` connections. The driver's own BEGIN is switched off: ours is the only one."""
        engine = create_async_engine(
            sa.URL.create("sqlite+aiosqlite", database=str(self.path)),
            poolclass=AsyncAdaptedQueuePool,
            pool_size=size,
            max_overflow=0,
            connect_args={"timeout": BUSY_SECONDS, "isolation_level": None, "factory": _Connection},
        )
        statements = (*self._pragmas(), *pragmas)

        @event.listens_for(engine.sync_engine, "connect")
        def prepare(connection: Any, _record: Any) -> None:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            cursor.close()

        @event.listens_for(engine.sync_engine, "begin")
        def start(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)

        self._engines.push_async_callback(engine.dispose)
        return engine

    async def _close(self) -> None:
        async with self.lock:
            plain = [connection for connection in (self._quick, self._hot) if connection is not None]
            self._hot = self._quick = None
            for _ in range(READERS):
                await self._slots.acquire()
            await self._engines.aclose()
            for connection in plain:
                connection.close()
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.shutdown()
            for _ in range(READERS):
                self._slots.release()


def insert_new(table: sa.Table) -> sqlite.Insert:
    """An INSERT that does nothing when a unique key is taken: the count of rows tells which."""
    return sqlite.insert(table).on_conflict_do_nothing()


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, however often the caller is cancelled; only then is it cancelled.

    Cancellation leaves the outcome unknown to the caller, but never half done.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled:
        raise cancelled from task.exception()
    return task.result()


async def _begin(connection: AsyncConnection) -> None:
    await connection.start()
    await connection.begin()


async def _release(connection: AsyncConnection) -> None:
    """Back to the pool, which rolls back what was not committed."""
    if connection.sync_connection is not None:
        await connection.close()


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
