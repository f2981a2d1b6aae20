"""What a client sees of a run: a frame per event, in `seq` order from 1 without gaps (interface, Events)."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NotRequired, Required, TypedDict

from msgspec import Meta, Struct

from wfcore.domain.json.codec import JsonObject, Time, iso_ms
from wfcore.domain.kernel.json_readers import optional_text
from wfcore.domain.kernel.json_type import JSON


class EventKind(StrEnum):
    run_started = "run_started"
    node_started = "node_started"
    node_finished = "node_finished"
    node_failed = "node_failed"
    node_retrying = "node_retrying"
    node_skipped = "node_skipped"
    message_delta = "message_delta"
    message = "message"
    message_replaced = "message_replaced"
    tool_call = "tool_call"
    tool_progress = "tool_progress"
    tool_result = "tool_result"
    interrupt = "interrupt"
    interrupt_reminded = "interrupt.reminded"
    usage = "usage"
    debug = "debug"
    done = "done"
    error = "error"
    cancelled = "cancelled"


# The shapes of events, one for each kind: the only declaration of their fields.


class EventError(TypedDict):
    """The content of the error envelope (interface, Errors)."""

    code: str
    status: str
    message: str
    requestId: str
    info: JsonObject


class EventFields(TypedDict):
    """The fields of every event. `seq` counts from 1 without gaps."""

    runId: str
    seq: int
    at: Time


class PlacedEvent(EventFields, total=False):
    """An event that can come from a sub-workflow or subordinate.

    `path` has the ids of the nodes that lead there, `items` the index in the `forEach` of each, or null.
    """

    path: list[str]
    items: list[int | None]


class PlacedNodeEvent(PlacedEvent):
    """An event of a node."""

    nodeId: str


TargetKind = Literal["workflow", "skill", "assistant", "action"]


class RunTarget(TypedDict):
    """What a run runs. `id` is that of the workflow or skill, else null."""

    type: TargetKind
    id: int | None


class RunStartedEvent(EventFields):
    """The turn has begun. A resumed or retried one has the run that it continues."""

    kind: Literal["run_started"]
    target: RunTarget
    parentRunId: NotRequired[str]


class NodeStartedEvent(PlacedNodeEvent):
    """A visit of the node has begun."""

    kind: Literal["node_started"]
    visit: int


class NodeFinishedEvent(PlacedNodeEvent):
    kind: Literal["node_finished"]
    output: Any


class NodeFailedEvent(PlacedNodeEvent):
    """The node has failed for good."""

    kind: Literal["node_failed"]
    error: EventError


class NodeRetryingEvent(PlacedNodeEvent):
    """An attempt has failed; the next one begins at `retryAt`."""

    kind: Literal["node_retrying"]
    attempt: int
    error: EventError
    retryAt: Time


class NodeSkippedEvent(PlacedNodeEvent):
    """The node is not run, or what it was doing is given up (`reason` is then `superseded`)."""

    kind: Literal["node_skipped"]
    reason: NotRequired[str]


class MessageDeltaEvent(PlacedNodeEvent):
    """The next part of a message."""

    kind: Literal["message_delta"]
    messageId: str
    delta: str


class MessageEvent(PlacedNodeEvent):
    """A whole message."""

    kind: Literal["message"]
    messageId: str
    content: str


class MessageReplacedEvent(PlacedNodeEvent):
    """A guardrail has replaced the message: what was shown of it is void."""

    kind: Literal["message_replaced"]
    messageId: str
    content: str


class ToolCallEvent(PlacedNodeEvent):
    """A model has requested a call. `toolId` is null for a tool that was not offered."""

    kind: Literal["tool_call"]
    toolCallId: str
    toolId: str | None
    name: str
    arguments: Any


class ToolProgressEvent(PlacedNodeEvent):
    """A tool reports how far its call is: `progress` of `total`, in units of its own, with a `message` for people.

    A call of a model has its `toolCallId`, one of several items of the node the `index` of its item.
    """

    kind: Literal["tool_progress"]
    toolId: str
    progress: float | None
    total: NotRequired[float]
    message: NotRequired[str]
    toolCallId: NotRequired[str]
    index: NotRequired[int]


class ToolResultEvent(PlacedNodeEvent):
    """The `output` of a requested call, or its `error`."""

    kind: Literal["tool_result"]
    toolCallId: str
    output: NotRequired[Any]
    error: NotRequired[EventError]


class ModelUsage(TypedDict, total=False):
    """What calls of models have consumed; a sum of several models has no `model`. Without a call it is empty."""

    model: str
    calls: int
    inputTokens: int
    outputTokens: int
    durationMs: int
    cost: Annotated[float, Meta(description="In the operator's unit of money, if a call has a price")]


class UsageEvent(PlacedNodeEvent):
    """What one call of a model has consumed."""

    kind: Literal["usage"]
    usage: ModelUsage
    contextDigest: NotRequired[str]


class DebugSegment(TypedDict):
    """One part of a context: where it comes from, the id of its origin, and about how many tokens it has."""

    source: str
    ref: str | None
    tokens: int


class DebugEvent(PlacedNodeEvent):
    """Of a turn with `debug`. It holds digests, names and sizes, never texts.

    `context`: the `digest` of what an agent sends to its model, and its `segments`. `timing`: the milliseconds from the
    request of an attempt of an effect to its outcome.
    """

    kind: Literal["debug"]
    about: Literal["context", "timing"]
    digest: NotRequired[str]
    segments: NotRequired[list[DebugSegment]]
    effect: NotRequired[Literal["tool", "model", "context", "child"]]
    toolId: NotRequired[str]
    attempt: NotRequired[int]
    ms: NotRequired[int]


class WaitFields(TypedDict, total=False):
    """A wait for a person."""

    interruptId: Required[str]
    type: Required[Literal["approval", "connect"]]
    nodeId: str
    path: list[str]
    items: list[int | None]
    message: str | None
    expiresAt: Time | None
    requiredApprovals: int
    approvals: int
    formSchema: JsonObject


class InterruptFields(WaitFields, total=False):
    """A wait for a person or a connection.

    An approval of a tool call has the tool, the exact arguments and, for a workflow or a skill that an agent calls, the
    variation, with the digest of them; a call by a model also has its `toolCallId`. A connect has the tool and the
    provider of the missing connection.
    """

    toolId: str
    toolName: Annotated[str, Meta(description="The readable name of the tool, if it is not its id")]
    aiDescription: Annotated[str, Meta(description="What the call is for, as its action says")]
    arguments: Any
    digest: str
    variationId: Annotated[str, Meta(description="The variation of the workflow or skill that the call runs")]
    toolCallId: str
    provider: str
    connectionId: str
    budget: JsonObject


class ReminderFields(TypedDict, total=False):
    """What the system has done about an approval that waits."""

    remindedAt: Annotated[Time, Meta(description="When its approvers were reminded")]
    escalatedAt: Annotated[Time, Meta(description="Since when those of `escalateTo` can decide too")]


class OpenInterruptFields(InterruptFields, ReminderFields, total=False):
    """A wait that is still open."""


class InterruptOpenedEvent(EventFields, InterruptFields):
    """The run waits."""

    kind: Literal["interrupt"]


class InterruptRemindedEvent(EventFields, WaitFields, ReminderFields):
    """The run still waits: its approvers are reminded (`remindedAt`), or others can decide too (`escalatedAt`)."""

    kind: Literal["interrupt.reminded"]


class DoneEvent(EventFields):
    """The turn has ended: with the output, or parked with open `interrupts`."""

    kind: Literal["done"]
    status: Literal["done", "interrupted"]
    output: Any
    interrupts: NotRequired[list[OpenInterruptFields]]


class ErrorEvent(EventFields):
    """The turn has ended in error."""

    kind: Literal["error"]
    error: EventError


class CancelledEvent(EventFields):
    kind: Literal["cancelled"]


EVENTS: Final[Mapping[EventKind, type]] = {
    EventKind.run_started: RunStartedEvent,
    EventKind.node_started: NodeStartedEvent,
    EventKind.node_finished: NodeFinishedEvent,
    EventKind.node_failed: NodeFailedEvent,
    EventKind.node_retrying: NodeRetryingEvent,
    EventKind.node_skipped: NodeSkippedEvent,
    EventKind.message_delta: MessageDeltaEvent,
    EventKind.message: MessageEvent,
    EventKind.message_replaced: MessageReplacedEvent,
    EventKind.tool_call: ToolCallEvent,
    EventKind.tool_progress: ToolProgressEvent,
    EventKind.tool_result: ToolResultEvent,
    EventKind.interrupt: InterruptOpenedEvent,
    EventKind.interrupt_reminded: InterruptRemindedEvent,
    EventKind.usage: UsageEvent,
    EventKind.debug: DebugEvent,
    EventKind.done: DoneEvent,
    EventKind.error: ErrorEvent,
    EventKind.cancelled: CancelledEvent,
}
"""The shape of each kind on the wire."""


TERMINAL = frozenset({EventKind.done, EventKind.error, EventKind.cancelled})


def place_to_wire(path: Sequence[str], items: Sequence[int | None]) -> dict[str, JSON]:
    """Where in its children an execution is: `path`, the nodes that lead there, and `items` beside it when one of them
    has a `forEach`: for each node the position of its item, or null.
    """
    if all(item is None for item in items):
        return {"path": list(path)} if path else {}
    return {"path": list(path), "items": list(items)}


class Event(Struct, frozen=True):
    """One event. `at` is in epoch milliseconds; `data` holds the fields of its kind, in wire names.

    The run and its readers have the same values: whoever can change `data` is given `apart()`.
    """

    kind: EventKind
    run_id: str
    seq: int
    at: int
    data: Mapping[str, JSON]

    def apart(self) -> "Event":
        """The event with containers of its own: changes of them change nothing of the run or of other readers."""
        return Event(self.kind, self.run_id, self.seq, self.at, _copied(self.data))

    @property
    def terminal(self) -> bool:
        return self.kind in TERMINAL

    @property
    def node_id(self) -> str | None:
        """The node that the event is about, if it is about one."""
        return optional_text(self.data.get("nodeId"))

    @property
    def text(self) -> str:
        """The text of a message, or the next part of it; "" for other events."""
        return optional_text(self.data.get("delta", self.data.get("content"))) or ""

    @property
    def output(self) -> JSON:
        return self.data.get("output")

    @property
    def error(self) -> JSON:
        """The `code`, `status`, `message` and `info` of a failure."""
        return self.data.get("error")

    @property
    def interrupt_id(self) -> str | None:
        return optional_text(self.data.get("interruptId"))

    def to_wire(self) -> dict[str, JSON]:
        return {
            "kind": str(self.kind),
            "runId": self.run_id,
            "seq": self.seq,
            "at": iso_ms(self.at),
            **self.data,
        }


def _copied(fields: Mapping[str, JSON]) -> dict[str, JSON]:
    copy = dict(fields)
    for key, value in copy.items():
        if isinstance(value, (dict, list)):
            copy[key] = _copied(value) if isinstance(value, dict) else _copied_items(value)
    return copy


def _copied_items(items: list[JSON]) -> list[JSON]:
    return [
        _copied(item) if isinstance(item, dict) else _copied_items(item) if isinstance(item, list) else item
        for item in items
    ]
