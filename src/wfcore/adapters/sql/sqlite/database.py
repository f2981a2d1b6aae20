"""One SQLite file: its connections, transactions and locks.

One process has one writer at a time: `lock` is held around every write, so that writers wait for each other here, where
waiting is fair and can be cancelled, and not inside SQLite. SQLite itself excludes writers of other processes: a
transaction starts with BEGIN IMMEDIATE, so that it cannot fail half-way because of another writer. Readers see the last
committed state and never wait.

Statements run on the event loop: a look-up in a local file takes microseconds, a thread takes hundreds of them. Work
that can take long runs in a thread: a commit that waits for the disk, the wait for another process's lock, a scan of
many rows.
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache, cached_property
from pathlib import Path
from shutil import disk_usage
from typing import Any, Final, TypeVar

from wfcore.adapters.sql.schema.deferred import MODULES, sa
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, VERSION_TABLE
from wfcore.adapters.sql.schema.statement import Statement, Values
from wfcore.adapters.sql.sqlite.busy import BUSY_SECONDS, INLINE_BUSY_MS, LOCKED, is_busy
from wfcore.adapters.sql.sqlite.driver import READERS, EngineName, domain_errors, driver_of, executed
from wfcore.adapters.sql.sqlite.group_commit import GroupCommit
from wfcore.adapters.sql.sqlite.numbered import CONNECTION
from wfcore.adapters.sql.sqlite.processes import register, unregister
from wfcore.adapters.sql.sqlite.threads import OffLoopTransactions
from wfcore.adapters.sql.store import (
    Commits,
    Damaged,
    Result,
    Rows,
    Store,
    Synchronous,
    Transaction,
    Transactions,
    shielded,
)
from wfcore.domain.kernel.errors import Unavailable, closed
from wfcore.imports import import_in_thread

WAL_BYTES: Final = 64 * 1024 * 1024
"""The size in bytes to which a checkpoint truncates the write-ahead log. A reader that never ends prevents that."""

SPACE: Final = 512 * 1024
"""The bytes on the disk below which a file counts as not writable."""

SCRUB_TRIES: Final = 6
"""How often a checkpoint waits for readers, `busy_seconds` each."""

_NOT_TEXT: Final = "Could not decode to UTF-8"
"""How the driver's message about a text begins that is not UTF-8. It has no code."""

_IN_MEMORY: Final = ("", ":memory:")

_VERSION: Final = f"SELECT * FROM {VERSION_TABLE}"

SAFE_VERSION: Final = (3, 51, 3)

log = logging.getLogger(__name__)

T = TypeVar("T")


class SqliteTransaction:
    """Implements `Transaction`."""

    def __init__(self, inner: "sa.Connection") -> None:
        self._inner = inner

    async def execute(self, statement: "sa.Executable", parameters: Any = None) -> Result:
        return self._inner.execute(statement, parameters)

    async def scan(self, statement: Statement, values: Values) -> Rows:
        """Runs in a thread."""
        return await shielded(asyncio.to_thread(self._scanned, statement, values))

    def _scanned(self, statement: Statement, values: Values) -> Rows:
        return [tuple(row) for row in executed(self._inner, statement, values)]

    async def run(self, statement: Statement, values: Values = ()) -> Result:
        return executed(self._inner, statement, values)

    async def run_sync(self, work: "Callable[[sa.Connection], T]") -> T:
        return work(self._inner)


