"""The contracts over three shards: in memory, and parts of them over three PostgreSQL databases."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sharded_stores import FAR, NAMES, DueOnShards, FixedPlacements, journal_on_postgres, storage_on_postgres
from test_dispatcher import EmbeddedContract

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.maintenance import MemoryMaintenance
from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sharding.journal import ShardedJournal
from wfcore.adapters.sharding.routing import Shards
from wfcore.adapters.sharding.storage import ShardedMemories, ShardedStorage
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import Journal
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.claims import ClaimsContract
from wfcore.testing.contracts.journal import JournalContract
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, READERS
from wfcore.testing.contracts.memories import WordsContract
from wfcore.testing.contracts.storage.interfaces import InterfacesContract
from wfcore.testing.contracts.storage.schedules import SchedulesContract
from wfcore.testing.contracts.storage.storage import StorageContract
from wfcore.testing.contracts.storage.values import ORG as ORG_OF_STORAGE
from wfcore.testing.contracts.storage.values import OTHER_ORG as OTHER_ORG_OF_STORAGE
from wfcore.testing.contracts.storage.values import new_organization
from wfcore.testing.contracts.storage.webhooks import WebhooksContract
from wfcore.testing.contracts.stores.maintenance import MaintenanceContract, Stores
from wfcore.testing.on_asyncio import OnAsyncio


def test_the_organizations_of_the_contracts_are_on_different_shards() -> None:
    """Otherwise the contracts below would show nothing."""
    assert len({FixedPlacements().cached(org) for org in (ORG, OTHER_ORG)}) == 2


class TestShardedStorage(DueOnShards, StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        return ShardedStorage(Shards({name: MemoryStorage() for name in NAMES}, FixedPlacements()))


@asynccontextmanager
async def sharded_journal() -> AsyncIterator[Journal]:
    def usable(org: str, principal: Principal, kind: str, number: int) -> bool:
        return (org, kind, number) == (ORG, "workflow", 1) and READERS in principal.groups

    journals = dict[str, MemoryJournal]()
    for number, name in enumerate(NAMES):
        journal = MemoryJournal(org_exists=lambda org: org in (ORG, OTHER_ORG), usable=usable)
        journal._last_execution = journal.conversations._last_key = number * FAR
        journals[name] = journal
    yield ShardedJournal(Shards(dict[str, Journal](journals), FixedPlacements()))
    for journal in journals.values():
        journal.close()


class TestShardedJournal(JournalContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return sharded_journal()


class TestShardedDispatcher(EmbeddedContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return sharded_journal()


class TestShardedMaintenance(MaintenanceContract):
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[Stores]:
        storages = {name: MemoryStorage() for name in NAMES}
        journals = dict[str, Journal]()
        for number, (name, storage) in enumerate(storages.items()):
            journal = MemoryJournal(add_notices=storage.add_notices, add_audit_rows=storage.add_audit_rows)
            journal._last_execution = number * FAR
            storage.maintenance, journals[name] = MemoryMaintenance(storage, journal), journal
        placements = FixedPlacements()
        yield ShardedStorage(Shards(storages, placements)), ShardedJournal(Shards(journals, placements))


class TestShardedMemories(WordsContract):
    @pytest.fixture
    def memories(self, anyio_backend: str) -> ShardedMemories:
        return ShardedMemories(Shards({name: InMemoryMemories() for name in NAMES}, FixedPlacements()))


class TestJournalOnPostgresShards(ClaimsContract):
    """The part with claims, which go over all shards; `postgres_shards.py` has all of it."""

    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return journal_on_postgres()


class TestStorageOnPostgresShards(DueOnShards, InterfacesContract, SchedulesContract, WebhooksContract, OnAsyncio):
    """The parts that find rows of any organization."""

    @pytest.fixture
    async def store(self, anyio_backend: str) -> AsyncIterator[Storage]:
        store = await storage_on_postgres()
        for org in (ORG_OF_STORAGE, OTHER_ORG_OF_STORAGE):
            await store.add_organization(new_organization(org))
        yield store
        await store.close()
