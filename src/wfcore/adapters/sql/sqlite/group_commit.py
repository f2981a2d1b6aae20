"""Many writers, one commit: what is asked for while a commit is under way shares the next.

A commit is what costs, not a row. It is done on the event loop while the disk is quick, since a thread would
cost several times as much, and in a thread while the disk is slow or another process writes, so that the loop
never stands still for long.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Hashable
from concurrent.futures import Executor
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

from wfcore.adapters.sql.commit_parts import CommitPart, Rows, Work, settle
from wfcore.adapters.sql.repositories.journal_statements import APPEND
from wfcore.adapters.sql.sqlite.busy import BUSY_SECONDS, INLINE_BUSY_MS, is_busy
from wfcore.adapters.sql.store import Hot
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import JournalConflict

T = TypeVar("T")


class Written:
    """What is done already: awaiting it waits for nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


WRITTEN: Final = Written()


INLINE_SECONDS: Final = 0.001
"""A transaction that is expected to take longer than this does not hold up the event loop."""

ROW_SECONDS: Final = 4e-6
SMOOTHING: Final = 0.1


class SqliteWriter(Protocol):
    """The one connection of a file that writes, and who may use it when."""

    lock: asyncio.Lock

    @property
    def thread(self) -> Executor: ...

    @property
    def hot(self) -> sqlite3.Connection:
        """Raises Unavailable when the file is closed."""
        ...


class GroupCommit:
    """The one user of `database.hot`. Implements `Commits`.

    Parts take effect as if one came after the other, in the order of asking. One that is refused leaves
    nothing behind and does not disturb the others. What is under way is finished even if its caller is
    cancelled; what nobody waits for any more is not begun.
    """

    def __init__(self, database: SqliteWriter, told: Callable[[float], None] | None = None) -> None:
        """`told` hears how many seconds each commit took, from whichever thread it was in."""
        self._database = database
        self._told = told
        self._pending: list[CommitPart] = []
        self._scheduled = False
        self._flusher: asyncio.Task[None] | None = None
        self._commit_seconds = 0.0
        self._patience: tuple[sqlite3.Connection, int] | None = None

    def insert(self, rows: Rows) -> Awaitable[None]:
        """Rows for `APPEND`, all or none. `JournalConflict` when one of them is refused."""
        if len(rows) == 1 and self._is_alone() and self._wrote(rows[0]):
            return WRITTEN
        return self._submit(rows, None)

    def run(self, work: Callable[[sqlite3.Connection], T], about: Hashable = None) -> asyncio.Future[T]:
        """Statements of a transaction. `work` may be called again, after its effects were rolled back."""
        return self._submit((), work)

    def hold(self, hot: sqlite3.Connection, execution: int) -> None:
        """Nobody else writes to the file."""

    def _submit(self, rows: Rows, work: Work | None) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._pending.append(CommitPart(rows, work, done))
        if not self._scheduled:
            self._scheduled = True
            if _is_quiet(loop):
                self._flush()
            else:
                loop.call_soon(self._flush)  # once everybody who is ready now has had a turn
        return done

    def _is_alone(self) -> bool:
        """Whether a row that is asked for now can be committed here and now, for itself."""
        if self._scheduled or self._database.lock.locked() or self._slow():
            return False
        return _is_quiet(asyncio.get_running_loop())

    def _wrote(self, row: tuple[Any, ...]) -> bool:
        """False when it was refused, or another process writes: that comes up again on the way that all others take."""
        try:
            hot = self._database.hot
            self._be_patient(hot, INLINE_BUSY_MS)
            self._statement(hot, row)
        except sqlite3.IntegrityError:
            return False
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise _unavailable(error) from error
        return True

    def _flush(self) -> None:
        """Commit what is pending, here and now if that is quick and nobody else is writing."""
        # INVARIANT: nothing awaits between finding the lock free and the end of the commit. That is as good
        # as holding it, and costs nothing.
        if self._database.lock.locked() or self._slow() or not self._flush_inline():
            self._flusher = asyncio.get_running_loop().create_task(self._flush_locked())
        else:
            self._scheduled = False

    async def _flush_locked(self) -> None:
        try:
            async with self._database.lock:
                if self._slow() or not self._flush_inline():
                    await self._flush_in_thread()
        finally:
            self._scheduled = bool(self._pending)
            if self._pending:
                asyncio.get_running_loop().call_soon(self._flush)

    def _slow(self) -> bool:
        rows = sum([len(part.rows) or 1 for part in self._pending])
        return self._commit_seconds + rows * ROW_SECONDS > INLINE_SECONDS

    def _flush_inline(self) -> bool:
        """False when another process is writing: then nothing has been done."""
        parts = self._take()
        try:
            settle(parts, self._commit(parts, INLINE_BUSY_MS))
        except sqlite3.OperationalError as error:
            if is_busy(error):
                self._pending[:0] = parts
                return False
            _fail(parts, error)
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            _fail(parts, error)
        return True

    async def _flush_in_thread(self) -> None:
        parts = self._take()
        commit = partial(self._commit, parts, round(BUSY_SECONDS * 1000))
        try:
            settle(parts, await asyncio.get_running_loop().run_in_executor(self._database.thread, commit))
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            _fail(parts, error)

    def _take(self) -> list[CommitPart]:
        """Those that somebody still waits for."""
        parts = [part for part in self._pending if not part.done.done()]
        self._pending.clear()
        return parts

    def _commit(self, parts: list[CommitPart], busy_ms: int) -> list[Any]:
        """The outcome of each part: what its work returned, or the exception that refused it."""
        hot = self._database.hot
        self._be_patient(hot, busy_ms)
        try:
            if len(parts) == 1 and len(parts[0].rows) == 1:
                return self._statement(hot, parts[0].rows[0])
            return self._transaction(hot, parts, all_at_once)
        except sqlite3.OperationalError:
            raise
        except Exception:  # noqa: BLE001 - found again, and attributed, one by one
            return self._transaction(hot, parts, _one_by_one)

    def _be_patient(self, hot: sqlite3.Connection, busy_ms: int) -> None:
        """How long to wait for another process that is writing."""
        if self._patience != (hot, busy_ms):
            hot.execute(f"PRAGMA busy_timeout = {busy_ms}")
            self._patience = hot, busy_ms

    def _statement(self, hot: sqlite3.Connection, row: tuple[Any, ...]) -> list[Any]:
        """A single row, which is a transaction already: the hot append."""
        started = perf_counter()
        hot.execute(APPEND, row)
        self._took(perf_counter() - started)
        return [None]

    def _transaction(
        self,
        hot: sqlite3.Connection,
        parts: list[CommitPart],
        write: Callable[[sqlite3.Connection, list[CommitPart]], list[Any]],
    ) -> list[Any]:
        hot.execute("BEGIN IMMEDIATE")
        try:
            outcomes = write(hot, parts)
            started = perf_counter()
            hot.execute("COMMIT")
            self._took(perf_counter() - started)
        except BaseException:
            hot.rollback()
            raise
        return outcomes

    def _took(self, seconds: float) -> None:
        self._commit_seconds += (seconds - self._commit_seconds) * SMOOTHING
        if self._told is not None:
            self._told(seconds)


