"""The contract of pending deliveries in a storage and its journal, as a suite to inherit.

    class TestMyPostings(PostingsContract):
        @asynccontextmanager
        async def open_stores(self, place: Path) -> AsyncIterator[tuple[Storage, Journal]]:
            ...

`open_stores` returns both, empty, with the same runs; `place` is an empty directory. Needs the extra `testing`.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import attrs
import pytest

from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, Journal, NewExecution, NewRun, RunChange
from wfcore.ports.repositories.postings import DuePosting, Posting
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG, new_organization

Stores = tuple[Storage, Journal]


def new_posting(id: str, next_at: int | None = 5, run_id: str | None = None) -> Posting:
    return Posting(id, "i-1", "mark", {"z": 1.0, "a": None}, run_id or id, next_at)


async def put(store: Storage, *rows: Posting, org: str = ORG) -> None:
    async with store.transaction(org) as work:
        for row in rows:
            await work.postings.put(row)


async def run(journal: Journal, id: str, status: RunStatus = RunStatus.done, org: str = ORG) -> None:
    """A run with this id and status."""
    new = NewExecution(org, "workflow", 1, "v-1", "ann", "t-1")
    await journal.begin(new, Append(0, (), NewRun(id, "ann", b"f", status, 1)))


async def due(store: Storage, now: int = 9, limit: int = 9) -> list[str]:
    return [one.id for one in await store.due_postings(now, limit=limit)]


class PostingsContract:
    """Inherit, name the class `Test...`, and write `open_stores`."""

    pytestmark = pytest.mark.anyio

    @abstractmethod
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]: ...

    @pytest.fixture
    async def stores(self, anyio_backend: str, tmp_path: Path) -> AsyncIterator[Stores]:
        async with self.open_stores(tmp_path) as stores:
            for org in (ORG, OTHER_ORG):
                await stores[0].add_organization(new_organization(org))
            yield stores

    async def test_a_posting_is_read_as_written(self, stores: Stores) -> None:
        """Every field is stored; a second put replaces, a remove deletes, and organizations are separate."""
        store, _ = stores
        first = new_posting("a")
        second = attrs.evolve(
            first, run_id="b", next_at=None, reported=RunStatus.interrupted, tries=3, place={"b": [2]}
        )
        for row in (first, second):
            await put(store, row)
            async with store.reading(ORG) as work:
                found = await work.postings.get("a")
                assert found == row
                assert repr(found.place) == repr(row.place)
                assert await work.postings.get("b") is None
        async with store.transaction(OTHER_ORG) as work:
            assert await work.postings.get("a") is None
            await work.postings.remove("a")
        async with store.transaction(ORG) as work:
            assert await work.postings.get("a") == second
            await work.postings.remove("a")
            assert await work.postings.get("a") is None

    async def test_due_postings_are_listed_by_time(self, stores: Stores) -> None:
        """Of all organizations, the longest due first, at most `limit`; none with a later time or without one."""
        store, journal = stores
        rows = [new_posting("a", 9), new_posting("b", 3), new_posting("c", 10), new_posting("d", None)]
        await put(store, *rows)
        await put(store, new_posting("e", 4), org=OTHER_ORG)
        for row in rows:
            await run(journal, row.id)
        await run(journal, "e", org=OTHER_ORG)
        found = await store.due_postings(9, limit=9)
        assert found == [DuePosting(ORG, "b"), DuePosting(OTHER_ORG, "e"), DuePosting(ORG, "a")]
        assert await due(store, 9, limit=2) == ["b", "e"]
        assert await due(store, 10) == ["b", "e", "a", "c"]

    async def test_due_postings_are_shared_out(self, stores: Stores) -> None:
        """With `limit` or more due, one of each organization comes before the second of any."""
        store, journal = stores
        await put(store, *(new_posting(f"a-{number}", number) for number in range(4)), new_posting("b", 0))
        await put(store, *(new_posting(f"c-{number}", 7) for number in range(2)), org=OTHER_ORG)
        for number in range(4):
            await run(journal, f"a-{number}")
            await run(journal, f"c-{number}", org=OTHER_ORG)
        assert await due(store, limit=3) == ["a-0", "c-0", "a-1"]
        assert await due(store, limit=5) == ["a-0", "c-0", "a-1", "c-1", "a-2"]

    async def test_a_posting_is_due_when_the_turn_ends(self, stores: Stores) -> None:
        """A running turn and an unknown run are not due; another organization's run with that id is a different one."""
        store, journal = stores
        for number, status in enumerate(RunStatus):
            await put(store, new_posting(f"a-{status}", number), new_posting(f"b-{status}", number, f"c-{status}"))
            await run(journal, f"a-{status}", status, org=OTHER_ORG)
            await run(journal, f"c-{status}", status)
        assert await due(store) == [f"b-{status}" for status in RunStatus if not status.under_way]

    async def test_a_posted_turn_is_due_when_it_changes(self, stores: Stores) -> None:
        """A turn whose status was posted is due again after a change of status or a resume."""
        store, journal = stores
        await put(store, attrs.evolve(new_posting("a"), reported=RunStatus.interrupted))
        await put(store, attrs.evolve(new_posting("c"), reported=RunStatus.interrupted))
        await run(journal, "c", RunStatus.cancelled)
        new = NewExecution(ORG, "workflow", 1, "v-1", "ann", "t-1")
        ref = (await journal.begin(new, Append(0, (), NewRun("a", "ann", b"f", RunStatus.interrupted, 1)))).ref
        assert await due(store) == ["c"]
        change = RunChange("a", RunStatus.interrupted, 2, resumed_by="b")
        await journal.append(ref, Append(0, (), NewRun("b", "ann", b"f", RunStatus.running, 2, "a"), (change,)))
        assert sorted(await due(store)) == ["a", "c"]
