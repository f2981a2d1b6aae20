"""Appends to one execution on PostgreSQL while no other one writes: they are sent at once."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from postgres_databases import end_connections, idle
from sql_texts import statement

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.postgres.pipeline import PipelineConnection
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import Append, ExecutionRef, JournalConflict
from wfcore.testing.contracts.journal_values import begin, steps

pytestmark = pytest.mark.anyio

ONE_ROLLBACK = (
    "CREATE SEQUENCE attempts",
    """
CREATE FUNCTION roll_back_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF nextval('attempts') = 1 THEN RAISE SQLSTATE '40P01'; END IF; RETURN NEW; END $$""",
    "CREATE TRIGGER once BEFORE INSERT ON wfcore_journal FOR EACH ROW EXECUTE FUNCTION roll_back_once()",
)
"""The database rolls back the first transaction that writes an entry, as it does with one of two that deadlock."""


class TestOneWriter:
    """The second and later appends to an execution, while no other one writes."""

    async def test_it_sends_at_once(self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the task that commits for groups. Others share commits, as soon as they write too."""
        journal, durations, grouped = SqlJournal(database), list[float](), list[bool]()
        commits = journal._commits = database.commits(durations.append)
        send = PipelineConnection.send

        def observed(connection: PipelineConnection, *given: Any, **options: Any) -> Any:
            grouped.append(commits._committer is not None)
            return send(connection, *given, **options)

        refs = [await begin(journal, f"r-{number}") for number in range(3)]
        monkeypatch.setattr(PipelineConnection, "send", observed)
        for length in range(1, 4):
            await journal.append(refs[-1], Append(length, steps(1, length)))
        assert (grouped, len(durations)) == ([True, False, False], 6)
        await asyncio.gather(*(journal.append(ref, Append(1, steps(1, 1))) for ref in refs[:2]))
        assert grouped[3:] == [True]
        await journal.append(refs[-1], Append(4, steps(1, 4)))
        assert grouped[4:] == [True]
        assert await journal.lengths(refs) == dict(zip(refs, (2, 2, 5), strict=True))

    @pytest.mark.parametrize(("length", "holder"), [(1, 1), (3, 1), (2, 2)])
    async def test_a_conflict(self, database: PostgresDatabase, length: int, holder: int) -> None:
        """A wrong length or holder is refused, and what follows is not affected."""
        journal = SqlJournal(database)
        ref = await begin(journal, "r-1", claimed_by=1)
        await journal.append(ref, Append(1, steps(1, 1), holder=1))
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(length, steps(1, length), holder=holder))
        await journal.append(ref, Append(2, steps(1, 2), holder=1))
        assert len(await journal.read(ref)) == 3

    async def test_a_rolled_back_append_is_repeated(self, database: PostgresDatabase) -> None:
        journal = SqlJournal(database)
        ref = await self.begun(journal)
        async with database.writing() as transaction:
            for text in ONE_ROLLBACK:
                await transaction.run(statement(text))
        try:
            await journal.append(ref, Append(2, steps(1, 2)))
            assert await database.look_up(statement("SELECT last_value FROM attempts")) == [(2,)]
        finally:
            async with database.writing() as transaction:
                await transaction.run(statement("DROP SEQUENCE attempts CASCADE"))
                await transaction.run(statement("DROP FUNCTION roll_back_once CASCADE"))
        assert len(await journal.read(ref)) == 3

    async def test_it_waits_for_an_exclusive_user(self, database: PostgresDatabase) -> None:
        """Its row never becomes part of another transaction on the connection."""
        journal = SqlJournal(database)
        ref = await self.begun(journal)
        async with database.commit_client.exclusive() as connection:
            await connection.send([(statement("BEGIN"), ())])
            appending = asyncio.create_task(journal.append(ref, Append(2, steps(1, 2))))
            await idle()
            await connection.send([(statement("ROLLBACK"), ())])
        await appending
        assert len(await journal.read(ref)) == 3

    async def test_a_lost_connection(self, database: PostgresDatabase, url: str) -> None:
        """The append is refused or written, and the next one uses a new connection."""
        journal = SqlJournal(database)
        ref = await self.begun(journal)
        end_connections(url)
        with suppress(Unavailable):
            await journal.append(ref, Append(2, steps(1, 2)))
        length = len(await journal.read(ref))
        await journal.append(ref, Append(length, steps(1, length)))
        assert len(await journal.read(ref)) == length + 1

    async def test_a_closed_database(self, database: PostgresDatabase) -> None:
        journal = SqlJournal(database)
        ref = await self.begun(journal)
        await database.close()
        with pytest.raises(Unavailable):
            await journal.append(ref, Append(2, steps(1, 2)))

    async def begun(self, journal: SqlJournal) -> ExecutionRef:
        """An execution with two entries, the second of which was written by the last commit."""
        ref = await begin(journal, "r-1")
        await journal.append(ref, Append(1, steps(1, 1)))
        return ref
