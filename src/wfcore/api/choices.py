"""The shapes of what an agent can be given, and of the evaluation of expressions."""

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.domain.graph.node_types import NodeTypeName
from wfcore.domain.graph.shapes import StructureJson
from wfcore.domain.json.codec import JsonObject
from wfcore.domain.json.values import UNSET, UnsetType, value
from wfcore.domain.rules.rules import MAX_RULE


class HandleDto(TypedDict):
    """A handle from which edges leave a node; null is the unnamed handle."""

    handle: str | None
    description: str


class NodeTypeDto(TypedDict):
    """A type of node. `dataSchema` is the JSON Schema of the `data` that a deploy requires.

    `handlesFrom` is the key of `data` whose items each have a further `handle`; null without any.
    """

    type: NodeTypeName
    title: str
    description: str
    dataSchema: JsonObject
    handles: list[HandleDto]
    handlesFrom: str | None


class GraphLimitsDto(TypedDict):
    """The most nodes and edges that a graph can have."""

    nodes: int
    edges: int


class NodeTypeList(TypedDict):
    nodeTypes: list[NodeTypeDto]
    limits: GraphLimitsDto


class ModelDto(TypedDict):
    """A model that agents can name. `isDefault`: it serves agents that name none."""

    name: str
    isDefault: bool
    abilities: list[Literal["tools", "images", "outputSchema"]]


class ModelList(TypedDict):
    models: list[ModelDto]


class GuardrailDto(TypedDict):
    """A guardrail. `optionsSchema` is the JSON Schema of its options beside `name`; null without any.

    `everywhere`: it checks every agent, whether the agent names it or not.
    """

    name: str
    description: str
    optionsSchema: Any
    everywhere: bool


class GuardrailList(TypedDict):
    guardrails: list[GuardrailDto]


@value
class EvaluateExpression(Body):
    """A CEL expression (`source`) or JSON with `{{ expressions }}` (`template`), and the values of its variables."""

    source: Annotated[str, Meta(max_length=100_000)] | UnsetType = UNSET
    template: Any = UNSET
    values: Annotated[JsonObject, Meta(description="The variables `input`, `nodes`, `run` and `item`")] | UnsetType = (
        UNSET
    )


MAX_RULES = 20


@value
class SimulateWorkflow(Body):
    """A graph, the input of its runs (null or absent: open), and rules about all runs."""

    workflow_structure: StructureJson
    input: JsonObject | UnsetType | None = UNSET
    rules: (
        Annotated[
            list[Annotated[str, Meta(max_length=MAX_RULE)]],
            Meta(max_length=MAX_RULES, description="Such as `never pay without approved ask`"),
        ]
        | UnsetType
    ) = UNSET


class StepDto(TypedDict):
    """A node, and how it ended: `done`, `failed`, `approved`, `denied`, `expired`, or the handle of a condition."""

    nodeId: str
    outcome: str


class PathDto(TypedDict):
    """One end of runs, with one way there. `output`: the nodes whose output is the run's; `failed`: who ended it."""

    end: Literal["done", "error", "endless"]
    steps: list[StepDto]
    output: list[str]
    failed: str | None


class CounterExampleDto(TypedDict):
    """A run that breaks a rule: after `steps`, `what` happens. `path`: the node ids on edges from the start to there.

    `mermaid` is the graph with that path, `svg` an image of the steps. Without steps, only the edges were read.
    """

    steps: list[StepDto]
    what: str
    path: list[str]
    mermaid: str
    svg: str


class VerdictDto(TypedDict):
    """`complete` false: there are more states than were visited; `unknown`: and what was visited does not decide."""

    rule: str
    status: Literal["holds", "broken", "unknown"]
    decidedBy: Literal["graph", "simulation"]
    complete: bool
    counterExample: CounterExampleDto | None


class SimulationDto(TypedDict):
    """The ends that runs can have. `complete` false: there are more, and `neverReached` is empty."""

    complete: bool
    paths: list[PathDto]
    neverReached: list[str]
    canFail: list[str]
    canExpire: list[str]
    deadEnds: list[StepDto]
    rules: list[VerdictDto]


class ExpressionErrorDto(TypedDict):
    """`line` and `column` count from 1 in the source or in the template's string; null where they are not known."""

    message: str
    line: int | None
    column: int | None


class Evaluated(TypedDict, total=False):
    """The `value`, or the `error` of an expression that is not valid or fails."""

    value: Any
    error: ExpressionErrorDto
