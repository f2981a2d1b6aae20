"""Group commit on PostgreSQL: requests that arrive during a commit share the next one.

Appends of entries only are combined into one statement, which reports the conflict of each append separately. Functions
run concurrently in the transaction, and their statements are sent together; the last ones with the commit. If one of
them is refused, or the database rolls the transaction back, each part is done again in its own transaction, which
attributes the error.
"""

import asyncio
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from itertools import chain, islice
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

import attrs
import psycopg
from sqlalchemy.util import await_, greenlet_spawn

from wfcore.adapters.sql.commit_parts import CommitPart, Work, settle
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.postgres.connections import RolledBack, domain_errors
from wfcore.adapters.sql.postgres.pipeline import (
    Execute,
    PipelineClient,
    PipelineConnection,
    PipelineTransaction,
    Request,
    StatementResult,
)
from wfcore.adapters.sql.schema.statement import Dialect, PostgresDialect, Statement
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


def _appended(d: Dialect) -> str:
    """Insert the entries of appends to different executions, and skip those with a wrong length, last entry or holder.

    Rows are locked in one order, so that two groups cannot deadlock. A statement that waited for a lock has compared
    with an old length: if the position was taken in the meantime, the primary key is violated.
    """
    return f"""
WITH accepted AS (
    SELECT given.execution, given.pos, given.entry, given.checksum
    FROM unnest({d[1]}::bigint[], {d[2]}::bigint[], {d[3]}::bigint[], {d[4]}::bigint[], {d[5]}::bigint[],
        string_to_array({d[6]}, chr(30)), {d[7]}::int[], {d[8]}::int[])
        AS given(execution, org, holder, length, pos, entry, checksum, before)
    JOIN {d[executions]} e ON e.id = given.execution AND e.org = given.org
    LEFT JOIN LATERAL (
        SELECT pos, checksum FROM {d[journal]} WHERE execution = e.id ORDER BY pos DESC LIMIT 1
    ) last ON true
    WHERE (given.holder IS NULL OR e.claimed_by = given.holder)
    AND given.length = coalesce(last.pos, 0) AND given.before = coalesce(last.checksum, 0)
    ORDER BY e.id FOR NO KEY UPDATE OF e
)
INSERT INTO {d[journal]} (execution, pos, entry, checksum)
SELECT execution, pos, entry, checksum FROM accepted"""


_APPEND_SOME: Final = Statement(_appended, key="execution")
"""Returns the execution of each entry that was inserted."""

_APPEND_ALL: Final = Statement(_appended)


@cache
def _must_change(statement: Statement, *, of_arrays: bool) -> Statement:
    """A statement without RETURNING, which fails if one of its rows changes nothing: the server divides by zero.

    `of_arrays`: its first parameter is an array with an element for each row.
    """
    is_all = "(count(*) = cardinality($1))::int" if of_arrays else "count(*)"

    def build(d: Dialect) -> str:
        assert isinstance(d, PostgresDialect)  # noqa: S101
        return f"WITH changed AS ({statement.server(d.schema)} RETURNING 1) SELECT 1 / {is_all} FROM changed"

    return Statement(build)


class _Unchanged(Exception):
    """A statement of `_must_change` has failed: nothing says which one."""


_NUMBERS: Final = {int, bool, type(None)}

_SEPARATOR: Final = "\x1e"
"""The separator of entries: JSON text has no control characters (RFC 8259, 7)."""


@attrs.frozen
class _Call:
    """A statement that a function executes. `error` is raised if a row of it changes nothing.

    `has_result`: the function needs the result of the only row.
    """

    statement: Statement
    rows: Rows
    error: Exception | None = None
    has_result: bool = False


@attrs.frozen
class _Calls:
    """Awaiting calls yields them to `_work`, which sends back the results of the last one."""

    calls: list[_Call]

    def __await__(self) -> Generator["_Calls", list[StatementResult], list[StatementResult]]:
        return (yield self)


