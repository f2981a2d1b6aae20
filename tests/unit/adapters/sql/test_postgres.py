"""A PostgreSQL database: its schema, its transactions, and what becomes of a commit that many share."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from postgres_server import new_database, without_schema

import wfcore.bootstrap
from wfcore.adapters.sql.journal import SqlJournal
from wfcore.adapters.sql.postgres.connections import RolledBack
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.postgres.group_commit import PostgresCommitTransaction
from wfcore.adapters.sql.repositories.conversations import page_statement
from wfcore.adapters.sql.repositories.journal_statements import LIST_RUNS, to_json
from wfcore.adapters.sql.schema.dialect import named_values, to_driver_statement, to_server_statement
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.kernel.errors import Invalid, Unavailable
from wfcore.domain.people.people import Organization
from wfcore.ports.journal import Append, JournalConflict, RunExists
from wfcore.testing.contracts.journal_values import NOW, ORG, OTHER_ORG, begin, due, steps

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, synchronous="NORMAL")
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    async with opened(url) as database:
        for org in (ORG, OTHER_ORG):
            await SqlStorage(database).add_organization(Organization(org, "one", datetime(2026, 1, 1, tzinfo=UTC)))
        yield database


async def idle(times: int = 50) -> None:
    """Let others have their turn, over and over."""
    for _ in range(times):
        await asyncio.sleep(0.001)


GONE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid NOT IN (%s, pg_backend_pid())"
)


def end_connections(url: str, but: int = 0) -> None:
    """As when the server was restarted: every connection to the database is gone, `but` that of one backend."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(GONE, (but,))


class TestSchema:
    async def test_the_steps_make_the_tables(self, database: PostgresDatabase) -> None:
        """All steps together make exactly the tables of the metadata, as Alembic compares them."""
        async with database.reading() as connection:
            compared = await connection.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
        assert compared == []

    async def test_text_is_ordered_by_code_points(self, database: PostgresDatabase) -> None:
        """In every column, whatever order the database has by default: so SQLite orders it."""
        async with database.reading() as connection:
            found = await connection.exec_driver_sql(
                "SELECT DISTINCT collation_name FROM information_schema.columns WHERE data_type = 'text'"
                " AND table_schema = 'public'"
            )
            assert found.all() == [("C",)]

    async def test_several_processes_upgrade_at_once(self) -> None:
        """One makes the schema while the others wait, and all find it made."""
        url = without_schema()
        async with opened(url) as one, opened(url) as other:
            async with asyncio.timeout(30):
                await asyncio.gather(*(SqlStorage(database).upgrade() for database in (one, other, one)))
            assert await SqlStorage(other).check() is None


