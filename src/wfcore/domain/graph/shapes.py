"""What a client sends for a graph, each declared once (interface, WorkflowStructure and AgentSelection)."""

from typing import Annotated, Final

import attrs
from msgspec import Meta

from wfcore.domain.graph.checks import Check, every, free_object, is_number, must, node_id, record, then, unique
from wfcore.domain.graph.declared import Rule
from wfcore.domain.graph.node_types import NODE_TYPES, ModelSettingsDto, NodeTypeName
from wfcore.domain.json.codec import JsonObject, Positive, schema_ref
from wfcore.domain.json.values import UNSET, Holds, UnsetType, creation, open_creation, value, wire
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON

MAX_ID: Final = 255

Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
NodeId = Annotated[str, Rule(node_id)]


def _axis(name: str) -> Check:
    """A missing coordinate breaks the same rule as one that is not a number."""
    return must(
        lambda position, _: is_number(as_object(position).get(name)), "position", "must be a finite number", name
    )


_POSITION: Final = then(free_object, every(_axis("x"), _axis("y"), record({"x": every(), "y": every()})))

_ANY_DATA: Final[JSON] = {"type": "object", "description": "A draft can have any object; a deploy checks its type"}
_DATA: Final[dict[str, JSON]] = {"anyOf": [*(schema_ref(one.data) for one in NODE_TYPES.values()), _ANY_DATA]}
NodeDataJson = Annotated[JsonObject, Meta(extra_json_schema=_DATA)]


@value
class Position:
    """Where a builder draws a node."""

    x: Annotated[float, Meta(description="Carried verbatim")]
    y: Annotated[float, Meta(description="Carried verbatim")]


@creation
class NodeDto:
    id: Id
    type: NodeTypeName
    position: Annotated[Position, Rule(_POSITION, "instead")] | UnsetType = UNSET
    data: NodeDataJson | UnsetType = UNSET


@creation
class EdgeDto:
    id: Id
    source: NodeId
    target: NodeId
    source_handle: str | UnsetType = UNSET


@open_creation
class WorkflowStructure:
    nodes: list[NodeDto] | UnsetType = UNSET
    edges: list[EdgeDto] | UnsetType = UNSET


@creation
class SelectionSettings(ModelSettingsDto):
    """The settings of the model of every agent."""


@creation
class AgentSelectionEntry:
    agent_id: Positive = attrs.field(metadata=wire("agent_id"))
    priority_order: Positive = attrs.field(metadata=wire("priority_order"))
    role: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    tool_restrictions: list[str] | UnsetType = attrs.field(default=UNSET, metadata=wire("tool_restrictions"))


@open_creation
class AgentSelection:
    """An ordered list of skills: the deprecated form of a workflow."""

    agents: Annotated[list[AgentSelectionEntry], Meta(min_length=1), Rule(unique("priority_order"), "every")]
    model: str | UnsetType = UNSET
    model_settings: SelectionSettings | UnsetType = UNSET


StructureJson = Annotated[
    JsonObject, Meta(extra_json_schema=schema_ref(WorkflowStructure)), Holds(lambda *_: WorkflowStructure)
]
SelectionJson = Annotated[
    JsonObject, Meta(extra_json_schema=schema_ref(AgentSelection)), Holds(lambda *_: AgentSelection)
]


@creation
class GraphOfBody:
    """The part of a create body that is a graph, in one of its two forms."""

    workflow_structure: StructureJson | UnsetType = UNSET
    agent_selection: SelectionJson | UnsetType = UNSET