class Database:
    """A SQLite database file. Implements `Store`. `url` is `sqlite:///relative/path` or `sqlite:////absolute/path`.

    With `synchronous` FULL commits survive a power failure; with NORMAL the last ones can be lost then, but none when
    only the process ends. A writer waits `busy_seconds` for another process that writes, and is then Unavailable.
    Raises ValueError for any other URL.
    """

    inline_seconds = 0.001
    """A commit that is expected to take longer runs in a thread."""

    def __init__(self, url: str, *, synchronous: Synchronous = "FULL", busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = _path(url)
        self.busy_ms = round(busy_seconds * 1000)
        self.schema = DEFAULT_SCHEMA
        self.durable = synchronous == "FULL"
        self.lock = asyncio.Lock()
        self._synchronous = synchronous
        self.slots = asyncio.Semaphore(READERS)
        self._creating = asyncio.Lock()
        self._commit_connection: sqlite3.Connection | None = None
        self._look_up_connection: sqlite3.Connection | None = None
        self._threads: dict[str, ThreadPoolExecutor] = {}

    @property
    def commit_connection(self) -> sqlite3.Connection:
        """A plain connection for the group commit, without the cost of SQLAlchemy. Write only while holding `lock`.

        Look-ups read with it while `lock` is free. It is in autocommit mode: the caller begins and ends transactions.
        Raises Unavailable when not open.
        """
        return self.check_open()

    @property
    def look_up_connection(self) -> sqlite3.Connection:
        """A plain connection for short reads by key while a thread uses `commit_connection`.

        It is read-only, never waits for a writer, and sees committed rows. Raises Unavailable when not open.
        """
        if self._look_up_connection is None:
            raise closed()
        return self._look_up_connection

    @property
    def thread(self) -> Executor:
        """A thread for slow commits on `commit_connection`, which would block the event loop. It ends with `close`."""
        return self.executor("commit")

    async def open(self) -> None:
        """Open the file, or create it. Raises Unavailable when it cannot be opened."""
        if self._commit_connection is not None:
            return
        with domain_errors(self.path):
            try:
                await shielded(asyncio.to_thread(self._open))
            except asyncio.CancelledError:
                await self.close()  # the thread has opened it
                raise

    async def close(self) -> None:
        """Wait for active work, then close every connection. Does nothing when closed already."""
        await shielded(self._close())

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        """The only write transaction of this process. Raises Unavailable also after a long lock or on a full disk."""
        async with self.lock:
            await self.engine("_writer")
            with self._transaction("_writer") as connection:
                await self._begin_immediate(connection)
                yield SqliteTransaction(connection)
                await self._commit(connection)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """A transaction that sees one state of the database throughout. It cannot write."""
        async with self.slots:
            await self.engine("_reader")
            with self._transaction("_reader") as connection:
                driver_of(connection).execute("BEGIN")
                yield SqliteTransaction(connection)

    def beside_loop(self) -> Transactions:
        return OffLoopTransactions(self)

    async def look_up(self, statement: Statement, *values: Any) -> Rows:
        """A short read by key, on the event loop, at a fiftieth of the cost of a thread.

        The connection of the commits has in memory what they wrote. Another one drops all its pages after each commit.
        """
        connection = self.look_up_connection if self.lock.locked() else self.commit_connection
        try:
            return connection.execute(statement.sqlite, values).fetchall()
        except sqlite3.DatabaseError as error:
            return await self._look_up_again(error, statement, values)

    async def _look_up_again(self, error: sqlite3.DatabaseError, statement: Statement, values: Sequence[Any]) -> Rows:
        """After an error by a lock or damage: a reader waits, or raises the domain's error."""
        if str(error).startswith(_NOT_TEXT):
            raise Damaged from error
        async with self.reading() as connection:
            return [tuple(row) for row in await connection.run(statement, tuple(values))]

    async def scan(self, statement: Statement, *values: Any) -> Rows:
        async with self.reading() as connection:
            return await connection.scan(statement, values)

    async def revision(self) -> str | None:
        return self._revision()

    def _revision(self) -> str | None:
        try:
            rows = self.look_up_connection.execute(_VERSION).fetchall()
        except (sqlite3.DatabaseError, Unavailable):  # there is no such table, or the file is damaged or closed
            return None
        return str(rows[0][0]) if [len(row) for row in rows] == [1] else None

    async def create_tables(self, statements: Callable[[], Iterable[str]]) -> bool:
        async with self.lock:
            with domain_errors():
                return await shielded(asyncio.to_thread(self._create_tables, statements))

    def _create_tables(self, statements: Callable[[], Iterable[str]]) -> bool:
        connection = self.commit_connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            ((is_empty,),) = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)")
            for statement in statements() if is_empty else ():
                connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        return bool(is_empty)

    def commits(self, on_commit: Callable[[float], None] | None = None) -> Commits:
        return GroupCommit(self, on_commit)

    async def commit_problem(self) -> str | None:
        """Small writes succeed on a full disk for a while: they overwrite free pages and the old write-ahead log."""
        if disk_usage(self.path.parent).free < SPACE:
            return f"the disk of the database is full: it has less than {SPACE // 1024} KiB left"
        return None

    async def scrub(self) -> None:
        """Rewrite the file, and empty the write-ahead log, which needs a moment without readers of the old state."""
        async with self.lock:
            with domain_errors():
                await shielded(asyncio.to_thread(self._scrub))

    def _scrub(self) -> None:
        connection = self.commit_connection
        connection.execute("VACUUM")
        for _ in range(SCRUB_TRIES):
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return
        raise Unavailable("the write-ahead log cannot be emptied: a reader does not end")

    async def joined(self, connection: object) -> Store:
        from wfcore.adapters.sql.sqlite.host import joined

        return await joined(self, self.path, self.lock, connection)

    def check_open(self) -> sqlite3.Connection:
        if self._commit_connection is None:
            raise closed()
        return self._commit_connection

    async def engine(self, name: EngineName) -> "sa.Engine":
        """An engine, created the first time: in a thread, because that imports SQLAlchemy.

        One caller at a time, to the end: since Python 3.12 a `cached_property` has no lock, and the connections of an
        engine that another one replaced would never be closed.
        """
        if name not in vars(self):
            async with self._creating:
                if name not in vars(self):
                    await shielded(asyncio.to_thread(getattr, self, name))
        engine: sa.Engine = getattr(self, name)
        return engine

    @contextmanager
    def _transaction(self, engine: EngineName) -> "Iterator[sa.Connection]":
        """A pooled connection. Its return to the pool rolls back an uncommitted transaction."""
        self.check_open()
        with domain_errors(), getattr(self, engine).connect() as connection:
            yield connection

    async def _begin_immediate(self, connection: "sa.Connection") -> None:
        """Begin to write. The wait for another process's lock happens in a thread."""
        inner = driver_of(connection)
        inner.execute(f"PRAGMA busy_timeout = {INLINE_BUSY_MS}")
        try:
            inner.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            inner.execute(f"PRAGMA busy_timeout = {self.busy_ms}")
            await shielded(self._in_thread(inner.execute, "BEGIN IMMEDIATE"))
        else:
            inner.execute(f"PRAGMA busy_timeout = {self.busy_ms}")

    async def _commit(self, connection: "sa.Connection") -> None:
        if self.durable:
            await shielded(self._in_thread(driver_of(connection).commit))
        else:
            driver_of(connection).commit()

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self.thread, work, *args)

    def executor(self, use: str, size: int = 1) -> Executor:
        """The threads for one use of the file, which end with `close`."""
        if use not in self._threads:
            self._threads[use] = ThreadPoolExecutor(size, f"wfcore-{use}")
        return self._threads[use]

    def _open(self) -> None:
        create_private(self.path)
        commits = self._connect()
        try:
            look_ups = self._connect()
        except BaseException:
            commits.close()
            raise
        look_ups.execute("PRAGMA query_only = ON")
        self._commit_connection, self._look_up_connection = commits, look_ups
        if sqlite3.sqlite_version_info < SAFE_VERSION and register(self.path):
            _warn_of_old_sqlite()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self.busy_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            factory=CONNECTION,
        )
        try:
            _switch_to_wal(connection, self.busy_ms / 1000)
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

    @cached_property
    def _writer(self) -> "sa.Engine":
        return self._engine(1)

    @cached_property
    def _reader(self) -> "sa.Engine":
        return self._engine(READERS, "PRAGMA query_only = ON")

    def _engine(self, size: int, *pragmas: str) -> "sa.Engine":
        """An engine of `size` connections. Neither the driver nor SQLAlchemy begins transactions: this class does."""
        for name in MODULES:
            import_in_thread(name)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            poolclass=sa.QueuePool,
            pool_size=size,
            max_overflow=0,
            pool_use_lifo=True,
            connect_args={
                "timeout": self.busy_ms / 1000,
                "isolation_level": None,
                "check_same_thread": False,
                "factory": CONNECTION,
            },
        )
        statements = (*self._pragmas(), *pragmas)

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _record: Any) -> None:
            for statement in statements:
                connection.execute(statement)

        return engine

    async def _close(self) -> None:
        async with self.lock:
            if self._commit_connection is None:
                return
            plain = (self._commit_connection, self._look_up_connection)
            self._commit_connection = self._look_up_connection = None
            for _ in range(READERS):
                await self.slots.acquire()
            await asyncio.to_thread(self._disconnect, *plain)
            for _ in range(READERS):
                self.slots.release()

    def _disconnect(self, *plain: sqlite3.Connection | None) -> None:
        while self._threads:
            self._threads.popitem()[1].shutdown()
        for name in ("_writer", "_reader"):
            if name in vars(self):  # it was used
                vars(self).pop(name).dispose()
        for connection in plain:
            if connection is not None:
                connection.close()
        unregister(self.path)


def _switch_to_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch to write-ahead logging. SQLite itself does not wait when two processes switch a new file."""
    end = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > end:
                raise Unavailable(LOCKED) from error
            time.sleep(0.01)
        else:
            return


def _path(url: str) -> Path:
    """The file of a URL, made absolute with the current working directory."""
    if url.startswith("sqlite:///") and "?" not in url and (name := url.removeprefix("sqlite:///")) not in _IN_MEMORY:
        return Path(name).absolute()
    parts = sa.make_url(url)
    database = parts.database or ":memory:"
    plain = sa.URL.create("sqlite", database=parts.database)
    if parts != plain or database == ":memory:":
        raise ValueError(f"`{parts.render_as_string()}` is not valid: use `sqlite:///path`")
    return Path(database).absolute()


@cache
def _warn_of_old_sqlite() -> None:
    log.warning(
        "another process uses this database, and SQLite %s can corrupt one that several processes write to at once: "
        "use SQLite %s or newer",
        sqlite3.sqlite_version,
        ".".join(map(str, SAFE_VERSION)),
    )


def create_private(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives its `-wal` and `-shm` the same mode. Keeps an existing file."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:  # it exists, or SQLite reports why it cannot be opened
        return
