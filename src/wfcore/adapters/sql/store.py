"""The interface between the repositories and a database, SQLite or PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import anyio

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.statement import Statement, Values

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL"]
Rows = list[tuple[Any, ...]]

if TYPE_CHECKING:
    Result = sa.CursorResult[*tuple[Any, ...]]
else:
    Result = Any


class Damaged(Exception):
    """The database has other bytes than those that were written."""


class Transaction(Protocol):
    """One transaction."""

    async def execute(self, statement: "sa.Executable", parameters: Any = None) -> Result:
        """Run a constructed statement that finds its rows by an index."""
        ...

    async def scan(self, statement: Statement, values: Values) -> Rows:
        """Run a statement in text that can read many rows."""
        ...

    async def run(self, statement: Statement, values: Values = ()) -> Result:
        """Run a statement in text."""
        ...

    async def run_sync(self, work: "Callable[[sa.Connection], T]") -> T:
        """Call `work` with SQLAlchemy's own connection."""
        ...


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Any: ...


class CommitTransaction(Protocol):
    """The transaction of a group commit. The parameters of its statements are numbered."""

    def execute(self, statement: Statement, values: Sequence[Any] = (), /) -> Cursor: ...

    def executemany(self, statement: Statement, rows: Sequence[Sequence[Any]], /) -> object:
        """Execute a statement for each row. It can be sent later, with the next statement or the commit."""
        ...

    def change(self, statement: Statement, values: Sequence[Any], error: Exception, /) -> None:
        """Execute a statement that must change a row, else `error` is raised. It can be sent and raised later, before
        the commit.
        """
        ...

    def insert(self, statement: Statement, values: Sequence[Any], /) -> int:
        """Insert a row with a statement that has a `key`, and return the key."""
        ...

    def may_find(self, statement: Statement, /) -> bool:
        """False if a statement without parameters finds no row. It is read at most once in a transaction, so no other
        statement of a group commit may change that; where a read costs more than what it spares, the result is True.
        """
        ...


class Commits(Protocol):
    """A group commit: many writers share one. Parts take effect one after the other, each wholly or not at all."""

    def insert_alone(self, row: tuple[Any, ...]) -> bool:
        """Insert a row at once, if that is fast and nobody else writes. False: nothing was written, use `insert`."""
        ...

    def insert(self, rows: Sequence[tuple[Any, ...]]) -> Awaitable[None]:
        """Insert rows of the journal, all or none. Raises JournalConflict when one of them is refused."""
        ...

    def claim(self, execution: int, worker: int, now: int, org: int | None) -> Awaitable[Sequence[tuple[Any, ...]]]:
        """Claim an execution that is due, free and without a limit, and begin its queued run.

        The rows of `FIND_CLAIMED`; none if it was not claimed.
        """
        ...

    def lock_execution(self, transaction: Any, execution: int) -> None:
        """Within `run`: lock the execution against other writers until the transaction ends."""
        ...

    def run(self, work: Callable[[Any], T], conflict_key: Hashable = None) -> "asyncio.Future[T]":
        """Call `work` within the transaction. It can be called again after its effects were rolled back.

        Functions with different keys `conflict_key` (an execution, a run id) can run concurrently.
        """
        ...


class Transactions(Protocol):
    """The transactions of a database. Every method raises Unavailable when it is closed or does not respond."""

    def writing(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction: committed at the end, rolled back on any exception.

        A commit is never interrupted: a cancellation during a commit takes effect after it.
        """
        ...

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that sees one state of the database throughout. It cannot write."""
        ...

    async def scrub(self) -> None:
        """Rewrite the files, so that no deleted content is left in them. Raises Unavailable when others hold locks."""
        ...


class Store(Transactions, Protocol):
    """An open database."""

    durable: bool
    """Whether commits survive a power failure."""

    schema: str
    """The PostgreSQL schema with the tables; not used on SQLite."""

    def beside_loop(self) -> Transactions:
        """Transactions for many rows: the event loop does not wait for their statements."""
        ...

    async def look_up(self, statement: Statement, *values: Any) -> Rows:
        """A short read by key of committed rows, at the lowest cost."""
        ...

    async def scan(self, statement: Statement, *values: Any) -> Rows:
        """A list of committed rows. No look-up waits for it."""
        ...

    async def revision(self) -> str | None:
        """The revision of the schema; None when only `migrations.revision` can read it, or says what is wrong."""
        ...

    async def create_tables(self, statements: Callable[[], Iterable[str]]) -> bool:
        """Execute the statements in one transaction if this is an empty file. False, and nothing is done, for a file
        with anything in it and for a database server.
        """
        ...

    def commits(self, on_commit: Callable[[float], None] | None) -> Commits:
        """The group commit of the journal. `on_commit` is called with the seconds that each commit took."""
        ...

    async def joined(self, connection: object) -> "Store":
        """The store in the transaction of a connection that the product opened, which alone commits it.

        Raises ValueError for a connection to another database, TypeError for a value that is not a connection.
        """
        ...

    async def commit_problem(self) -> str | None:
        """Why runs cannot be written although a write transaction succeeds: the disk is nearly full, or a server gives
        the connection for commits no turn. None when they can.
        """
        ...

    async def close(self) -> None:
        """Wait for active work, then close every connection. Does nothing when closed already."""
        ...


async def shielded(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Run `work` to its end even if the caller is cancelled; the cancellation is raised afterwards.

    A cancelled caller does not receive the outcome, but the work is never left half done.
    """
    task = asyncio.ensure_future(work)
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
