"""The contracts of stores on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_server import new_database, wipe
from sql_texts import statement
from test_dispatcher import EmbeddedContract
from test_journal import CALLS, FIRST, answer, everything

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.repositories.memories import SqlMemories
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.journal import Journal
from wfcore.ports.storage import Storage
from wfcore.testing.contracts import memories as memories_contract
from wfcore.testing.contracts.journal import JournalContract
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, READERS
from wfcore.testing.contracts.memories import WordsContract
from wfcore.testing.contracts.storage.storage import StorageContract
from wfcore.testing.contracts.storage.values import new_organization


@asynccontextmanager
async def opened(url: str | None = None) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url or new_database(), synchronous="NORMAL")
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def as_the_journal_wants_it(database: PostgresDatabase) -> None:
    """Two organizations, one of which lets its readers use its workflow 1."""
    async with database.writing() as connection:
        for number, org in enumerate((ORG, OTHER_ORG), 1):
            row = (number, org, f"organization {number}")
            await connection.run(
                statement("INSERT INTO wfcore_organizations (key, uuid, name, created_at) VALUES (?, ?, ?, 0)"), row
            )
        await connection.run(
            statement(
                "INSERT INTO wfcore_resources (key, org, kind, id, slug, name, status, access, is_enabled, created_at,"
                " updated_at, revision, is_scheduled)"
                " VALUES (1, 1, 'workflow', 1, 'one', 'one', 'active', '', false, 0, 0, 1, false)"
            )
        )
        await connection.run(
            statement("INSERT INTO wfcore_grants (resource, subject, use, manage) VALUES (1, ?, true, false)"),
            (f"g:{READERS}",),
        )


class TestStorageOnPostgres(StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        database = PostgresDatabase(new_database(), synchronous="NORMAL")
        await database.open()
        return SqlStorage(database)


class TestMemoriesOnPostgres(WordsContract):
    @pytest.fixture
    async def memories(self, anyio_backend: str) -> AsyncIterator[SqlMemories]:
        async with opened() as database:
            for org in (memories_contract.ORG, memories_contract.OTHER_ORG):
                await SqlStorage(database).add_organization(new_organization(org))
            yield SqlMemories(database)


class TestJournalOnPostgres(JournalContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        async with opened() as database:
            await as_the_journal_wants_it(database)
            yield SqlJournal(database)


class TestEmbeddedOnPostgres(EmbeddedContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        async with opened() as database:
            await as_the_journal_wants_it(database)
            yield SqlJournal(database)


NEXT = statement("""
SELECT setval('wfcore.executions_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM wfcore_executions), false),
    setval('wfcore.runs_key_seq', (SELECT coalesce(max(key), 0) + 1 FROM wfcore_runs), false)""")
"""A refused beginning uses a number up; for the comparison it is given back."""


def test_it_is_equivalent_to_the_journal_in_memory() -> None:
    """Any sequence of calls has the same results and rows on PostgreSQL and in memory."""

    url = new_database()

    async def compare(database: PostgresDatabase, calls: list[tuple[Any, ...]]) -> None:
        wipe(url)
        await as_the_journal_wants_it(database)
        journal, model = SqlJournal(database), MemoryJournal()
        for call in [("begin", FIRST), *calls]:
            assert await answer(journal, *call) == await answer(model, *call)
            await database.look_up(NEXT)
        assert await everything(journal) == await everything(model)

    with asyncio.Runner() as runner:
        database = PostgresDatabase(url, synchronous="NORMAL")
        runner.run(database.open())

        @settings(max_examples=15)
        @given(calls=st.lists(CALLS, max_size=12))
        def check(calls: list[tuple[Any, ...]]) -> None:
            runner.run(compare(database, calls))

        try:
            check()
        finally:
            runner.run(database.close())
