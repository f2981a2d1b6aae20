"""Waiting for the runs of a core under test, without waiting for its timers."""

import asyncio
from collections.abc import AsyncIterator

from wfcore.core import Core
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Execution, ExecutionRef, RunFilter
from wfcore.runtime.execution.plans import Plans
from wfcore.testing.fakes import FakeClock

PAUSE = 0.001
"""Seconds of real time between two looks at runs that are busy."""

CALM_LOOKS = 2
"""Looks in a row that find nothing to do, before a core counts as idle: what one look saw end can have caused more."""

PAGE = 100
"""Organizations in one read."""

MOST_RUNS = 10_000
"""Runs of one organization that are under way at once."""


async def run_until_idle(core: Core, *, timeout: float = 60.0) -> None:
    """Return when nothing can happen any more without a person: every run has ended, or waits for a decision.

    The core has a `FakeClock` and is opened with `worker=True`. While all that runs is waits (`core.wait`, the pause
    before a retry), the clock skips to the end of the first. What is due now also happens: schedules, deliveries to
    hooks and handlers. Time does not pass for what waits for a person, for a schedule, or for another attempt of a
    delivery: advance the clock, and call this again.

    Raises TimeoutError, with the runs that are still under way, after `timeout` seconds of real time; TypeError for
    another clock.
    """
    clock = core.ports.clock
    if not isinstance(clock, FakeClock):
        raise TypeError("`run_until_idle` needs a core with a `FakeClock`: Overrides(clock=FakeClock())")
    watch = _Watch(core, clock)
    try:
        async with asyncio.timeout(timeout):
            while (moment := await watch.next_moment()) is not None:
                clock.advance(max(0, moment - clock.now()) / 1000)
    except TimeoutError:
        raise TimeoutError(f"after {timeout:g} seconds these runs are still under way: {watch.busy}") from None


class _Watch:
    """What a core has to do. `busy` names what was under way at the last look."""

    def __init__(self, core: Core, clock: FakeClock) -> None:
        self._core = core
        self._clock = clock
        self._ports = core.ports
        self._plans = Plans(core.ports.storage, core.ports.journal, clock)
        self.busy: list[str] = []

    async def next_moment(self) -> int | None:
        """When all that is due now has happened: the end of the first wait; None if nothing waits for time."""
        calm = 0
        while calm < CALM_LOOKS:
            self.busy, moments = [], list[int]()
            served = await self._serve_due()
            async for _, machine in self._under_way():
                moment = self._moment_of(machine)
                if moment is None or moment <= self._clock.now():
                    self.busy.append(machine.run_id)
                else:
                    moments.append(moment)
            calm = 0 if self.busy or served or await self._is_anything_due() else calm + 1
            if not calm:
                self._ports.dispatcher.wake(NOTHING)
                await asyncio.sleep(PAUSE)
        return min(moments, default=None)

    async def _serve_due(self) -> bool:
        """Let schedules and deliveries happen that are due, without the wait for their next poll. False: no delivery
        was due.
        """
        core = self._core
        await core.scheduler.fire_due()
        for loop in (core.poster, core.notifier):
            await loop.poll()
        deliveries = [*core.poster.under_way, *core.notifier.under_way]
        await asyncio.gather(*deliveries, return_exceptions=True)
        return bool(deliveries)

    def _moment_of(self, machine: Machine) -> int | None:
        """When the run goes on by itself; now, when an effect of it is under way."""
        now = self._clock.now()
        steps = machine.next_steps(now)
        if any(effect.not_before <= now for effect in steps.effects.values()):
            return now
        return steps.next_moment(now)

    async def _under_way(self) -> AsyncIterator[tuple[Execution, Machine]]:
        """The executions whose latest turn is queued or running."""
        journal = self._ports.journal
        for org in await self._organizations():
            for status in (RunStatus.queued, RunStatus.running):
                for row in await journal.list_runs(org, limit=MOST_RUNS, where=RunFilter(status=status)):
                    execution = await journal.execution(row.execution)
                    yield execution, await self._plans.machine(execution)

    async def _organizations(self) -> list[str]:
        found: list[str] = []
        while page := await self._ports.storage.organizations(limit=PAGE, after=found[-1] if found else ""):
            found += [organization.uuid for organization in page]
        return found

    async def _is_anything_due(self) -> bool:
        """Whether an execution is due that no worker holds, or a worker holds one that is not under way: a turn begins
        or ends.
        """
        journal = self._ports.journal
        due = await journal.next_wake()
        if due is not None and due <= self._clock.now():
            return True
        held = {ref for holder in await journal.holders() for ref in await journal.held_by(holder.worker)}
        return bool(held - {execution.ref async for execution, _ in self._under_way()})


NOTHING = ExecutionRef("", 0)
"""No execution: a spurious wake-up, which makes a dispatcher look for due ones."""
