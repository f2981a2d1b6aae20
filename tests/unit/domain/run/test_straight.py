"""Tests of straight segments: where the machine goes straight on, and where it does not."""

from typing import Any

import pytest
from msgspec.structs import replace

from wfcore.domain.run.effects import CallTool
from wfcore.domain.run.entries import Entry, Failed, Limits, Succeeded
from wfcore.domain.run.machine.entries.straight import calls_after, go_straight, params_of
from wfcore.domain.run.plan import compile_plan
from wfcore.testing.histories import BEGIN, History, sketch

SEEN = ("at", "length", "phase", "run_id", "seq", "visited")

CHAIN = sketch("s -> a", "a -> b", b={"params": {"x": "{{ nodes.a.output.y }}"}, "timeoutSeconds": 9})


def goes_straight(history: History, output: Any = None, **fields: Any) -> bool:
    """Whether the machine goes straight on after the result of `a`. If not, it is as it was."""
    effect, machine = history.effect("a"), history.machine
    node, visit, step = effect.address[-3:]
    entry = Succeeded(history.at + 5, node, visit, step, effect.attempt, output, within=effect.address[:-3])
    before = machine.copy().state, len(history.events)
    went = bool(go_straight(machine.state, [replace(entry, **fields)]))
    history.events += machine.take_events()
    if not went:
        now = machine.copy().state
        assert [getattr(now, name) for name in SEEN] == [getattr(before[0], name) for name in SEEN]
        assert (now.root.nodes, now.root.outputs, now.root.pending) == (
            before[0].root.nodes,
            before[0].root.outputs,
            before[0].root.pending,
        )
        assert len(history.events) == before[1]
    return went


@pytest.mark.parametrize(
    ("edges", "straight"),
    [
        (["s -> a", "a -> b"], [("a", "b")]),
        (["s -> a", "a -> b", "b -> c"], [("a", "b"), ("b", "c")]),
        (["s -> a", "a -> b", "a -> c"], []),
        (["s -> a", "s -> b", "a -> c", "b -> c"], []),
        (["s -> a", "a -error-> b"], []),
        (["s -> a", "a -> b", "a -error-> c"], []),
        (["s -> a", "a -> h", "h -approved-> b"], []),
    ],
)
def test_the_plan_knows_its_segments(edges: list[str], straight: list[tuple[str, str]]) -> None:
    """Between calls of tools without a join, a branch, an error edge or another type of node."""
    data = {"h": {"type": "humanApproval"}} if "a -> h" in edges else {}
    plan = compile_plan(sketch(*edges, **data))
    pairs = [(node.id, plan.nodes[then].id) for node, then in zip(plan.nodes, plan.straight, strict=True) if then >= 0]
    assert pairs == straight


def test_a_graph_with_a_cycle_has_no_segments() -> None:
    """There an edge can be held, and a node can start anew."""
    check = {"type": "condition", "branches": [{"handle": "x", "when": "false"}]}
    plan = compile_plan(sketch("s -> a", "a -> b", "b -> c", "c -x-> a", c=check))
    assert set(plan.straight) == {-1}


def test_the_next_call_of_a_segment() -> None:
    """It has the parameters, the key and the time limit that it has in any other place; events show both nodes."""
    history = History(CHAIN)
    assert goes_straight(history, {"y": 4})
    assert history.effect("b") == CallTool((2, 1, 0), 1, "run-1:b:1", "tool", {"x": 4}, 0, 9)
    assert history.kinds()[-2:] == ["node_finished", "node_started"]
    assert (history.machine.at, history.machine.length) == (history.at + 5, 2)
    assert history.succeed("b", 1).machine.output == 1


LONG = sketch(
    "s -> a", "a -> b", "b -> c", "c -> d", "d -> e",
    b={"params": {"x": 1}}, c={"params": {"x": "{{ nodes.a.output.y }}"}},
    d={"params": {"x": "{{ nodes.c.output.z }}"}},
)  # fmt: skip


def result(node: int, output: Any, attempt: int = 1) -> Succeeded:
    return Succeeded(BEGIN + node, node, 1, 0, attempt, output)


def test_the_results_of_several_calls() -> None:
    """Only the call after the last one is requested."""
    history = History(LONG)
    entries = [result(1, {"y": 4}), result(2, 5), result(3, {"z": 6})]
    assert go_straight(history.machine.state, entries, 1) == 0
    assert go_straight(history.machine.state, entries) == 3
    assert list(history.machine.pending.values()) == [CallTool((4, 1, 0), 1, "run-1:d:1", "tool", {"x": 6}, 0)]
    assert (history.machine.at, history.machine.length) == (BEGIN + 3, 4)
    assert [event.kind for event in history.machine.take_events()] == ["node_finished", "node_started"] * 3


