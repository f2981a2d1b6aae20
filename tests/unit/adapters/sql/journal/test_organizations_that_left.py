"""A process that knows an organization from before writes nothing for it after it was deleted, or moved elsewhere."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from postgres_server import new_database

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.kernel.errors import NotFound
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, begin
from wfcore.testing.contracts.storage.values import new_organization

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("limit", [None, 2])
async def test_no_run_begins(storage: SqlStorage, limit: int | None) -> None:
    """Whether it would be claimed at once or not, also beside an organization with a limit of concurrent runs."""
    async with storage.transaction(ORG) as work:
        await work.directory.limit_runs(limit)
    journal = SqlJournal(storage.database)
    await begin(journal, "r-1", org=OTHER_ORG, claimed_by=7)
    await storage.maintenance.remove_organization(OTHER_ORG)
    for worker in (7, None):
        with pytest.raises(NotFound):
            await begin(journal, "r-2", org=OTHER_ORG, claimed_by=worker)
    assert await begin(journal, "r-2", claimed_by=7)
    assert await journal.find_run(ORG, "r-2") is not None
