"""Many writers, one commit, on PostgreSQL: what is asked for while a commit is under way shares the next.

Entries that nothing else goes with are one statement, however many appends they are of: the lost comparison of one is
an outcome of its own. Works are done side by side: what they ask at the same time goes out together. A transaction in
which one of them is refused, or which the database gives up, is done again with each part alone: the refusal then
tells whose it is.
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
from wfcore.adapters.sql.postgres.connections import GivenUp
from wfcore.adapters.sql.postgres.pipeline import Ask, Asked, Done, Line, Wire
from wfcore.adapters.sql.repositories import journal_statements as sql
from wfcore.adapters.sql.schema.dialect import on_the_wire
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import JournalConflict

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]

TRIES: Final = 3
"""How often a part is done again that was given up for another transaction."""

FEW: Final = 16
"""Parts that share a commit in any case. Of more, it is half of those who wait and those who were just answered and are
likely to come back: while the ones wait for the server the others work, and neither half runs dry.
"""

_HOLD: Final = "SELECT 1 FROM executions WHERE id = ?1 FOR NO KEY UPDATE"

_LOCKING: Final = {sql.DUE: sql.DUE_TO_NOBODY}

_APPEND: Final = """
WITH held AS (
    SELECT asked.execution, asked.pos, asked.entry
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], string_to_array($6, chr(30)))
        AS asked(execution, org, holder, length, pos, entry)
    JOIN executions e ON e.id = asked.execution AND e.org = asked.org
    WHERE (asked.holder IS NULL OR e.claimed_by = asked.holder)
    AND asked.length = coalesce((SELECT max(pos) FROM journal j WHERE j.execution = e.id), 0)
    ORDER BY e.id FOR NO KEY UPDATE OF e
)
INSERT INTO journal (execution, pos, entry) SELECT execution, pos, entry FROM held RETURNING execution"""
"""The entries of appends to different executions, of those whose length and holder are right. The others are left out.

Rows are locked in one order, so that two groups wait for each other in one direction. Whoever had to wait compared with
what was there before: a position that was taken meanwhile breaks the primary key.
"""

_SEPARATOR: Final = "\x1e"
"""What stands between entries: JSON text has no control characters (RFC 8259, 7)."""


@attrs.frozen
class _Question:
    """What a work asks. Awaited, it goes out to whoever does the work, and comes back as the answer."""

    statement: str
    rows: Rows

    def __await__(self) -> Generator["_Question", list[Done], list[Done]]:
        return (yield self)


class PostgresHot:
    """The transaction of a commit, for work that is written without `await`. Implements `Hot`."""

    def execute(self, statement: str, values: Any = (), /) -> Done:
        (done,) = await_(_Question(statement, [values]))
        return done

    def executemany(self, statement: str, rows: Any, /) -> None:
        if rows:
            await_(_Question(statement, rows))


class PostgresWriter(Protocol):
    """The connection on which one database's groups are committed."""

    for_commits: Line

    def check_open(self) -> None:
        """Raises Unavailable when the database is closed."""
        ...


