"""The interpreter: entries in, effects and events out. Deterministic, and the only place where a run's meaning is.

A `Machine` is changed in place and has one owner. `apply` takes the next entry of the journal; an entry that cannot
happen in this state raises `IllegalEntry` before anything has moved. What has to be done next is read off the state:
`pending` (effects), `interrupts` (waits for a person), `next_due` (timers), or all of it at once: `next_steps`. So
recovery after a crash is applying the journal again. Conditions, joins, templates and the tools `core.transform`,
`core.fail` and `core.wait` are decided in here, without an effect and without an entry of their own.

The machine is the public face of a `RunState`, which the modules beside this one change:

    turn_entries, effect_entries, repair_entries, move_entries      an entry is checked, then handled
    progress, outcomes                a frame goes on; the part that waited for an outcome goes on
    actions, agents, agent_loop, approvals, budget
    nodes, requests                   nodes end and lead on; effects are requested and tried again
    turns, attempts, interrupts, rounds   tables of moves
    state                             the data
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wfcore.domain.expressions.expression import MAX_STEPS
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, CallTool, Effect, attempt_id
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.entries import effect_entries as effects
from wfcore.domain.run.machine.entries import move_entries as moves
from wfcore.domain.run.machine.entries import repair_entries as repairs
from wfcore.domain.run.machine.entries import turn_entries as turns
from wfcore.domain.run.machine.entries.outcomes import ends_run
from wfcore.domain.run.machine.entries.straight import go_straight
from wfcore.domain.run.machine.next_steps import NextSteps, next_due, next_steps
from wfcore.domain.run.machine.requests import is_broken_off, needs_person
from wfcore.domain.run.machine.states.state import (
    NO_PLANS,
    Frame,
    InterruptState,
    Plans,
    RunState,
    children_of,
    find_frame,
)
from wfcore.domain.run.machine.states.turns import ENDED, HELD_BACK, OPEN, STATUS
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.records import Record
from wfcore.domain.run.state import BrokenInvariant, IllegalEntry, Interrupt, RunStatus


class Machine:
    """One execution in memory. `sink` collects events while it is a list; with None they are only counted. `plans`
    holds those of children: that of an `Opened` has to be there when the entry is applied.

    `pending`, `timers` and `interrupts` are live: they show what the execution waits for now.
    """

    __slots__ = ("interrupts", "pending", "state", "timers")

    def __init__(self, plan: Plan, sink: list[Event] | None = None, plans: Plans = NO_PLANS) -> None:
        self._own(RunState(Frame(plan), plans, sink))

    def _own(self, state: RunState) -> None:
        self.state = state
        self.pending: Mapping[Address, Effect] = state.root.pending
        self.timers: Mapping[Address, int] = state.root.timers
        self.interrupts: Mapping[str, Interrupt] = state.root.interrupts

    @classmethod
    def of(cls, state: RunState) -> "Machine":
        """The machine that owns this state from now on."""
        machine = object.__new__(cls)
        machine._own(state)
        return machine

    def copy(self) -> "Machine":
        """An independent copy without the events and records."""
        return Machine.of(self.state.copy())

    def apply(self, entry: e.Entry) -> None:
        """Let this have happened. `IllegalEntry` if it cannot; the machine is then as it was."""
        state = self.state
        if type(entry) is e.Succeeded and go_straight(state, (entry,)):
            return
        state.steps.left = MAX_STEPS
        check, handle = ENTRIES[type(entry)]
        subject = check(state, entry)
        try:
            handle(state, entry, subject)
        except IllegalEntry as error:
            raise BrokenInvariant(str(error)) from error
        state.length += 1

    def fold(self, entries: Sequence[e.Entry]) -> None:
        """Apply these entries, those of straight segments together. `IllegalEntry` for one that cannot happen."""
        done, count = 0, len(entries)
        while done < count:
            went = go_straight(self.state, entries, done) if type(entries[done]) is e.Succeeded else 0
            if not went:
                self.apply(entries[done])
            done += went or 1

    def check(self, entry: e.Entry) -> None:
        """`IllegalEntry` if this cannot happen now."""
        ENTRIES[type(entry)][0](self.state, entry)

    # What to do next

    def next_steps(self, now: int) -> NextSteps:
        """All that a driver has to know for its next step, at once; `now` is in epoch milliseconds."""
        return next_steps(self.state, now)

    def next_due(self) -> int | None:
        """Epoch milliseconds of the next moment at which time alone changes something; None: never."""
        return next_due(self.state)

    def ends_run(self, entry: e.Failed) -> bool:
        """Whether this failure would end the whole run: other effects in flight have to be stopped before it is
        recorded.
        """
        effect = self.pending.get((*entry.within, entry.node, entry.visit, entry.step))
        if effect is None or effect.attempt != entry.attempt:
            return False
        if needs_person(effect, entry.reason, entry.info) or is_broken_off(effect, entry.reason):
            return False
        return ends_run(find_frame(self.state, entry.within), effect, entry.retryable, entry.reason)

    def take_events(self) -> list[Event]:
        """The events since the last call; empty when none are collected."""
        state = self.state
        found = state.sink or []
        if state.sink is not None:
            state.sink = []
        return found

    def take_records(self) -> list[Record]:
        """What the entries since the last call leave behind beside the journal."""
        found, self.state.records = self.state.records, []
        return found

    # The state

    @property
    def status(self) -> RunStatus:
        return STATUS[self.state.phase]

    @property
    def ended(self) -> bool:
        """Whether the execution will never go on; an interrupted one can."""
        return self.state.phase in ENDED

    @property
    def turn_open(self) -> bool:
        return self.state.phase in OPEN

    @property
    def paused(self) -> bool:
        """Whether somebody paused the run, and no turn has taken over since."""
        return self.state.phase in HELD_BACK

    @property
    def slots(self) -> tuple[str, ...] | None:
        """The attempts that can have a slot now (`effects.attempt_id`); None if no call has needed one."""
        if not self.state.uses_slots:
            return None
        calls = self.pending.values() if self.turn_open else ()
        return tuple(attempt_id(call) for call in calls if isinstance(call, CallTool) and call.slot is not None)

    @property
    def has_agents(self) -> bool:
        """Whether an agent with a context is under way, in the root or in a child."""
        return any(frame.loops for frame in (self.root, *children_of(self.root)))

    @property
    def root(self) -> Frame:
        """The frame of the root."""
        return self.state.root

    @property
    def plan(self) -> Plan:
        """The plan of the root."""
        return self.state.root.plan

    @property
    def length(self) -> int:
        """Entries applied so far."""
        return self.state.length

    @property
    def pinned(self) -> e.Pinned | None:
        """The variation of the root, once a retry, a fork or a move has chosen one; until then None."""
        return self.state.pinned

    @property
    def is_draft(self) -> bool:
        """Whether `pinned` is a draft."""
        return self.state.is_draft

    @property
    def run_id(self) -> str:
        """The id of the current turn."""
        return self.state.run_id

    @property
    def current_turns(self) -> tuple[str, ...]:
        """The current turn, and those before it after which the system only reminded approvers."""
        return (*self.state.reminded, self.state.run_id)

    @property
    def at(self) -> int:
        """When the last entry happened, in epoch milliseconds."""
        return self.state.at

    @property
    def seq(self) -> int:
        """The number of the turn's last event."""
        return self.state.seq

    @property
    def starter(self) -> e.Actor:
        """Who started the execution."""
        return self.state.starter

    @property
    def info(self) -> Mapping[str, JSON]:
        """What expressions read as `run`."""
        return self.state.info

    @property
    def output(self) -> JSON:
        """The output, once the run is done."""
        return self.state.output

    @property
    def error(self) -> dict[str, JSON] | None:
        """The content of the error envelope, once the run has failed."""
        return self.state.error

    @property
    def usage(self) -> dict[str, float]:
        """What the models of all turns have consumed."""
        return self.state.usage

    @property
    def nodes(self) -> Mapping[str, Mapping[str, JSON]]:
        """The outputs of the nodes of the root, as expressions read them."""
        return self.state.root.outputs

    @property
    def interrupt_history(self) -> Mapping[str, InterruptState]:
        """Every interrupt there ever was, by id."""
        return self.state.interrupts

    @property
    def plans(self) -> Plans:
        """The plans of children."""
        return self.state.plans

    @plans.setter
    def plans(self, plans: Plans) -> None:
        self.state.plans = plans

    @property
    def sink(self) -> list[Event] | None:
        """The events since `take_events`, while they are collected."""
        return self.state.sink

    @sink.setter
    def sink(self, sink: list[Event] | None) -> None:
        self.state.sink = sink


Check = Callable[[RunState, Any], Any]
Handler = Callable[[RunState, Any, Any], None]

ENTRIES: Final[Mapping[type, tuple[Check, Handler]]] = {
    e.Started: (turns.check_started, turns.started),
    e.Resumed: (turns.check_resumed, turns.resumed),
    e.Retried: (repairs.check_retried, repairs.retried),
    e.Forked: (repairs.check_forked, repairs.forked),
    e.Moved: (moves.check_moved, moves.moved),
    e.TimePassed: (turns.check_time, turns.time_passed),
    e.Paused: (turns.check_paused, turns.paused),
    e.Cancelled: (turns.check_cancelled, turns.cancelled),
    e.Aborted: (turns.check_aborted, turns.aborted),
    e.Succeeded: (effects.check_outcome, effects.succeeded),
    e.Failed: (effects.check_outcome, effects.failed),
    e.Said: (effects.check_outcome, effects.said),
    e.Progressed: (effects.check_outcome, effects.progressed),
    e.Sent: (effects.check_outcome, effects.sent),
    e.Opened: (effects.check_opened, effects.opened),
}
"""Entry -> what it needs to be legal, and what it does with what the check returned."""
