"""Group commit on SQLite: requests that arrive during a commit share the next one.

The commit is expensive, not a row. It runs on the event loop while the disk is fast, since a thread would cost several
times as much; it runs in a thread while the disk is slow or another process writes, so that the loop is never blocked
for long.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import Executor
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

from wfcore.adapters.sql.commit_parts import CommitPart, Rows, Work, settle
from wfcore.adapters.sql.journal.statements import APPEND
from wfcore.adapters.sql.journal.steps import claim
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.sqlite.busy import INLINE_BUSY_MS, LOCKED, is_busy
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import JournalConflict

T = TypeVar("T")


ROW_SECONDS: Final = 4e-6

GROWTH: Final = 4
"""A group to which one turn of the event loop added so many parts waits for those of the next turn."""

LARGE: Final = 32
"""A group of so many parts waits no more."""

SMOOTHING: Final = 0.1


class SqliteCommitTransaction:
    """Implements `CommitTransaction`."""

    __slots__ = ("_connection", "_found")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._found: dict[Statement, bool] = {}

    def execute(self, statement: Statement, values: Sequence[Any] = (), /) -> sqlite3.Cursor:
        return self._connection.execute(statement.sqlite, values)

    def executemany(self, statement: Statement, rows: Sequence[Sequence[Any]], /) -> None:
        if rows:
            self._connection.executemany(statement.sqlite, rows)

    def change(self, statement: Statement, values: Sequence[Any], error: Exception, /) -> None:
        if not self._connection.execute(statement.sqlite, values).rowcount:
            raise error

    def insert(self, statement: Statement, values: Sequence[Any], /) -> int:
        return self._connection.execute(statement.sqlite_insert, values).lastrowid or 0

    def may_find(self, statement: Statement, /) -> bool:
        found = self._found.get(statement)
        if found is None:
            found = self._found[statement] = self._connection.execute(statement.sqlite).fetchone() is not None
        return found


class SqliteWriter(Protocol):
    """The part of a database that the group commit uses. `lock` guards the connection."""

    lock: asyncio.Lock
    busy_ms: int
    inline_seconds: float
    """A transaction that is expected to take longer runs in a thread."""

    @property
    def thread(self) -> Executor: ...

    @property
    def commit_connection(self) -> sqlite3.Connection:
        """Raises Unavailable when the file is closed."""
        ...


class GroupCommit:
    """Implements `Commits`.

    Parts take effect one after the other, in the order of the calls. A refused part is rolled back and does not affect
    the others. A commit that has begun is finished even if a caller is cancelled; a part whose caller was cancelled
    before is skipped.
    """

    def __init__(self, database: SqliteWriter, on_commit: Callable[[float], None] | None = None) -> None:
        """`on_commit` is called with the seconds that each commit took, on the thread of the commit."""
        self._database = database
        self._on_commit = on_commit
        self._pending: list[CommitPart] = []
        self._scheduled = False
        self._seen = 0
        """The pending parts at the end of the last turn that the group has waited for."""
        self._flusher: asyncio.Task[None] | None = None
        self._commit_seconds = 0.0
        self._inline_seconds = database.inline_seconds
        self._busy_timeout: tuple[sqlite3.Connection, int] | None = None
        self._last: Hashable = None
        """The execution of the last part or row."""

    def insert(self, rows: Rows) -> Awaitable[None]:
        """Insert rows with `APPEND`, all or none. Raises JournalConflict when one of them is refused."""
        return self._submit(rows, None, rows[0][0])

    def insert_alone(self, row: tuple[Any, ...]) -> bool:
        """Commit a row at once. False if it would wait, was refused, or another process writes.

        While only one execution writes, a wait would not enlarge the group, whatever else is ready on the loop.
        """
        if self._scheduled or self._database.lock.locked() or self._commit_seconds > self._inline_seconds:
            return False
        if row[0] != self._last and not _is_quiet(asyncio.get_running_loop()):
            return False
        self._last = row[0]
        try:
            connection = self._database.commit_connection
            if self._busy_timeout != (connection, INLINE_BUSY_MS):
                self._set_busy_timeout(connection, INLINE_BUSY_MS)
            self._statement(connection, row)
        except sqlite3.IntegrityError:
            return False
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise _unavailable(error) from error
        return True

    def run(self, work: Callable[[SqliteCommitTransaction], T], conflict_key: Hashable = None) -> asyncio.Future[T]:
        """Call `work` within the transaction. It can be called again after its effects were rolled back."""
        return self._submit((), work, conflict_key)

    def claim(self, execution: int, worker: int, now: int, org: int | None) -> asyncio.Future[list[tuple[Any, ...]]]:
        return self.run(partial(claim, (execution, worker, now, org)), execution)

    def lock_execution(self, transaction: SqliteCommitTransaction, execution: int) -> None:
        """Does nothing: the transaction already locks the whole file."""

    def _submit(self, rows: Rows, work: Work | None, execution: Hashable) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        self._last = execution
        done = loop.create_future()
        self._pending.append(CommitPart(rows, work, done))
        if not self._scheduled:
            self._scheduled = True
            if _is_quiet(loop):
                self._flush()
            else:
                loop.call_soon(self._flush)  # after all callbacks that are ready now
        return done

    def _flush(self) -> None:
        """Commit the pending parts, at once if that is fast and there is no other writer."""
        if self._is_growing():
            asyncio.get_running_loop().call_soon(self._flush)
            return
        # INVARIANT: no await between the check of the lock and the end of the commit. That is equivalent to holding
        # the lock, at no cost.
        if self._database.lock.locked() or self._is_slow() or not self._flush_inline():
            self._flusher = asyncio.get_running_loop().create_task(self._flush_locked())
        else:
            self._scheduled = False

    def _is_growing(self) -> bool:
        """Whether this turn added many parts, and the callbacks that are ready for the next one can add more."""
        before, self._seen = self._seen, len(self._pending)
        return self._seen - before >= GROWTH and self._seen < LARGE and not _is_quiet(asyncio.get_running_loop())

    async def _flush_locked(self) -> None:
        try:
            async with self._database.lock:
                if self._is_slow() or not self._flush_inline():
                    await self._flush_in_thread()
        finally:
            self._scheduled = bool(self._pending)
            if self._pending:
                asyncio.get_running_loop().call_soon(self._flush)

    def _is_slow(self) -> bool:
        rows = sum([len(part.rows) or 1 for part in self._pending])
        return self._commit_seconds + rows * ROW_SECONDS > self._inline_seconds

    def _flush_inline(self) -> bool:
        """False when another process is writing: then nothing was written."""
        parts = self._take()
        try:
            settle(parts, self._commit(parts, INLINE_BUSY_MS))
        except sqlite3.OperationalError as error:
            if is_busy(error):
                self._pending[:0] = parts
                return False
            _fail(parts, error)
        except Exception as error:  # noqa: BLE001 - returned to every caller
            _fail(parts, error)
        return True

    async def _flush_in_thread(self) -> None:
        parts = self._take()
        commit = partial(self._commit, parts, self._database.busy_ms)
        try:
            settle(parts, await asyncio.get_running_loop().run_in_executor(self._database.thread, commit))
        except Exception as error:  # noqa: BLE001 - returned to every caller
            _fail(parts, error)

    def _take(self) -> list[CommitPart]:
        """Remove the pending parts, and return those whose caller still waits."""
        parts = [part for part in self._pending if not part.done.done()]
        self._pending.clear()
        self._seen = 0
        return parts

    def _commit(self, parts: list[CommitPart], busy_ms: int) -> list[Any]:
        """The outcome of each part: what its work returned, or the exception that refused it."""
        connection = self._database.commit_connection
        if self._busy_timeout != (connection, busy_ms):
            self._set_busy_timeout(connection, busy_ms)
        try:
            if len(parts) == 1 and len(parts[0].rows) == 1:
                return self._statement(connection, parts[0].rows[0])
            return self._transaction(connection, parts, write_together)
        except sqlite3.OperationalError:
            raise
        except Exception:  # noqa: BLE001 - raised again and attributed, part by part
            return self._transaction(connection, parts, _write_separately)

    def _set_busy_timeout(self, connection: sqlite3.Connection, busy_ms: int) -> None:
        """Set how long SQLite waits for another process that is writing."""
        connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
        self._busy_timeout = connection, busy_ms

    def _statement(self, connection: sqlite3.Connection, row: tuple[Any, ...]) -> list[Any]:
        """Commit a single row, whose statement is a transaction by itself: the most frequent append."""
        started = perf_counter()
        connection.execute(APPEND.sqlite, row)
        self._record_duration(perf_counter() - started)
        return [None]

    def _transaction(
        self,
        connection: sqlite3.Connection,
        parts: list[CommitPart],
        write: Callable[[sqlite3.Connection, list[CommitPart]], list[Any]],
    ) -> list[Any]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            outcomes = write(connection, parts)
            started = perf_counter()
            connection.execute("COMMIT")
            self._record_duration(perf_counter() - started)
        except BaseException:
            connection.rollback()
            raise
        return outcomes

    def _record_duration(self, seconds: float) -> None:
        self._commit_seconds += (seconds - self._commit_seconds) * SMOOTHING
        if self._on_commit is not None:
            self._on_commit(seconds)


def _is_quiet(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether no other callback is ready, so that waiting would not enlarge the group. False for an unknown loop."""
    return not getattr(loop, "_ready", True)


