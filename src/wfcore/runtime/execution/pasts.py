"""The past of executions for readers of their events. The readers of one execution share one replay of its journal.

Without that, many readers that join a long run would replay it once each, and hold one machine each: other work would
wait for them, and for the collection of their garbage.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import IllegalEntry
from wfcore.ports.journal import Execution, ExecutionRef
from wfcore.runtime.execution.plans import Plans

SHARED: Final = 10_000
"""Events of one execution up to which they are kept for readers that join later, while somebody reads."""


_Begun = tuple[Execution, Sequence[Event], Machine | None]


class Past:
    """The events of one execution, from the first on, as far as a reader still needs them."""

    def __init__(
        self, plans: Plans, execution: Execution, begun: Sequence[Event] = (), machine: Machine | None = None
    ) -> None:
        """`begun`: all events of the execution, where they are known: the first read does not read the journal.
        `machine`: the one that has collected them, if nobody else uses it.
        """
        self._plans = plans
        self._execution = execution
        self._knows_all = bool(begun)
        self._machine = machine
        self._reading = asyncio.Lock()
        self._events = list(begun)
        self._dropped = 0
        self._positions: dict[PastReader, int] = {}

    @property
    def is_whole(self) -> bool:
        """Whether a new reader can get all events."""
        return self._dropped == 0

    @property
    def can_have_missed(self) -> bool:
        """Whether another process may have gone on before this reader could receive it: nothing was read yet."""
        return self._knows_all and self._machine is not None

    def join(self, reader: "PastReader") -> None:
        self._positions[reader] = 0

    def leave(self, reader: "PastReader") -> None:
        del self._positions[reader]

    async def read(self, reader: "PastReader") -> list[Event]:
        """The events that this reader has not read, up to what the journal holds now."""
        async with self._reading:
            if self._knows_all:
                self._knows_all = False
            else:
                await self._read_journal()
        found = self._events[self._positions[reader] - self._dropped :]
        self._positions[reader] = self._dropped + len(self._events)
        self._drop()
        return found

    async def _read_journal(self) -> None:
        if self._machine is None:
            self._start_over()  # what was known when the execution began comes again
        try:
            machine = await self._caught_up()
        except IllegalEntry:
            # A replica that takes over can lack the latest entries that its primary showed.
            self._start_over()
            machine = await self._caught_up()
        self._events += machine.take_events()

    async def _caught_up(self) -> Machine:
        if self._machine is None:
            self._machine = await self._plans.replayed(self._execution)
        else:
            await self._plans.catch_up(self._execution, self._machine)
        return self._machine

    def _start_over(self) -> None:
        """Forget what was read. Readers get all events again, and skip those up to the last `seq` that they have."""
        self._machine, self._events, self._dropped = None, [], 0
        self._positions = dict.fromkeys(self._positions, 0)

    def _drop(self) -> None:
        """Drop what every reader has read of a long past."""
        if len(self._events) > SHARED or not self.is_whole:
            read = min(self._positions.values()) - self._dropped
            del self._events[:read]
            self._dropped += read


class PastReader:
    """One reader of a past."""

    def __init__(self, past: Past) -> None:
        self._past = past

    async def read(self) -> list[Event]:
        """What has come since the last time. Raises JournalDamaged."""
        return await self._past.read(self)

    @property
    def can_have_missed(self) -> bool:
        """Before the first read: whether it can lack what another process has done meanwhile."""
        return self._past.can_have_missed


class Pasts:
    """The pasts that are being read."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._shared = WeakValueDictionary[ExecutionRef, Past]()
        self._begun: dict[ExecutionRef, _Begun] = {}

    def begin(self, execution: Execution, events: Sequence[Event], machine: Machine | None) -> None:
        """Keep the first events of an execution until the loop turns, so that a reader who joins now does not read the
        journal: if this process is about to drive it, they are all of them until then.

        `machine`: the one that has begun it, if another process will drive it.
        """
        if machine is not None:
            machine.sink = []
        self._begun[execution.ref] = execution, events, machine
        asyncio.get_running_loop().call_soon(self._begun.pop, execution.ref, None)

    def begun(self, ref: ExecutionRef) -> Execution | None:
        """An execution that has begun in this turn of the loop."""
        return self._begun[ref][0] if ref in self._begun else None

    @contextmanager
    def reader(self, execution: Execution) -> Iterator[PastReader]:
        """A reader of the execution's past, from the first event on."""
        past = self._shared.get(execution.ref)
        if past is None or not past.is_whole:
            _, begun, machine = self._begun.get(execution.ref, (execution, (), None))
            past = self._shared[execution.ref] = Past(self._plans, execution, begun, machine)
        reader = PastReader(past)
        past.join(reader)
        try:
            yield reader
        finally:
            past.leave(reader)
