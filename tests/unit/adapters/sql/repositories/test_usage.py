"""Usage is summed by an index, and its cost is that of the time of the call."""

from collections.abc import Callable

import pytest

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.repositories.usage import SUMS
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.projections.cost import Price
from wfcore.domain.run.records import UsageRecord
from wfcore.ports.journal import Journal
from wfcore.ports.repositories.usage import GROUPS, GroupBy, UsageSum
from wfcore.testing.contracts.journal_values import NOW, ORG
from wfcore.testing.contracts.run_records import recorded
from wfcore.testing.contracts.storage.values import new_organization

pytestmark = pytest.mark.anyio
Plan = Callable[..., list[str]]

PRICES = {"big": Price(1.25, 10.0), "free": Price(0, 0)}


@pytest.mark.parametrize("of_user", [False, True])
@pytest.mark.parametrize("group_by", GROUPS)
async def test_usage_is_summed_by_an_index(plan: Plan, group_by: GroupBy, of_user: bool) -> None:
    """Only rows of the period are read, and of the user if one is given."""
    steps = plan(SUMS[group_by, of_user], "since", "until")
    assert not any(step.startswith("SCAN") for step in steps)
    wanted = "usage_user (org=? AND user_id=? AND at>? AND at<?)" if of_user else "usage_at (org=? AND at>? AND at<?)"
    assert f"SEARCH wfcore_usage USING INDEX wfcore_{wanted}" in steps


@pytest.mark.parametrize("adapter", ["memory", "sqlite"])
async def test_the_cost_is_that_of_the_time_of_the_call(store: SqlStorage, adapter: str) -> None:
    """The cost is stored with the call; a model without a price has no cost, not the cost 0."""
    await store.add_organization(new_organization(ORG))
    records = [UsageRecord(model, None, "n", 1_000, 3, at=NOW) for model in ("big", "free", "other", None)]

    async def costs(journal: Journal) -> list[tuple[str | None, int | None]]:
        await recorded(journal, records, prices=PRICES)
        return [(one.key, one.cost) for one in await journal.usage.sums(ORG, "model", since=0, until=NOW + 1)]

    journal = MemoryJournal() if adapter == "memory" else SqlJournal(store.database)
    assert await costs(journal) == [(None, None), ("big", 1_280_000), ("free", 0), ("other", None)]
    (whole,) = await journal.usage.sums(ORG, "user", since=0, until=NOW + 1)
    assert whole == UsageSum("ann", 4, 4_000, 12, 0, 1_280_000)
    if adapter == "sqlite":
        (again,) = await SqlJournal(store.database).usage.sums(ORG, "user", since=0, until=NOW + 1)
        assert again == whole
