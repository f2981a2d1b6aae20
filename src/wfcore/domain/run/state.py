"""The tables of legal moves of a run and of its nodes, and the small values that their states hold.

Not in the tables, on purpose: *when* a node becomes ready (that is the join rule of the machine), how many
attempts an effect has (a counter beside the node's state), and the turns of an execution (a turn is open or
it is not). A run's end states have an empty row: whatever arrives after the end is illegal, and the journal
refuses it.
"""

from collections.abc import Mapping
from enum import StrEnum

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Actor


class IllegalEntry(Exception):
    """This entry cannot happen in this state. Nothing has moved. `reason` is a word a client can act on."""

    def __init__(self, message: str, reason: str = "illegal", **info: JSON) -> None:
        super().__init__(message)
        self.reason = reason
        self.info: dict[str, JSON] = {"reason": reason, **info}


class RunStatus(StrEnum):
    """The status of a turn (interface, Run states)."""

    queued = "queued"
    running = "running"
    interrupted = "interrupted"
    done = "done"
    error = "error"
    cancelled = "cancelled"

    @property
    def ended(self) -> bool:
        """The execution will never go on; an interrupted one can."""
        return not RUN_MOVES[self]

    @property
    def under_way(self) -> bool:
        return self in (RunStatus.queued, RunStatus.running)


RUN_MOVES: dict[RunStatus, dict[str, RunStatus]] = {
    RunStatus.queued: {"start": RunStatus.running},
    RunStatus.running: {
        "turn": RunStatus.running,
        "park": RunStatus.interrupted,
        "finish": RunStatus.done,
        "fail": RunStatus.error,
        "cancel": RunStatus.cancelled,
    },
    RunStatus.interrupted: {"turn": RunStatus.running, "cancel": RunStatus.cancelled},
    RunStatus.done: {},
    RunStatus.error: {},
    RunStatus.cancelled: {},
}


class NodeStatus(StrEnum):
    """Where a node stands in its current visit."""

    idle = "idle"
    running = "running"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    skipped = "skipped"


NODE_MOVES: dict[NodeStatus, dict[str, NodeStatus]] = {
    NodeStatus.idle: {"start": NodeStatus.running, "skip": NodeStatus.skipped, "rearm": NodeStatus.idle},
    NodeStatus.running: {
        "finish": NodeStatus.done,
        "fail": NodeStatus.failed,
        "ask": NodeStatus.waiting,
        "rearm": NodeStatus.idle,
    },
    NodeStatus.waiting: {
        "answer": NodeStatus.running,
        "finish": NodeStatus.done,
        "fail": NodeStatus.failed,
        "rearm": NodeStatus.idle,
    },
    NodeStatus.done: {"rearm": NodeStatus.idle},
    NodeStatus.failed: {"rearm": NodeStatus.idle},
    NodeStatus.skipped: {"rearm": NodeStatus.idle},
}


@attrs.frozen
class Vote:
    """One person's decision on an interrupt."""

    decision: str
    by: Actor
    at: int
    data: JSON = None


@attrs.frozen
class Interrupt:
    """A wait for a person. `expires_at` is in epoch milliseconds; `call` is the stored call an approval binds, or
    what a connect or a budget is about.

    `step` tells which step of the visit waits, `tool_call_id` which call of a model. `within` names the frame of the
    node, `path` the nodes from the root to it, `items` which item of each of them if it has a `forEach`.
    """

    id: str
    node: int
    node_id: str
    visit: int
    message: str
    opened_at: int
    expires_at: int | None = None
    emails: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    required: int = 1
    allow_self: bool = True
    form_schema: JSON = None
    call: Mapping[str, JSON] | None = None
    answers: tuple[Vote, ...] = ()
    type: str = "approval"
    step: int = -1
    tool_call_id: str = ""
    within: tuple[int, ...] = ()
    path: tuple[str, ...] = ()
    items: tuple[int | None, ...] = ()

    @property
    def named(self) -> bool:
        """Whether approvers are named; if not, everybody who can use the workflow is one."""
        return bool(self.emails or self.groups)
