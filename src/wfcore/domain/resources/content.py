"""The content of a variation: what a workflow or a skill is made of (interface, variation; Scope).

A graph, a trigger and an `agentSelection` are objects that can have keys which this release does not know; they are
kept verbatim, and their own packages check and read them.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import attrs
from msgspec import Meta

from wfcore.domain.json.codec import Positive
from wfcore.domain.json.values import UNSET, Object, UnsetType, creation, structure, to_json, value, wire_name
from wfcore.domain.kernel.json_type import JSON


@creation
class ToolSetting:
    enabled: bool
    requires_approval: bool | UnsetType = UNSET


@creation
class BudgetDto:
    """The most that models may consume; at the limit, a run requests an approval for the same amount again."""

    max_tokens: Positive | UnsetType = UNSET
    max_cost: Annotated[float, Meta(gt=0, le=1e12)] | UnsetType = UNSET


@value
class WorkflowContent:
    """The content of a workflow. `agent_selection` is the deprecated form of a graph."""

    trigger: Object | None = None
    workflow_structure: Object | None = None
    agent_selection: Object | None = None

    @property
    def is_scheduled(self) -> bool:
        """Whether it has a schedule (interface, Trigger)."""
        return self.trigger is not None and self.trigger.get("trigger_type") == "schedule"


@value
class SkillContent:
    """The content of a skill. An empty `model` means the installation's default."""

    expected_output: str = ""
    instructions: list[str] = attrs.field(factory=list)
    model: str = ""
    toolset: dict[str, ToolSetting] = attrs.field(factory=dict)
    connection_set: list[Object] = attrs.field(factory=list)
    context_selections: list[Object] = attrs.field(factory=list)
    evaluations: list[Object] = attrs.field(factory=list)
    interfaces: list[Object] = attrs.field(factory=list)
    supervision_subordinate_ids: list[str] = attrs.field(factory=list)
    supervision_subordinate_descriptions: dict[str, str] = attrs.field(factory=dict)
    budget: BudgetDto = attrs.field(factory=BudgetDto)

    @property
    def enabled_tools(self) -> dict[str, ToolSetting]:
        return {name: setting for name, setting in self.toolset.items() if setting.enabled}


Content = WorkflowContent | SkillContent
ContentClass = type[WorkflowContent] | type[SkillContent]


def _fields(cls: type[Any]) -> tuple["attrs.Attribute[Any]", ...]:
    found: tuple[attrs.Attribute[Any], ...] = attrs.fields(cls)
    return found


def names_of(cls: ContentClass) -> tuple[str, ...]:
    """The names of the fields on the wire, in the order of the interface's tables."""
    return tuple(wire_name(field) for field in _fields(cls))


def every_field(content: Content) -> frozenset[str]:
    """The names of all fields."""
    return frozenset(field.name for field in _fields(type(content)))


def given_fields(cls: ContentClass, body: object) -> dict[str, Any]:
    """The fields of the content that a checked body has, by name."""
    tree = to_json(body)
    content = content_of(cls, tree)
    return {field.name: getattr(content, field.name) for field in _fields(cls) if wire_name(field) in tree}


def as_workflow(content: Content) -> WorkflowContent:
    """The content of a workflow. Raises TypeError for that of a skill."""
    if not isinstance(content, WorkflowContent):
        raise TypeError("the content belongs to a skill")
    return content


def as_skill(content: Content) -> SkillContent:
    """The content of a skill. Raises TypeError for that of a workflow."""
    if not isinstance(content, SkillContent):
        raise TypeError("the content belongs to a workflow")
    return content


def content_of(cls: ContentClass, tree: Mapping[str, JSON]) -> Content:
    """The content in a checked object, which can have other keys."""
    return structure(cls, {name: tree[name] for name in names_of(cls) if name in tree})


def compared(content: Content) -> dict[str, JSON]:
    """The object in which contents are compared: a node without `data` has the default, `{}`."""
    tree = to_json(content)
    graph = tree.get("workflowStructure")
    if isinstance(graph, Mapping) and isinstance(nodes := graph.get("nodes"), list):
        known = [node if type(node) is dict and "data" in node else _with_data(node) for node in nodes]
        tree["workflowStructure"] = {**graph, "nodes": known}
    return tree


def _with_data(node: JSON) -> JSON:
    return {"data": {}, **node} if isinstance(node, Mapping) else node


def content_to_wire(content: Content) -> dict[str, JSON]:
    """The content without an empty `budget`, which is not in the interface's table."""
    wire = to_json(content)
    if not wire.get("budget", True):
        del wire["budget"]
    return wire