class TestUrls:
    async def test_without_the_driver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The extra that is missing is named."""
        for name in [name for name in sys.modules if name.startswith("wfcore.adapters.sql.postgres")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(Unavailable, match=r"install `wfcore\[postgres\]`"):
            async with wfcore.bootstrap.open("postgresql://h/n"):
                pass

    @pytest.mark.parametrize(
        "url",
        ["postgres://u:secret@h/n", "postgresql+asyncpg://u:secret@h/n", "mysql://h", "postgresql://u:secret@h:x/n"],
    )
    def test_any_other_url_is_refused(self, url: str) -> None:
        """With words that show no password."""
        with pytest.raises(ValueError, match="postgresql://host/name") as caught:
            PostgresDatabase(url)
        assert "secret" not in str(caught.value)

    async def test_no_server(self) -> None:
        """A server that does not answer is told, without the password."""
        database = PostgresDatabase("postgresql://u:secret@127.0.0.1:1/n")
        with pytest.raises(Unavailable, match="does not answer") as caught:
            await database.open()
        assert "secret" not in caught.value.message
        with pytest.raises(Unavailable, match="closed"):
            await database.look_up("SELECT 1")


class TestTransactions:
    async def test_writers_of_one_organization_wait_for_each_other(self, database: PostgresDatabase) -> None:
        """What one read is still so when it writes; another organization's writers do not wait."""
        storage, order = SqlStorage(database), list[str]()

        async def write(org: str, name: str) -> None:
            async with storage.transaction(org):
                order.append(name)

        async with storage.transaction(ORG):
            waiting = asyncio.create_task(write(ORG, "same"))
            await write(OTHER_ORG, "other")
            await idle()
            assert order == ["other"]
        await waiting
        assert order == ["other", "same"]

    async def test_a_reader_sees_one_state(self, database: PostgresDatabase) -> None:
        """What is committed while it reads, it does not see; and it cannot write."""
        count = sa.text("SELECT count(*) FROM organizations")
        async with database.reading() as connection:
            before = (await connection.execute(count)).scalar()
            await SqlStorage(database).add_organization(Organization("x", "x", datetime(2026, 1, 1, tzinfo=UTC)))
            assert (await connection.execute(count)).scalar() == before
        with pytest.raises(sa.exc.DBAPIError, match="read-only"):
            async with database.reading() as connection:
                await connection.exec_driver_sql("DELETE FROM organizations")

    @pytest.mark.parametrize("name", ["nul\0", "half\ud800"])
    async def test_text_that_cannot_be_kept(self, database: PostgresDatabase, name: str) -> None:
        """Is refused as a bad value, and nothing is written."""
        with pytest.raises(Invalid, match="cannot store"):
            await SqlStorage(database).add_organization(Organization("x", name, datetime(2026, 1, 1, tzinfo=UTC)))
        assert await SqlStorage(database).organization("x") is None

    async def test_a_lost_server_is_found_again(self, database: PostgresDatabase, url: str) -> None:
        """Each use that meets a broken connection is told once at most; then it has a new one, and nothing is lost."""
        journal, storage = SqlJournal(database), SqlStorage(database)
        ref = await begin(journal, "r-1")
        uses: list[Callable[[], Awaitable[object]]] = [
            lambda: journal.append(ref, Append(1, steps(1, 1))),
            lambda: journal.execution(ref),
            lambda: storage.organization(ORG),
        ]
        await asyncio.gather(uses[1](), uses[1](), uses[2]())
        end_connections(url)
        for use in uses:
            with suppress(Unavailable):
                await use()
            with suppress(JournalConflict):  # the first one was written
                await use()
        assert len(await journal.read(ref)) == 2

    async def test_nobody_hears_of_connections_that_ended_while_they_were_idle(
        self, database: PostgresDatabase, url: str
    ) -> None:
        """However long ago the server was restarted: each use finds new ones by itself."""
        journal, storage = SqlJournal(database), SqlStorage(database)
        ref = await begin(journal, "r-1")

        async def held_together() -> None:
            async with AsyncExitStack() as stack:
                for use in (database.writing, database.reading) * 2:
                    transaction = await stack.enter_async_context(use())
                    assert (await transaction.exec_driver_sql("SELECT 1")).all() == [(1,)]

        await held_together()
        end_connections(url)
        await idle()
        await held_together()
        await journal.append(ref, Append(1, steps(1, 1)))
        assert (await journal.execution(ref)).length == 2
        assert await storage.organization(ORG) is not None

    async def test_who_waits_when_the_server_is_lost_is_told(self, database: PostgresDatabase, url: str) -> None:
        """Everybody whose commit was under way or came after it; nothing of it was written."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(3)]
        with psycopg.connect(url) as other:
            other.execute("SELECT id FROM executions FOR UPDATE")
            late = [asyncio.create_task(journal.append(ref, Append(1, steps(1, 1)))) for ref in refs]
            await idle()
            late += [asyncio.create_task(journal.append(refs[0], Append(1, (), updates_claim=True)))]
            await idle()
            end_connections(url, but=other.info.backend_pid)
            outcomes = await asyncio.gather(*late[:3], return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        await asyncio.gather(*late[3:], return_exceptions=True)  # told too, or done by a new connection once it can be
        async with opened(url) as found:
            assert await SqlJournal(found).lengths(refs) == dict.fromkeys(refs, 1)

    async def test_no_use_waits_for_another(self, database: PostgresDatabase) -> None:
        """With every reader and writer busy, the journal is written and read all the same."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1")
        ready, go = asyncio.Semaphore(0), asyncio.Event()

        async def busy(writes: bool) -> None:
            async with database.writing() if writes else database.reading():
                ready.release()
                await go.wait()
                await journal.append(ref, Append(9, ()))

        tasks = [asyncio.create_task(busy(writes)) for writes in (True, False) for _ in range(4)]
        for _ in tasks:
            await ready.acquire()
        await journal.append(ref, Append(1, steps(1, 1)))
        assert (await journal.execution(ref)).length == 2
        go.set()
        assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {JournalConflict}


