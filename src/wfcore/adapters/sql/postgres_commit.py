"""Many writers, one commit, on PostgreSQL: what is asked for while a commit is under way shares the next.

A transaction that the database gives up, because somebody is in it who cannot be served, is done again with each of
its parts alone: a refusal then tells whose it is.
"""

import asyncio
from collections.abc import Callable, Sequence
from operator import itemgetter
from time import perf_counter
from typing import Any, Final, TypeVar

import attrs
import psycopg
from psycopg import AsyncConnection
from sqlalchemy.util import await_, greenlet_spawn

from wfcore.adapters.sql import statements as sql
from wfcore.adapters.sql.dialect import in_postgres, named
from wfcore.adapters.sql.group_commit import Part, all_at_once, settle
from wfcore.adapters.sql.postgres import PostgresDatabase
from wfcore.adapters.sql.postgres_connections import GivenUp
from wfcore.domain.errors import Unavailable
from wfcore.ports.journal import JournalConflict

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]

TRIES: Final = 3
"""How often a part is done again that was given up for another transaction."""

_HOLD: Final = "SELECT 1 FROM executions WHERE id = ?1 FOR NO KEY UPDATE"

_LOCKING: Final = {sql.APPEND: sql.APPEND_ALONE, sql.DUE: sql.DUE_TO_NOBODY}


@attrs.frozen
class Done:
    """What a statement did. Implements `Cursor`."""

    rowcount: int
    rows: Rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def fetchall(self) -> Rows:
        return self.rows


class PostgresHot:
    """The transaction of a commit, for work that is written without `await`. Implements `Hot`."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = (), /) -> Done:
        return await_(self.run(statement, values))

    def executemany(self, statement: str, rows: Any, /) -> None:
        await_(self.run_many(statement, rows))

    async def run(self, statement: str, values: Any) -> Done:
        cursor = await self._connection.execute(_text(statement), named(values))
        return Done(cursor.rowcount, await cursor.fetchall() if cursor.description else [])

    async def run_many(self, statement: str, rows: Rows) -> None:
        if rows:
            await self._connection.cursor().executemany(_text(statement), [named(row) for row in rows])


class PostgresCommits:
    """Implements `Commits`, one transaction at a time."""

    def __init__(self, database: PostgresDatabase, told: Callable[[float], None] | None = None) -> None:
        self._database = database
        self._told = told
        self._pending: list[Part] = []
        self._committer: asyncio.Task[None] | None = None

    def insert(self, rows: Rows) -> asyncio.Future[None]:
        return self._submit(rows, None)

    def run(self, work: Callable[[Any], T]) -> asyncio.Future[T]:
        return self._submit((), work)

    def hold(self, hot: PostgresHot, execution: int) -> None:
        hot.execute(_HOLD, (execution,))

    def _submit(self, rows: Rows, work: Callable[[Any], Any] | None) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._pending.append(Part(rows, work, done))
        if self._committer is None:
            self._committer = loop.create_task(self._commit_all())
        return done

    async def _commit_all(self) -> None:
        # INVARIANT: nothing awaits between finding nothing pending and the end of the task.
        while self._pending:
            parts = [part for part in self._pending if not part.done.done()]
            self._pending.clear()
            settle(parts, await self._outcomes(parts))
        self._committer = None

    async def _outcomes(self, parts: list[Part]) -> list[Any]:
        """The outcome of each part: what its work returned, or the exception that refused it."""
        if len(parts) > 1:
            try:
                return await self._transaction(parts)
            except GivenUp:
                pass
            except Unavailable as error:
                return [Unavailable(error.message) for _ in parts]
            except Exception:  # noqa: BLE001, S110 - found again, and attributed, one by one
                pass
        return [await self._alone(part) for part in parts]

    async def _alone(self, part: Part) -> Any:
        outcome: Any = None
        for _ in range(TRIES):
            try:
                return (await self._transaction([part]))[0]
            except GivenUp as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - it belongs to the one who waits
                return error
        return outcome

    async def _transaction(self, parts: list[Part]) -> list[Any]:
        self._database.check_open()
        started = perf_counter()
        try:
            async with self._database.for_commits.connection() as connection:
                outcomes = await _write(connection, parts)
        except psycopg.IntegrityError as error:
            raise JournalConflict("the journal is not as long as the writer thought, or the claim is gone") from error
        if self._told is not None:
            self._told(perf_counter() - started)
        return outcomes


async def _write(connection: AsyncConnection[Any], parts: list[Part]) -> list[Any]:
    hot = PostgresHot(connection)
    if any(part.work for part in parts):
        async with connection.transaction():
            return await greenlet_spawn(all_at_once, hot, parts)
    rows = sorted((row for part in parts for row in part.rows), key=itemgetter(0))  # two groups wait in one order
    if len(rows) == 1:
        await hot.run(sql.APPEND, rows[0])  # a transaction already: the hot append
    else:
        async with connection.transaction():
            await hot.run_many(sql.APPEND, rows)
    return [None] * len(parts)


def _text(statement: str) -> str:
    return in_postgres(_LOCKING.get(statement, statement))
