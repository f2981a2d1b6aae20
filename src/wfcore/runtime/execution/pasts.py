"""The past of executions for readers of their events. The readers of one execution share one replay of its journal.

Without that, many readers that join a long run would replay it once each, and hold one machine each: other work would
wait for them, and for the collection of their garbage.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.ports.journal import Execution, ExecutionRef
from wfcore.runtime.execution.plans import Plans

SHARED: Final = 10_000
"""Events of one execution up to which they are kept for readers that join later, while somebody reads."""


class Past:
    """The events of one execution, from the first on, as far as a reader still needs them."""

    def __init__(self, plans: Plans, execution: Execution) -> None:
        self._plans = plans
        self._execution = execution
        self._machine: Machine | None = None
        self._reading = asyncio.Lock()
        self._events: list[Event] = []
        self._dropped = 0
        self._positions: dict[PastReader, int] = {}

    @property
    def is_whole(self) -> bool:
        """Whether a new reader can get all events."""
        return self._dropped == 0

    def join(self, reader: "PastReader") -> None:
        self._positions[reader] = 0

    def leave(self, reader: "PastReader") -> None:
        del self._positions[reader]

    async def read(self, reader: "PastReader") -> list[Event]:
        """The events that this reader has not read, up to what the journal holds now."""
        async with self._reading:
            if self._machine is None:
                self._machine = await self._plans.replayed(self._execution)
            else:
                await self._plans.catch_up(self._execution, self._machine)
            self._events += self._machine.take_events()
        found = self._events[self._positions[reader] - self._dropped :]
        self._positions[reader] = self._dropped + len(self._events)
        self._drop()
        return found

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


class Pasts:
    """The pasts that are being read."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._shared = WeakValueDictionary[ExecutionRef, Past]()

    @contextmanager
    def reader(self, execution: Execution) -> Iterator[PastReader]:
        """A reader of the execution's past, from the first event on."""
        past = self._shared.get(execution.ref)
        if past is None or not past.is_whole:
            past = self._shared[execution.ref] = Past(self._plans, execution)
        reader = PastReader(past)
        past.join(reader)
        try:
            yield reader
        finally:
            past.leave(reader)
