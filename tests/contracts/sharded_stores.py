"""Three shards for the contracts: where organizations are, and the stores over three PostgreSQL databases."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from zlib import adler32

import psycopg
from postgres_server import new_database
from test_on_postgres import as_the_journal_wants_it

from wfcore.adapters.sharding.journal import ShardedJournal
from wfcore.adapters.sharding.routing import Shards
from wfcore.adapters.sharding.storage import ShardedStorage
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.journal import Journal
from wfcore.ports.repositories.schedules import Timer
from wfcore.ports.shards import MAIN, Placement, locator_of
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG

NAMES = (MAIN, "b", "c")
FAR = 2**40
"""Numbers between those that two shards assign first: organizations keep their shards here."""

NUMBERS = "SELECT setval(oid::regclass, %(first)s, false) FROM pg_class WHERE relkind = 'S'"


class FixedPlacements:
    """Every organization has its place from the beginning."""

    key = "the key of the tests"

    def cached(self, org: str) -> str | None:
        return NAMES[adler32(org.encode()) % 3]

    async def of(self, org: str) -> Placement:
        return Placement(self.cached(org) or MAIN)

    async def located(self, locator: int) -> list[str]:
        return [NAMES[adler32(org.encode()) % 3] for org in (ORG, OTHER_ORG) if locator_of(org) == locator]

    async def place(self, org: str) -> str:
        return (await self.of(org)).shard

    async def close(self) -> None:
        pass


class DueOnShards:
    """The tests of the storage contract whose order holds within a shard."""

    async def test_due_timers_of_every_organization_come_the_longest_due_first(self, store: Storage) -> None:
        """All of them, in this order within a shard: rows of different shards are not compared."""
        for org, number in ((ORG, 1), (OTHER_ORG, 2)):
            async with store.transaction(org) as work:
                await work.schedules.put(Timer(number, "v", 9 - number))
        assert {one.workflow_id for one in await store.due_timers(9, limit=9)} == {1, 2}
        assert await store.due_timers(6, limit=9) == []

    async def test_due_timers_are_shared_out(self, store: Storage) -> None:
        """With `limit` or more due, one of each organization comes before the second of any."""
        for org, numbers in ((ORG, range(1, 6)), (OTHER_ORG, range(8, 10))):
            async with store.transaction(org) as work:
                for number in numbers:
                    await work.schedules.put(Timer(number, "v", number))
        found = [one.workflow_id for one in await store.due_timers(9, limit=5)]
        assert [set(found[:2]), set(found[2:4]), found[4:]] == [{1, 8}, {2, 9}, [3]]


async def _databases() -> dict[str, PostgresDatabase]:
    """Three databases, which assign different numbers."""
    found = {}
    for number, name in enumerate(NAMES):
        url = new_database()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(NUMBERS, {"first": max(1, number * FAR)})
        found[name] = PostgresDatabase(url, synchronous="NORMAL")
        await found[name].open()
    return found


async def storage_on_postgres() -> Storage:
    parts: dict[str, Storage] = {name: SqlStorage(database) for name, database in (await _databases()).items()}
    return ShardedStorage(Shards(parts, FixedPlacements()))


@asynccontextmanager
async def journal_on_postgres() -> AsyncIterator[Journal]:
    found = await _databases()
    journals: dict[str, Journal] = {name: SqlJournal(database) for name, database in found.items()}
    try:
        for database in found.values():
            await as_the_journal_wants_it(database)
        yield ShardedJournal(Shards(journals, FixedPlacements()))
    finally:
        for database in found.values():
            await database.close()
