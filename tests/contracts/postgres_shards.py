"""The contracts of storage, journal and dispatcher over three PostgreSQL databases: `make shards`.

`test_shards.py` has the part for each run of all tests.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from sharded_stores import DueOnShards, journal_on_postgres, storage_on_postgres
from test_dispatcher import EmbeddedContract

from wfcore.ports.journal import Journal
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.journal import JournalContract
from wfcore.testing.contracts.storage.storage import StorageContract


class TestStorage(DueOnShards, StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        return await storage_on_postgres()


class TestJournal(JournalContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return journal_on_postgres()


class TestDispatcher(EmbeddedContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return journal_on_postgres()
