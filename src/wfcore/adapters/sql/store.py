"""A database as the repositories see it, whichever it is."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeVar

import anyio
import sqlalchemy as sa

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL"]
Rows = list[tuple[Any, ...]]
Values = Sequence[Any] | Mapping[str, Any]
Result = sa.CursorResult[*tuple[Any, ...]]


class Transaction(Protocol):
    """One transaction, to whoever works in it. Statements that are written out are in SQLite's words."""

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> Result:
        """Run a statement that finds its rows by an index."""
        ...

    async def scan(self, statement: str, values: Values) -> Rows:
        """Run a statement, written out, that may look at many rows."""
        ...

    async def exec_driver_sql(self, text: str, parameters: Any = None) -> Result:
        """Run a statement that is written out."""
        ...

    async def run_sync(self, work: Callable[[sa.Connection], T]) -> T:
        """Do something that takes SQLAlchemy's own connection."""
        ...


class Cursor(Protocol):
    """What a statement did."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Any: ...


class Hot(Protocol):
    """The transaction of a commit that several writers share. Statements are in SQLite's words."""

    def execute(self, statement: str, values: Any = (), /) -> Cursor: ...

    def executemany(self, statement: str, rows: Any, /) -> object: ...


class Commits(Protocol):
    """Many writers, one commit. Parts take effect as if one came after the other, each wholly or not at all."""

    def insert(self, rows: Sequence[tuple[Any, ...]]) -> Awaitable[None]:
        """Rows of the journal, all or none. `JournalConflict` when one of them is refused."""
        ...

    def hold(self, hot: Any, execution: int) -> None:
        """Within `run`: from here on nobody else writes to the execution until the transaction ends."""
        ...

    def run(self, work: Callable[[Any], T], about: Hashable = None) -> "asyncio.Future[T]":
        """Statements of a transaction, on a `Hot`. `work` may be called again, after its effects were rolled back.

        Works about different things (the execution that is written to, a run id) may be done side by side.
        """
        ...


class Store(Protocol):
    """An open database. Every method raises Unavailable when it is closed or does not answer."""

    durable: bool
    """Whether what was committed survives a power cut."""

    def writing(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction: committed at the end, rolled back on any exception.

        A commit is never interrupted: cancelled while it runs, it is finished first, and the caller learns of the
        cancellation only.
        """
        ...

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that sees one state of the database throughout. It cannot write."""
        ...

    async def look_up(self, statement: str, *values: Any) -> Rows:
        """A short read by key, of what is committed, for as little as possible."""
        ...

    def commits(self, told: Callable[[float], None] | None) -> Commits:
        """The writer of the journal. `told` hears how many seconds each commit took."""
        ...

    async def close(self) -> None:
        """Wait for whoever is at work, then close every connection. Nothing to do when closed already."""
        ...


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
