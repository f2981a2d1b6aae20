"""The pure face of the machine: folding a journal, and one step of it.

state = fold(plan, entries)          # the same for every way of cutting the entries
state = step(state, entry)           # with the given state left untouched
"""

from collections.abc import Iterable

from wfcore.domain.run.entries import Entry
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import NO_PLANS, Plans
from wfcore.domain.run.plan import Plan


def fold(plan: Plan, entries: Iterable[Entry], sink: list[Event] | None = None, plans: Plans = NO_PLANS) -> Machine:
    """The machine after these entries, whose records were written with them. `plans` holds those of children.
    `IllegalEntry` if one of them cannot follow those before it.
    """
    machine = Machine(plan, sink, plans)
    for entry in entries:
        machine.apply(entry)
    machine.take_records()
    return machine


def step(state: Machine, entry: Entry) -> Machine:
    """The machine after this entry too; the given state stays as it was, also when the entry is illegal."""
    machine = state.copy()
    machine.apply(entry)
    return machine