def _is_quiet(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether nobody else is ready to run, so that waiting would bring no company. Loops that do not tell are not."""
    return not getattr(loop, "_ready", True)


def all_at_once(hot: Hot, parts: list[CommitPart]) -> list[Any]:
    """Rows of neighbouring parts in one go. Any refusal is raised: whose it is, is not known here."""
    outcomes: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        if part.work is None:
            rows += part.rows
            outcomes.append(None)
        else:
            hot.executemany(APPEND, rows)
            rows = []
            outcomes.append(part.work(hot))
    hot.executemany(APPEND, rows)
    return outcomes


def _one_by_one(hot: sqlite3.Connection, parts: list[CommitPart]) -> list[Any]:
    """Each part under a savepoint of its own, so that a refusal undoes that part alone."""
    outcomes: list[Any] = []
    for part in parts:
        hot.execute("SAVEPOINT part")
        try:
            outcomes += all_at_once(hot, [part])
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to the one who waits
            hot.execute("ROLLBACK TO part")
            outcomes.append(_refusal(error))
        hot.execute("RELEASE part")
    return outcomes


def _refusal(error: Exception) -> Exception:
    if isinstance(error, sqlite3.IntegrityError):
        return JournalConflict("the journal is not as long as the writer thought, or the claim is gone")
    return error


def _fail(parts: list[CommitPart], error: Exception) -> None:
    """Nothing was written. Everybody gets an exception of his own: each grows its own traceback."""
    for part in parts:
        if not part.done.done():
            part.done.set_exception(_unavailable(error))


def _unavailable(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.Error | Unavailable):
        return error
    refused = Unavailable(f"the journal cannot be written: {error}")
    refused.__cause__ = error
    return refused
