"""The shapes of a run's graph (interface, Graph of a run)."""

from typing import Any, Literal, TypedDict

from wfcore.api.resources import ErrorBody
from wfcore.domain.json.codec import JsonObject, Time

NodeStatus = Literal["pending", "running", "waiting", "done", "error", "skipped", "cancelled"]


class VisitDto(TypedDict):
    """One visit of a node. `input` has its rendered parameters; a large value is a `TruncatedDto`."""

    visit: int
    attempts: int
    input: Any
    output: Any
    error: ErrorBody | None
    startedAt: Time
    finishedAt: Time | None
    usage: JsonObject | None


class TruncatedDto(TypedDict):
    """The beginning of a large value. `url` has the whole, as `value`."""

    truncated: Literal[True]
    bytes: int
    preview: str
    url: str


class ItemDto(TypedDict):
    """One item of a `forEach`, in list order."""

    index: int
    status: NodeStatus
    attempts: int
    output: Any
    error: str | None


class NodeRunDto(TypedDict):
    """What a node has done. `items` are those of its last visit, null without `forEach`."""

    id: str
    type: str
    status: NodeStatus
    visits: list[VisitDto]
    items: list[ItemDto] | None


class EdgeRunDto(TypedDict):
    """`taken` is null while the edge is undecided."""

    id: str
    taken: bool | None


class RunGraphDto(TypedDict):
    """The graph of an execution, all turns together: up to the event `asOf` of its latest turn `runId`."""

    runId: str
    asOf: int
    nodes: list[NodeRunDto]
    edges: list[EdgeRunDto]
    path: list[str]


class ValueDto(TypedDict):
    """A value that is too large for the graph: usual JSON."""

    value: Any
