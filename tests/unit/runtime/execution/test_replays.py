"""Many readers that join a long run: other work of the loop waits for one replay, not for all."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from wfcore.runtime.execution.plans import Plans

pytestmark = pytest.mark.anyio


class Counted(Plans):
    """Plans whose replay takes no turn of the loop, as one of a local file."""

    def __init__(self) -> None:
        super().__init__(None, None, None)  # type: ignore[arg-type]
        self.made = 0

    async def machine(self, execution: Any, sink: Any = None) -> Any:
        self.made += 1


async def test_one_replay_a_turn() -> None:
    """Between two turns of other work at most one journal is replayed."""
    plans, seen = Counted(), [0]
    readers = [asyncio.create_task(plans.replayed(None)) for _ in range(100)]  # type: ignore[arg-type]
    while not all(reader.done() for reader in readers):
        await asyncio.sleep(0)
        seen.append(plans.made)
    assert plans.made == 100
    assert max(after - before for before, after in pairwise(seen)) == 1
