"""What appends publish to the feed of changes."""

import asyncio

import pytest

from wfcore.adapters.dispatch.change_hub import ChangeHub
from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.domain.run.state import RunStatus
from wfcore.ports.changes import FeedChange
from wfcore.ports.journal import Append, ExecutionRef, RunChange
from wfcore.runtime.execution import changes
from wfcore.testing.contracts.journal_values import NOW, ORG, begin, due


def test_a_claimed_execution_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim has read its row."""
    inner, feed = MemoryJournal(), ChangeHub(None)

    async def play() -> list[FeedChange]:
        ref, asleep = await due(inner, "r-1", NOW), await due(inner, "r-2", NOW + 1)
        monkeypatch.setattr(inner, "execution", None)
        journal, subscription = changes.publishing_journal(inner, feed), feed.subscribe(ORG)
        assert await journal.claim(asleep, 1, NOW) is None
        assert await journal.claim(ref, 1, NOW) is not None
        await journal.append(ref, Append(1, (), changes=[RunChange("r-1", RunStatus.done, NOW)]))
        return await subscription.next(1)

    assert [change.id for change in asyncio.run(play())] == ["r-1"]


@pytest.mark.parametrize(("kept", "reads"), [(10, 1), (1, 3)])
def test_an_execution_is_read_once(monkeypatch: pytest.MonkeyPatch, kept: int, reads: int) -> None:
    """Its row is kept after it was read or begun; of too many rows all are read again."""
    monkeypatch.setattr(changes, "MOST_KNOWN", kept)
    inner, feed, found = MemoryJournal(), ChangeHub(None), list[ExecutionRef]()
    execution = inner.execution

    async def counted(ref: ExecutionRef) -> object:
        found.append(ref)
        return await execution(ref)

    async def play() -> list[FeedChange]:
        before = await begin(inner, "r-1")
        monkeypatch.setattr(inner, "execution", counted)
        journal, subscription = changes.publishing_journal(inner, feed), feed.subscribe(ORG)
        await journal.execution(before)
        ref = await begin(journal, "r-2")
        for one, run in ((before, "r-1"), (ref, "r-2")):
            await journal.append(one, Append(1, (), changes=[RunChange(run, RunStatus.running, NOW)]))
        return await subscription.next(1)

    published = asyncio.run(play())
    assert [(change.id, change.what) for change in published][-2:] == [("r-1", "changed"), ("r-2", "changed")]
    assert len(found) == reads
