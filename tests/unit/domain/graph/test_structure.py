"""The graph, its index and the agentSelection (interface, WorkflowStructure and AgentSelection)."""

from typing import Any

import pytest

from wfcore.domain.graph.rules import deploy_issues, write_issues
from wfcore.domain.graph.structure import (
    Edge,
    Graph,
    Node,
    NodeType,
    compile_agent_selection,
    handles,
    parse_graph,
    selection_issues,
    structure_of_body,
)
from wfcore.testing.graphs import CATALOG

DIAMOND = {
    "nodes": [
        {"id": "s", "type": "start"},
        {"id": "a", "type": "action", "data": {"toolId": "core.http"}, "position": {"x": 1, "y": 2}},
        {"id": "b", "type": "condition", "data": {"branches": [{"handle": "big", "when": "true"}]}},
    ],
    "edges": [
        {"id": "1", "source": "s", "target": "a"},
        {"id": "2", "source": "s", "target": "b"},
        {"id": "3", "source": "b", "target": "a", "sourceHandle": "big"},
    ],
}


def test_parse_graph_keeps_order_and_fills_defaults() -> None:
    """Nodes and edges keep the order of the wire; by default `data` is {} and `sourceHandle` None."""
    graph = parse_graph(DIAMOND)
    assert [node.id for node in graph.nodes] == ["s", "a", "b"]
    assert graph.nodes[0] == Node("s", NodeType.START, {}, None)
    assert graph.nodes[1].position == {"x": 1, "y": 2}
    assert graph.edges[1:] == (Edge("2", "s", "b"), Edge("3", "b", "a", "big"))


def test_missing_lists_give_an_empty_graph() -> None:
    """A structure without `nodes` and `edges` is the empty graph."""
    assert parse_graph({}) == Graph()


def test_the_index_has_every_node_and_every_edge() -> None:
    """`outgoing` has an entry for each node, in the order of the edges."""
    graph = parse_graph(DIAMOND)
    assert graph.by_id["a"] is graph.nodes[1]
    assert {name: [edge.id for edge in edges] for name, edges in graph.outgoing.items()} == {
        "s": ["1", "2"],
        "a": [],
        "b": ["3"],
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("start", {None}),
        ("action", {None, "error"}),
        ("agent", {None, "error"}),
        ("humanApproval", {"approved", "denied", "expired"}),
        ("condition", {"else"}),
    ],
)
def test_handles_of_a_type(kind: str, expected: set[str | None]) -> None:
    """Each type has its handles; only start, action and agent have the unnamed one."""
    assert handles(Node("x", NodeType(kind))) == expected


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        ([{"handle": "a"}, {"handle": "b", "when": "true"}], {"a", "b", "else"}),
        ([{"handle": 1}, {"when": "x"}, "y", None], {"else"}),
        ("none", {"else"}),
        (None, {"else"}),
    ],
)
def test_handles_of_a_condition_are_its_branches_and_else(branches: Any, expected: set[str]) -> None:
    """A branch adds its handle; a malformed branch adds none and does not raise."""
    assert handles(Node("x", NodeType.CONDITION, {"branches": branches})) == expected


