"""What has to be done next, read off the state."""

from collections.abc import Mapping

from msgspec import Struct

from wfcore.domain.run.effects import Address, Effect
from wfcore.domain.run.machine.state import RunState
from wfcore.domain.run.machine.turn_entries import deadlines, out_of_time
from wfcore.domain.run.machine.turns import ENDED, HELD_BACK, OPEN


class NextSteps(Struct, frozen=True):
    """A snapshot for the driver of an execution. Moments are in epoch milliseconds.

    `effects` are pending; `due` is when time alone changes something (None: never); `others`: the execution waits for
    timers or people too.
    """

    ended: bool
    turn_open: bool
    effects: Mapping[Address, Effect]
    due: int | None
    others: bool

    def is_due(self, now: int) -> bool:
        """Whether time alone changes something by now."""
        return self.due is not None and self.due <= now

    def only_effect(self, now: int) -> Effect | None:
        """The effect that can begin now, if the execution waits for nothing else."""
        if len(self.effects) != 1 or self.others:
            return None
        (effect,) = self.effects.values()
        return effect if effect.not_before <= now else None

    def next_moment(self, now: int) -> int | None:
        """When the next effect can begin, or time alone changes something."""
        moments = [effect.not_before for effect in self.effects.values() if effect.not_before > now]
        return min([*moments, *([] if self.due is None else [self.due])], default=None)


def next_steps(run: RunState) -> NextSteps:
    """The snapshot of this state."""
    root, phase = run.root, run.phase
    return NextSteps(phase in ENDED, phase in OPEN, root.pending, next_due(run), bool(root.interrupts or root.timers))


def next_due(run: RunState) -> int | None:
    """Epoch milliseconds of the next moment at which time alone changes something; None: never."""
    bound = out_of_time(run) if run.phase in OPEN else None
    if run.phase in HELD_BACK or not (run.root.timers or run.root.interrupts):
        return bound
    return min([*deadlines(run), *([] if bound is None else [bound])], default=None)