class TestCommits:
    async def test_a_refusal_is_of_one_alone(self, database: PostgresDatabase) -> None:
        """Of those who share a commit only the one whose length is wrong is refused; the others are written."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(5)]
        lengths = [1, 1, 3, 0, 1]
        asked = zip(refs, lengths, strict=True)
        outcomes = await asyncio.gather(
            *(journal.append(ref, Append(length, steps(1, length))) for ref, length in asked), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [
            type(None), type(None), JournalConflict, JournalConflict, type(None),
        ]  # fmt: skip
        assert [len(await journal.read(ref)) for ref in refs] == [2, 2, 1, 1, 2]

    @pytest.mark.parametrize("company", [0, 2])
    async def test_what_was_given_up_is_done_again(self, database: PostgresDatabase, company: int) -> None:
        """A transaction that the database ended for another one's sake is repeated, and nobody learns of it."""
        commits, calls = database.commits(None), list[int]()

        def work(hot: PostgresCommitTransaction) -> int:
            calls.append(1)
            if len(calls) == 1:
                hot.execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
            return 7

        others = [commits.run(lambda hot: hot.execute("SELECT 1").fetchall()) for _ in range(company)]
        assert await commits.run(work) == 7
        assert [list(await other) for other in others] == [[(1,)]] * company

    async def test_in_the_end_it_is_told(self, database: PostgresDatabase) -> None:
        """What is given up again and again is refused, and the next commit is none the worse."""
        commits = database.commits(None)
        with pytest.raises(RolledBack):
            await commits.run(lambda hot: hot.execute("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))
        assert await commits.run(lambda hot: hot.execute("SELECT 1").fetchone()) == (1,)

    async def test_works_are_done_side_by_side(self, database: PostgresDatabase) -> None:
        """Those about different things take turns within one transaction; each gets its own answers."""
        order, told = list[str](), list[float]()
        commits = database.commits(told.append)

        def work(name: str) -> Callable[[PostgresCommitTransaction], Any]:
            def ask(hot: PostgresCommitTransaction) -> Any:
                for number in range(2):
                    order.append(f"{name}{number}")
                    (answer,) = hot.execute("SELECT CAST(?1 AS text)", (f"{name}{number}",)).fetchall()
                return answer

            return ask

        await commits.run(work("first"))
        order.clear()
        told.clear()
        outcomes = await asyncio.gather(*(commits.run(work(name), name) for name in "abc"))
        assert outcomes == [("a1",), ("b1",), ("c1",)]
        assert order == ["a0", "b0", "c0", "a1", "b1", "c1"]
        assert len(told) == 1

    async def test_many_writers_take_turns_in_halves(self, database: PostgresDatabase) -> None:
        """While the commit of the ones is under way, the others can work; few are not worth halving."""
        for writers, expected in ((60, 8), (16, 4)):
            told = list[float]()
            commits = database.commits(told.append)

            async def write(number: int, commits: Any = commits) -> None:
                for _ in range(4):
                    await commits.run(lambda hot: hot.execute("SELECT 1"), number)

            await asyncio.gather(*map(write, range(writers)))
            assert len(told) == expected

    async def test_works_about_the_same_come_one_after_the_other(self, database: PostgresDatabase) -> None:
        """In the order of asking; so do those of which nobody knows what they are about, and their neighbours."""
        commits, order = database.commits(None), list[str]()

        def work(name: str) -> Callable[[PostgresCommitTransaction], None]:
            def ask(hot: PostgresCommitTransaction) -> None:
                for _ in range(2):
                    order.append(name)
                    hot.execute("SELECT 1")

            return ask

        asked = [("a", 1), ("b", 2), ("c", 1), ("d", None), ("e", 1), ("f", 2)]
        await asyncio.gather(*(commits.run(work(name), about) for name, about in asked))
        assert "".join(order) == "ababccddefef"

    async def test_a_refused_work_undoes_nobody_else(self, database: PostgresDatabase) -> None:
        """Of works that share a transaction each is done wholly or not at all."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(3)]
        outcomes = await asyncio.gather(
            journal.append(refs[0], Append(1, steps(1, 1), updates_claim=True, wake_at=7)),
            begin(journal, "r-1", wake_at=1),
            journal.append(refs[1], Append(2, steps(1, 1), updates_claim=True, wake_at=2)),
            journal.append(refs[2], Append(1, steps(2, 1))),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), RunExists, JournalConflict, type(None)]
        assert await journal.lengths(refs) == dict(zip(refs, (2, 1, 3), strict=True))
        assert await journal.next_wake() == 7

    async def test_many_entries_of_any_text(self, database: PostgresDatabase) -> None:
        """Quotes, braces, commas, NULL, every control character: any JSON comes back as it was."""
        odd = ['"', "\\", '\\"', "{a,b}", "", "NULL", "\u2028", "é€😀", "'", "%", "$1", "?1", *map(chr, range(32))]
        texts = ["{a,b}", "NULL", "\n", '\t"\\"', *map(to_json, odd)]
        journal, commits = SqlJournal(database), database.commits(None)
        ref = await begin(journal, "r-1")
        await commits.insert([(ref.id, 2 + number, 1, None, text) for number, text in enumerate(texts)])
        found = await database.look_up("SELECT entry FROM journal WHERE execution = ? ORDER BY pos OFFSET 1", ref.id)
        assert [text for (text,) in found] == texts

    async def test_what_nobody_waits_for_is_not_begun(self, database: PostgresDatabase) -> None:
        """A caller that was cancelled before its turn leaves nothing behind."""
        commits, calls = database.commits(None), list[str]()
        first = commits.run(lambda _: calls.append("first"))
        second = commits.run(lambda _: calls.append("second"))
        second.cancel()
        await first
        await commits.run(lambda _: calls.append("third"))
        assert calls == ["first", "third"]

    async def test_it_tells_how_long_commits_took(self, database: PostgresDatabase) -> None:
        """Once for each transaction, however many share it."""
        told = list[float]()
        commits = database.commits(told.append)
        await asyncio.gather(*(commits.run(lambda _: None) for _ in range(5)))
        assert 1 <= len(told) < 5
        assert all(0 < seconds < 10 for seconds in told)


class TestSeveralProcesses:
    async def test_each_is_claimed_once(self, database: PostgresDatabase, url: str) -> None:
        """However many stores claim at once, over connections of their own."""
        journal = SqlJournal(database)
        refs = {await due(journal, f"r-{number}", NOW) for number in range(40)}
        async with opened(url) as second, opened(url) as third:
            journals = [SqlJournal(each) for each in (database, second, third)]
            rounds = [each.claim_due(worker, NOW, 3) for worker, each in enumerate(journals * 6, 1)]
            claims = await asyncio.gather(*rounds)
        claimed = [ref for claim in claims for ref in claim]
        assert len(claimed) == 40
        assert set(claimed) == refs

    async def test_claimants_wait_for_nobody(self, database: PostgresDatabase) -> None:
        """What somebody is writing to is passed over, and claimed later."""
        journal = SqlJournal(database)
        held, free = await due(journal, "r-1", NOW), await due(journal, "r-2", NOW)
        async with database.writing() as connection:
            await connection.exec_driver_sql("SELECT id FROM executions WHERE id = ? FOR UPDATE", (held.id,))
            async with asyncio.timeout(10):
                assert await journal.claim_due(1, NOW, 9) == [free]
        assert await journal.claim_due(1, NOW, 9) == [held]

    @pytest.mark.parametrize("moves", [False, True])
    async def test_who_is_losing_its_claim_writes_no_more(self, database: PostgresDatabase, moves: bool) -> None:
        """While the claim is being taken away its holder's write waits, and is refused once it is gone."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1", claimed_by=1)
        async with database.writing() as connection:
            await connection.exec_driver_sql("UPDATE executions SET claimed_by = NULL WHERE id = ?", (ref.id,))
            late = asyncio.create_task(journal.append(ref, Append(1, steps(1, 1), holder=1, updates_claim=moves)))
            await idle()
        with pytest.raises(JournalConflict):
            await late
        assert len(await journal.read(ref)) == 1

    async def test_the_lost_race_of_one_disturbs_nobody_else(self, database: PostgresDatabase, url: str) -> None:
        """Of appends that share a statement only that is refused whose position another process took meanwhile."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(3)]
        async with opened(url) as second:
            other = SqlJournal(second)
            async with database.writing() as connection:
                await connection.exec_driver_sql("SELECT id FROM executions WHERE id = ? FOR UPDATE", (refs[1].id,))
                await connection.exec_driver_sql("INSERT INTO journal VALUES (?, 2, '{}')", (refs[1].id,))
                late = [asyncio.create_task(other.append(ref, Append(1, steps(1, 1)))) for ref in refs]
                await idle()
            outcomes = await asyncio.gather(*late, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), JournalConflict, type(None)]
        assert await journal.lengths(refs) == dict.fromkeys(refs, 2)

    async def test_a_comparison_waits_for_the_other_writer(self, database: PostgresDatabase, url: str) -> None:
        """A writer compares with what is there once the other one has committed: entries or none, it is refused."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1")
        async with opened(url) as second:
            late = SqlJournal(second)
            async with database.writing() as connection:
                await connection.exec_driver_sql("SELECT id FROM executions WHERE id = ? FOR UPDATE", (ref.id,))
                tasks = [
                    asyncio.create_task(late.append(ref, Append(1, entries, updates_claim=True)))
                    for entries in ((), steps(1, 1))
                ]
                await idle()
                await connection.exec_driver_sql("INSERT INTO journal VALUES (?, 2, '{}')", (ref.id,))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [JournalConflict] * 2


MANY = """
INSERT INTO executions (org, kind, resource_id, is_draft, user_id, thread_id)
SELECT 1, 'workflow', g % 9, false, 'u' || g % 9, 't' || g FROM generate_series(1, 4000) g;
INSERT INTO runs (org, id, execution, user_id, fingerprint, status, created_at, updated_at)
SELECT 1, 'r' || g, g, 'u' || g % 9, '', 'done', g, g FROM generate_series(1, 4000) g;
INSERT INTO conversations (org, thread_id, user_id, created_at, updated_at)
SELECT 1, 't' || g, 'u' || g % 9, g, g FROM generate_series(1, 4000) g;
INSERT INTO participants SELECT g, 'workflow', g % 9, 1, g FROM generate_series(1, 4000) g;
INSERT INTO resources (org, kind, id, slug, name, status, access, is_enabled, created_at, updated_at, revision)
SELECT 1, 'workflow', g, 's' || g, 'n', 'active', '', true, 0, 0, 0 FROM generate_series(1, 2000) g;
INSERT INTO grants SELECT g, 'u:u1', true, true FROM generate_series(1, 2000) g;
ANALYZE"""


async def test_pages_are_walks(database: PostgresDatabase, url: str) -> None:
    """With thousands of rows a page of runs, of all or of a user's own, and one of conversations, is still a walk along
    an index: no table is read through, and nothing is sorted."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MANY)
    last, subjects = 2**63 - 1, '["u:u1"]'
    runs = (1, last, None, None, None)
    eyes = {"org": ORG, "user": "u1", "subjects": subjects, "at": last, "key": 0, "limit": 20}
    for statement, values in (
        (LIST_RUNS, (*runs, None, None, 20)),
        (LIST_RUNS, (*runs, "u1", subjects, 20)),
        (page_statement(None), eyes),
    ):
        async with database.reading() as transaction:
            steps = [step for (step,) in await transaction.scan(f"EXPLAIN {statement}", values)]
        assert not [step for step in steps if "Sort" in step or ("Seq Scan" in step and "organizations" not in step)]


@pytest.mark.parametrize(
    ("written", "values", "told"),
    [
        ("a = ?1 AND b = ?2 AND c = ?1", (1, 2), ("a = $1 AND b = $2 AND c = $1", (1, 2))),
        ("VALUES (?, ?)", (1, 2), ("VALUES ($1, $2)", (1, 2))),
        ("a = :b AND c = :a % :b", {"a": 1, "b": 2}, ("a = $1 AND c = $2 % $1", [2, 1])),
        ("CAST(a::text AS json)", (), ("CAST(a::text AS json)", ())),
    ],
)
def test_statements_go_out_with_numbers(written: str, values: Any, told: Any) -> None:
    """On the wire placeholders are numbers, and values stand in their order."""
    assert to_server_statement(written, values) == told


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("a = ?1 AND b = ?2 AND c = ?1", "a = %(p1)s AND b = %(p2)s AND c = %(p1)s"),
        ("VALUES (?, ?)", "VALUES (%(p1)s, %(p2)s)"),
        ("a = :a_b % 2", "a = %(a_b)s %% 2"),
        ("max(a.b, c.d) + max(e)", "greatest(a.b, c.d) + max(e)"),
        ("o CROSS JOIN p ON a", "o JOIN p ON a"),
    ],
)
def test_statements_are_translated(written: str, told: str) -> None:
    """SQLite's words in PostgreSQL's, placeholders as names."""
    assert to_driver_statement(written) == told


def test_values_have_the_names_of_their_places() -> None:
    """By position counted from one, or as they are named already."""
    assert named_values((7, None)) == {"p1": 7, "p2": None}
    assert named_values({"a": 1}) == {"a": 1}
