"""The part of the storage contract for timers of schedules."""

import attrs

from wfcore.ports.repositories.schedules import DueTimer, Missed, Pause, Successor, Timer
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG

PAUSE = Pause("input_refused", "because")
FULL = Timer(
    1, "v1", 9_000, PAUSE, "run-1", (Missed(1_000, "late"), Missed(2_000, "overlap")),
    (Successor("v2", 9_100), Successor("v1", 9_200)),
)  # fmt: skip
"""A timer without a field at its default."""


class SchedulesContract:
    """Inherit `StorageContract`, not this class."""

    async def test_a_timer_is_read_as_written(self, store: Storage) -> None:
        """Every field is stored; a second `put` replaces it; `remove` deletes it, and ignores an unknown one."""
        async with store.transaction(ORG) as work:
            await work.schedules.put(FULL)
        bare = Timer(1, "v2", None)
        async with store.transaction(ORG) as work:
            assert await work.schedules.get(1) == FULL
            assert await work.schedules.get(2) is None
            await work.schedules.put(bare)
            assert await work.schedules.get(1) == bare
            await work.schedules.remove(1)
            await work.schedules.remove(2)
            assert await work.schedules.get(1) is None

    async def test_timers_of_organizations_are_separate(self, store: Storage) -> None:
        """The same workflow id in two organizations has two timers."""
        async with store.transaction(ORG) as work:
            await work.schedules.put(FULL)
        async with store.transaction(OTHER_ORG) as work:
            assert await work.schedules.get(1) is None
            await work.schedules.remove(1)
        async with store.reading(ORG) as work:
            assert await work.schedules.get(1) == FULL

    async def test_due_timers_of_every_organization_come_the_longest_due_first(self, store: Storage) -> None:
        """Timers with a `next_at` not after the time, at most `limit`; none of a failed transaction."""
        for org, times in ((ORG, {1: 3_000, 2: 5_001, 3: None}), (OTHER_ORG, {1: 5_000, 7: 1_000})):
            async with store.transaction(org) as work:
                for number, at in times.items():
                    await work.schedules.put(attrs.evolve(FULL, workflow_id=number, next_at=at))
        wanted = [DueTimer(OTHER_ORG, 7), DueTimer(ORG, 1), DueTimer(OTHER_ORG, 1)]
        assert await store.due_timers(5_000, limit=9) == wanted
        assert await store.due_timers(5_000, limit=2) == wanted[:2]
        assert await store.due_timers(999, limit=9) == []

    async def test_due_timers_are_shared_out(self, store: Storage) -> None:
        """With `limit` or more due, one of each organization comes before the second of any."""
        for org, numbers in ((ORG, range(1, 6)), (OTHER_ORG, range(8, 10))):
            async with store.transaction(org) as work:
                for number in numbers:
                    await work.schedules.put(attrs.evolve(FULL, workflow_id=number, next_at=number))
        found = await store.due_timers(9, limit=5)
        assert [one.workflow_id for one in found] == [1, 8, 2, 9, 3]