@pytest.mark.parametrize(
    ("third", "why"),
    [
        (result(3, {"none": 6}), "the parameters of the next call cannot be rendered"),
        (result(3, {"z": 6}, attempt=2), "another attempt"),
        (result(4, {"z": 6}), "another call"),
        (Failed(BEGIN + 3, 3, 1, 0, 1, "no"), "no result"),
    ],
)
def test_a_result_after_which_something_is_to_decide(third: Entry, why: str) -> None:
    """The results before it are applied, and it has changed nothing."""
    machine = History(LONG).machine
    assert go_straight(machine.state, [result(1, {"y": 4}), result(2, 5), third]) == 2, why
    assert list(machine.pending.values()) == [CallTool((3, 1, 0), 1, "run-1:c:1", "tool", {"x": 4}, 0)]
    assert set(machine.nodes) == {"s", "a", "b"}


def test_the_calls_that_are_known_in_advance() -> None:
    """Those with constant parameters, up to the bound of visits."""
    structure = sketch("s -> a", "a -> b", "b -> c", "c -> d", b={"params": {"x": 1}}, d={"params": "{{ 1 }}"})
    machine = History(structure).machine
    known = [(then.id, visit, params_of(then).value) for then, visit in calls_after(machine.state, (1, 1, 0))]
    assert known == [("b", 1, {"x": 1}), ("c", 1, {})]
    machine.state.limits = Limits(max_node_visits=3)
    assert len(list(calls_after(machine.state, (1, 1, 0)))) == 1
    machine.state.limits = Limits(max_concurrent_effects=0)
    assert list(calls_after(machine.state, (1, 1, 0))) == []
    paused = History(structure).pause().machine
    assert list(calls_after(paused.state, (1, 1, 0))) == []


def test_events_of_a_segment_are_counted_without_an_observer() -> None:
    """A later observer sees the same numbers."""
    history = History(CHAIN)
    history.machine.sink, before = None, history.machine.seq
    assert goes_straight(history, {"y": 4})
    assert history.machine.seq == before + 2


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"attempt": 2}, "another attempt"), ({"visit": 9}, "another visit"), ({"within": (1, 1, 0, 1)}, "another frame")],
)
def test_an_outcome_that_no_effect_waits_for(fields: dict[str, Any], why: str) -> None:
    """It changes nothing."""
    assert not goes_straight(History(CHAIN), {"y": 4}, **fields), why


def test_an_outcome_in_a_child() -> None:
    """Only the root has segments: in a child, the frames around it wait too."""
    outer = sketch("s -> w", w={"toolId": "core.workflow", "params": {"workflowId": 5}})
    history = History(outer, children={5: CHAIN}).open("w")
    effect = history.effect("w/a")
    entry = Succeeded(history.at, *effect.address[-3:], 1, {"y": 4}, within=effect.address[:-3])
    assert go_straight(history.machine.state, [entry]) == 0
    assert history.succeed("w/a", {"y": 4}).succeed("w/b", 7).machine.output == 7


def test_parameters_that_cannot_be_rendered() -> None:
    """The node fails as in any other place."""
    history = History(CHAIN)
    assert not goes_straight(history, {"n": 4})
    assert history.succeed("a", {"n": 4}).machine.error["info"]["nodeId"] == "b"


@pytest.mark.parametrize("limits", [Limits(max_node_visits=2), Limits(max_concurrent_effects=0)])
def test_bounds_end_the_run(limits: Limits) -> None:
    """At the bound nothing is begun."""
    history = History(CHAIN)
    history.machine.state.limits = limits
    assert not goes_straight(history, {"y": 4})
    assert history.succeed("a", {"y": 4}).machine.error["info"]["reason"] == "bounds"


def test_a_turn_that_is_to_park() -> None:
    """Nothing new is begun."""
    history = History(CHAIN).pause()
    assert not goes_straight(history, {"y": 4})
    assert history.succeed("a", {"y": 4}).machine.status == "interrupted"


@pytest.mark.parametrize("info", [{"debug": True}, {"config": {"connections": ["c1"]}}])
def test_turns_with_more_than_calls(info: dict[str, Any]) -> None:
    """Debug events have the times of effects, and a config chooses the connections of calls."""
    history = History(CHAIN, info=info)
    assert not goes_straight(history, {"y": 4})


def test_a_node_that_was_given_an_output_by_hand() -> None:
    """It is not called after a retry."""
    history = History(CHAIN).fail("a").retry(outputs={"b": 7})
    assert not goes_straight(history, {"y": 4})
    assert history.succeed("a", {"y": 4}).machine.output == 7
    known = History(LONG).fail("a").retry(outputs={"b": 7})
    assert list(calls_after(known.machine.state, known.effect("a").address)) == []
