"""Debug events of a turn that was requested with `debug` (interface, Resume a run): contexts and times of effects.

They hold digests, names and sizes, never texts. `RunState.requested_at` is None in every other turn.
"""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.kernel.json_readers import as_objects
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import Frame, RunState
from wfcore.domain.run.plan import NodePlan

NAMES: Final[Mapping[type, str]] = {
    CallTool: "tool", CallModel: "model", ComposeContext: "context", OpenChild: "child",
}  # fmt: skip
"""The name of each effect in a debug event."""

SIZES: Final = ("source", "ref", "tokens")
"""The fields of a segment that hold no text."""


def begin_debug(run: RunState) -> None:
    """A turn begins: whether it has debug events."""
    run.requested_at = {} if run.info.get("debug") is True else None


def show_timing(run: RunState, frame: Frame, effect: Effect) -> None:
    """An attempt has an outcome: show the milliseconds since it was requested in this turn, or could be repeated."""
    since = (run.requested_at or {}).pop(effect.address, None)
    if since is not None:
        node = frame.plan.nodes[effect.address[-3]]
        data: dict[str, JSON] = {"about": "timing", "nodeId": node.id, "effect": NAMES[type(effect)]}
        if isinstance(effect, CallTool):
            data["toolId"] = effect.tool
        emit(run, frame, EventKind.debug, {**data, "attempt": effect.attempt, "ms": run.at - since})


def show_context(run: RunState, frame: Frame, node: NodePlan, context: Mapping[str, JSON]) -> None:
    """Show the digest of a composed context, and where its parts come from."""
    if run.requested_at is not None:
        segments: list[JSON] = [
            {name: one.get(name) for name in SIZES} for one in as_objects(context.get("segments") or ())
        ]
        about = {"about": "context", "nodeId": node.id, "digest": context.get("digest"), "segments": segments}
        emit(run, frame, EventKind.debug, about)
