"""Group commit on PostgreSQL: requests that arrive during a commit share the next one.

Appends of entries only are combined into one statement, which reports the conflict of each append separately. Functions
run concurrently in the transaction, and their statements are sent together. If one of them is refused, or the database
rolls the transaction back, each part is results again in its own transaction, which attributes the error.
"""

import asyncio
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

import attrs
import psycopg
from sqlalchemy.util import await_, greenlet_spawn

from wfcore.adapters.sql.commit_parts import CommitPart, Work, settle
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.postgres.connections import RolledBack
from wfcore.adapters.sql.postgres.pipeline import (
    Execute,
    PipelineClient,
    PipelineConnection,
    Request,
    StatementResult,
)
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.schema.tables import executions, journal
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import JournalConflict
from wfcore.ports.shards import Moving

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]

ATTEMPTS: Final = 3
"""Attempts at a part that the database rolls back because of another transaction."""

MIN_SHARED: Final = 16
"""Parts that always share a commit. Of more parts, a commit takes half of all callers: those that wait, and those that
the last commit served, which are likely to return. While the server commits for one half, the other half works.
"""

_APPEND: Final = Statement(
    lambda d: (
        f"""
WITH accepted AS (
    SELECT given.execution, given.pos, given.entry, given.checksum
    FROM unnest({d[1]}::bigint[], {d[2]}::bigint[], {d[3]}::bigint[], {d[4]}::bigint[], {d[5]}::bigint[],
        string_to_array({d[6]}, chr(30)), {d[7]}::int[]) AS given(execution, org, holder, length, pos, entry, checksum)
    JOIN {d[executions]} e ON e.id = given.execution AND e.org = given.org
    WHERE (given.holder IS NULL OR e.claimed_by = given.holder)
    AND given.length = coalesce((SELECT max(pos) FROM {d[journal]} j WHERE j.execution = e.id), 0)
    ORDER BY e.id FOR NO KEY UPDATE OF e
)
INSERT INTO {d[journal]} (execution, pos, entry, checksum)
SELECT execution, pos, entry, checksum FROM accepted RETURNING execution"""
    )
)
"""Inserts the entries of appends to different executions, and skips appends with a wrong length or holder.

Rows are locked in one order, so that two groups cannot deadlock. A statement that waited for a lock has compared with
an old length: if the position was taken in the meantime, the primary key is violated.
"""

_SEPARATOR: Final = "\x1e"
"""The separator of entries: JSON text has no control characters (RFC 8259, 7)."""


@attrs.frozen
class _Call:
    """A statement that a function executes. Awaiting it yields it to `_work`, which sends back the results."""

    statement: Statement
    rows: Rows

    def __await__(self) -> Generator["_Call", list[StatementResult], list[StatementResult]]:
        return (yield self)


class PostgresCommitTransaction:
    """Implements `CommitTransaction`, for functions without `await`: they run in greenlets."""

    def execute(self, statement: Statement, values: Any = (), /) -> StatementResult:
        (result,) = await_(_Call(statement, [values]))
        return result

    def executemany(self, statement: Statement, rows: Any, /) -> None:
        if rows:
            await_(_Call(statement, rows))

    def insert(self, statement: Statement, values: Any, /) -> int:
        ((key,),) = self.execute(statement, values).fetchall()
        return int(key)

    def may_find(self, statement: Statement, /) -> bool:
        """True: all functions of a group wait for each of their statements together."""
        return True


class PostgresWriter(Protocol):
    """The part of a database that the group commit uses."""

    commit_client: PipelineClient

    def check_open(self) -> None:
        """Raises Unavailable when the database is closed."""
        ...


