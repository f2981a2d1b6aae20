"""The pure face of the machine: folding a journal, and one step of it.

state = fold(plan, entries)          # the same for every way of cutting the entries
step(state, entry)                   # what it leads to, with the given state left untouched
"""

from collections.abc import Iterable, Mapping

import attrs

from wfcore.domain.run.effects import Address, Effect
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import NO_PLANS, Plans
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import Interrupt


@attrs.frozen
class Step:
    """What one entry led to: the new state, what is to be done, what to show, and what is waited for."""

    state: Machine
    effects: Mapping[Address, Effect]
    events: tuple[Event, ...]
    waiting_for: tuple[Interrupt, ...]
    due: int | None


def fold(plan: Plan, entries: Iterable[Entry], sink: list[Event] | None = None, plans: Plans = NO_PLANS) -> Machine:
    """The machine after these entries, whose records were written with them. `plans` holds those of children.
    `IllegalEntry` if one of them cannot follow those before it.
    """
    machine = Machine(plan, sink, plans)
    for entry in entries:
        machine.apply(entry)
    machine.take_records()
    return machine


def step(state: Machine, entry: Entry) -> Step:
    """Apply one entry to a copy; the given state stays as it was, also when the entry is illegal."""
    machine = state.copy()
    machine.sink = []
    machine.apply(entry)
    events = tuple(machine.take_events())
    machine.sink = None
    return Step(machine, machine.pending, events, tuple(machine.interrupts.values()), machine.next_due())
