"""Following a run: everything that became durable, once, in order, whenever one joins.

Events are a projection of the journal. A follower first listens, then folds the journal up to now, then goes on
with what it hears. What is heard is a hint: a gap, silence, or falling behind leads back to the journal.
"""

from collections.abc import AsyncIterator

from wfcore.domain.run.events import Event
from wfcore.domain.run.machine import Machine
from wfcore.domain.run.plan import Plan
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.providers import Lagged, Subscription
from wfcore.runtime.context import Ports

SOONEST, LATEST = 0.5, 5.0
"""Seconds of silence after which a follower looks at the journal: another process may drive the run."""


async def follow(ports: Ports, plan: Plan, ref: ExecutionRef, run_id: str, after: int) -> AsyncIterator[Event]:
    """The events of one run with a `seq` greater than `after`, to the terminal one."""
    past = Past(ports, plan, ref)
    listening = ports.events.subscribe(ref)
    seen, patience = after, SOONEST
    try:
        while True:
            before = seen
            for event in await past.read():
                if event.run_id == run_id:
                    if event.seq > seen:
                        seen = event.seq
                        yield event
                    if event.terminal:
                        return
            patience = SOONEST if seen > before else min(patience * 1.5, LATEST)
            try:
                async for event in _hear(listening, run_id, seen, patience):
                    seen = event.seq
                    yield event
                    if event.terminal:
                        return
            except Lagged:
                listening.close()
                listening = ports.events.subscribe(ref)
    finally:
        listening.close()


async def _hear(listening: Subscription, run_id: str, seen: int, patience: float) -> AsyncIterator[Event]:
    """What follows without a gap on the event `seen`; ends with silence or a gap."""
    while (heard := await listening.next(patience)) is not None:
        for event in heard:
            if event.run_id != run_id or event.seq <= seen:
                continue
            if event.seq != seen + 1:
                return
            seen = event.seq
            yield event


class Past:
    """An execution's events as the journal tells them, read on from where the last reading ended."""

    def __init__(self, ports: Ports, plan: Plan, ref: ExecutionRef) -> None:
        self._ports = ports
        self._ref = ref
        self._machine = Machine(plan, [])

    async def read(self) -> list[Event]:
        """What has come since the last time."""
        for entry in await self._ports.journal.read(self._ref, self._machine.length):
            self._machine.apply(entry)
        return self._machine.take_events()
