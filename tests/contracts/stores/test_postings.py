"""The contract of pending deliveries to team chats for each store with its journal."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sql_stores import on_postgres, on_sqlite
from sql_texts import explained

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sql.repositories import schedules
from wfcore.adapters.sql.repositories.postings import DUE, DUE_OF_EACH
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.testing.contracts.postings import PostingsContract, Stores


class TestMemoryPostings(PostingsContract):
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[Stores]:
        journal = MemoryJournal()
        yield MemoryStorage(find_run=journal.find_run), journal


class TestSqlPostings(PostingsContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_sqlite(place)

    async def test_due_postings_use_indexes(self, stores: Stores) -> None:
        """The query scans the index of pending deliveries by time, and looks up each run by its key."""
        storage, _ = stores
        assert isinstance(storage, SqlStorage)
        plan = await storage.database.look_up(explained(DUE), 9, 9)
        steps = [step for *_, step in plan]
        assert not any("SCAN" in step or "TEMP B-TREE" in step for step in steps)
        assert "SEARCH p USING INDEX wfcore_postings_due (next_at<?)" in steps
        assert any(step.startswith("SEARCH r ") and step.endswith("(org=? AND id=?)") for step in steps)

    @pytest.mark.parametrize(
        ("statement", "index"),
        [(DUE_OF_EACH, "postings_due_org"), (schedules.DUE_OF_EACH, "schedules_due_org")],
    )
    async def test_shares_use_indexes(self, stores: Stores, statement: Statement, index: str) -> None:
        """No table is scanned: organizations, and what is due in each, are found by one index."""
        storage, _ = stores
        assert isinstance(storage, SqlStorage)
        plan = [step for *_, step in await storage.database.look_up(explained(statement), 9, 9)]
        assert [step for step in plan if step.startswith("SCAN")] == ["SCAN w", "SCAN w"]
        assert sum(f"{index} (org" in step for step in plan) >= 2


class TestPostingsOnPostgres(PostingsContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_postgres()
