"""A storage with its journal on an empty database, for contracts that need both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from postgres_server import new_database

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage


@asynccontextmanager
async def on_sqlite(place: Path) -> AsyncIterator[tuple[SqlStorage, SqlJournal]]:
    database = Database(f"sqlite:///{place}/wfcore.db", synchronous="NORMAL")
    await database.open()
    storage = SqlStorage(database)
    await storage.upgrade()
    yield storage, SqlJournal(database)
    await storage.close()


@asynccontextmanager
async def on_postgres() -> AsyncIterator[tuple[SqlStorage, SqlJournal]]:
    database = PostgresDatabase(new_database(), synchronous="NORMAL")
    await database.open()
    yield SqlStorage(database), SqlJournal(database)
    await database.close()
