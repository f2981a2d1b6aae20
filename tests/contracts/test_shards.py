"""The contracts over three shards: in memory, and a part of them over three PostgreSQL databases."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from zlib import adler32

import pytest
from test_dispatcher import EmbeddedContract
from test_on_postgres import as_the_journal_wants_it, opened

from wfcore.adapters.inmemory.journal import MemoryJournal
from wfcore.adapters.inmemory.maintenance import MemoryMaintenance
from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sharding.journal import ShardedJournal
from wfcore.adapters.sharding.routing import Shards
from wfcore.adapters.sharding.storage import ShardedMemories, ShardedStorage
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import Journal
from wfcore.ports.repositories.schedules import Timer
from wfcore.ports.shards import MAIN, RANGE, Placement
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.claims import ClaimsContract
from wfcore.testing.contracts.journal import JournalContract
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, READERS
from wfcore.testing.contracts.memories import WordsContract
from wfcore.testing.contracts.storage.storage import StorageContract
from wfcore.testing.contracts.storage.values import ORG as ORG_OF_STORAGE
from wfcore.testing.contracts.storage.values import OTHER_ORG as OTHER_ORG_OF_STORAGE
from wfcore.testing.contracts.stores.maintenance import MaintenanceContract, Stores

NAMES = (MAIN, "b", "c")


class FixedPlacements:
    """Every organization has its place from the beginning."""

    def cached(self, org: str) -> str | None:
        return NAMES[adler32(org.encode()) % 3]

    async def of(self, org: str) -> Placement:
        return Placement(self.cached(org) or MAIN)

    async def place(self, org: str) -> str:
        return (await self.of(org)).shard


def test_the_organizations_of_the_contracts_are_on_different_shards() -> None:
    """Otherwise the contracts below would show nothing."""
    assert len({FixedPlacements().cached(org) for org in (ORG, OTHER_ORG)}) == 2


class TestShardedStorage(StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        return ShardedStorage(Shards({name: MemoryStorage() for name in NAMES}, FixedPlacements()))

    async def test_due_timers_of_every_organization_come_the_longest_due_first(self, store: Storage) -> None:
        """All of them, in this order within a shard: rows of different shards are not compared."""
        for org, number in ((ORG_OF_STORAGE, 1), (OTHER_ORG_OF_STORAGE, 2)):
            async with store.transaction(org) as work:
                await work.schedules.put(Timer(number, "v", 9 - number))
        assert {one.workflow_id for one in await store.due_timers(9, limit=9)} == {1, 2}
        assert await store.due_timers(6, limit=9) == []

    async def test_due_timers_are_shared_out(self, store: Storage) -> None:
        """With `limit` or more due, one of each organization comes before the second of any."""
        for org, numbers in ((ORG_OF_STORAGE, range(1, 6)), (OTHER_ORG_OF_STORAGE, range(8, 10))):
            async with store.transaction(org) as work:
                for number in numbers:
                    await work.schedules.put(Timer(number, "v", number))
        found = [one.workflow_id for one in await store.due_timers(9, limit=5)]
        assert [set(found[:2]), set(found[2:4]), found[4:]] == [{1, 8}, {2, 9}, [3]]


@asynccontextmanager
async def sharded_journal() -> AsyncIterator[Journal]:
    def usable(org: str, principal: Principal, kind: str, number: int) -> bool:
        return (org, kind, number) == (ORG, "workflow", 1) and READERS in principal.groups

    journals = dict[str, Journal]()
    for number, name in enumerate(NAMES):
        journal = MemoryJournal(org_exists=lambda org: org in (ORG, OTHER_ORG), usable=usable)
        journal._last_execution = journal.conversations._last_key = number * RANGE
        journals[name] = journal
    yield ShardedJournal(Shards(journals, FixedPlacements()))


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
            journal._last_execution = number * RANGE
            storage.maintenance, journals[name] = MemoryMaintenance(storage, journal), journal
        placements = FixedPlacements()
        yield ShardedStorage(Shards(storages, placements)), ShardedJournal(Shards(journals, placements))


class TestShardedMemories(WordsContract):
    @pytest.fixture
    def memories(self, anyio_backend: str) -> ShardedMemories:
        return ShardedMemories(Shards({name: InMemoryMemories() for name in NAMES}, FixedPlacements()))


class TestClaimsOnPostgresShards(ClaimsContract):
    """The part with claims, which go over all shards; the rest goes to one."""

    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        async with AsyncExitStack() as stack:
            databases = {name: await stack.enter_async_context(opened()) for name in NAMES}
            for database in databases.values():
                await as_the_journal_wants_it(database)
            journals: dict[str, Journal] = {name: SqlJournal(database) for name, database in databases.items()}
            yield ShardedJournal(Shards(journals, FixedPlacements()))
