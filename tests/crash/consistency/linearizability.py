"""Whether a history of concurrent operations is linearizable: as if each took effect at one moment between its call and
its return (Herlihy and Wing, 1990). The search is that of Wing and Gong (1993), with the visited states remembered.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import attrs


@attrs.frozen
class Operation:
    """A call and its result. `key` names the object. Times are of one monotonic clock.

    Without an `end` the result is not known: the operation can have taken effect at any later time, or never.
    """

    key: str
    name: str
    argument: Any
    begin: float
    end: float | None = None
    result: Any = None


Step = Callable[[Any, Operation], Iterable[Hashable]]
"""The states that an operation with this result leads to; none when it cannot have this result in this state."""

Onward = Callable[[Any], Iterable[Hashable]]
"""The states that an object reaches from this one by itself."""


def fault_of(operations: Sequence[Operation], initial: Hashable, step: Step, onward: Onward) -> list[Operation]:
    """The operations of one object that have no valid order: empty when there is one.

    For a fault these are the operations that cannot follow the longest valid order.
    """
    pending = sorted(operations, key=lambda one: one.begin)
    longest, seen = -1, set[tuple[frozenset[int], Hashable]]()
    stuck: list[Operation] = []
    stack: list[tuple[frozenset[int], Hashable]] = [(frozenset(), initial)]
    while stack:
        done, state = stack.pop()
        if (done, state) in seen:
            continue
        seen.add((done, state))
        stack += [(done, later) for later in onward(state)]
        left = [number for number in range(len(pending)) if number not in done]
        if all(pending[number].end is None for number in left):
            return []
        horizon = min(end for number in left if (end := pending[number].end) is not None)
        enabled = [number for number in left if pending[number].begin <= horizon]
        if len(done) > longest:
            longest, stuck = len(done), [pending[number] for number in enabled]
        for number in enabled:
            after = step(state, pending[number])
            if pending[number].end is None:  # without an effect here, it is not needed for the others
                after = [new for new in after if new != state]
            stack += [(done | {number}, new) for new in after]
    return stuck


# Runs


@attrs.frozen
class RunState:
    """A run that waits for one approval. `answer`: the idempotency key of the decision that resumed it.

    `status` is that of its first turn: `absent`, `running`, `interrupted`, `cancelling` or `cancelled`.
    """

    status: str = "absent"
    answer: str | None = None


def run_onward(state: RunState) -> list[RunState]:
    if state.status == "running":
        return [RunState("interrupted")]
    return [RunState("cancelled")] if state.status == "cancelling" else []


def run_step(state: RunState, operation: Operation) -> list[RunState]:
    """`start`, `resume` with its key, `cancel`, and `read` with the status and whether the run is resumed."""
    if operation.end is None:
        return [state, *_effects(state, operation)]
    outcome, value = operation.result
    if outcome == "missing":
        return [state] if state.status == "absent" else []
    if operation.name == "read":
        shown = "running" if state.status == "cancelling" else state.status
        seen = [(shown, state.answer is not None)]
        if state.status == "running":  # it is queued first
            seen.append(("queued", False))
        return [state] if tuple(value) in seen else []
    effects = _effects(state, operation)
    if outcome == "ok":
        return effects
    return [] if effects else [state]


def _effects(state: RunState, operation: Operation) -> list[RunState]:
    """The states after the operation succeeds; none where it must be refused."""
    match operation.name, state.status:
        case "start", "absent":
            return [RunState("running")]
        case "start", _:
            return [state]
        case "resume", "interrupted" if state.answer in (None, operation.argument):
            return [RunState("interrupted", operation.argument)]
        case "cancel", "running":
            return [RunState("cancelling")]
        case "cancel", "interrupted" if state.answer is None:
            return [RunState("cancelled")]
    return []


# Workflows


@attrs.frozen
class FlowState:
    """A workflow whose graph is one number: that of the draft and that of the deployed variation, and its ETag.

    `etag` is None after a change whose response was not received.
    """

    draft: int | None = None
    active: int | None = None
    etag: str | None = None


def flow_onward(state: FlowState) -> list[FlowState]:
    return []


def flow_step(state: FlowState, operation: Operation) -> list[FlowState]:
    """`edit` with a number and an ETag or None, `deploy`, `start` with the output of the run, and `read`."""
    if operation.end is None:
        return [state, *([] if (new := _changed(state, operation)) is None else [new])]
    outcome, value = operation.result
    if operation.name == "start":
        return [state] if value == state.active else []
    if operation.name == "read":
        draft, active, etag = value
        same = (draft, active) == (state.draft, state.active) and state.etag in (None, etag)
        return [attrs.evolve(state, etag=etag)] if same else []
    expected = operation.argument[1] if operation.name == "edit" else None
    if outcome == "stale":
        return [state] if expected is not None and expected != state.etag else []
    if outcome != "ok" or (expected is not None and state.etag not in (None, expected)):
        return []
    new = _changed(state, operation)
    return [] if new is None else [attrs.evolve(new, etag=value)]


def _changed(state: FlowState, operation: Operation) -> FlowState | None:
    match operation.name:
        case "edit":
            return FlowState(operation.argument[0], state.active)
        case "deploy":
            return FlowState(state.draft, state.draft)
    return None