class PostgresCommitTransaction:
    """Implements `CommitTransaction`, for functions without `await`: they run in greenlets.

    `unsent` are the latest statements, whose results are not needed: they are sent with the next one, or at the end.
    """

    def __init__(self) -> None:
        self.unsent: list[_Call] = []

    def execute(self, statement: Statement, values: Any = (), /) -> StatementResult:
        calls, self.unsent = [*self.unsent, _Call(statement, [values], has_result=True)], []
        (result,) = await_(_Calls(calls))
        return result

    def executemany(self, statement: Statement, rows: Any, /) -> None:
        if rows:
            self.unsent.append(_Call(statement, rows))

    def change(self, statement: Statement, values: Any, error: Exception, /) -> None:
        self.unsent.append(_Call(statement, [values], error))

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
        self._last: Hashable = None
        """The key of the last part or row."""

    def insert_alone(self, row: tuple[Any, ...]) -> bool:
        """False: every commit waits for the server."""
        return False

    async def insert(self, rows: Rows) -> None:
        """Insert rows with `APPEND`, all or none. Raises JournalConflict when one of them is refused.

        While only one execution writes, a wait would not enlarge the group: its row is sent at once.
        """
        execution = rows[0][0]
        if len(rows) == 1 and execution == self._last and self._committer is None:
            connection = self._database.commit_client.free_connection
            if connection is not None and await self._insert_at_once(connection, rows[0]):
                return
        await self._submit(rows, None, execution)

    async def _insert_at_once(self, connection: PipelineConnection, row: tuple[Any, ...]) -> bool:
        """Insert a row in a transaction of its own. False if the database rolled it back because of another one."""
        started = perf_counter()
        try:
            await connection.send([(sql.APPEND, row)])
        except psycopg.IntegrityError as error:
            raise _conflict() from error
        except psycopg.Error as error:
            with suppress(RolledBack), domain_errors():
                raise error from None
            return False
        if self._on_commit is not None:
            self._on_commit(perf_counter() - started)
        return True

    def run(self, work: Callable[[Any], T], conflict_key: Hashable = None) -> asyncio.Future[T]:
        return self._submit((), work, conflict_key)

    def claim(self, execution: int, worker: int, now: int, org: int | None) -> asyncio.Future[Rows]:
        values = execution, worker, now, org

        def work(transaction: PostgresCommitTransaction) -> Rows:
            return transaction.execute(sql.CLAIM_AND_FIND, values).fetchall()

        return self._submit((), work, execution, (sql.CLAIM_AND_FIND, values))

    def lock_execution(self, transaction: PostgresCommitTransaction, execution: int) -> None:
        transaction.execute(sql.LOCK_EXECUTION, (execution,))

    def _submit(
        self,
        rows: Rows,
        work: Callable[[Any], Any] | None,
        conflict_key: Hashable,
        statement: Request | None = None,
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        self._last = conflict_key
        done = loop.create_future()
        self._pending.append(CommitPart(rows, work, done, conflict_key, statement))
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
                return [_copy(error) for _ in parts]
            except Exception:  # noqa: BLE001, S110 - raised again and attributed below, part by part
                pass
        return [await self._by_itself(part) for part in parts]

    async def _by_itself(self, part: CommitPart) -> Any:
        outcome: Any = None
        must_attribute = False
        for _ in range(ATTEMPTS):
            try:
                return (await self._transaction([part], must_attribute=must_attribute))[0]
            except _Unchanged:
                must_attribute = True
            except RolledBack as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - returned to the caller of the part
                return error
        return outcome

    async def _transaction(self, parts: list[CommitPart], *, must_attribute: bool = False) -> list[Any]:
        """The outcomes of the parts in one transaction. Raises _Unchanged only if it need not attribute errors."""
        self._database.check_open()
        started = perf_counter()
        try:
            async with self._database.commit_client.exclusive() as connection:
                try:
                    outcomes = await _write(connection, parts, must_attribute)
                except psycopg.errors.DivisionByZero as error:
                    if must_attribute:
                        raise
                    raise _Unchanged from error
        except psycopg.IntegrityError as error:
            raise _conflict() from error
        if self._on_commit is not None:
            self._on_commit(perf_counter() - started)
        return outcomes


async def _write(connection: PipelineConnection, parts: list[CommitPart], must_attribute: bool) -> list[Any]:
    if len(parts) == 1 and len(parts[0].rows) == 1:
        # half the cost of the combined statement
        await connection.send([(sql.APPEND, parts[0].rows[0])])
        return [None]
    if len(parts) == 1 and parts[0].statement is not None:
        return [result.rows for result in await connection.send([parts[0].statement])]
    batches = _batches(parts)
    if len(batches) == 1 and not any(part.work for part in parts):
        return await _append(parts, connection.send)  # a statement is a transaction already
    async with connection.transaction() as transaction:
        return [outcome for batch in batches for outcome in await _do(batch, transaction, must_attribute)]


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


async def _do(parts: list[CommitPart], transaction: PipelineTransaction, must_attribute: bool) -> list[Any]:
    """The outcomes of parts that can be done in any order."""
    plain = [part for part in parts if part.work is None]
    works = [part.work for part in parts if part.work is not None]
    appended = iter(await _append(plain, transaction.execute) if plain else ())
    worked = iter(await _work(works, transaction, must_attribute))
    return [next(appended if part.work is None else worked) for part in parts]


async def _append(parts: list[CommitPart], execute: Execute) -> list[Any]:
    """The outcomes of parts with entries only. A conflict of one does not affect the others."""
    (result,) = await execute([_appending([part.rows for part in parts])])
    written = {execution for (execution,) in result.rows}
    return [None if part.conflict_key in written else _conflict() for part in parts]


async def _work(works: Sequence[Work], transaction: PipelineTransaction, must_attribute: bool) -> list[Any]:
    """Run functions concurrently, and send their statements together. Raises the error of any of them, but those of
    their last statements only if it `must_attribute` them: else the commit fails.
    """
    inner = [PostgresCommitTransaction() for _ in works]
    running = [greenlet_spawn(work, each) for work, each in zip(works, inner, strict=True)]
    outcomes: list[Any] = [None] * len(works)
    responses: dict[int, Any] = dict.fromkeys(range(len(works)))
    with ExitStack() as stack:
        for each in running:
            stack.callback(each.close)
        while responses:
            requests: dict[int, list[_Call]] = {}
            last: list[list[_Call]] = []
            for number, response in responses.items():
                try:
                    requests[number] = running[number].send(response).calls
                except StopIteration as end:
                    outcomes[number] = end.value
                    last.append(inner[number].unsent)
            if not requests and not must_attribute:
                transaction.queue(_checked_requests(last))
                break
            found = await _results([*last, *requests.values()], transaction.execute)
            responses = dict(zip(requests, found[len(last) :], strict=True))
    return outcomes


async def _results(parts: list[list[_Call]], execute: Execute) -> list[list[StatementResult]]:
    """The result of the last call of each part. Entries are appended first: other statements can release the claim that
    is compared.
    """
    entries = [call.rows for call in chain(*parts) if call.statement is sql.APPEND]
    groups = _groups(parts)
    requests = [_requests(group) for group in groups]
    results = iter(await execute([*([_one_or_all(entries)] if entries else []), *chain(*requests)]))
    if entries and next(results).rowcount < sum(map(len, entries)):
        raise _conflict()
    found: dict[int, list[StatementResult]] = {}
    for group, sent in zip(groups, requests, strict=True):
        for call, each in zip(group, _each(group, list(islice(results, len(sent)))), strict=True):
            found[id(call)] = each
    return [found.get(id(calls[-1]), []) if calls else [] for calls in parts]


def _groups(parts: list[list[_Call]]) -> list[list[_Call]]:
    """The calls of all parts but APPEND, those of one statement together. The calls of one part keep their order."""
    groups: list[list[_Call]] = []
    for calls in parts:
        place = 0
        for call in calls:
            if call.statement is sql.APPEND:
                continue
            while place < len(groups) and groups[place][0].statement is not call.statement:
                place += 1
            if place == len(groups):
                groups.append([])
            groups[place].append(call)
            place += 1
    return groups


def _requests(group: list[_Call]) -> list[Request]:
    """The calls of one statement: a single request if it can write many rows."""
    rows = [row for call in group for row in call.rows]
    statement = group[0].statement
    if statement.many is None or len(rows) == 1:
        return [(statement, row) for row in rows]
    return [(statement.many, [_array(values) for values in zip(*rows, strict=True)])]


def _are_arrays(group: list[_Call]) -> bool:
    """Whether `_requests` makes a single request with many rows."""
    return group[0].statement.many is not None and sum(len(call.rows) for call in group) > 1


def _checked_requests(parts: list[list[_Call]]) -> list[Request]:
    """The calls of all parts. The server refuses all of them if one of them is refused, or must change a row and does
    not.
    """
    requests: list[Request] = []
    if entries := [call.rows for call in chain(*parts) if call.statement is sql.APPEND]:
        statement, values = _one_or_all(entries)
        is_one = statement is sql.APPEND
        requests.append((statement if is_one else _must_change(_APPEND_ALL, of_arrays=True), values))
    for group in _groups(parts):
        of_arrays = _are_arrays(group)
        for statement, values in _requests(group):
            is_checked = any(call.error is not None for call in group)
            requests.append((_must_change(statement, of_arrays=of_arrays) if is_checked else statement, values))
    return requests


def _each(group: list[_Call], results: list[StatementResult]) -> list[list[StatementResult]]:
    """The results of each call. Raises the error of a call whose rows changed nothing."""
    if _are_arrays(group):
        (result,) = results
        must_write = any(call.error is not None or call.has_result for call in group)
        if must_write and result.rowcount < sum(len(call.rows) for call in group):
            raise _conflict()  # then each part is repeated by itself, with an error of its own
        keys = sorted(result.rows)
        return [[StatementResult(1, keys[place : place + 1])] for place in range(len(group))]
    left = iter(results)
    found = [list(islice(left, len(call.rows))) for call in group]
    for call, each in zip(group, found, strict=True):
        if call.error is not None and not all(result.rowcount for result in each):
            raise call.error
    return found


def _one_or_all(appends: Sequence[Rows]) -> Request:
    """`APPEND` for a single entry, at half the cost: its conflict is an IntegrityError. Else the combined statement."""
    return (sql.APPEND, appends[0][0]) if len(appends) == len(appends[0]) == 1 else _appending(appends)


def _appending(appends: Sequence[Rows]) -> Request:
    """The combined statement of some appends, each with rows as for `APPEND`."""
    lengths = [rows[0][1] - 1 for rows in appends for _ in rows]
    befores = [rows[0][-1] for rows in appends for _ in rows]
    executions, places, orgs, holders, texts, sums, _ = zip(*chain.from_iterable(appends), strict=True)
    arrays = map(_array, (executions, orgs, holders, lengths, places))
    return _APPEND_SOME, (*arrays, _SEPARATOR.join(texts), _array(sums), _array(befores))


def _array(values: Sequence[Any]) -> str:
    """An array as a PostgreSQL literal (Arrays, Array Input and Output Syntax)."""
    if _NUMBERS.issuperset(map(type, values)):
        return f"{{{','.join(map(str, values)).replace('None', 'NULL')}}}"
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: str | bytes | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _copy(error: Unavailable) -> Unavailable:
    """A separate exception for one caller. The cause shows that the message has words of the database."""
    copy = Unavailable(error.message)
    copy.__cause__ = error.__cause__
    return copy


def _conflict() -> JournalConflict:
    return JournalConflict("the journal does not have the expected length, or the claim is lost")
