"""The workflow graph: nodes, edges and the index over them (interface, WorkflowStructure and AgentSelection).

A graph is built from a structure without write issues (`rules.write_issues`). The outputs of a node, where edges
begin, are its handles; None is the unnamed handle, of an edge without `sourceHandle`.
"""

from collections.abc import Mapping
from itertools import pairwise

import attrs

from wfcore.domain.graph.checks import Known, prefixed
from wfcore.domain.graph.declared import check_of
from wfcore.domain.graph.node_types import NODE_TYPES, NodeType
from wfcore.domain.graph.shapes import AgentSelection
from wfcore.domain.json.values import without_nulls
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_number, as_object, as_objects, as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import WorkflowContent

__all__ = [
    "Edge",
    "Graph",
    "Node",
    "NodeType",
    "compile_agent_selection",
    "data_of",
    "handles",
    "parse_graph",
    "selection_issues",
]


@attrs.frozen
class Node:
    """One step. `data` varies by type and has no null that means absence (`data_of`); `position` is where a builder
    draws it.
    """

    id: str
    type: NodeType
    data: Mapping[str, JSON] = attrs.field(factory=dict)
    position: Mapping[str, float] | None = None


@attrs.frozen
class Edge:
    """An edge from the handle `source_handle` of node `source` to node `target`; None is the unnamed handle."""

    id: str
    source: str
    target: str
    source_handle: str | None = None


@attrs.frozen
class Graph:
    """Nodes and edges in the order of the wire, with indexes of the nodes and of the edges that leave each.

    The ends of every edge are nodes of the graph; `outgoing` has an entry for every node.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    by_id: Mapping[str, Node] = attrs.field(init=False, repr=False, eq=False)
    outgoing: Mapping[str, tuple[Edge, ...]] = attrs.field(init=False, repr=False, eq=False)

    @by_id.default
    def _index_nodes(self) -> Mapping[str, Node]:
        return {node.id: node for node in self.nodes}

    @outgoing.default
    def _index_sources(self) -> Mapping[str, tuple[Edge, ...]]:
        groups: dict[str, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            groups[edge.source].append(edge)
        return {name: tuple(edges) for name, edges in groups.items()}


def parse_graph(structure: Mapping[str, JSON]) -> Graph:
    """The graph of a structure without write issues; missing `nodes` and `edges` count as empty."""
    return Graph(
        tuple(
            Node(as_text(node["id"]), kind := _TYPES[as_text(node["type"])], data_of(kind, node), _position(node))
            for node in as_objects(structure.get("nodes", ()))
        ),
        tuple(
            Edge(
                as_text(edge["id"]),
                as_text(edge["source"]),
                as_text(edge["target"]),
                optional_text(edge.get("sourceHandle")),
            )
            for edge in as_objects(structure.get("edges", ()))
        ),
    )


def data_of(kind: NodeType, node: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The `data` of a node. It is stored verbatim: null for an optional key of its type is dropped here."""
    return without_nulls(NODE_TYPES[kind].data, as_object(node.get("data", {})), of_all=True)


def _position(node: Mapping[str, JSON]) -> Mapping[str, float] | None:
    position = optional_object(node.get("position"))
    return None if position is None else {axis: as_number(number) for axis, number in position.items()}


_TYPES: Mapping[str, NodeType] = {str(kind): kind for kind in NodeType}

HANDLES: Mapping[NodeType, frozenset[str | None]] = {
    kind: frozenset(declared.handles) for kind, declared in NODE_TYPES.items()
}
"""The handles that every node of a type has. A condition also has the handles of its branches."""


def handles(node: Node) -> frozenset[str | None]:
    """The handles of a node; None is the unnamed one."""
    if node.type is not NodeType.CONDITION:
        return HANDLES[node.type]
    branches = node.data.get("branches")
    return HANDLES[node.type].union(
        handle
        for branch in (branches if isinstance(branches, list) else ())
        if isinstance(branch, dict) and isinstance(handle := branch.get("handle"), str)
    )


# The deprecated form of a workflow: an ordered list of skills.

SELECTION = check_of(AgentSelection)


def selection_issues(selection: JSON, path: str = "agentSelection") -> list[Issue]:
    """Every fault of an `agentSelection` (interface, AgentSelection); its extra keys are kept verbatim."""
    return prefixed(path, SELECTION(selection, Known()))


def compile_agent_selection(selection: Mapping[str, JSON]) -> dict[str, JSON]:
    """The equivalent `workflowStructure`: a start node, then the agents as a chain in `priority_order`.

    The selection must have no issues. Every agent gets its `model` and `modelSettings`; the `role` of an entry is the
    first line of its instructions. Extra keys of the selection become keys of the structure.
    """
    shared = {key: selection[key] for key in ("model", "modelSettings") if key in selection}
    entries = sorted(as_objects(selection["agents"]), key=lambda entry: as_number(entry["priority_order"]))
    agents = [_agent_node(f"agent_{count}", entry, shared) for count, entry in enumerate(entries, 1)]
    nodes: list[dict[str, JSON]] = [{"id": "start", "type": "start", "data": {}}, *agents]
    edges: list[JSON] = [
        {"id": f"edge_{count}", "source": source["id"], "target": target["id"]}
        for count, (source, target) in enumerate(pairwise(nodes), 1)
    ]
    extra = {key: value for key, value in selection.items() if key not in ("agents", "model", "modelSettings")}
    return {**extra, "nodes": nodes, "edges": edges}


def _agent_node(name: str, entry: Mapping[str, JSON], shared: Mapping[str, JSON]) -> dict[str, JSON]:
    data = {key: value for key, value in entry.items() if key != "priority_order"}
    data["agent_id"] = int(as_number(data["agent_id"]))
    if entry.get("role"):
        own = as_text(entry.get("instructions", ""))
        data["instructions"] = f"Your role: {as_text(entry['role'])}" + (f"\n{own}" if own else "")
    return {"id": name, "type": "agent", "data": {**data, **shared}}


def structure_of(content: WorkflowContent) -> Mapping[str, JSON]:
    """The structure of a workflow's content; without nodes, that of its `agentSelection`, if it has one."""
    selection, structure = content.agent_selection, content.workflow_structure or {}
    if selection and not structure.get("nodes"):
        return compile_agent_selection(selection)
    return structure or {"nodes": [], "edges": []}


def structure_of_body(body: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The same of the checked body of a workflow."""
    return structure_of(
        WorkflowContent(
            workflow_structure=optional_object(body.get("workflowStructure")),
            agent_selection=optional_object(body.get("agentSelection")),
        )
    )
