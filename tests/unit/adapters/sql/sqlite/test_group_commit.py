"""The group commit on SQLite: sharing of transactions, event loop or thread, and failures."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from commit_batches import same_as_one_by_one
from sql_texts import statement

from wfcore.adapters.sql.journal import claim_statements as claims
from wfcore.adapters.sql.journal import interrupt_statements as inbox
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.journal.run_lists import list_runs
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.sqlite.group_commit import GROWTH, LARGE
from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.domain.run.entries import Said
from wfcore.ports.journal import Append, ExecutionRef, JournalConflict, RunExists, RunFilter
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, begin, outcomes, steps

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/journal.db", synchronous="NORMAL")
    await database.open()
    async with database.writing() as connection:
        await connection.run_sync(metadata.create_all)
    database.commit_connection.execute("INSERT INTO wfcore_organizations VALUES (1, ?, 'one', 0, NULL)", (ORG,))
    yield database
    await database.close()


@pytest.fixture
async def journal(database: Database) -> SqlJournal:
    return SqlJournal(database)


class CountedConnection:
    """The connection of a database, with every statement counted and some of them failing."""

    def __init__(self, database: Database) -> None:
        self.real = database.commit_connection
        self.fails: dict[str, Exception] = {}
        self.seen: list[str] = []
        self.threads: set[int] = set()
        database._commit_connection = self  # type: ignore[assignment]

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self.seen.append(statement)
        if statement in ("COMMIT", sql.APPEND.sqlite):
            self.threads.add(threading.get_ident())
        if error := self.fails.pop(statement, None):
            raise error
        return self.real.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


async def many(journal: SqlJournal, count: int) -> list[ExecutionRef]:
    return [await begin(journal, f"r-{number}") for number in range(count)]


class TestSharing:
    async def test_pending_appends_share_one_commit(self, journal: SqlJournal, database: Database) -> None:
        """A hundred concurrent appends are one transaction, repeatedly."""
        refs = await many(journal, 100)
        hot = CountedConnection(database)
        for length in (1, 2, 3):
            await asyncio.gather(*(journal.append(ref, Append(length, steps(1))) for ref in refs))
            assert hot.seen.count("COMMIT") == length

    async def test_concurrent_begins_share_one_commit(self, journal: SqlJournal, database: Database) -> None:
        """Concurrent begins are one transaction, and each creates a separate execution."""
        await begin(journal)
        hot = CountedConnection(database)
        refs = await asyncio.gather(*(begin(journal, f"x-{number}") for number in range(20)))
        assert hot.seen.count("COMMIT") == 1
        assert len(set(refs)) == 20

    @pytest.mark.parametrize(("a_turn", "commits"), [(GROWTH, 1), (GROWTH - 1, 4), (LARGE, 4)])
    async def test_a_group_that_grows_waits(
        self, journal: SqlJournal, database: Database, a_turn: int, commits: int
    ) -> None:
        """Appends that begin in successive turns of the loop share a commit if each turn adds many, until the group is
        large.
        """
        journal._commits._inline_seconds = float("inf")
        refs, hot = await many(journal, 4 * a_turn), CountedConnection(database)

        async def append(ref: ExecutionRef, turn: int) -> None:
            for _ in range(turn):
                await asyncio.sleep(0)
            await journal.append(ref, Append(1, steps(1)))

        await asyncio.gather(*(append(ref, index // a_turn) for index, ref in enumerate(refs)))
        assert hot.seen.count("COMMIT") == commits

    async def test_an_invalid_part_fails_by_itself(self, journal: SqlJournal) -> None:
        """Each refused caller gets its own error, and the other parts are written."""
        one, two = await many(journal, 2)
        kinds = await outcomes(
            journal.append(one, Append(1, steps(1), updates_claim=True, wake_at=2**70)),
            begin(journal, "r-1"),
            begin(journal, "r-9", org="nowhere"),
            journal.append(two, Append(1, steps(1))),
        )
        assert kinds == [OverflowError, RunExists, NotFound, type(None)]
        assert await journal.lengths([one, two]) == {one: 1, two: 2}

    async def test_a_part_cancelled_before_the_commit_is_skipped(self, journal: SqlJournal) -> None:
        """A cancelled pending append is not written, the one beside it is."""
        one, two = await many(journal, 2)
        left = asyncio.ensure_future(journal.append(one, Append(1, steps(1))))
        stays = asyncio.ensure_future(journal.append(two, Append(1, steps(1))))
        asyncio.get_running_loop().call_soon(left.cancel)
        assert await asyncio.gather(left, stays, return_exceptions=True)
        assert left.cancelled()
        assert await journal.lengths([one, two]) == {one: 1, two: 2}

    async def test_an_execution_that_writes_alone_waits_for_no_group(self, journal: SqlJournal) -> None:
        """Its next row is committed at once, although a callback is ready; the row of another execution waits."""
        one, two = await many(journal, 2)
        turns: list[str] = []
        for ref, length, seen in ((one, 1, []), (one, 2, []), (two, 1, ["turn"])):
            journal._commits._commit_seconds = 0.0
            await journal.append(ref, Append(length, steps(1)))
            assert turns == seen
            if ref == one and length == 1:
                asyncio.get_running_loop().call_soon(turns.append, "turn")


class TestWhere:
    async def test_on_the_event_loop_while_the_disk_is_fast(self, journal: SqlJournal, database: Database) -> None:
        """A small commit runs on the thread of the event loop."""
        ref, hot = await begin(journal), CountedConnection(database)
        journal._commits._commit_seconds = 0.0
        await journal.append(ref, Append(1, steps(1)))
        assert hot.threads == {threading.get_ident()}

    async def test_in_a_thread_while_the_disk_is_slow(self, journal: SqlJournal, database: Database) -> None:
        """Slow commits run in a thread, until they are fast again."""
        ref, hot = await begin(journal), CountedConnection(database)
        journal._commits._commit_seconds = 1.0
        await journal.append(ref, Append(1, steps(1)))
        assert threading.get_ident() not in hot.threads
        assert journal._commits._commit_seconds < 1.0

    async def test_in_a_thread_with_many_rows(self, journal: SqlJournal, database: Database) -> None:
        """Thousands of rows do not block the event loop, however fast the disk."""
        ref, hot = await begin(journal), CountedConnection(database)
        await journal.append(ref, Append(1, steps(3000)))
        assert threading.get_ident() not in hot.threads

    async def test_the_journal_waits_for_another_writer(self, journal: SqlJournal, database: Database) -> None:
        """While the storage writes, the journal waits and the event loop runs."""
        ref = await begin(journal)
        async with database.writing() as connection:
            await connection.run(statement("INSERT INTO wfcore_organizations VALUES (2, 'u', 'two', 0, NULL)"))
            append = asyncio.ensure_future(journal.append(ref, Append(1, steps(1))))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not append.done()
            assert len(await journal.read(ref)) == 1
        await append
        assert len(await journal.read(ref)) == 2

    async def test_the_journal_waits_for_another_process(self, journal: SqlJournal, database: Database) -> None:
        """While another connection holds the write lock, the event loop runs and readers read; then the append is
        written.
        """
        ref = await begin(journal)
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        append = asyncio.ensure_future(journal.append(ref, Append(1, steps(1))))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(await journal.read(ref)) == 1
        assert not append.done()
        other.execute("COMMIT")
        other.close()
        await append
        assert len(await journal.read(ref)) == 2


class TestFailure:
    @pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "COMMIT"])
    @pytest.mark.parametrize("seconds", [0.0, 1.0])
    async def test_an_error_reaches_every_caller(
        self, journal: SqlJournal, database: Database, statement: str, seconds: float
    ) -> None:
        """Inline and in a thread: all who wait get Unavailable, nothing is written, and the next is."""
        refs = await many(journal, 5)
        hot = CountedConnection(database)
        hot.fails[statement] = full()
        journal._commits._commit_seconds = seconds
        kinds = await outcomes(*(journal.append(ref, Append(1, steps(1))) for ref in refs))
        assert kinds == [Unavailable] * 5
        assert set((await journal.lengths(refs)).values()) == {1}
        await asyncio.gather(*(journal.append(ref, Append(1, steps(1))) for ref in refs))
        assert set((await journal.lengths(refs)).values()) == {2}

    async def test_a_full_database(self, journal: SqlJournal, database: Database) -> None:
        """When SQLite runs out of pages, nothing is half written; with more pages, appends succeed again."""
        one, two = await many(journal, 2)
        (pages,) = database.commit_connection.execute("PRAGMA page_count").fetchone()
        database.commit_connection.execute(f"PRAGMA max_page_count = {pages}")
        big = [Said(0, 0, 0, 0, 0, "x" * 100_000)]
        kinds = await outcomes(journal.append(one, Append(1, steps(1))), journal.append(two, Append(1, big)))
        assert kinds == [Unavailable] * 2
        assert await journal.lengths([one, two]) == {one: 1, two: 1}
        database.commit_connection.execute("PRAGMA max_page_count = 1000000")
        await journal.append(two, Append(1, big))
        assert await journal.read(two, 1) == big

    async def test_a_closed_database(self, journal: SqlJournal, database: Database) -> None:
        """After `close`, writing and reading raise Unavailable, and do not hang."""
        ref = await begin(journal)
        await database.close()
        for work in (journal.append(ref, Append(1, steps(1))), journal.claim_due(1, 0, 1), journal.read(ref)):
            with pytest.raises(Unavailable):
                await work


class TestPlans:
    @pytest.mark.parametrize(
        ("one", "index"),
        [
            (list_runs(1, 20, 1, RunFilter(), None)[0], "runs_recent"),
            (sql.FIND_RUN, "autoindex_wfcore_runs"),
            (sql.FIND_TURN, "autoindex_wfcore_runs"),
            (inbox.LIST_INTERRUPTS, "INTEGER PRIMARY KEY"),
            (claims.DUE, "executions_due"),
            (claims.DUE_OF, "executions_due_org"),
            (claims.DUE_ORGANIZATIONS, "executions_due_org"),
            (claims.NEXT_WAKE, "executions_due"),
            (claims.RELEASE, "executions_claims"),
            (claims.HELD_BY, "executions_claims"),
            (claims.HOLDERS, "executions_claims"),
            (claims.BEGIN_RUN, "runs_turns"),
            (sql.READ, "PRIMARY KEY"),
            (sql.FIRST_RUN, "runs_turns"),
        ],
    )
    async def test_no_statement_scans_a_table(self, database: Database, one: Statement, index: str) -> None:
        """Every list and every claim uses an index, in the order of that index."""
        text = one.sqlite
        asked = max(number for number in range(1, 10) if f"?{number}" in text or number == 1)
        values = (None,) * (asked if "?" in text else 0)
        plan = [row[3] for row in database.commit_connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        assert any(index in step for step in plan), plan
        scans = [step for step in plan if step.startswith("SCAN") and "INDEX" not in step]
        assert all("json_each" in step or step == "SCAN w" for step in scans), plan
        assert not [step for step in plan if "FOR ORDER BY" in step], plan


@pytest.mark.parametrize(("seed", "conflicts"), [(1, 0), (2, 0), (3, 0.05), (4, 0.2)])
async def test_a_batch_writes_what_its_parts_write_one_by_one(database: Database, seed: int, conflicts: float) -> None:
    """With texts of any kind; parts that are refused have the same error, and do not affect the others."""
    database.commit_connection.execute("INSERT INTO wfcore_organizations VALUES (2, ?, 'two', 0, NULL)", (OTHER_ORG,))
    assert (JournalConflict in await same_as_one_by_one(database, seed, conflicts)) == bool(conflicts)
