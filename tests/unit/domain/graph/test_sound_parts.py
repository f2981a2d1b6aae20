"""The sound nodes of a graph with faults."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.graph.rules import write_issues
from wfcore.domain.graph.sound_parts import SoundNodes
from wfcore.domain.kernel.errors import Issue

START = {"id": "s", "type": "start"}
VALUES = st.sampled_from([None, 1, "s", "a", [], {}, {"x": 1}, {"x": 1, "y": 2}])
TYPES = st.sampled_from(["start", "action", "x", 1])
NODES = st.one_of(VALUES, st.fixed_dictionaries({}, optional={
    "id": VALUES, "type": TYPES, "data": VALUES, "position": VALUES, "typ": VALUES,
}))  # fmt: skip
STRUCTURES = st.one_of(VALUES, st.fixed_dictionaries({}, optional={
    "nodes": st.one_of(VALUES, st.lists(NODES, max_size=5)), "edges": VALUES, "more": VALUES,
}))  # fmt: skip


@given(STRUCTURES)
def test_what_is_left_can_be_stored(structure: Any) -> None:
    """Of any value; every node keeps its index."""
    nodes = SoundNodes(structure, write_issues(structure))
    assert write_issues(nodes.structure) == []
    given_nodes = structure.get("nodes") if isinstance(structure, dict) else None
    assert len(nodes.structure["nodes"]) == (len(given_nodes) if isinstance(given_nodes, list) else 0)


def test_a_node_with_an_unknown_key_is_sound() -> None:
    """Without that key; a faulty node is replaced, and issues of its data do not concern the graph."""
    structure = {"nodes": [{**START, "typ": 1}, {"id": "x", "type": "nothing", "data": 1}, 7], "edges": [7]}
    nodes = SoundNodes(structure, write_issues(structure))
    assert nodes.structure == {
        "nodes": [START, {"id": "x#1", "type": "start"}, {"id": "#2", "type": "start"}], "edges": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("workflowStructure.nodes[0].data.toolId", True), ("workflowStructure.nodes[0].data", True),
        ("workflowStructure.nodes[1].data.toolId", False), ("workflowStructure.nodes[0]", False),
        ("workflowStructure.nodes[0].database", False), ("workflowStructure.edges[0].source", False),
    ],
)  # fmt: skip
def test_only_data_of_sound_nodes_concerns_the_graph(path: str, expected: bool) -> None:
    """Not the structure, of which parts are missing."""
    structure = {"nodes": [START, {"id": "x", "type": "nothing"}]}
    assert SoundNodes(structure, write_issues(structure)).concerns(Issue(path, "x", "y")) is expected


def test_issues_that_are_not_listed() -> None:
    """With more faults than the list of issues can have, nothing is checked further."""
    assert SoundNodes({"nodes": [7, {"id": 1}]}, []).structure == {"nodes": [], "edges": []}
