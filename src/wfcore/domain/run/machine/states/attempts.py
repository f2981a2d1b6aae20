"""Attempts of effects: where each of them stands, and what the frames wait for.

A failed attempt with another one after it is a `retry`: the effect is `requested` again, with the next number. A second
table, `OUTCOMES`, has the entries that each effect can have: only a model says something, only a tool has progress.
What is requested, sent or streaming is in `pending`, what is held is beside its interrupt, what is opened is a child
frame; an attempt that has ended is nowhere.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, AttemptState, CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.machine.states.state import Frame, outward
from wfcore.domain.run.state import Table, move


class AttemptEvent(StrEnum):
    """What can happen to an attempt. The first six are entries, the others follow from entries."""

    send = "send"
    say = "say"
    progress = "progress"
    open = "open"
    succeed = "succeed"
    fail = "fail"
    retry = "retry"
    hold = "hold"
    request = "request"
    drop = "drop"


ATTEMPTS: Final[Table[AttemptState, AttemptEvent]] = {
    AttemptState.requested: {
        AttemptEvent.send: AttemptState.sent,
        AttemptEvent.say: AttemptState.streaming,
        AttemptEvent.progress: AttemptState.requested,
        AttemptEvent.open: AttemptState.opened,
        AttemptEvent.succeed: AttemptState.succeeded,
        AttemptEvent.fail: AttemptState.failed,
        AttemptEvent.retry: AttemptState.requested,
        AttemptEvent.hold: AttemptState.held,
        AttemptEvent.drop: AttemptState.dropped,
    },
    AttemptState.sent: {
        AttemptEvent.progress: AttemptState.sent,
        AttemptEvent.succeed: AttemptState.succeeded,
        AttemptEvent.fail: AttemptState.failed,
        AttemptEvent.retry: AttemptState.requested,
        AttemptEvent.hold: AttemptState.held,
        AttemptEvent.drop: AttemptState.dropped,
    },
    AttemptState.streaming: {
        AttemptEvent.say: AttemptState.streaming,
        AttemptEvent.succeed: AttemptState.succeeded,
        AttemptEvent.fail: AttemptState.failed,
        AttemptEvent.retry: AttemptState.requested,
        AttemptEvent.hold: AttemptState.held,
        AttemptEvent.drop: AttemptState.dropped,
    },
    AttemptState.opened: {
        AttemptEvent.succeed: AttemptState.succeeded,
        AttemptEvent.fail: AttemptState.failed,
        AttemptEvent.retry: AttemptState.requested,
        AttemptEvent.drop: AttemptState.dropped,
    },
    AttemptState.held: {
        AttemptEvent.request: AttemptState.requested,
        AttemptEvent.drop: AttemptState.dropped,
    },
    AttemptState.succeeded: {},
    AttemptState.failed: {},
    AttemptState.dropped: {},
}

OUTCOMES: Final[Mapping[type, Mapping[type, AttemptEvent]]] = {
    CallTool: {
        e.Sent: AttemptEvent.send,
        e.Progressed: AttemptEvent.progress,
        e.Succeeded: AttemptEvent.succeed,
        e.Failed: AttemptEvent.fail,
    },
    CallModel: {e.Said: AttemptEvent.say, e.Succeeded: AttemptEvent.succeed, e.Failed: AttemptEvent.fail},
    OpenChild: {e.Opened: AttemptEvent.open, e.Failed: AttemptEvent.fail},
    ComposeContext: {e.Succeeded: AttemptEvent.succeed, e.Failed: AttemptEvent.fail},
}
"""Effect -> entry -> event."""

POSSIBLE: Final[Mapping[type, Mapping[AttemptState, frozenset[type]]]] = {
    effect: {
        state: frozenset(entry for entry, event in events.items() if event in row) for state, row in ATTEMPTS.items()
    }
    for effect, events in OUTCOMES.items()
}
"""Effect -> state -> entries that are possible then: both tables in one, for the check of every outcome."""

AnEffect = TypeVar("AnEffect", bound=Effect)


def moved(effect: AnEffect, event: AttemptEvent, **fields: Any) -> AnEffect:
    """The effect after this event, with other values in these fields."""
    return replace(effect, state=move(ATTEMPTS, effect.state, event), **fields)


def expect(frame: Frame, effect: Effect) -> None:
    """Wait for the outcome of an effect, in the frame and in those around it."""
    for around in outward(frame):
        around.pending[effect.address] = effect


def drop(frame: Frame, address: Address) -> Effect | None:
    """Wait no longer for this effect, which is returned if it was pending."""
    effect = frame.pending.pop(address, None)
    if frame.outer is not None and effect is not None:
        drop(frame.outer, address)
    return effect


def complete(frame: Frame, effect: Effect) -> None:
    """The attempt has succeeded."""
    drop(frame, effect.address)
    move(ATTEMPTS, effect.state, AttemptEvent.succeed)


def discard(frame: Frame, address: Address) -> None:
    """Drop this effect, if it is pending, because its outcome does not matter any more."""
    effect = drop(frame, address)
    if effect is not None:
        move(ATTEMPTS, effect.state, AttemptEvent.drop)


def set_timer(frame: Frame, address: Address, due: int) -> None:
    """Wait until `due`, in epoch milliseconds."""
    for around in outward(frame):
        around.timers[address] = due


def unset_timer(frame: Frame, address: Address) -> None:
    """Wait no longer for this timer, if it is set."""
    for around in outward(frame):
        around.timers.pop(address, None)
