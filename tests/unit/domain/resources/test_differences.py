"""How two contents differ."""

from typing import Any

import pytest

from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.resources.differences import Changed, difference


def content(*nodes: dict[str, Any], **more: Any) -> WorkflowContent:
    return WorkflowContent(workflow_structure={"nodes": list(nodes), "edges": []}, **more)


def test_nodes_are_compared_by_id() -> None:
    """In any order; a position is not compared."""
    a, b = {"id": "a", "type": "start"}, {"id": "b", "data": {"x": [1, {"y": 2}], "z": 1}}
    moved = {**a, "position": {"x": 1, "y": 2}}
    changed = {"id": "b", "data": {"x": [1, {"y": 3}], "w": 1}}
    found = difference(content(a, b), content(changed, moved, {"id": "c"}))
    assert (found.nodes.added, found.nodes.removed) == (("c",), ())
    assert found.nodes.changed == (Changed("b", ("data.x[1].y", "data.z", "data.w")),)
    assert difference(content(b), content()).nodes.removed == ("b",)


def test_other_fields_have_paths() -> None:
    """A value of another type or length differs as a whole; `true` is not 1."""
    found = difference(content(trigger={"at": [1], "n": 1}), content(trigger={"at": [1, 2], "n": True}))
    assert found.fields == ("trigger.at", "trigger.n")
    zoomed = WorkflowContent(workflow_structure={"zoom": 1})
    assert difference(zoomed, WorkflowContent()).fields == ("workflowStructure",)


@pytest.mark.parametrize("more", [{}, {"data": {}}])
def test_equal_contents_have_no_difference(more: dict[str, Any]) -> None:
    """A node without `data` has the default."""
    wire = difference(content({"id": "a"}, agent_selection=None), content({"id": "a", **more})).to_wire()
    assert wire["nodes"] == wire["edges"] == {"added": [], "removed": [], "changed": []}
    assert wire["fields"] == []