class PostgresCommits:
    """Implements `Commits`, one transaction at a time."""

    def __init__(self, database: PostgresWriter, told: Callable[[float], None] | None = None) -> None:
        self._database = database
        self._told = told
        self._pending: list[CommitPart] = []
        self._committer: asyncio.Task[None] | None = None

    def insert(self, rows: Rows) -> asyncio.Future[None]:
        return self._submit(rows, None, rows[0][0])

    def run(self, work: Callable[[Any], T], about: Hashable = None) -> asyncio.Future[T]:
        return self._submit((), work, about)

    def hold(self, hot: PostgresHot, execution: int) -> None:
        hot.execute(_HOLD, (execution,))

    def _submit(self, rows: Rows, work: Callable[[Any], Any] | None, about: Hashable) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._pending.append(CommitPart(rows, work, done, about))
        if self._committer is None:
            self._committer = loop.create_task(self._commit_all())
        return done

    async def _commit_all(self) -> None:
        # INVARIANT: nothing awaits between finding nothing pending and the end of the task.
        answered = 0
        while self._pending:
            share = max(FEW, (answered + len(self._pending) + 1) // 2)
            parts = [part for part in self._pending[:share] if not part.done.done()]
            del self._pending[:share]
            settle(parts, await self._outcomes(parts))
            answered = len(parts)
        self._committer = None

    async def _outcomes(self, parts: list[CommitPart]) -> list[Any]:
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

    async def _alone(self, part: CommitPart) -> Any:
        outcome: Any = None
        for _ in range(TRIES):
            try:
                return (await self._transaction([part]))[0]
            except GivenUp as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - it belongs to the one who waits
                return error
        return outcome

    async def _transaction(self, parts: list[CommitPart]) -> list[Any]:
        self._database.check_open()
        started = perf_counter()
        try:
            async with self._database.for_commits.alone() as wire:
                outcomes = await _write(wire, parts)
        except psycopg.IntegrityError as error:
            raise _conflict() from error
        if self._told is not None:
            self._told(perf_counter() - started)
        return outcomes


async def _write(wire: Wire, parts: list[CommitPart]) -> list[Any]:
    if len(parts) == 1 and len(parts[0].rows) == 1:
        await wire.send([on_the_wire(sql.APPEND_ALONE, parts[0].rows[0])])  # half of what the other statement takes
        return [None]
    batches = _batches(parts)
    if len(batches) == 1 and not any(part.work for part in parts):
        return await _append(parts, wire.send)  # a statement is a transaction already
    async with wire.transaction() as ask:
        return [outcome for batch in batches for outcome in await _do(batch, ask)]


def _batches(parts: list[CommitPart]) -> list[list[CommitPart]]:
    """Neighbours that are about different things: they may be done in any order."""
    batches: list[list[CommitPart]] = []
    known: set[Hashable] = {None}
    for part in parts:
        if part.about is None or part.about in known or None in known:
            batches.append([])
            known = set()
        batches[-1].append(part)
        known.add(part.about)
    return batches


async def _do(parts: list[CommitPart], ask: Ask) -> list[Any]:
    """What became of parts that may be done in any order."""
    plain = [part for part in parts if part.work is None]
    works = [part.work for part in parts if part.work is not None]
    appended = iter(await _append(plain, ask) if plain else ())
    worked = iter(await _work(works, ask))
    return [next(appended if part.work is None else worked) for part in parts]


async def _append(parts: list[CommitPart], ask: Ask) -> list[Any]:
    """Entries alone. A refusal disturbs nobody."""
    (done,) = await ask([_appending([part.rows for part in parts])])
    written = {execution for (execution,) in done.rows}
    return [None if part.about in written else _conflict() for part in parts]


async def _work(works: Sequence[Work], ask: Ask) -> list[Any]:
    """Do works side by side: what they ask at the same time is asked together. Any refusal is raised."""
    under_way = [greenlet_spawn(work, PostgresHot()) for work in works]
    outcomes: list[Any] = [None] * len(works)
    answers: dict[int, Any] = dict.fromkeys(range(len(works)))
    with ExitStack() as stack:
        for each in under_way:
            stack.callback(each.close)
        while answers:
            questions: dict[int, _Question] = {}
            for number, answer in answers.items():
                try:
                    questions[number] = under_way[number].send(answer)
                except StopIteration as end:
                    outcomes[number] = end.value
            answers = dict(zip(questions, await _answers(list(questions.values()), ask), strict=True))
    return outcomes


async def _answers(questions: list[_Question], ask: Ask) -> list[list[Done]]:
    entries = [question.rows for question in questions if question.statement == sql.APPEND]
    others = [question for question in questions if question.statement != sql.APPEND]
    asked = [_asked(question.statement, row) for question in others for row in question.rows]
    if entries:
        asked.append(_appending(entries))
    done = await ask(asked) if asked else []
    if entries and done.pop().rowcount < sum(map(len, entries)):
        raise _conflict()
    left = iter(done)
    return [[] if each.statement == sql.APPEND else list(islice(left, len(each.rows))) for each in questions]


def _appending(appends: Sequence[Rows]) -> Asked:
    """The entries of some appends, each the rows of `statements.APPEND`."""
    lengths = [rows[0][1] - 1 for rows in appends for _ in rows]
    executions, places, orgs, holders, texts = zip(*chain.from_iterable(appends), strict=True)
    return _APPEND, (*map(_array, (executions, orgs, holders, lengths, places)), _SEPARATOR.join(texts))


def _array(numbers: Iterable[int | None]) -> str:
    """As PostgreSQL writes it (Arrays, Array Input and Output Syntax)."""
    return f"{{{','.join(map(str, numbers)).replace('None', 'NULL')}}}"


def _asked(statement: str, values: Any) -> Asked:
    return on_the_wire(_LOCKING.get(statement, statement), values)


def _conflict() -> JournalConflict:
    return JournalConflict("the journal is not as long as the writer thought, or the claim is gone")
