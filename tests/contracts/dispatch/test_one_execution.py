"""The dispatcher of a process that follows one execution."""

from collections.abc import AsyncIterator

import pytest

from wfcore.adapters.dispatch.one_execution import OneExecutionDispatcher
from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.ports.journal import ExecutionRef
from wfcore.testing.contracts.dispatcher import Bench, eventually
from wfcore.testing.contracts.journal_values import NOW, begin, due
from wfcore.testing.fakes import FakeClock


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    journal, clock = MemoryJournal(), FakeClock(NOW)
    found = Bench(journal, clock, lambda _: OneExecutionDispatcher(journal, clock, ExecutionRef("", 0)))
    yield found
    await found.dispatcher.stop(0)


async def follow(bench: Bench, execution: ExecutionRef) -> None:
    bench.dispatcher = OneExecutionDispatcher(bench.journal, bench.clock, execution)
    await bench.dispatcher.start(bench.handler)


@pytest.mark.anyio
async def test_no_other_execution_is_claimed(bench: Bench) -> None:
    """However many are due, at once or later."""
    others = [await due(bench.journal, f"other-{number}", NOW + number) for number in range(3)]
    mine = await due(bench.journal, "mine", NOW)
    await follow(bench, mine)
    await bench.until_parked(mine)
    await bench.beats(3)
    assert [bench.handler.handled[each] for each in (mine, *others)] == [1, 0, 0, 0]


@pytest.mark.anyio
async def test_a_time_to_come_is_not_late(bench: Bench) -> None:
    """The execution is claimed when it is due, between two heartbeats too."""
    mine = await due(bench.journal, "mine", NOW + 300)
    await follow(bench, mine)
    await eventually(lambda: bench.clock.next_timer)
    assert bench.handler.handled[mine] == 0
    bench.clock.advance(0.3)
    await bench.until_parked(mine)


@pytest.mark.anyio
async def test_what_a_worker_holds_stays_with_it(bench: Bench) -> None:
    """Until that worker releases it."""
    worker = await bench.journal.register("elsewhere", 1)
    mine = await begin(bench.journal, "mine", wake_at=NOW, claimed_by=worker)
    await follow(bench, mine)
    await bench.beats(2)
    assert bench.handler.handled[mine] == 0
    await bench.journal.release(worker)
    await bench.beats(1)
    await bench.until_handled(mine)
