"""A PostgreSQL database: its schema, URLs, transactions and lost connections."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime

import psycopg
import pytest
import sqlalchemy as sa
from postgres_databases import end_connections, idle, opened
from postgres_server import WAITS, without_schema
from sql_texts import explained, qualified, statement
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.journal.run_lists import list_runs
from wfcore.adapters.sql.migrations.fingerprint import fingerprint
from wfcore.adapters.sql.postgres import database as postgres
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.repositories.conversations import PAGE
from wfcore.adapters.sql.schema.run_tables import BY_KEY
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.adapters.system import SystemClock
from wfcore.domain.kernel.errors import Invalid, Unavailable
from wfcore.domain.people.people import Organization
from wfcore.domain.resources.access import Principal, Role
from wfcore.ports.journal import Append, JournalConflict, RunFilter
from wfcore.testing import FakeClock
from wfcore.testing.contracts.interrupted.calls import CancelAt
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, begin, steps

pytestmark = pytest.mark.anyio


UNPREFIX = r"""
DO $$ DECLARE found record; BEGIN
    FOR found IN
        SELECT relname FROM pg_class WHERE relnamespace = 'public'\:\:regnamespace AND relname ^@ 'wfcore_'
    LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO %I', found.relname, substr(found.relname, 8));
    END LOOP;
END $$"""
"""Rename every table, index and sequence `wfcore_name` to `name`."""


class TestSchema:
    async def test_the_migrations_create_the_tables(self, database: PostgresDatabase) -> None:
        """All migrations together create exactly the tables of the metadata, without the prefix in their names."""
        engine = sa.create_engine(without_schema().replace("postgresql:", "postgresql+psycopg:", 1))
        of_postgres, by_key = sa.MetaData(), set[str | None]()
        for table in metadata.tables.values():
            by_key |= {index.name for index in table.indexes if index.info == BY_KEY}
            for index in table.to_metadata(of_postgres).indexes:
                index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
                index.expressions += [index.table.c.key] if index.name in by_key else []
        with engine.begin() as connection:
            of_postgres.create_all(connection)
            connection.execute(sa.text(UNPREFIX))
            expected = fingerprint(connection, metadata.tables, "public")
        engine.dispose()
        async with database.reading() as reader:
            assert await reader.run_sync(lambda inner: fingerprint(inner, metadata.tables)) == expected
        assert len(expected) == len(metadata.tables)

    async def test_text_is_ordered_by_code_points(self, database: PostgresDatabase) -> None:
        """Every column sorts as in SQLite, independent of the default collation."""
        async with database.reading() as connection:
            found = await connection.run(
                statement(
                    "SELECT DISTINCT collation_name FROM information_schema.columns WHERE data_type = 'text'"
                    " AND table_schema = 'wfcore'"
                )
            )
            assert found.all() == [("C",)]

    async def test_several_processes_upgrade_at_once(self) -> None:
        """One creates the schema while the others wait."""
        url = without_schema()
        async with opened(url) as one, opened(url) as other:
            async with asyncio.timeout(HANG):
                await asyncio.gather(*(SqlStorage(database).upgrade() for database in (one, other, one)))
            assert await SqlStorage(other).check() is None


@pytest.mark.parametrize("step", range(1, 6))
async def test_a_cancelled_use_loses_no_connection(url: str, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Whichever await is cancelled; while the event loop is busy, the driver also yields where it sends nothing."""

    async def use(database: PostgresDatabase) -> None:
        async with database.reading() as connection:
            await connection.run(statement("SELECT 1"))

    async with opened(url) as database:
        await use(database)
        monkeypatch.setattr("psycopg.waiting.MAX_BUSY_TIME", -1)
        work = CancelAt(use(database), step)
        await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)
        assert database._engine is not None
        assert work.reached
        assert "checked out connections: 0" in database._engine.pool.status().lower()


