"""The callers of a group commit continue, at most so many in one turn of the event loop."""

import asyncio

import pytest

from wfcore.adapters.sql.commit_parts import SETTLED, CommitPart, settle

pytestmark = pytest.mark.anyio


async def test_many_callers_continue_in_several_turns() -> None:
    """In their order; a refused one gets its error, and one that no longer waits is left alone."""
    loop = asyncio.get_running_loop()
    parts = [CommitPart((), None, loop.create_future()) for _ in range(2 * SETTLED + 1)]
    outcomes: list[object] = [*range(2 * SETTLED), ValueError("refused")]
    parts[1].done.cancel()
    settle(parts, outcomes)
    done = [[part.done.done() for part in parts].count(True)]
    while not parts[-1].done.done():
        await asyncio.sleep(0)
        done.append([part.done.done() for part in parts].count(True))
    assert sorted(set(done)) == [SETTLED, 2 * SETTLED, 2 * SETTLED + 1]
    assert [part.done.result() for part in parts[2:-1]] == [*range(2, 2 * SETTLED)]
    with pytest.raises(ValueError, match="refused"):
        parts[-1].done.result()
