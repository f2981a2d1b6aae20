"""Writing what happened in one execution: the append, and its retries while the store is away."""

import logging
from collections.abc import Iterable, Sequence

from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run.effects import CallTool, attempt_id
from wfcore.domain.run.entries import Entry, Resumed
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.turns import OPEN
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.journal import Append, Execution, JournalConflict, PlainAppend, RunChange
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.append import Projection, left_open, new_run, settled

log = logging.getLogger("wfcore.drive")

FIRST_RETRY, LONGEST_RETRY = 0.25, 10.0
"""Seconds after which an append is tried again while the store is away: at first, and at most."""


class Appender:
    """Appends for one session. It compares open interrupts with those of the last append."""

    def __init__(self, ports: Ports, execution: Execution, machine: Machine) -> None:
        self._journal = ports.journal
        self._clock = ports.clock
        self._ref = execution.ref
        self._projection = Projection.of(ports, execution)
        self.holder = execution.claimed_by
        self._interrupts: list[Interrupt] = list(machine.interrupts.values())

    def know_interrupts(self, interrupts: Iterable[Interrupt]) -> None:
        """The journal has these open interrupts now."""
        self._interrupts = list(interrupts)

    def append_of(self, machine: Machine, expected: int, entries: Sequence[Entry]) -> Append:
        """The append of these entries, which the machine has applied; one that ends the turn releases the claim."""
        state, is_open = machine.state, machine.state.phase in OPEN
        if is_open and not (state.records or machine.interrupts or self._interrupts):  # most appends
            slots = machine.slots
            if slots is None:
                return PlainAppend(expected, entries, holder=self.holder)
            return Append(expected, entries, holder=self.holder, slots=slots)
        rows = self._projection.rows(machine, self._interrupts, entries)
        if not is_open:
            had_interrupts = bool(self._interrupts)
            return settled(
                machine, expected, entries, holder=self.holder, had_interrupts=had_interrupts, projected=rows
            )
        fields = rows.fields()
        if machine.interrupts or self._interrupts:
            waiting = list(machine.interrupts.values())
            changed = tuple(waiting) if waiting != self._interrupts else None
            return Append(expected, entries, interrupts=changed, holder=self.holder, slots=machine.slots, **fields)
        return Append(expected, entries, holder=self.holder, slots=machine.slots, **fields)

    def system_turn(self, machine: Machine, turn: Resumed) -> Append:
        """The append of a turn that the system begins because a deadline passed: the machine applies it here."""
        expected, parent = machine.length, machine.run_id
        left, before = left_open(machine), tuple(machine.interrupts.values())
        machine.apply(turn)
        old = RunChange(parent, RunStatus.interrupted, turn.at, left, turn.run_id)
        run = new_run(machine, machine.starter.user_id, b"", parent, started_by="system", origin="other")
        rows = self._projection.rows(machine, before, (turn,), parent)
        if machine.turn_open:
            waiting = tuple(machine.interrupts.values())
            return Append(expected, (turn,), run, (old,), waiting, holder=self.holder, **rows.fields())
        return settled(machine, expected, (turn,), begun=run, changes=(old,), holder=self.holder, projected=rows)

    async def take_slot(self, call: CallTool) -> int:
        """How many other calls must end before this one can begin; `JournalConflict` when the claim is lost."""
        assert call.slot is not None  # noqa: S101  (only such calls need one)
        return await self._journal.take_slot(self._ref, attempt_id(call), call.slot, self.holder)

    def release_of(self, machine: Machine, wake_at: int | None, awaits: Sequence[str]) -> Append:
        """The append that only releases the claim, until `wake_at` in epoch milliseconds, or until one of the attempts
        `awaits` gets a slot.
        """
        return Append(machine.length, (), updates_claim=True, wake_at=wake_at, holder=self.holder, awaits=awaits)

    async def write_again(self, append: Append, error: Unavailable) -> None:
        """Write what the store did not take because of this error as soon as it is back, unless that was done before a
        response was lost. `JournalConflict`.
        """
        wait = FIRST_RETRY
        while True:
            if append.new_run or not append.entries:
                raise error
            log.warning("the store cannot be written to", extra={"why": str(error), "seconds": wait})
            await self._clock.sleep(wait)
            wait = min(2 * wait, LONGEST_RETRY)
            try:
                await self._journal.append(self._ref, append)
            except JournalConflict:
                if not await self._is_written(append):
                    raise
            except Unavailable as again:
                error = again
                continue
            return

    async def _is_written(self, append: Append) -> bool:
        """Whether the journal has these very entries where they were to be appended."""
        found = await self._journal.read(self._ref, append.expected)
        return found[: len(append.entries)] == list(append.entries)
