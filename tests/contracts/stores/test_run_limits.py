"""The contract of run limits for each adapter; those of SQL with two processes' connections."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from postgres_server import new_database

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.testing.contracts.stores.run_limits import RunLimitsContract, Stores


class TestMemoryRunLimits(RunLimitsContract):
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[Stores]:
        storage = MemoryStorage()
        yield storage, [MemoryJournal(run_limit=storage.run_limit)]


class TestSqliteRunLimits(RunLimitsContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return of_processes([Database(f"sqlite:///{place}/wfcore.db", synchronous="NORMAL") for _ in range(2)])


@pytest.mark.service
class TestPostgresRunLimits(RunLimitsContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        url = new_database()
        return of_processes([PostgresDatabase(url, synchronous="NORMAL") for _ in range(2)])


@asynccontextmanager
async def of_processes(databases: list[Database] | list[PostgresDatabase]) -> AsyncIterator[Stores]:
    """A storage, and a journal for each connection to its database."""
    async with AsyncExitStack() as stack:
        for database in databases:
            await database.open()
            stack.push_async_callback(database.close)
        storage = SqlStorage(databases[0])
        await storage.upgrade()
        yield storage, [SqlJournal(database) for database in databases]
