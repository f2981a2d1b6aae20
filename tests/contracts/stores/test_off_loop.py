"""The contracts of stores on a SQLite file without database calls on the event loop."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa
from test_dispatcher import EmbeddedContract
from test_journal import STORE

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.repositories.memories import SqlMemories
from wfcore.adapters.sql.sqlite.off_loop import OffLoopDatabase
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.journal import Journal
from wfcore.ports.storage import Storage
from wfcore.testing.contracts import memories as memories_contract
from wfcore.testing.contracts.interrupted.journals import JournalCrashContract
from wfcore.testing.contracts.journal import JournalContract
from wfcore.testing.contracts.memories import WordsContract
from wfcore.testing.contracts.storage.interrupted import StorageCrashContract
from wfcore.testing.contracts.storage.storage import StorageContract
from wfcore.testing.contracts.storage.values import new_organization


@cache
def schema() -> bytes:
    """A database file with the schema: a copy costs less than a migration."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        migrations.upgrade(connection)
        file: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        found = file.serialize()
    engine.dispose()
    return found


async def opened(place: Path, also: str = "") -> OffLoopDatabase:
    path = place / "a.db"
    if not path.exists():
        path.write_bytes(schema())
        with sqlite3.connect(path) as connection:
            connection.executescript(also)
        connection.close()
    database = OffLoopDatabase(f"sqlite:///{path}", synchronous="NORMAL")
    await database.open()
    return database


@asynccontextmanager
async def sql_journal(place: Path) -> AsyncIterator[SqlJournal]:
    database = await opened(place, STORE)
    try:
        yield SqlJournal(database)
    finally:
        await database.close()


class TestStorageOffLoop(StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        return SqlStorage(await opened(place))


class TestStorageCrashesOffLoop(StorageCrashContract):
    async def open_storage(self, place: Path) -> Storage:
        return SqlStorage(await opened(place))


class TestMemoriesOffLoop(WordsContract):
    @pytest.fixture
    async def memories(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[SqlMemories]:
        database = await opened(tmp_path)
        for org in (memories_contract.ORG, memories_contract.OTHER_ORG):
            await SqlStorage(database).add_organization(new_organization(org))
        yield SqlMemories(database)
        await database.close()


class TestJournalOffLoop(JournalContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return sql_journal(place)


class TestJournalCrashesOffLoop(JournalCrashContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return sql_journal(place)


class TestEmbeddedOffLoop(EmbeddedContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return sql_journal(place)
