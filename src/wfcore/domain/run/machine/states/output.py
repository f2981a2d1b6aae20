"""What a run leaves outside its state: events for its streams, errors in their envelope, messages of conversations."""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import FAIL, CallTool, Effect
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.machine.states.state import Frame, RunState
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.records import MessageRecord

SERVER_FAULT: Final = "defect"
"""The reason of a failure that is the fault of the server."""

REASONS: Final[Mapping[str, str]] = {
    **{reason: reason for reason in ("failed", "expression", "tool", "timeout", "bounds", "access", "model")},
    **{reason: reason for reason in ("unknown_outcome", SERVER_FAULT)},
    **dict.fromkeys(("bound", "agent_rounds", "budget", "depth"), "bounds"),
    **dict.fromkeys(("connection_required", "connection_cancelled", "input"), "tool"),
    "expired": "timeout",
    **dict.fromkeys(("refused", "not_found", "not_deployed"), "access"),
    "denied": "failed",
}
"""The `info.reason` of each cause of a failure (interface, Records and lists); any other cause is of a model."""


def reason_of(cause: str) -> dict[str, JSON]:
    """The `reason` of a failure, and its `cause` where that says more."""
    reason = REASONS.get(cause, "model")
    return {"reason": reason} if cause in (reason, "model_failed") else {"reason": reason, "cause": cause}


def emit(run: RunState, frame: Frame, kind: EventKind, data: Mapping[str, JSON]) -> None:
    """Count one event of a frame, and collect it if somebody watches."""
    run.seq += 1
    if run.sink is not None:
        wire = frame.place.wire
        run.sink.append(Event(kind, run.run_id, run.seq, run.at, {**data, **wire} if wire else data))


def error_of(run: RunState, message: str, info: Mapping[str, JSON]) -> dict[str, JSON]:
    """The content of the error envelope (interface, Errors); the request id of a run's errors is the run id.

    Only a fault of the server, whose `info.reason` is `defect`, is an internal error.
    """
    internal = info.get("reason") == SERVER_FAULT
    return {
        "code": "INTERNAL_ERROR" if internal else "BAD_REQUEST",
        "status": "INTERNAL" if internal else "INVALID_ARGUMENT",
        "message": message,
        "requestId": run.run_id,
        "info": dict(info),
    }


def node_error(
    run: RunState, node: NodePlan, message: str, cause: str, effect: Effect | None = None
) -> dict[str, JSON]:
    """The error of a node, which may be that of an effect."""
    if cause == "failed" and isinstance(effect, CallTool) and effect.tool != FAIL:
        cause = "tool"
    return error_of(run, message, {"nodeId": node.id, **reason_of(cause)})


def key_of(frame: Frame, node: NodePlan, step: int, many: bool = True) -> str:
    """The key of an effect of the current visit: `{prefix}{node}:{visit}`, and `.{step}` where it has several."""
    key = f"{frame.place.prefix}{node.key}:{frame.visits[node.index]}"
    return f"{key}.{step}" if many else key


def label_of(frame: Frame, key: str) -> str:
    """The id of a message that belongs to the step with this key."""
    return frame.place.label + key[len(frame.place.prefix) :]


def record(
    run: RunState,
    frame: Frame,
    node: NodePlan,
    kind: str,
    name: str,
    text: str,
    calls: tuple[JSON, ...] = (),
    call_id: str | None = None,
    attachments: Mapping[str, JSON] | None = None,
) -> None:
    """Record one message of an agent's conversation; `kind` and `name` are its type and id."""
    message = MessageRecord(kind, name, text, calls, call_id, node.skill_id, frame.place.path, run.at, attachments)
    run.records.append(message)
