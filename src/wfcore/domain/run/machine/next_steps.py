"""What has to be done next, read off the state."""

from collections.abc import Mapping

from msgspec import Struct

from wfcore.domain.run.effects import Address, Effect
from wfcore.domain.run.machine.entries.turn_entries import deadlines
from wfcore.domain.run.machine.states.state import RunState
from wfcore.domain.run.machine.states.turns import ENDED, HELD_BACK, OPEN


class NextSteps(Struct, frozen=True):
    """A snapshot for the driver of an execution. Moments are in epoch milliseconds.

    `effects` are pending; `due` is when time alone changes something (None: never); `only_effect` can begin now, and
    the execution waits for nothing else.
    """

    ended: bool
    turn_open: bool
    effects: Mapping[Address, Effect]
    due: int | None
    only_effect: Effect | None

    def is_due(self, now: int) -> bool:
        """Whether time alone changes something by now."""
        return self.due is not None and self.due <= now

    def next_moment(self, now: int) -> int | None:
        """When the next effect can begin, or time alone changes something."""
        moments = [effect.not_before for effect in self.effects.values() if effect.not_before > now]
        return min([*moments, *([] if self.due is None else [self.due])], default=None)


def next_steps(run: RunState, now: int) -> NextSteps:
    """The snapshot of this state at this moment."""
    phase = run.phase
    return NextSteps(phase in ENDED, phase in OPEN, run.root.pending, next_due(run), only_effect(run, now))


def only_effect(run: RunState, now: int) -> Effect | None:
    """The effect that can begin now in the open turn, if the execution waits for nothing else."""
    root = run.root
    if len(root.pending) != 1 or root.timers or root.interrupts or run.phase not in OPEN:
        return None
    (effect,) = root.pending.values()
    return effect if effect.not_before <= now else None


def next_due(run: RunState) -> int | None:
    """Epoch milliseconds of the next moment at which time alone changes something; None: never."""
    bound = run.turn_ends if run.phase in OPEN else None
    if run.phase in HELD_BACK or not (run.root.timers or run.root.interrupts):
        return bound
    return min([*deadlines(run), *([] if bound is None else [bound])], default=None)