class TestUrls:
    async def test_without_the_driver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error names the missing extra."""
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
        """The message does not show the password."""
        with pytest.raises(ValueError, match="postgresql://host/name") as caught:
            PostgresDatabase(url)
        assert "secret" not in str(caught.value)

    async def test_no_server(self) -> None:
        """A server that does not respond raises Unavailable, without the password."""
        database = PostgresDatabase("postgresql://u:secret@127.0.0.1:1/n")
        with pytest.raises(Unavailable, match="does not answer") as caught:
            await database.open()
        assert "secret" not in caught.value.message
        with pytest.raises(Unavailable, match="closed"):
            await database.look_up(statement("SELECT 1"))


HOUR = 3_600_000


class TestClocks:
    """The server of these tests runs on this machine, so that their clock is its own."""

    @pytest.mark.parametrize("hours", [2, -2])
    async def test_a_wrong_clock(
        self, url: str, hours: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A process uses the clock of the server, and warns when that of its machine differs."""
        right = SystemClock.now
        monkeypatch.setattr(SystemClock, "now", lambda self: right(self) + hours * HOUR)
        async with wfcore.bootstrap.open(url, worker=False) as core:
            assert abs(core.ports.clock.now() - right(SystemClock())) < HOUR
        assert [record.getMessage() for record in caplog.records if "clock of" in record.getMessage()]

    async def test_a_clock_of_the_caller(self, url: str, caplog: pytest.LogCaptureFixture) -> None:
        """A fake clock is not compared."""
        clock = FakeClock()
        async with wfcore.bootstrap.open(url, worker=False, ports=wfcore.Overrides(clock=clock)) as core:
            assert core.ports.clock is clock
        assert not [record for record in caplog.records if "clock of" in record.getMessage()]


async def make_temporary_file(database: PostgresDatabase) -> None:
    async with database.reading() as transaction:
        await transaction.run(postgres._LITTLE_MEMORY)
        await transaction.run(postgres._SPACE)


