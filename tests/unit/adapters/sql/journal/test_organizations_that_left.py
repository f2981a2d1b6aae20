"""A process that knows an organization from before writes nothing for it after it was deleted, or moved elsewhere."""

import pytest

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.kernel.errors import NotFound
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, begin

pytestmark = pytest.mark.anyio


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
