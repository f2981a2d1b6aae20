"""The contract of subscriptions and deliveries for each store with its journal."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sql_stores import on_postgres, on_sqlite
from sql_texts import explained

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sql.repositories.hooks import ADD, DUE, DUE_OF_EACH
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.testing.contracts.storage.hooks import HooksContract, Stores


class TestMemoryHooks(HooksContract):
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[Stores]:
        storage = MemoryStorage()
        yield storage, MemoryJournal(add_notices=storage.add_notices)


class TestSqlHooks(HooksContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_sqlite(place)

    @pytest.mark.parametrize("statement", [DUE, DUE_OF_EACH])
    async def test_due_deliveries_use_indexes(self, stores: Stores, statement: Statement) -> None:
        """No table is scanned: deliveries are found by handler and time, and by organization."""
        storage, _ = stores
        assert isinstance(storage, SqlStorage)
        plan = await storage.database.look_up(explained(statement), 9, 9, "")
        steps = [step for *_, step in plan]
        limited = ("SCAN w", "SCAN fresh", "SCAN repeated", "SCAN (subquery", "SCAN SUBQUERY")
        assert [step for step in steps if step.startswith("SCAN") and not step.startswith(limited)] == []
        assert [step for step in steps if step.startswith("SEARCH wfcore_deliveries") and "USING" not in step] == []
        assert any("wfcore_deliveries_due" in step for step in steps)

    async def test_an_event_without_subscribers_is_one_look_up(self, stores: Stores) -> None:
        """The journal finds the subscribers by the primary key of subscriptions."""
        storage, _ = stores
        assert isinstance(storage, SqlStorage)
        plan = await storage.database.look_up(explained(ADD), *range(10))
        steps = [step for *_, step in plan]
        assert steps == ["SEARCH s USING PRIMARY KEY (org=? AND event=?)"]


class TestHooksOnPostgres(HooksContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_postgres()
