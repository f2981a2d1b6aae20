"""Requesting effects within the bound of the run, and what follows a failed attempt: another one, or a failed node."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wfcore.domain.agents.narrowing import connections_of
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import INCOMPLETE, MODEL_FAILED, Address, CallModel, CallTool, Effect, OpenChild, tries
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.nodes import fail
from wfcore.domain.run.machine.states.attempts import ATTEMPTS, AttemptEvent, drop, expect, moved
from wfcore.domain.run.machine.states.output import emit, node_error
from wfcore.domain.run.machine.states.state import Frame, RunState
from wfcore.domain.run.machine.states.turns import break_bound
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import move

BROKEN_OFF: Final = "broken_off"
"""Reason of a failure: a model had begun to answer when its worker ended. It is called again, as no failed attempt."""

CHANGED: Final = "definition_changed"
"""Reason of a failure: a call was approved and not made, because its tool has another definition now, or its workflow
or skill another deployed variation."""


def address_of(frame: Frame, index: int, step: int) -> Address:
    """The address of a step of the current visit."""
    return (*frame.place.within, index, frame.visits[index], step)


def chosen_connections(run: RunState, own: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
    """The selections of connections that hold for a call: the agent's `own`, then that of the run."""
    return tuple(one for one in (tuple(own), connections_of(as_object(run.info.get("config") or {}))) if one)


def request(run: RunState, frame: Frame, effect: Effect) -> None:
    """Request an effect; one more than there can be at once ends the run."""
    bound = run.limits.max_concurrent_effects
    if run.requested_at is not None:
        run.requested_at[effect.address] = run.at
    if len(run.root.pending) >= bound:
        break_bound(run, f"the run passed its bound of {bound} effects at once", "concurrent_effects")
    elif frame.outer is None:
        frame.pending[effect.address] = effect
    else:
        expect(frame, effect)


def fail_attempt(run: RunState, frame: Frame, effect: Effect, message: str, reason: str, retryable: bool) -> None:
    """An attempt failed that its node made: try again, or fail the node."""
    node = frame.plan.nodes[effect.address[-3]]
    if retryable and tries(effect) < most_attempts(node, effect, reason):
        retry(run, frame, effect, node.retry.delay_ms(tries(effect)), message, reason)
    else:
        drop(frame, effect.address)
        move(ATTEMPTS, effect.state, AttemptEvent.fail)
        fail(run, frame, node, message, MODEL_FAILED if reason == INCOMPLETE else reason, effect=effect)


def retry(run: RunState, frame: Frame, effect: Effect, delay: int, message: str, reason: str, **fields: Any) -> None:
    """Request the next attempt for `delay` milliseconds from now, with other values in `fields`."""
    node, due = frame.plan.nodes[effect.address[-3]], run.at + delay
    again: Effect = moved(effect, AttemptEvent.retry, attempt=effect.attempt + 1, not_before=due, **fields)
    expect(frame, again)
    if run.requested_at is not None:
        run.requested_at[effect.address] = due
    error = node_error(run, node, message, reason, effect)
    retrying: dict[str, JSON] = {"nodeId": node.id, "attempt": again.attempt, "error": error, "retryAt": iso_ms(due)}
    emit(run, frame, EventKind.node_retrying, retrying)


def most_attempts(node: NodePlan, effect: Effect, reason: str) -> int:
    """How many attempts there can be when one has failed for this reason."""
    incomplete = reason == INCOMPLETE and isinstance(effect, CallModel)
    return node.incomplete_attempts if incomplete else node.retry.max_attempts


def is_final(node: NodePlan, effect: Effect, retryable: bool, reason: str = "failed") -> bool:
    """Whether a failure of this attempt for this reason would end the frame of its node."""
    return not node.catches and not (retryable and tries(effect) < most_attempts(node, effect, reason))


def needs_person(effect: Effect, reason: str, info: Mapping[str, JSON] | None) -> bool:
    """Whether a failure only means that a call was not made: a connection is missing, what was approved has changed, or
    a budget is spent. A person decides whether it is made.
    """
    if isinstance(effect, CallModel):
        return reason == "budget" and info is not None and {"budget", "times"} <= info.keys()
    if not info or not isinstance(effect, CallTool | OpenChild):
        return False
    needs_connection = reason == "connection_required" and isinstance(effect, CallTool)
    return needs_connection or (reason == CHANGED and "definition" in info)


def is_broken_off(effect: Effect, reason: str) -> bool:
    """Whether a failure only means that the worker ended which had called the model."""
    return reason == BROKEN_OFF and isinstance(effect, CallModel) and effect.said
