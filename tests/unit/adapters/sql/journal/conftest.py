"""An opened storage on SQLite and on PostgreSQL, with two organizations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from postgres_server import new_database

from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG
from wfcore.testing.contracts.storage.values import new_organization


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
async def storage(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[SqlStorage]:
    is_sqlite = request.param == "sqlite"
    database = Database(f"sqlite:///{tmp_path}/wfcore.db") if is_sqlite else PostgresDatabase(new_database())
    await database.open()
    storage = SqlStorage(database)
    await storage.upgrade()
    for org in (ORG, OTHER_ORG):
        await storage.add_organization(new_organization(org))
    yield storage
    await database.close()
