"""The placements of organizations, as several processes see them."""

from collections.abc import AsyncIterator, Iterator

import pytest
from postgres_databases import opened
from shard_databases import installation

from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.shards import moving, placements
from wfcore.adapters.sql.shards.moving import ShardDatabases
from wfcore.adapters.sql.shards.placements import SqlPlacements
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.shards import MAIN, Placement, locator_of

pytestmark = [pytest.mark.service, pytest.mark.anyio]


@pytest.fixture
def shards() -> Iterator[ShardDatabases]:
    with installation() as found:
        yield found


@pytest.fixture
async def main(shards: ShardDatabases, anyio_backend: str) -> AsyncIterator[PostgresDatabase]:
    async with opened(shards.urls[MAIN]) as database:
        yield database


def put(shards: ShardDatabases, org: str, shard: str, moving_to: str | None = None) -> None:
    with shards.connected(MAIN) as connection:
        moving._place(connection, shards, org, shard, moving=moving_to)


async def test_a_change_is_seen_after_the_lease(
    shards: ShardDatabases, main: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then a process uses what it has read. What is being moved is read before each call."""
    monkeypatch.setattr(placements, "LEASE", 1e9)
    found = SqlPlacements(main)
    found._read_at = -1e9
    assert found.cached("o") is None
    assert await found.of("o") == Placement(MAIN)
    assert found.cached("o") == MAIN
    put(shards, "o", "b")
    assert await found.of("o") == Placement(MAIN)
    monkeypatch.setattr(placements, "LEASE", 0.0)
    assert await found.of("o") == Placement("b")
    put(shards, "o", "b", "c")
    assert await found.of("o") == Placement("b", is_moving=True)
    monkeypatch.setattr(placements, "LEASE", 1e9)
    assert found.cached("o") is None
    put(shards, "o", "c")
    assert await found.of("o") == Placement("c")


async def test_a_locator_leads_to_the_shard(
    shards: ShardDatabases, main: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an organization that is not placed: the main shard. What is being moved is read before each call."""
    found, other, locator = SqlPlacements(main), SqlPlacements(main), locator_of("o")
    await found.create()
    await other.create()
    assert found.key == other.key != ""
    monkeypatch.setattr(placements, "LEASE", 0.0)
    monkeypatch.setattr(placements, "CACHED", 0)
    assert await found.located(locator) == [MAIN]
    put(shards, "o", "b")
    assert await found.located(locator) == ["b", MAIN]
    assert await found.located(locator_of("n")) == [MAIN]
    put(shards, "o", "b", "c")
    assert await found.located(locator) == ["b", MAIN]
    monkeypatch.setattr(placements, "LEASE", 1e9)
    put(shards, "o", "c")
    assert await found.located(locator) == ["c", MAIN]
    put(shards, "o", "b")
    assert await found.located(locator) == ["c", MAIN]


async def test_new_organizations_are_spread(main: PostgresDatabase) -> None:
    """Each keeps its place, whoever asks."""
    found, other = SqlPlacements(main), SqlPlacements(main)
    await found.create()
    places = {org: await found.place(org) for org in map(str, range(20))}
    assert set(places.values()) == {MAIN, "b", "c"}
    assert {org: await other.place(org) for org in places} == places


async def test_without_the_main_database_the_last_ones_are_used(
    main: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were not read before cannot be found."""
    monkeypatch.setattr(placements, "LEASE", 0.0)
    monkeypatch.setattr(placements, "CACHED", 1)
    found = SqlPlacements(main)
    for org in ("n", "o"):
        assert await found.of(org) == Placement(MAIN)
    await main.close()
    assert await found.of("o") == Placement(MAIN)
    with pytest.raises(Unavailable):
        await found.of("n")
