"""The group commit on PostgreSQL: sharing, conflicts, and several processes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from commit_batches import same_as_one_by_one
from postgres_databases import idle, opened
from postgres_server import WAITS
from sql_texts import statement
from waiting import HANG

from wfcore.adapters.sql.journal.conversion import to_json
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.journal.statements import CHECKSUM
from wfcore.adapters.sql.postgres.connections import RolledBack
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.postgres.group_commit import PostgresCommitTransaction
from wfcore.adapters.sql.postgres.pipeline import PipelineConnection
from wfcore.adapters.sql.schema.named_tables import workers
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.domain.kernel.errors import Invalid, NotFound, Unavailable
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, Claimed, JournalConflict, RunChange, RunExists
from wfcore.testing.contracts.journal_values import NOW, ORG, begin, due, steps

pytestmark = pytest.mark.anyio


class TestCommits:
    async def test_a_conflict_affects_one_append_only(self, database: PostgresDatabase) -> None:
        """Of appends in one commit, only those with a wrong length are refused."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(5)]
        lengths = [1, 1, 3, 0, 1]
        given = zip(refs, lengths, strict=True)
        outcomes = await asyncio.gather(
            *(journal.append(ref, Append(length, steps(1, length))) for ref, length in given), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [
            type(None), type(None), JournalConflict, JournalConflict, type(None),
        ]  # fmt: skip
        assert [len(await journal.read(ref)) for ref in refs] == [2, 2, 1, 1, 2]

    @pytest.mark.parametrize("company", [0, 2])
    async def test_a_rolled_back_transaction_is_repeated(self, database: PostgresDatabase, company: int) -> None:
        """A transaction that the database rolls back because of another one is repeated without an error."""
        commits, calls = database.commits(None), list[int]()

        def work(hot: PostgresCommitTransaction) -> int:
            calls.append(1)
            if len(calls) == 1:
                hot.execute(statement("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$"))
            return 7

        others = [commits.run(lambda hot: hot.execute(statement("SELECT 1")).fetchall()) for _ in range(company)]
        assert await commits.run(work) == 7
        assert [list(await other) for other in others] == [[(1,)]] * company

    async def test_an_outage_has_its_cause_for_each_caller(self, database: PostgresDatabase) -> None:
        """Each caller of a shared commit gets an exception whose cause shows that it has words of the database."""
        commits = database.commits(None)
        ending = statement("SELECT pg_terminate_backend(pg_backend_pid())")
        parts = [commits.run(lambda hot: hot.execute(ending).fetchall(), number) for number in range(3)]
        errors = await asyncio.gather(*parts, return_exceptions=True)
        assert [type(error) for error in errors] == [Unavailable] * 3
        assert all(isinstance(error, Unavailable) and error.__cause__ is not None for error in errors)
        assert len(set(map(id, errors))) == 3

    async def test_repeated_rollbacks_are_an_error(self, database: PostgresDatabase) -> None:
        """A part that is rolled back every time raises RolledBack, and the next commit succeeds."""
        commits = database.commits(None)
        with pytest.raises(RolledBack):
            await commits.run(lambda hot: hot.execute(statement("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")))
        assert await commits.run(lambda hot: hot.execute(statement("SELECT 1")).fetchone()) == (1,)

    async def test_functions_with_different_keys_run_concurrently(self, database: PostgresDatabase) -> None:
        """They alternate within one transaction, and each gets its own results."""
        order, durations = list[str](), list[float]()
        commits = database.commits(durations.append)

        def work(name: str) -> Callable[[PostgresCommitTransaction], Any]:
            def ask(hot: PostgresCommitTransaction) -> Any:
                for number in range(2):
                    order.append(f"{name}{number}")
                    (answer,) = hot.execute(statement("SELECT CAST(? AS text)"), (f"{name}{number}",)).fetchall()
                return answer

            return ask

        await commits.run(work("first"))
        order.clear()
        durations.clear()
        outcomes = await asyncio.gather(*(commits.run(work(name), name) for name in "abc"))
        assert outcomes == [("a1",), ("b1",), ("c1",)]
        assert order == ["a0", "b0", "c0", "a1", "b1", "c1"]
        assert len(durations) == 1

    async def test_many_writers_commit_in_halves(self, database: PostgresDatabase) -> None:
        """While one half commits, the other half works; few writers share one commit."""
        for writers, expected in ((60, 8), (16, 4)):
            durations = list[float]()
            commits = database.commits(durations.append)

            async def write(number: int, commits: Any = commits) -> None:
                for _ in range(4):
                    await commits.run(lambda hot: hot.execute(statement("SELECT 1")), number)

            await asyncio.gather(*map(write, range(writers)))
            assert len(durations) == expected

    async def test_functions_with_one_key_run_in_order(self, database: PostgresDatabase) -> None:
        """They run in the order of the calls; so do those without a key, and the parts beside them."""
        commits, order = database.commits(None), list[str]()

        def work(name: str) -> Callable[[PostgresCommitTransaction], None]:
            def ask(hot: PostgresCommitTransaction) -> None:
                for _ in range(2):
                    order.append(name)
                    hot.execute(statement("SELECT 1"))

            return ask

        given = [("a", 1), ("b", 2), ("c", 1), ("d", None), ("e", 1), ("f", 2)]
        await asyncio.gather(*(commits.run(work(name), about) for name, about in given))
        assert "".join(order) == "ababccddefef"

    async def test_a_refused_function_does_not_affect_others(self, database: PostgresDatabase) -> None:
        """Each function in a shared transaction is done wholly or not at all."""
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

    async def test_statements_without_results_are_sent_together(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the next statement that has a result, and the last of them with the commit."""
        sent, send = list[int](), PipelineConnection.send

        def counted(connection: PipelineConnection, statements: Any) -> Any:
            sent.append(len(statements))
            return send(connection, statements)

        def work(hot: PostgresCommitTransaction) -> Any:
            hot.executemany(statement("INSERT INTO wfcore_workers VALUES (?, '', 0, 0)"), [(1,), (2,)])
            found = hot.execute(statement("SELECT id FROM wfcore_workers")).fetchall()
            hot.executemany(statement("UPDATE wfcore_workers SET id = id + ?"), [(10,)])
            return found

        monkeypatch.setattr(PipelineConnection, "send", counted)
        assert await database.commits(None).run(work) == [(1,), (2,)]
        assert sent == [4, 2]  # BEGIN, both rows and the question; the change and COMMIT
        assert sorted(await database.look_up(statement("SELECT id FROM wfcore_workers"))) == [(11,), (12,)]

    @pytest.mark.parametrize("ends", [False, True])
    async def test_a_change_of_nothing_is_refused(self, database: PostgresDatabase, ends: bool) -> None:
        """At the end or before, and alone: others of the same commit are written."""
        commits = database.commits(None)

        def work(number: int) -> Callable[[PostgresCommitTransaction], Any]:
            def change(hot: PostgresCommitTransaction) -> None:
                hot.executemany(statement("INSERT INTO wfcore_workers VALUES (?, '', 0, 0)"), [(number,)])
                hot.change(
                    statement("UPDATE wfcore_workers SET id = id + 10 WHERE id = ?"), (2 * number,), KeyError(number)
                )
                if not ends:
                    hot.execute(statement("SELECT 1"))

            return change

        outcomes = await asyncio.gather(*(commits.run(work(number), number) for number in (0, 1, 2)),
                                        return_exceptions=True)  # fmt: skip
        assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, KeyError]
        assert await database.look_up(statement("SELECT id FROM wfcore_workers")) == [(10,)]

    async def test_a_late_statement_that_is_refused(self, database: PostgresDatabase) -> None:
        """What is sent with the commit and fails is rolled back, and its caller receives the error."""
        commits = database.commits(None)
        insert = statement("INSERT INTO wfcore_workers VALUES (?, '', 0, 0)")
        outcomes = await asyncio.gather(
            *(commits.run(lambda hot, rows=rows: hot.executemany(insert, rows), str(rows))
              for rows in ([(1,)], [(2,), (2,)])), return_exceptions=True,
        )  # fmt: skip
        assert [type(outcome) for outcome in outcomes] == [type(None), JournalConflict]
        assert await database.look_up(statement("SELECT id FROM wfcore_workers")) == [(1,)]

    async def test_a_claim_is_one_statement(self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        """Alone without a transaction around it; several share a commit, and conflict with no other work."""
        sent, send = list[int](), PipelineConnection.send

        def counted(connection: PipelineConnection, statements: Any, **options: Any) -> Any:
            if connection is committing:
                sent.append(len(statements))
            return send(connection, statements, **options)

        journal, commits = SqlJournal(database), database.commits(None)
        refs = [await due(journal, f"r-{number}", NOW) for number in range(3)]
        async with database.commit_client.exclusive() as committing:
            pass
        monkeypatch.setattr(PipelineConnection, "send", counted)
        assert len(await commits.claim(refs[0].id, 7, NOW, 1)) == 1
        assert sent == [1]
        found = await asyncio.gather(*(commits.claim(ref.id, 7, NOW, 1) for ref in refs))
        assert list(map(len, found)) == [0, 1, 1]
        assert sent[1:] == [4, 1]  # BEGIN and the claims; COMMIT

    async def test_a_claim_that_waits_sees_the_run_of_another_writer(self, database: PostgresDatabase) -> None:
        """A transaction that holds the execution queues its run: the run begins with the claim that waited for it."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1", wake_at=NOW)
        waits = statement(WAITS)
        async with database.writing() as transaction:
            await transaction.run(statement("UPDATE wfcore_executions SET wake_at = 0 WHERE id = ?"), (ref.id,))
            await transaction.run(statement("UPDATE wfcore_runs SET status = 'queued' WHERE execution = ?"), (ref.id,))
            claiming = asyncio.create_task(journal.claim(ref, 7, NOW + 1))
            while not await database.look_up(waits):  # noqa: ASYNC110  (the server has no event)
                await asyncio.sleep(0)
        assert await claiming == Claimed(await journal.execution(ref))
        row = await journal.find_run(ORG, "r-1")
        assert row is not None
        assert (row.status, row.updated_at) == (RunStatus.running, NOW + 1)

    @pytest.mark.parametrize(("seed", "conflicts"), [(1, 0), (2, 0), (3, 0.05), (4, 0.2)])
    async def test_a_batch_writes_what_its_parts_write_one_by_one(
        self, database: PostgresDatabase, seed: int, conflicts: float
    ) -> None:
        """With texts of any kind; parts that are refused have the same error, and do not affect the others."""
        assert (JournalConflict in await same_as_one_by_one(database, seed, conflicts)) == bool(conflicts)

    async def test_the_runs_of_a_commit_are_one_statement_for_each_table(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many begin and end; with the transaction's begin and end, they are sent in two exchanges and one."""
        sent, send = list[list[str]](), PipelineConnection.send

        def recorded(connection: PipelineConnection, statements: Any) -> Any:
            sent.append([" ".join(one.server("").split()[:3]) for one, _ in statements])
            return send(connection, statements)

        journal = SqlJournal(database)
        await begin(journal, "r-0")
        monkeypatch.setattr(PipelineConnection, "send", recorded)
        refs = await asyncio.gather(*(begin(journal, f"r-{number}", claimed_by=1) for number in range(1, 17)))
        assert sent == [
            ["BEGIN", 'INSERT INTO "".executions'],
            ["WITH changed AS", 'INSERT INTO "".journal', "COMMIT"],
        ]
        sent.clear()
        ends = (
            Append(1, steps(1), changes=(RunChange(f"r-{number}", RunStatus.done, NOW),), updates_claim=True)
            for number in range(1, 17)
        )
        await asyncio.gather(*(journal.append(ref, end) for ref, end in zip(refs, ends, strict=True)))
        assert sent == [["WITH changed AS", "WITH changed AS", 'UPDATE "".executions SET']]

    @pytest.mark.parametrize("company", [0, 3])
    @pytest.mark.parametrize("worker", [None, 1])
    @pytest.mark.parametrize("error", [NotFound, JournalConflict, RunExists])
    async def test_what_changes_nothing_is_attributed(
        self, database: PostgresDatabase, company: int, worker: int | None, error: type[Exception]
    ) -> None:
        """A run that does not exist, an entry of another holder, a run that exists: one part has this error. The others
        of the commit are written, also if they return the number of a claim.
        """
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(company + 1)]

        def change(run: str, holder: int | None = None) -> Append:
            changes = (RunChange(run, RunStatus.running, NOW),)
            claims = worker is not None
            return Append(1, steps(1), changes=changes, holder=holder, updates_claim=claims, claimed_by=worker)

        appends = [journal.append(ref, change(f"r-{number}")) for number, ref in enumerate(refs[:company])]
        wrong = {
            NotFound: lambda: journal.append(refs[-1], change("r-99")),
            JournalConflict: lambda: journal.append(refs[-1], change(f"r-{company}", holder=7)),
            RunExists: lambda: begin(journal, "r-0"),
        }
        *outcomes, failed = await asyncio.gather(*appends, wrong[error](), return_exceptions=True)
        assert (outcomes, type(failed)) == ([worker] * company, error)
        assert [len(await journal.read(ref)) for ref in refs] == [2] * company + [1]

    async def test_an_error_of_the_last_statements_leaves_nothing(self, database: PostgresDatabase) -> None:
        """Statements that are sent with the commit are one transaction with it, also without BEGIN."""
        commits = database.commits(None)
        add = statement("INSERT INTO wfcore_workers (id, host, pid, beats) VALUES (?, '', 0, 0)")

        def work(hot: PostgresCommitTransaction) -> None:
            hot.executemany(add, [(1,)])
            hot.executemany(statement("SELECT 1 / CAST(? AS integer)"), [(0,)])

        with pytest.raises(Invalid, match="division by zero"):
            await commits.run(work)
        assert await database.look_up(statement("SELECT count(*) FROM wfcore_workers")) == [(0,)]
        await commits.run(lambda hot: hot.executemany(add, [(2,)]))
        assert await database.look_up(statement("SELECT id FROM wfcore_workers")) == [(2,)]

    async def test_the_calls_of_a_function_keep_their_order(self, database: PostgresDatabase) -> None:
        """Also where another function of the commit calls the same statements the other way round."""
        add = Statement(
            lambda d: f"INSERT INTO {d[workers]} (id, host, pid, beats) {d.inserted(f'{d[1]}, {d[2]}, 0, 0')}",
            types="bigint text",
        )
        move = Statement(
            lambda d: f"UPDATE {d[workers]} SET id = id + {d[2]}{d.given()} WHERE id = {d[1]}", types="bigint bigint"
        )
        commits = database.commits(None)
        await commits.run(lambda hot: hot.executemany(add, [(1, "a"), (2, "b")]))

        def first(hot: PostgresCommitTransaction) -> None:
            hot.executemany(move, [(1, 10)])
            hot.executemany(add, [(1, "c")])

        def second(hot: PostgresCommitTransaction) -> None:
            hot.executemany(add, [(3, "d")])
            hot.executemany(move, [(3, 10)])
            hot.executemany(move, [(13, 10)])

        await asyncio.gather(commits.run(first, 1), commits.run(second, 2))
        found = await database.look_up(statement("SELECT id FROM wfcore_workers ORDER BY id"))
        assert found == [(1,), (2,), (11,), (23,)]

    async def test_many_entries_of_any_text(self, database: PostgresDatabase) -> None:
        """Quotes, braces, commas, NULL, every control character: any JSON is read as it was written."""
        odd = ['"', "\\", '\\"', "{a,b}", "", "NULL", "\u2028", "é€😀", "'", "%", "$1", "?1", *map(chr, range(32))]
        texts = ["{a,b}", "NULL", "\n", '\t"\\"', *map(to_json, odd)]
        journal, commits = SqlJournal(database), database.commits(None)
        ref = await begin(journal, "r-1")
        ((last,),) = await database.look_up(CHECKSUM, ref.id, 1)
        await commits.insert([(ref.id, 2 + number, 1, None, text, 0, last) for number, text in enumerate(texts)])
        found = await database.look_up(
            statement("SELECT entry FROM wfcore_journal WHERE execution = ? ORDER BY pos OFFSET 1"), ref.id
        )
        assert [text for (text,) in found] == texts

    async def test_a_cancelled_part_is_skipped(self, database: PostgresDatabase) -> None:
        """A caller that is cancelled before its turn leaves nothing behind."""
        commits, calls = database.commits(None), list[str]()
        first = commits.run(lambda _: calls.append("first"))
        second = commits.run(lambda _: calls.append("second"))
        second.cancel()
        await first
        await commits.run(lambda _: calls.append("third"))
        assert calls == ["first", "third"]

    async def test_durations_of_commits_are_reported(self, database: PostgresDatabase) -> None:
        """Once for each transaction, however many parts share it."""
        durations = list[float]()
        commits = database.commits(durations.append)
        await asyncio.gather(*(commits.run(lambda _: None) for _ in range(5)))
        assert 1 <= len(durations) < 5
        assert all(0 < seconds < 10 for seconds in durations)


class TestSeveralProcesses:
    async def test_each_execution_is_claimed_once(self, database: PostgresDatabase, url: str) -> None:
        """Several stores claim concurrently, over separate connections."""
        journal = SqlJournal(database)
        refs = {await due(journal, f"r-{number}", NOW) for number in range(40)}
        async with opened(url) as second, opened(url) as third:
            journals = [SqlJournal(each) for each in (database, second, third)]
            rounds = [each.claim_due(worker, NOW, 3) for worker, each in enumerate(journals * 6, 1)]
            claims = await asyncio.gather(*rounds)
        claimed = [ref for claim in claims for ref in claim]
        assert len(claimed) == 40
        assert set(claimed) == refs

    async def test_claims_skip_locked_executions(self, database: PostgresDatabase) -> None:
        """A locked execution is skipped, and claimed later."""
        journal = SqlJournal(database)
        held, free = await due(journal, "r-1", NOW), await due(journal, "r-2", NOW)
        async with database.writing() as connection:
            await connection.run(statement("SELECT id FROM wfcore_executions WHERE id = ? FOR UPDATE"), (held.id,))
            async with asyncio.timeout(HANG):
                assert await journal.claim_due(1, NOW, 9) == [free]
        assert await journal.claim_due(1, NOW, 9) == [held]

    @pytest.mark.parametrize("moves", [False, True])
    async def test_a_holder_that_loses_its_claim_is_refused(self, database: PostgresDatabase, moves: bool) -> None:
        """While the claim is being removed, the holder's write waits, and is then refused."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1", claimed_by=1)
        async with database.writing() as connection:
            await connection.run(statement("UPDATE wfcore_executions SET claimed_by = NULL WHERE id = ?"), (ref.id,))
            late = asyncio.create_task(journal.append(ref, Append(1, steps(1, 1), holder=1, updates_claim=moves)))
            await idle()
        with pytest.raises(JournalConflict):
            await late
        assert len(await journal.read(ref)) == 1

    async def test_a_taken_position_affects_one_append_only(self, database: PostgresDatabase, url: str) -> None:
        """Of appends in one statement, only that whose position another process took is refused."""
        journal = SqlJournal(database)
        refs = [await begin(journal, f"r-{number}") for number in range(3)]
        async with opened(url) as second:
            other = SqlJournal(second)
            async with database.writing() as connection:
                await connection.run(
                    statement("SELECT id FROM wfcore_executions WHERE id = ? FOR UPDATE"), (refs[1].id,)
                )
                await connection.run(statement("INSERT INTO wfcore_journal VALUES (?, 2, 0, '{}')"), (refs[1].id,))
                late = [asyncio.create_task(other.append(ref, Append(1, steps(1, 1)))) for ref in refs]
                await idle()
            outcomes = await asyncio.gather(*late, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), JournalConflict, type(None)]
        assert await journal.lengths(refs) == dict.fromkeys(refs, 2)

    async def test_a_comparison_waits_for_the_other_writer(self, database: PostgresDatabase, url: str) -> None:
        """A writer compares after the other writer's commit: with or without entries, it is refused."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1")
        async with opened(url) as second:
            late = SqlJournal(second)
            async with database.writing() as connection:
                await connection.run(statement("SELECT id FROM wfcore_executions WHERE id = ? FOR UPDATE"), (ref.id,))
                tasks = [
                    asyncio.create_task(late.append(ref, Append(1, entries, updates_claim=True)))
                    for entries in ((), steps(1, 1))
                ]
                await idle()
                await connection.run(statement("INSERT INTO wfcore_journal VALUES (?, 2, 0, '{}')"), (ref.id,))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [JournalConflict] * 2
