"""The shapes of a run's graph (interface, Graph of a run)."""

from typing import Any, Literal, TypedDict

from wfcore.api.resources import Body, ErrorBody
from wfcore.domain.json.codec import JsonObject, Time
from wfcore.domain.json.values import UNSET, UnsetType, value
from wfcore.domain.run.events import ModelUsage
from wfcore.domain.run.state import NodeStatus


class VisitDto(TypedDict):
    """One visit of a node. `input` has its rendered parameters; a large value is a `TruncatedDto`."""

    visit: int
    attempts: int
    input: Any
    output: Any
    error: ErrorBody | None
    startedAt: Time
    finishedAt: Time | None
    usage: ModelUsage | None


class TruncatedDto(TypedDict):
    """The beginning of a large value. `url` has the whole: as `value`, or in the record of a run as `output`."""

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


class TestNodeFields(TypedDict, total=False):
    """`TestNode` as keyword arguments."""

    input: JsonObject
    outputs: JsonObject
    perform: bool


@value
class TestNode(Body):
    """Values for one node: the input of the run, and the outputs of other nodes by id. `perform` makes its calls."""

    input: JsonObject | UnsetType = UNSET
    outputs: JsonObject | UnsetType = UNSET
    perform: bool | UnsetType = UNSET


class NodeTestResult(TypedDict):
    """What one node gave, or its error. `handle` is the one by which it is left.

    `wouldSend` lists what was not performed: `{"kind", ...}`, where `kind` is `tool` (`toolId`, `params`), `workflow`
    (`workflowId`, `input`), `model` (`agentId`, `model`, and `message` or `messages`), `timer` (`seconds`), `approval`
    or `connect`.
    """

    output: Any
    error: ErrorBody | None
    handle: str | None
    wouldSend: list[JsonObject]
