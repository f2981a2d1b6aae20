"""Dispatchers under adversity: beside another one, and stopped in the middle. `bench` is that of the contract."""

import asyncio
from typing import Any

from wfcore.testing.contracts.journal_values import NOW, due


class InterruptedDispatcher:
    """Inherit `DispatcherContract`, not this class."""

    async def test_two_dispatchers_share_what_is_due(self, bench: Any) -> None:
        """Each execution is handled once, by one of them, however their claims overlap."""
        refs = [await due(bench.journal, f"r-{number}", NOW) for number in range(20)]
        other = bench.make(100)
        await asyncio.gather(bench.dispatcher.start(bench.handler), other.start(bench.handler))
        for ref in refs:
            await bench.until_parked(ref)
        await other.stop(0)
        assert bench.handler.handled == dict.fromkeys(refs, 1)

    async def test_wakes_at_once(self, bench: Any) -> None:
        """Wakes of the same execution by many tasks, before and during its handling, cause one handling."""
        ref, release = await bench.under_way()

        async def wake() -> None:
            bench.dispatcher.wake(ref)
            await asyncio.sleep(0)
            bench.dispatcher.wake(ref)

        await asyncio.gather(*(wake() for _ in range(20)))
        release.set()
        await bench.until_parked(ref)
        await bench.rounds()
        assert bench.handler.handled[ref] == 1

    async def test_stops_at_once(self, bench: Any) -> None:
        """Two stops end together, and the claims are released once both have returned."""
        bench.handler.before = lambda _: asyncio.Event().wait()
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        await asyncio.gather(bench.dispatcher.stop(0), bench.dispatcher.stop(0))
        assert (await bench.journal.execution(ref)).claimed_by is None
        assert bench.handler.under_way == set()

    async def test_a_cancelled_stop(self, bench: Any) -> None:
        """It waits no longer: the handlers are cancelled, and the claims released."""
        ref, _ = await bench.under_way()
        stopping = asyncio.create_task(bench.dispatcher.stop(60))
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        assert (await bench.journal.execution(ref)).claimed_by is None
        assert bench.handler.under_way == set()