class TestTransactions:
    async def test_writers_of_one_organization_wait_for_each_other(self, database: PostgresDatabase) -> None:
        """A row does not change between read and write; writers of another organization do not wait."""
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
        """A reader does not see later commits, and cannot write."""
        count = statement("SELECT count(*) FROM wfcore_organizations")
        async with database.reading() as connection:
            before = (await connection.run(count)).scalar()
            await SqlStorage(database).add_organization(Organization("x", "x", datetime(2026, 1, 1, tzinfo=UTC)))
            assert (await connection.run(count)).scalar() == before
        with pytest.raises(Unavailable, match="read-only"):
            async with database.reading() as connection:
                await connection.run(statement("DELETE FROM wfcore_organizations"))

    async def test_a_list_that_takes_long(self, database: PostgresDatabase, url: str) -> None:
        """No look-up and no other list waits for it, and it cannot write."""
        wait, one = statement("SELECT pg_advisory_xact_lock(7)"), statement("SELECT 1")
        async with opened(url) as other, other.writing() as connection:
            await connection.run(wait)
            waiting = asyncio.create_task(database.scan(wait))
            await idle()
            assert await database.look_up(one) == await database.scan(one) == [(1,)]
            assert not waiting.done()
        await waiting
        with pytest.raises(Unavailable, match="read-only"):
            await database.scan(statement("DELETE FROM wfcore_organizations"))

    async def test_a_server_that_an_operator_has_made_read_only(self, database: PostgresDatabase, url: str) -> None:
        """It refuses every write, also on a connection that has read before, and is not ready."""
        options = {"options": "-cdefault_transaction_read_only=on"}
        address = sa.make_url(url).update_query_dict(options).render_as_string(hide_password=False)
        async with opened(address) as read_only:
            storage = SqlStorage(read_only)
            for _ in range(2):
                assert await storage.organization(ORG) is not None
                with pytest.raises(Unavailable, match="read-only"):
                    await storage.add_organization(Organization("x", "x", datetime(2026, 1, 1, tzinfo=UTC)))
            assert "read-only" in (await storage.check_writes() or "")

    async def test_a_server_without_room_for_new_pages(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Small writes find room in pages that exist. A temporary file does not, so it is not ready."""
        storage = SqlStorage(database)
        assert await storage.check_writes() is None
        full = "DO $$ BEGIN RAISE 'could not write to file' USING ERRCODE = 'disk_full'; END $$"
        monkeypatch.setattr(postgres, "_SPACE", statement(full))
        await storage.add_organization(Organization("x", "x", datetime(2026, 1, 1, tzinfo=UTC)))
        assert "could not write to file" in (await storage.check_writes() or "")

    async def test_a_limit_of_temporary_files_is_no_full_disk(self, database: PostgresDatabase, url: str) -> None:
        """An operator can forbid the file with which a full disk is found."""
        address = sa.make_url(url).update_query_dict({"options": "-ctemp_file_limit=256kB"})
        async with opened(address.render_as_string(hide_password=False)) as limited:
            with pytest.raises(Unavailable, match="temp_file_limit"):
                await make_temporary_file(limited)
            assert await SqlStorage(limited).check_writes() is None

    async def test_no_connection_is_left_for_commits(self, database: PostgresDatabase, url: str) -> None:
        """Transactions have their connection and succeed; no run can start, so the database takes no writes."""
        storage, name = SqlStorage(database), sa.make_url(url).database
        assert await storage.check_writes() is None
        async with database.commit_client.exclusive() as connection:
            ((pid,),) = (await connection.send([(statement("SELECT pg_backend_pid()"), ())]))[0].rows
        server = sa.make_url(url).set(database="postgres").render_as_string(hide_password=False)
        with psycopg.connect(server, autocommit=True) as other:
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")  # type: ignore[arg-type]
            try:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
                await idle()
                await storage.add_organization(Organization("x", "x", datetime(2026, 1, 1, tzinfo=UTC)))
                assert "not currently accepting connections" in (await storage.check_writes() or "")
            finally:
                other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")  # type: ignore[arg-type]
        assert await storage.check_writes() is None

    @pytest.mark.parametrize(("options", "expected"), [("", "20s"), ("-cidle_in_transaction_session_timeout=7s", "7s")])
    async def test_a_transaction_that_does_not_go_on(self, url: str, options: str, expected: str) -> None:
        """The server ends it, so that others do not wait for the locks of a suspended process; a limit of the URL or of
        the operator stays.
        """
        address = sa.make_url(url).update_query_dict({"options": options} if options else {})
        shown = statement("SELECT current_setting('idle_in_transaction_session_timeout')")
        async with opened(address.render_as_string(hide_password=False)) as database:
            for use in (database.writing, database.reading):
                async with use() as connection:
                    assert await connection.scan(shown, ()) == [(expected,)]
            async with database.commit_client.exclusive() as pipeline:
                assert (await pipeline.send([(shown, ())]))[0].rows == [(expected,)]

    @pytest.mark.parametrize("code", ["25P03", "25P04", "42501", "53100", "53300", "55P03", "57014", "57P01", "58030"])
    async def test_limits_and_faults_of_the_server(self, database: PostgresDatabase, code: str) -> None:
        """A timeout of a transaction or statement, a right that the role lacks, a full disk, no connection left: the
        database does not answer.
        """
        failing = statement(f"DO $$ BEGIN RAISE SQLSTATE '{code}'; END $$")
        for use in (database.writing, database.reading):
            with pytest.raises(Unavailable, match="does not answer"):
                async with use() as connection:
                    await connection.run(failing)
        with pytest.raises(Unavailable, match="does not answer"):
            await database.look_up(failing)

    async def test_lists_of_runs_use_no_transaction(self, database: PostgresDatabase) -> None:
        """Runs, open interrupts and whether there is a delegation are read with one exchange a statement."""
        journal, taken = SqlJournal(database), list[object]()
        await begin(journal, "r-1")
        assert database._engine
        sa.event.listen(database._engine.sync_engine, "checkout", lambda *_: taken.append(1))
        principal = Principal(ORG, "u1", None, frozenset(), frozenset(), Role.OWNER)
        assert [run.id for run in await journal.list_runs(ORG, limit=1)] == ["r-1"]
        assert await journal.inbox(principal, limit=1) == []
        assert not await SqlStorage(database).is_delegate(ORG, "u1")
        assert taken == []

    @pytest.mark.parametrize("name", ["nul\0", "half\ud800"])
    async def test_text_that_cannot_be_stored(self, database: PostgresDatabase, name: str) -> None:
        """It is refused as invalid, and nothing is written."""
        with pytest.raises(Invalid, match="cannot store"):
            await SqlStorage(database).add_organization(Organization("x", name, datetime(2026, 1, 1, tzinfo=UTC)))
        assert await SqlStorage(database).organization("x") is None

    async def test_a_table_in_use_while_the_tables_are_rewritten(self, url: str) -> None:
        """As by `pg_dump`, which holds each table until its end. Reads go on meanwhile, and the rest follows when it is
        over, whatever limit statements have.
        """
        limit = f"{'&' if '?' in url else '?'}options=-cstatement_timeout%3D1400"
        async with opened(url + limit) as database, await psycopg.AsyncConnection.connect(url) as dump:
            await dump.execute(f"LOCK TABLE {qualified('wfcore_journal')} IN ACCESS SHARE MODE")  # type: ignore[arg-type]
            scrub = asyncio.create_task(database.scrub())
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as reader, asyncio.timeout(HANG):
                while not (await reader.execute(WAITS)).rowcount:
                    await idle()
                await reader.execute(f"SELECT 1 FROM {qualified('wfcore_journal')}")  # type: ignore[arg-type]
                assert not scrub.done()
                await dump.rollback()
                await scrub

    async def test_tables_of_another_role_are_not_rewritten(self, url: str) -> None:
        """The server skips them with a warning only: what was erased would stay in its files."""
        role = f"wfcore_{sa.make_url(url).database}_guest"
        guest = sa.make_url(url).set(username=role).render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as operator:
            operator.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA wfcore TO {role}")  # type: ignore[arg-type]
            try:
                async with opened(guest) as database:
                    with pytest.raises(Unavailable, match="cannot be rewritten"):
                        await database.scrub()
            finally:
                operator.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")  # type: ignore[arg-type]

    async def test_the_isolation_of_other_clients(self, url: str) -> None:
        """Appends, look-ups and changes are READ COMMITTED whatever the database has as its default."""
        shown = statement("SELECT current_setting('transaction_isolation')")
        name = sa.make_url(url).database
        with psycopg.connect(url, autocommit=True) as operator:
            operator.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")  # type: ignore[arg-type]
            try:
                async with opened(url) as database:
                    async with database.commit_client.exclusive() as connection:
                        assert (await connection.send([(shown, ())]))[0].rows == [("read committed",)]
                    assert await database.look_up(shown) == [("read committed",)]
                    async with database.writing() as transaction:
                        assert (await transaction.run(shown)).all() == [("read committed",)]
            finally:
                operator.execute(f"ALTER DATABASE {name} RESET default_transaction_isolation")  # type: ignore[arg-type]

    async def test_an_encoding_of_other_clients(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever the URL and the environment say: any text is stored, and read as it was written."""
        monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
        for number, given in enumerate((url, f"{url}{'&' if '?' in url else '?'}client_encoding=latin1")):
            async with opened(given) as database:
                storage = SqlStorage(database)
                await storage.add_organization(Organization(str(number), "日本 é", datetime(2026, 1, 1, tzinfo=UTC)))
                found = await storage.organization(str(number))
                assert found is not None
                assert found.name == "日本 é"

    async def test_lost_connections_are_replaced(self, database: PostgresDatabase, url: str) -> None:
        """Each write on a broken connection fails once at most, then has a new one; nothing is lost."""
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

    async def test_new_connections_that_end_at_once(self, database: PostgresDatabase) -> None:
        """The pool replaces the first one that is closed, and gives up at the second one."""

        def closed(*_: object) -> None:
            raise sa.exc.InvalidatePoolError

        assert database._engine
        sa.event.listen(database._engine.sync_engine, "checkout", closed)
        with pytest.raises(Unavailable, match="does not answer"):
            async with database.reading():
                pass

    async def test_connections_that_ended_while_idle_cause_no_error(self, database: PostgresDatabase, url: str) -> None:
        """However long ago the server was restarted: each use finds new ones by itself."""
        journal, storage = SqlJournal(database), SqlStorage(database)
        ref = await begin(journal, "r-1")

        async def held_together() -> None:
            async with AsyncExitStack() as stack:
                for use in (database.writing, database.reading) * 2:
                    transaction = await stack.enter_async_context(use())
                    assert (await transaction.run(statement("SELECT 1"))).all() == [(1,)]

        await held_together()
        end_connections(url)
        await idle()
        await held_together()
        await journal.append(ref, Append(1, steps(1, 1)))
        assert (await journal.execution(ref)).length == 2
        assert await storage.organization(ORG) is not None

    async def test_every_waiting_caller_gets_the_loss_of_the_server(self, database: PostgresDatabase, url: str) -> None:
        """Commits in flight and those after them fail; none of them was written."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(3)]
        with psycopg.connect(url) as other:
            other.execute("SELECT id FROM wfcore.executions FOR UPDATE")
            late = [asyncio.create_task(journal.append(ref, Append(1, steps(1, 1)))) for ref in refs]
            await idle()
            late += [asyncio.create_task(journal.append(refs[0], Append(1, (), updates_claim=True)))]
            await idle()
            end_connections(url, but=other.info.backend_pid)
            outcomes = await asyncio.gather(*late[:3], return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        await asyncio.gather(*late[3:], return_exceptions=True)  # failed, or done by a new connection
        async with opened(url) as found:
            assert await SqlJournal(found).lengths(refs) == dict.fromkeys(refs, 1)

    async def test_uses_do_not_wait_for_each_other(self, database: PostgresDatabase) -> None:
        """While every reader and writer is busy, the journal can be written and read."""
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


MANY = """
INSERT INTO wfcore_executions (org, kind, resource_id, is_draft, user_id, thread_id, started_by, epoch)
SELECT 1, 'workflow', g % 9, false, 'u' || g % 9, 't' || g, 'person', 0 FROM generate_series(1, 4000) g;
INSERT INTO wfcore_runs (org, id, execution, user_id, fingerprint, status, created_at, updated_at, started_by, origin,
    target, is_draft)
SELECT 1, 'r' || g, g, 'u' || g % 9, '', 'done', g, g, '', '', g % 9, false
FROM generate_series(1, 4000) g;
INSERT INTO wfcore_conversations (org, thread_id, user_id, created_at, updated_at)
SELECT 1, 't' || g, 'u' || g % 9, g, g FROM generate_series(1, 4000) g;
INSERT INTO wfcore_participants SELECT g, 'workflow', g % 9, 1, g FROM generate_series(1, 4000) g;
INSERT INTO wfcore_resources (org, kind, id, slug, name, status, access, is_enabled, created_at, updated_at, revision,
    is_scheduled)
SELECT 1, 'workflow', g, 's' || g, 'n', 'active', '', true, 0, 0, 0, false FROM generate_series(1, 2000) g;
INSERT INTO wfcore_grants SELECT g, 'u:u1', true, true FROM generate_series(1, 2000) g;
ANALYZE"""


async def test_pages_use_indexes(database: PostgresDatabase, url: str) -> None:
    """Pages of runs, of all or of one user, and of conversations scan an index of thousands of rows: no table is
    scanned, and nothing is sorted.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(qualified(MANY))
    last, subjects = 2**63 - 1, '["u:u1"]'
    reader = Principal(ORG, "u1", None, frozenset(), frozenset(), Role.MEMBER)
    eyes = {"org": ORG, "user": "u1", "subjects": subjects, "at": last, "key": 0, "limit": 20}
    for one, values in (
        list_runs(1, 20, last, RunFilter(), None),
        list_runs(1, 20, last, RunFilter(), reader),
        list_runs(1, 20, last, RunFilter(kind="workflow", resource_id=1), reader),
        list_runs(1, 20, last, RunFilter(started_by="u1"), None),
        (PAGE, eyes),
    ):
        async with database.reading() as transaction:
            steps = [step for (step,) in await transaction.scan(explained(one, "EXPLAIN"), values)]
        assert not [step for step in steps if "Sort" in step or ("Seq Scan" in step and "organizations" not in step)]