class TestAgentSelection:
    """Interface, AgentSelection."""

    def test_compiles_to_a_chain_in_priority_order(self) -> None:
        """Start, then the agents by `priority_order`, each with the model and settings of the selection."""
        structure = compile_agent_selection(
            {
                "agents": [
                    {"agent_id": 2, "priority_order": 10, "role": "editor"},
                    {"agent_id": 1.0, "priority_order": 9.0, "instructions": "x", "tool_restrictions": ["t"]},
                    {"agent_id": 3, "priority_order": 11, "role": "critic", "instructions": "y"},
                ],
                "model": "fast",
                "modelSettings": {"contextWindow": 1},
            }
        )
        common = {"model": "fast", "modelSettings": {"contextWindow": 1}}
        assert structure == {
            "nodes": [
                {"id": "start", "type": "start", "data": {}},
                {
                    "id": "agent_1",
                    "type": "agent",
                    "data": {"agent_id": 1, "instructions": "x", "tool_restrictions": ["t"], **common},
                },
                {
                    "id": "agent_2",
                    "type": "agent",
                    "data": {"agent_id": 2, "role": "editor", "instructions": "Your role: editor", **common},
                },
                {
                    "id": "agent_3",
                    "type": "agent",
                    "data": {"agent_id": 3, "role": "critic", "instructions": "Your role: critic\ny", **common},
                },
            ],
            "edges": [
                {"id": "edge_1", "source": "start", "target": "agent_1"},
                {"id": "edge_2", "source": "agent_1", "target": "agent_2"},
                {"id": "edge_3", "source": "agent_2", "target": "agent_3"},
            ],
        }
        assert type(structure["nodes"][1]["data"]["agent_id"]) is int

    def test_the_compiled_structure_deploys(self) -> None:
        """It passes the rules for storing and for deploying; extra keys are kept."""
        selection = {"agents": [{"agent_id": 3, "priority_order": 1}], "colour": "red"}
        assert selection_issues(selection) == []
        structure = compile_agent_selection(selection)
        assert structure["colour"] == "red"
        assert write_issues(structure) == []
        assert deploy_issues(parse_graph(structure), CATALOG) == []

    def test_compiling_does_not_change_the_selection(self) -> None:
        """The tree of the request stays unchanged."""
        entry = {"agent_id": 1.0, "priority_order": 1}
        compile_agent_selection({"agents": [entry]})
        assert entry == {"agent_id": 1.0, "priority_order": 1}
        assert type(entry["agent_id"]) is float

    @pytest.mark.parametrize(
        ("selection", "path", "rule"),
        [
            (None, "", "type"),
            ({}, ".agents", "required"),
            ({"agents": []}, ".agents", "minItems"),
            ({"agents": {}}, ".agents", "type"),
            ({"agents": [1]}, ".agents[0]", "type"),
            ({"agents": [{"priority_order": 1}]}, ".agents[0].agent_id", "required"),
            ({"agents": [{"agent_id": 1}]}, ".agents[0].priority_order", "required"),
            ({"agents": [{"agent_id": True, "priority_order": 1}]}, ".agents[0].agent_id", "type"),
            ({"agents": [{"agent_id": "1", "priority_order": 1}]}, ".agents[0].agent_id", "type"),
            ({"agents": [{"agent_id": 0, "priority_order": 1}]}, ".agents[0].agent_id", "range"),
            ({"agents": [{"agent_id": 1.5, "priority_order": 1}]}, ".agents[0].agent_id", "integer"),
            ({"agents": [{"agent_id": 1, "priority_order": -1}]}, ".agents[0].priority_order", "range"),
            ({"agents": [{"agent_id": 1, "priority_order": 1, "x": 1}]}, ".agents[0].x", "unknown"),
            ({"agents": [{"agent_id": 1, "priority_order": 1, "role": None}]}, ".agents[0].role", "type"),
            (
                {"agents": [{"agent_id": 1, "priority_order": 1, "tool_restrictions": ["a", 1]}]},
                ".agents[0].tool_restrictions[1]",
                "type",
            ),
            (
                {"agents": [{"agent_id": 1, "priority_order": 1}, {"agent_id": 2, "priority_order": 1.0}]},
                ".agents[1].priority_order",
                "unique",
            ),
        ],
    )
    def test_each_fault_has_its_rule_and_path(self, selection: Any, path: str, rule: str) -> None:
        """One fault gives one issue, at its path."""
        issues = selection_issues(selection)
        assert [(issue.path, issue.rule) for issue in issues] == [(f"agentSelection{path}", rule)]

    @pytest.mark.parametrize(
        ("settings", "below", "rule"),
        [
            ([], "", "type"),
            ({"reasoningEffort": "extreme"}, ".reasoningEffort", "enum"),
            ({"reasoningEffort": 1}, ".reasoningEffort", "type"),
            ({"contextWindow": 0}, ".contextWindow", "range"),
            ({"contextWindow": 2.5}, ".contextWindow", "integer"),
            ({"temperature": 1}, ".temperature", "unknown"),
        ],
    )
    def test_model_settings(self, settings: Any, below: str, rule: str) -> None:
        """`modelSettings` has an enum, a minimum, and no other keys."""
        selection = {"agents": [{"agent_id": 1, "priority_order": 1}], "modelSettings": settings}
        issues = selection_issues(selection, "body")
        assert [(issue.path, issue.rule) for issue in issues] == [(f"body.modelSettings{below}", rule)]

    def test_all_faults_are_reported(self) -> None:
        """Faults of several entries and of the settings are reported together."""
        issues = selection_issues({"agents": [{"agent_id": 0}, {}], "model": 1})
        assert {issue.path.removeprefix("agentSelection.") for issue in issues} == {
            "agents[0].agent_id",
            "agents[0].priority_order",
            "agents[1].agent_id",
            "agents[1].priority_order",
            "model",
        }

    @pytest.mark.parametrize(
        ("content", "nodes"),
        [
            ({}, []),
            ({"workflowStructure": None, "agentSelection": None}, []),
            ({"workflowStructure": {"nodes": [{"id": "a"}]}}, ["a"]),
            ({"agentSelection": {"agents": [{"agent_id": 1, "priority_order": 1}]}}, ["start", "agent_1"]),
            ({"workflowStructure": {"nodes": [{"id": "a"}]}, "agentSelection": {"agents": []}}, ["a"]),
        ],
    )
    def test_the_structure_of_a_content(self, content: Any, nodes: list[str]) -> None:
        """A structure with nodes comes first, then the selection, then the empty graph."""
        assert [node["id"] for node in structure_of_body(content)["nodes"]] == nodes
