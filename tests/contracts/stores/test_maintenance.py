"""The maintenance contract for each adapter."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sql_stores import on_postgres, on_sqlite

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.maintenance import MemoryMaintenance, texts_in
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.testing.contracts.stores.maintenance import MaintenanceContract, Stores


class TestMemoryMaintenance(MaintenanceContract):
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[Stores]:
        storage = MemoryStorage()
        journal = MemoryJournal(add_notices=storage.add_notices, add_audit_rows=storage.add_audit_rows)
        storage.maintenance = MemoryMaintenance(storage, journal)
        yield storage, journal


class TestSqliteMaintenance(MaintenanceContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_sqlite(place)


@pytest.mark.service
class TestPostgresMaintenance(MaintenanceContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_postgres()


def test_texts_of_all_kinds_of_values() -> None:
    assert sorted(texts_in({"a": [1, ("b", {"c"}, b"no", None)]})) == ["a", "b", "c"]
