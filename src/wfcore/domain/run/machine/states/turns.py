"""Turns of a run: where an execution stands, and how its turns and the execution itself end.

A turn is open while it is `running` or `pausing`. Somebody can ask a running turn to park: it is `pausing` until
nothing is under way, then `paused`. A turn that waits for people only parks as `interrupted`. A new turn can take over
an open one with a decision, and a parked one with a decision, after a deadline, or (`paused` only) by hand. A retry
takes over an execution that has failed or was cancelled: each frame keeps what its visits left behind. A parked one
can move to another variation; it stays parked. RunStatus,
which clients see, has one word for the two open states and one for the two parked states.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.states.attempts import ATTEMPTS, AttemptEvent, discard, unset_timer
from wfcore.domain.run.machine.states.interrupts import InterruptEvent, close_interrupt, interrupt_to_wire
from wfcore.domain.run.machine.states.left import remains, under_way
from wfcore.domain.run.machine.states.output import emit, error_of
from wfcore.domain.run.machine.states.rounds import give_up_loop
from wfcore.domain.run.machine.states.state import Frame, Phase, RunState
from wfcore.domain.run.state import RunStatus, Table, move


class TurnEvent(StrEnum):
    """What can happen to an execution. `outcome` is whatever an open turn goes on with: an effect, or time."""

    start = "start"
    outcome = "outcome"
    decide = "decide"
    resume = "resume"
    expire = "expire"
    pause = "pause"
    park = "park"
    finish = "finish"
    fail = "fail"
    cancel = "cancel"
    retry = "retry"
    move = "move"


TURNS: Final[Table[Phase, TurnEvent]] = {
    Phase.queued: {TurnEvent.start: Phase.running},
    Phase.running: {
        TurnEvent.outcome: Phase.running,
        TurnEvent.decide: Phase.running,
        TurnEvent.pause: Phase.pausing,
        TurnEvent.park: Phase.interrupted,
        TurnEvent.finish: Phase.done,
        TurnEvent.fail: Phase.error,
        TurnEvent.cancel: Phase.cancelled,
    },
    Phase.pausing: {
        TurnEvent.outcome: Phase.pausing,
        TurnEvent.decide: Phase.running,
        TurnEvent.park: Phase.paused,
        TurnEvent.finish: Phase.done,
        TurnEvent.fail: Phase.error,
        TurnEvent.cancel: Phase.cancelled,
    },
    Phase.interrupted: {
        TurnEvent.decide: Phase.running,
        TurnEvent.expire: Phase.running,
        TurnEvent.move: Phase.interrupted,
        TurnEvent.cancel: Phase.cancelled,
    },
    Phase.paused: {
        TurnEvent.decide: Phase.running,
        TurnEvent.resume: Phase.running,
        TurnEvent.expire: Phase.running,
        TurnEvent.move: Phase.paused,
        TurnEvent.cancel: Phase.cancelled,
    },
    Phase.done: {},
    Phase.error: {TurnEvent.retry: Phase.running},
    Phase.cancelled: {TurnEvent.retry: Phase.running},
}

OPEN: Final = frozenset(phase for phase, row in TURNS.items() if TurnEvent.outcome in row)
"""The phases in which a turn is open."""
ENDED: Final = frozenset(phase for phase, row in TURNS.items() if row.keys() <= {TurnEvent.retry})
"""The phases in which an execution never goes on by itself."""
HELD_BACK: Final = frozenset({Phase.pausing, Phase.paused})
"""The phases in which nothing new is begun."""
STATUS: Final[Mapping[Phase, RunStatus]] = {
    **{phase: RunStatus(phase) for phase in Phase if phase not in HELD_BACK},
    Phase.pausing: RunStatus.running,
    Phase.paused: RunStatus.interrupted,
}


def advance(run: RunState, event: TurnEvent) -> None:
    """Take one row of the table."""
    run.phase = move(TURNS, run.phase, event)


def end_of_turn(run: RunState) -> int:
    """When a turn that begins now passes the bound of its duration, in epoch milliseconds."""
    return run.at + int(run.limits.max_run_seconds * 1000)


def show_parked(run: RunState) -> None:
    """Show the end of an open turn that another one will take over."""
    if run.sink is None:
        run.seq += 1
        return
    waiting = [interrupt_to_wire(interrupt) for interrupt in run.root.interrupts.values()]
    emit(run, run.root, EventKind.done, {"status": "interrupted", "output": None, "interrupts": waiting})


def end(run: RunState, event: TurnEvent, kind: EventKind, data: Mapping[str, JSON]) -> None:
    """End the execution for good. A turn that has ended already shows nothing more."""
    was_open = run.phase in OPEN
    advance(run, event)
    if was_open:
        emit(run, run.root, kind, data)
    give_up(run, run.root)


def fail_run(run: RunState, error: dict[str, JSON]) -> None:
    """End the execution with this error."""
    run.error = error
    end(run, TurnEvent.fail, EventKind.error, {"error": error})


def break_bound(run: RunState, message: str, bound: str) -> None:
    """End the execution because it has passed one of its bounds."""
    fail_run(run, error_of(run, message, {"reason": "bounds", "bound": bound}))


def give_up(run: RunState, frame: Frame) -> None:
    """Drop whatever goes on in the frame and in those inside it, and take it out of the frame around it.

    The frame keeps what its visits leave behind, for a retry.
    """
    for index in under_way(frame):
        frame.left[index] = remains(frame, index)
    for child in list(frame.children.values()):
        give_up_child(run, child)
    for index, loop in frame.loops.items():
        give_up_loop(run, frame, index, loop)
    for effect in frame.held.values():
        move(ATTEMPTS, effect.state, AttemptEvent.drop)
    frame.batches, frame.loops, frame.waits, frame.held = {}, {}, {}, {}
    frame.flow.ready.clear()
    for address in list(frame.pending):
        discard(frame, address)
    for address in list(frame.timers):
        unset_timer(frame, address)
    for name in list(frame.interrupts):
        close_interrupt(run, frame, name, InterruptEvent.withdraw)
    if frame.outer is not None and frame.opener is not None:
        unset_timer(frame.outer, frame.opener.address)
        del frame.outer.children[frame.opener.address]


def give_up_child(run: RunState, child: Frame) -> None:
    """Give up a child whose end does not matter any more."""
    give_up(run, child)
    assert child.opener is not None  # noqa: S101  (a child has one)
    move(ATTEMPTS, child.opener.state, AttemptEvent.drop)
