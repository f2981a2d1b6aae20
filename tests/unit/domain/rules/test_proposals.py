"""What a model is sent, the graph that its change leads to, and why that is not proposed."""

import json
from typing import Any

import pytest

from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.rules.proposals import CHANGE_SCHEMA, MOST_FAULTS, Offered, changed, question, simulation_faults
from wfcore.domain.run.simulation import simulate
from wfcore.testing.histories import sketch

GRAPH: dict[str, Any] = {
    "nodes": [
        {"id": "s", "type": "start", "position": {"x": 1, "y": 2}},
        {"id": "a", "type": "action", "data": {"toolId": "t"}, "position": {"x": 3, "y": 4}},
        {"id": "b", "type": "action", "data": {"toolId": "t"}},
    ],
    "edges": [{"id": "1", "source": "s", "target": "a"}, {"id": "2", "source": "a", "target": "b"}],
}
NOTHING: dict[str, Any] = {"explanation": "", "nodes": [], "edges": [], "removeNodes": [], "removeEdges": []}
OFFERED = Offered([{"id": "t"}], [{"agent_id": 1}], ["default"])


def test_what_the_model_is_sent() -> None:
    """Everything that it can use; positions and, at first, faults are left out."""
    sent = json.loads(question("Add a mail", GRAPH, OFFERED, None, ()))
    assert (sent["request"], sent["tools"], sent["skills"], sent["models"]) == (
        "Add a mail", [{"id": "t"}], [{"agent_id": 1}], ["default"],
    )  # fmt: skip
    assert sent["graph"]["nodes"][1] == {"id": "a", "type": "action", "data": {"toolId": "t"}}
    assert [one["type"] for one in sent["nodeTypes"]] == ["start", "action", "condition", "agent", "humanApproval"]
    assert "faults" not in sent
    faults = [Issue(f"nodes[{number}]", "is wrong", "type") for number in range(MOST_FAULTS + 1)]
    again = json.loads(question("Add a mail", GRAPH, OFFERED, NOTHING, faults))
    assert (again["change"], len(again["faults"]), again["faults"][0]["message"]) == (NOTHING, MOST_FAULTS, "is wrong")


def test_a_change() -> None:
    """Elements are replaced at their place or added; what is removed takes its edges along."""
    node = {"id": "a", "type": "action", "data": {"toolId": "u"}}
    new = {"id": "c", "type": "action", "data": {}}
    edges = [{"id": "1", "source": "s", "target": "c"}, {"id": "3", "source": "c", "target": "a"}]
    change = {**NOTHING, "nodes": [node, new], "edges": edges, "removeNodes": ["b"]}
    schema = compile_schema(CHANGE_SCHEMA)
    assert schema.check(change, "") == []
    assert changed({**GRAPH, "more": 1}, change) == {
        "nodes": [GRAPH["nodes"][0], {**node, "position": {"x": 3, "y": 4}}, new],
        "edges": edges,
        "more": 1,
    }
    assert changed(GRAPH, NOTHING) == GRAPH
    assert changed(GRAPH, {**NOTHING, "removeEdges": ["1", "x"]})["edges"] == GRAPH["edges"][1:]
    assert GRAPH["nodes"][1]["data"] == {"toolId": "t"}


CHECK: dict[str, Any] = {"type": "condition", "branches": [{"handle": "always", "when": "true"}]}
BROKEN: dict[str, Any] = {"type": "condition", "branches": [{"handle": "yes", "when": "1 / 0 > 1"}]}
PURE: dict[str, Any] = {"type": "action", "toolId": "core.transform", "params": {"value": 1}}
FAIL: dict[str, Any] = {"type": "action", "toolId": "core.fail", "params": {"message": "no"}}


@pytest.mark.parametrize(
    ("structure", "message", "path"),
    [
        (sketch("s -> c", "c -always-> a", "c -else-> b", c=CHECK), "no run reaches `b`", ("b",)),
        (
            sketch("s -> a", "a -> c", "c -always-> a", "c -else-> e", a=PURE, c=CHECK),
            "no run reaches `e`; a run can go round a cycle that nothing leaves",
            ("e", "a", "c"),
        ),
        (sketch("s -> c", "c -yes-> a", "c -else-> b", c=BROKEN),
         "no run reaches `a`, `b`; an expression of `c` always fails", ("a", "b", "c")),
        (sketch("s -> f", f=FAIL), "every run ends in error", ("f",)),
        (sketch("s -> a"), "", ()),
    ],
)  # fmt: skip
def test_faults_of_a_simulation(structure: Any, message: str, path: tuple[str, ...]) -> None:
    found = list(simulation_faults(simulate(structure)))
    assert "; ".join(one.message for one in found) == message
    assert tuple(node for one in found for node in one.counter_example) == path
