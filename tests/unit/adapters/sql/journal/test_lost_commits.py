"""A failover that loses the latest commits: a process that knows them continues no other journal with them."""

import asyncio

import pytest
from sql_texts import statement

from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.journal import Append, JournalConflict
from wfcore.testing.contracts.journal_values import NOW, begin, steps

pytestmark = pytest.mark.anyio

LOSE = statement("DELETE FROM wfcore_journal WHERE execution = ? AND pos > 1")


@pytest.mark.parametrize("company", [0, 2])
@pytest.mark.parametrize("change", [{}, {"updates_claim": True, "wake_at": NOW}], ids=["entries", "claim"])
async def test_a_writer_whose_entries_were_lost(storage: SqlStorage, company: int, change: dict[str, object]) -> None:
    """Its append is refused, alone or in a shared commit, and what it appends after a read is chained to what it has
    read.
    """
    journal, other = SqlJournal(storage.database), SqlJournal(storage.database)
    ref, *others = [await begin(journal, f"r-{number}") for number in range(1 + company)]
    await journal.append(ref, Append(1, steps(2, 1)))
    async with storage.database.writing() as transaction:
        await transaction.run(LOSE, (ref.id,))
    await other.append(ref, Append(1, steps(2, 7)))
    appends = [journal.append(one, Append(1, steps(1, 1))) for one in others]
    outcome, *_ = await asyncio.gather(
        journal.append(ref, Append(3, steps(1, 3), **change)), *appends, return_exceptions=True
    )
    assert isinstance(outcome, JournalConflict)
    assert len(await journal.read(ref)) == 3
    await journal.append(ref, Append(3, steps(1, 3)))
    assert [run_id async for run_id in other.damaged()] == []
    assert await journal.lengths([ref, *others]) == {ref: 4, **dict.fromkeys(others, 2)}