class PostgresCommits:
    """Implements `Commits` with one transaction at a time."""

    def __init__(self, database: PostgresWriter, on_commit: Callable[[float], None] | None = None) -> None:
        self._database = database
        self._on_commit = on_commit
        self._pending: list[CommitPart] = []
        self._committer: asyncio.Task[None] | None = None

    def insert_alone(self, row: tuple[Any, ...]) -> bool:
        """False: every commit waits for the server."""
        return False

    def insert(self, rows: Rows) -> asyncio.Future[None]:
        return self._submit(rows, None, rows[0][0])

    def run(self, work: Callable[[Any], T], conflict_key: Hashable = None) -> asyncio.Future[T]:
        return self._submit((), work, conflict_key)

    def lock_execution(self, transaction: PostgresCommitTransaction, execution: int) -> None:
        transaction.execute(sql.LOCK_EXECUTION, (execution,))

    def _submit(self, rows: Rows, work: Callable[[Any], Any] | None, conflict_key: Hashable) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._pending.append(CommitPart(rows, work, done, conflict_key))
        if self._committer is None:
            self._committer = loop.create_task(self._commit_all())
        return done

    async def _commit_all(self) -> None:
        # INVARIANT: no await between the check that nothing is pending and the end of the task.
        served = 0
        while self._pending:
            share = max(MIN_SHARED, (served + len(self._pending) + 1) // 2)
            parts = [part for part in self._pending[:share] if not part.done.done()]
            del self._pending[:share]
            settle(parts, await self._outcomes(parts))
            served = len(parts)
        self._committer = None

    async def _outcomes(self, parts: list[CommitPart]) -> list[Any]:
        """The outcome of each part: what its work returned, or the exception that refused it."""
        if len(parts) > 1:
            try:
                return await self._transaction(parts)
            except (RolledBack, Moving):
                pass
            except Unavailable as error:
                return [Unavailable(error.message) for _ in parts]
            except Exception:  # noqa: BLE001, S110 - raised again and attributed below, part by part
                pass
        return [await self._by_itself(part) for part in parts]

    async def _by_itself(self, part: CommitPart) -> Any:
        outcome: Any = None
        for _ in range(ATTEMPTS):
            try:
                return (await self._transaction([part]))[0]
            except RolledBack as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - returned to the caller of the part
                return error
        return outcome

    async def _transaction(self, parts: list[CommitPart]) -> list[Any]:
        self._database.check_open()
        started = perf_counter()
        try:
            async with self._database.commit_client.exclusive() as connection:
                outcomes = await _write(connection, parts)
        except psycopg.IntegrityError as error:
            raise _conflict() from error
        if self._on_commit is not None:
            self._on_commit(perf_counter() - started)
        return outcomes


async def _write(connection: PipelineConnection, parts: list[CommitPart]) -> list[Any]:
    if len(parts) == 1 and len(parts[0].rows) == 1:
        # half the cost of the combined statement
        await connection.send([(sql.APPEND, parts[0].rows[0])])
        return [None]
    batches = _batches(parts)
    if len(batches) == 1 and not any(part.work for part in parts):
        return await _append(parts, connection.send)  # a statement is a transaction already
    async with connection.transaction() as execute:
        return [outcome for batch in batches for outcome in await _do(batch, execute)]


def _batches(parts: list[CommitPart]) -> list[list[CommitPart]]:
    """Runs of parts with different keys, which can be done in any order."""
    batches: list[list[CommitPart]] = []
    known: set[Hashable] = {None}
    for part in parts:
        if part.conflict_key is None or part.conflict_key in known or None in known:
            batches.append([])
            known = set()
        batches[-1].append(part)
        known.add(part.conflict_key)
    return batches


async def _do(parts: list[CommitPart], execute: Execute) -> list[Any]:
    """The outcomes of parts that can be done in any order."""
    plain = [part for part in parts if part.work is None]
    works = [part.work for part in parts if part.work is not None]
    appended = iter(await _append(plain, execute) if plain else ())
    worked = iter(await _work(works, execute))
    return [next(appended if part.work is None else worked) for part in parts]


async def _append(parts: list[CommitPart], execute: Execute) -> list[Any]:
    """The outcomes of parts with entries only. A conflict of one does not affect the others."""
    (result,) = await execute([_appending([part.rows for part in parts])])
    written = {execution for (execution,) in result.rows}
    return [None if part.conflict_key in written else _conflict() for part in parts]


async def _work(works: Sequence[Work], execute: Execute) -> list[Any]:
    """Run functions concurrently, and send their statements together. Raises the error of any of them."""
    running = [greenlet_spawn(work, PostgresCommitTransaction()) for work in works]
    outcomes: list[Any] = [None] * len(works)
    responses: dict[int, Any] = dict.fromkeys(range(len(works)))
    with ExitStack() as stack:
        for each in running:
            stack.callback(each.close)
        while responses:
            requests: dict[int, _Call] = {}
            for number, response in responses.items():
                try:
                    requests[number] = running[number].send(response)
                except StopIteration as end:
                    outcomes[number] = end.value
            responses = dict(zip(requests, await _responses(list(requests.values()), execute), strict=True))
    return outcomes


async def _responses(requests: list[_Call], execute: Execute) -> list[list[StatementResult]]:
    entries = [request.rows for request in requests if request.statement is sql.APPEND]
    others = [request for request in requests if request.statement is not sql.APPEND]
    statements: list[Request] = [(request.statement, row) for request in others for row in request.rows]
    if entries:
        statements.append(_appending(entries))
    results = await execute(statements) if statements else []
    if entries and results.pop().rowcount < sum(map(len, entries)):
        raise _conflict()
    left = iter(results)
    return [[] if each.statement is sql.APPEND else list(islice(left, len(each.rows))) for each in requests]


def _appending(appends: Sequence[Rows]) -> Request:
    """The combined statement of some appends, each with rows as for `APPEND`."""
    lengths = [rows[0][1] - 1 for rows in appends for _ in rows]
    executions, places, orgs, holders, texts, sums = zip(*chain.from_iterable(appends), strict=True)
    arrays = map(_array, (executions, orgs, holders, lengths, places))
    return _APPEND, (*arrays, _SEPARATOR.join(texts), _array(sums))


def _array(numbers: Iterable[int | None]) -> str:
    """An array as a PostgreSQL literal (Arrays, Array Input and Output Syntax)."""
    return f"{{{','.join(map(str, numbers)).replace('None', 'NULL')}}}"


def _conflict() -> JournalConflict:
    return JournalConflict("the journal does not have the expected length, or the claim is lost")
