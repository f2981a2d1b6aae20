"""What runs leave behind is found by indexes, and priced when it is written."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from wfcore.adapters.inmemory.journal import MemoryJournal
from wfcore.adapters.sql.journal import SqlJournal
from wfcore.adapters.sql.repositories.conversations import _MESSAGES, _OWN, _SIZES, page_statement, threads_statement
from wfcore.adapters.sql.repositories.usage import sums_statement
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.agents.prices import Price
from wfcore.domain.run.records import UsageRecord
from wfcore.ports.journal import Journal
from wfcore.ports.usage import GROUPS, GroupBy, UsageSum
from wfcore.testing.contracts.journal_values import NOW, ORG
from wfcore.testing.contracts.run_records import recorded
from wfcore.testing.contracts.storage.values import new_organization

pytestmark = pytest.mark.anyio

PRICES = {"big": Price(1.25, 10.0), "free": Price(0, 0)}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStorage]:
    database = Database(f"sqlite:///{tmp_path}/a.db", synchronous="NORMAL")
    await database.open()
    store = SqlStorage(database)
    await store.upgrade()
    yield store
    await store.close()


def plan(store: SqlStorage, statement: str, *names: str) -> list[str]:
    values = dict.fromkeys(names, 1) | {"org": "o", "user": "u", "subjects": "[]"}
    return [row[3] for row in store.database.look_up_connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("of_user", [False, True])
@pytest.mark.parametrize("group_by", GROUPS)
async def test_usage_is_searched_by_time(store: SqlStorage, group_by: GroupBy, of_user: bool) -> None:
    """Only the calls of the period are looked at, and of the user when one is asked for."""
    steps = plan(store, sums_statement(group_by, of_user=of_user), "since", "until")
    assert not any(step.startswith("SCAN") for step in steps)
    wanted = "usage_user (org=? AND user_id=? AND at>? AND at<?)" if of_user else "usage_at (org=? AND at>? AND at<?)"
    assert f"SEARCH usage USING INDEX {wanted}" in steps


@pytest.mark.parametrize(
    ("skill", "index"),
    [
        (None, "conversations_recent (org=? AND updated_at<?)"),
        (7, "participants_recent (org=? AND kind=? AND id=? AND (updated_at,conversation)<(?,?))"),
    ],
)
async def test_a_page_of_conversations_sorts_nothing(store: SqlStorage, skill: int | None, index: str) -> None:
    """One walk back along an index of times, from the row of the page before on."""
    steps = plan(store, page_statement(skill), "at", "key", "limit", "skill")
    assert not any(step.startswith("SCAN") and "VIRTUAL TABLE" not in step for step in steps)
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in steps)
    assert index in steps[0]
    (newer,) = [step for step in steps if step.startswith("SEARCH n ")]
    assert newer.endswith("(org=? AND thread_id=?)")


@pytest.mark.parametrize("skill", [None, 7])
async def test_a_thread_is_found_by_its_id(store: SqlStorage, skill: int | None) -> None:
    """Not by a walk over all threads of the organization, though that would give them in order."""
    steps = plan(store, threads_statement(skill), "threads", "skill")
    (found,) = [step for step in steps if step.startswith(("SEARCH c ", "SCAN c"))]
    assert found.endswith("(org=? AND thread_id=?)")


@pytest.mark.parametrize("statement", [_SIZES, _MESSAGES, _OWN])
async def test_a_thread_is_read_by_its_index(store: SqlStorage, statement: str) -> None:
    """What a run needs of a conversation costs what it takes, however long the conversation is."""
    steps = plan(store, statement, "key", "before", "after", "up_to", "limit", "thread")
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in steps)


@pytest.mark.parametrize("adapter", ["memory", "sqlite"])
async def test_a_call_costs_what_its_model_cost_then(store: SqlStorage, adapter: str) -> None:
    """The price of the time is kept with the call; what has no price has no cost, which is not the cost 0."""
    await store.add_organization(new_organization(ORG))
    records = [UsageRecord(model, None, "n", 1_000, 3, at=NOW) for model in ("big", "free", "other", None)]

    async def costs(journal: Journal) -> list[tuple[str | None, int | None]]:
        await recorded(journal, records)
        return [(one.key, one.cost) for one in await journal.usage.sums(ORG, "model", since=0, until=NOW + 1)]

    journal = MemoryJournal(prices=PRICES) if adapter == "memory" else SqlJournal(store.database, prices=PRICES)
    assert await costs(journal) == [(None, None), ("big", 1_280_000), ("free", 0), ("other", None)]
    (whole,) = await journal.usage.sums(ORG, "user", since=0, until=NOW + 1)
    assert whole == UsageSum("ann", 4, 4_000, 12, 0, 1_280_000)
    if adapter == "sqlite":
        (again,) = await SqlJournal(store.database).usage.sums(ORG, "user", since=0, until=NOW + 1)
        assert again == whole