def write_together(connection: sqlite3.Connection, parts: list[CommitPart]) -> list[Any]:
    """Write all parts, with the rows of adjacent parts in one call. Raises any error without attributing it."""
    transaction = SqliteCommitTransaction(connection)
    outcomes: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        if part.work is None:
            rows += part.rows
            outcomes.append(None)
        else:
            transaction.executemany(APPEND, rows)
            rows = []
            outcomes.append(part.work(transaction))
    transaction.executemany(APPEND, rows)
    return outcomes


def _write_separately(connection: sqlite3.Connection, parts: list[CommitPart]) -> list[Any]:
    """Write each part under its own savepoint, so that an error rolls back that part only."""
    outcomes: list[Any] = []
    for part in parts:
        connection.execute("SAVEPOINT part")
        try:
            outcomes += write_together(connection, [part])
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - returned to the caller of the part
            connection.execute("ROLLBACK TO part")
            outcomes.append(_refusal(error))
        connection.execute("RELEASE part")
    return outcomes


def _refusal(error: Exception) -> Exception:
    if isinstance(error, sqlite3.IntegrityError):
        return JournalConflict("the journal does not have the expected length, or the claim is lost")
    return error


def _fail(parts: list[CommitPart], error: Exception) -> None:
    """Report that nothing was written. Each caller gets a separate exception, since each adds its own traceback."""
    for part in parts:
        if not part.done.done():
            part.done.set_exception(_unavailable(error))


def _unavailable(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.Error | Unavailable):
        return error
    refused = Unavailable(f"the journal cannot be written: {LOCKED if is_busy(error) else error}")
    refused.__cause__ = error
    return refused
