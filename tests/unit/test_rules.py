"""Rules in tests of a product: what `must` raises, and what simulates."""

import json
from pathlib import Path
from typing import Any

import pytest

import wfcore
from wfcore.rules import RuleBroken, always_ends_in, approved, at_most, never, simulate
from wfcore.testing.histories import sketch

ASK: Any = {"type": "humanApproval"}
REFUND = sketch("s -> ask", "ask -approved-> pay", "ask -denied-> tell", ask=ASK)
AGAIN: Any = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.a.output"}]}
WIDE = sketch(
    "s -> a", *(f"a -> {name}" for name in "bdefghij"), *(f"{name} -> c" for name in "bdefghij"), "c -again-> a",
    "c -else-> z", c=AGAIN,
)  # fmt: skip


def broken(*rules: Any, workflow: Any = REFUND, **options: Any) -> RuleBroken:
    with pytest.raises(RuleBroken) as raised:
        simulate(workflow, **options).must(*rules)
    return raised.value


def test_rules_that_hold_pass() -> None:
    """Rules, texts and functions of a path together; `must` can be chained."""
    rules = never("pay").without(approved("ask")), "at most 1 pay", lambda path: path.end != "endless"
    assert wfcore.simulate(REFUND).must(*rules).must("never pay without approved ask").complete


def test_null_in_a_graph_is_absent(tmp_path: Path) -> None:
    """In an object and in a file, as in a create body."""
    start = {"id": "s", "type": "start", "position": None, "data": None}
    nodes = [start, {"id": "a", "type": "agent", "data": {"message": "hi"}}]
    graph: Any = {"nodes": nodes, "edges": [{"id": "e", "source": "s", "target": "a", "sourceHandle": None}]}
    file = tmp_path / "flow.json"
    file.write_text(json.dumps({"workflowStructure": graph, "agentSelection": None}))
    for workflow in (graph, str(file)):
        assert simulate(workflow).must("always ends in a or in error").complete


def test_a_broken_rule_shows_its_counter_example() -> None:
    """As steps, in Mermaid and in SVG; other rules that hold are not shown."""
    error = broken(never("tell").without(approved("ask")), at_most("pay", 1))
    assert str(error).startswith(
        "1 of 2 rules do not hold\n\nbroken: never tell without approved ask\n1. ask: denied\nthen `tell` begins\n"
    )
    assert "flowchart TD" in str(error)
    (one,) = error.broken
    assert one.steps == (("ask", "denied"),)
    assert "<svg" in one.svg()
    assert isinstance(error, AssertionError)


def test_a_counter_example_is_a_history_that_goes_on() -> None:
    """It stands where the rule is broken: the call is open, and can still end."""
    history = broken("never tell without approved ask").broken[0].history()
    assert [effect.address[0] for effect in history.pending("tell")] == [3]
    history.fail("tell", retryable=False)
    assert history.machine.status == "error"


def test_a_function_of_a_path_is_a_rule() -> None:
    """It is named by its name; the shortest path for which it is false is the counter-example."""

    def a_refund_is_told(path: Any) -> bool:
        return "tell" in path.ways or path.end == "error"

    error = broken(a_refund_is_told)
    assert "1 rule does not hold\n\nbroken: a_refund_is_told\n1. ask: approved\n2. pay: done\n" in str(error)
    assert error.broken[0].history().machine.status == "done"
    assert "in error at `pay`" in str(broken(lambda path: path.end == "done"))
    stuck = sketch("s -> a", "a -> c", "c -again-> a", a={"toolId": "core.transform"},
                   c={"type": "condition", "branches": [{"handle": "again", "when": "true"}]})  # fmt: skip
    assert "a cycle that nothing leaves" in str(broken(lambda path: path.end != "endless", workflow=stuck))


def test_what_was_not_visited_does_not_hold() -> None:
    """A graph with too many states: the rule is unknown, without a counter-example."""
    error = broken(at_most("z", 0), at_most("b", 7), lambda _: True, workflow=WIDE, most_paths=1, most_states=100)
    assert "unknown: at most 7 b\nnot all states were visited" in str(error)
    assert "unknown: <lambda>\nnot all paths were visited: the simulation stopped after 1" in str(error)
    one = error.broken[-1]
    assert (one.steps, one.mermaid(), one.svg()) == ((), "", "")
    with pytest.raises(LookupError):
        one.history()


def test_structures_bodies_builders_and_files_are_simulated(tmp_path: Path) -> None:
    """A builder has a `structure`, as an attribute or a method."""

    class Builder:
        structure = REFUND

    class Method:
        def structure(self) -> Any:
            return REFUND

    (tmp_path / "a.json").write_text(json.dumps({"workflowStructure": REFUND}))
    (tmp_path / "b.yaml").write_text(json.dumps({"workflowStructure": REFUND}))
    body = {"name": "Refunds", "workflowStructure": REFUND}
    for workflow in (REFUND, body, Builder(), Method(), tmp_path / "a.json", str(tmp_path / "b.yaml")):
        assert len(simulate(workflow).paths) == 4
    with pytest.raises(FileNotFoundError):
        simulate(tmp_path / "none.json")


def test_the_input_can_be_given() -> None:
    """What reads it is then known."""
    check: Any = {"type": "condition", "branches": [{"handle": "big", "when": "input.n > 10"}]}
    choice = sketch("s -> c", "c -big-> pay", "c -else-> z", c=check)
    assert simulate(choice, {"n": 1}).must("never pay").never_reached == ("pay",)
    assert broken("never pay", workflow=choice, input={"n": 11}).broken[0].history().machine.length == 2


def test_faults_are_errors() -> None:
    """A graph that cannot run, an unknown node, an unknown rule: Invalid, with the place."""
    with pytest.raises(wfcore.Invalid, match="sourceHandle"):
        simulate(sketch("s -> a", "a -nowhere-> b"))
    with pytest.raises(wfcore.Invalid, match=r"`rules\[1\]`: unknown node `nobody`"):
        simulate(REFUND).must("never pay", never("nobody"))
    with pytest.raises(wfcore.Invalid, match=r"`rules\[0\]`: `sometimes` is not a rule"):
        simulate(REFUND).must("sometimes")
    with pytest.raises(wfcore.Invalid, match="unknown node `x`"):
        simulate(REFUND).must(always_ends_in("x"))
