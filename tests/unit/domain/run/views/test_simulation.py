"""Simulations of small workflows, path by path."""

from typing import Any

import pytest

from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.rehearsal import _Known
from wfcore.domain.run.replay import fold
from wfcore.domain.run.simulation import Simulation, simulate
from wfcore.testing.histories import History, sketch


def ends_of(found: Simulation) -> set[str]:
    """Each path in a line: the steps, the end, and whose output it has or who failed."""
    lines = set()
    for path in found.paths:
        steps = " ".join("=".join(step) for step in path.steps)
        lines.add(f"{steps} | {path.end} {path.failed or ' '.join(path.output)}".rstrip())
    return lines


def condition(*branches: tuple[str, str]) -> dict[str, JSON]:
    return {"type": "condition", "branches": [{"handle": handle, "when": when} for handle, when in branches]}


def approval(**data: JSON) -> dict[str, JSON]:
    return {"type": "humanApproval", **data}


CHOICE = sketch("s -> c", "c -big-> a", "c -else-> b", c=condition(("big", "input.n > 10")))


def test_what_is_open_goes_every_way() -> None:
    """Without an input both branches are taken, and every action succeeds and fails."""
    found = simulate(CHOICE)
    assert ends_of(found) == {
        "c=big a=done | done a", "c=big a=failed | error a", "c=else b=done | done b", "c=else b=failed | error b",
    }  # fmt: skip
    assert (found.complete, found.sound, found.never_reached, found.can_fail) == (True, True, (), ("a", "b"))


@pytest.mark.parametrize(("given", "taken", "left"), [({"n": 11}, "big a", "b"), ({"n": 1}, "else b", "a")])
def test_an_input_decides_what_reads_it(given: JSON, taken: str, left: str) -> None:
    """A condition on the input goes the way that the run would go; the other branch is not reached."""
    handle, node = taken.split()
    found = simulate(CHOICE, given)
    assert ends_of(found) == {f"c={handle} {node}=done | done {node}", f"c={handle} {node}=failed | error {node}"}
    assert found.never_reached == (left,)


def test_an_expression_that_fails_with_the_input_is_shown() -> None:
    """A missing field ends the run in error at the condition: that is not sound."""
    found = simulate(CHOICE, {})
    assert ends_of(found) == {"c=expression | error c"}
    assert not found.sound


def test_a_failing_expression_of_an_action_takes_its_error_edge() -> None:
    """Parameters that cannot be rendered fail the node, and are caught like any failure of it."""
    found = simulate(sketch("s -> a", "a -error-> b", a={"params": {"x": "{{ input.x }}"}}), {})
    assert ends_of(found) == {"a=expression b=done | done b", "a=expression b=failed | error b"}
    assert found.sound


def test_branches_behind_one_that_surely_holds_are_not_taken() -> None:
    """The first branch that holds is taken; what is open before it may hold, too."""
    branches = condition(("x", "nodes.a.output > 1"), ("y", "input.n == 1"), ("z", "true"))
    found = simulate(sketch("s -> a", "a -> c", "a -error-> c", "c -x-> d", "c -z-> e", c=branches), {"n": 1})
    assert {path.ways["c"] for path in found.paths} == {"x", "y"}
    assert (found.never_reached, found.dead_ends) == (("e",), (("c", "y"),))


@pytest.mark.parametrize(
    ("data", "edge", "paths"),
    [
        ({}, "approved", {"approved b", "denied ask"}),
        ({"timeoutSeconds": 5}, "approved", {"approved b", "denied ask", "expired ask"}),
        ({"timeoutSeconds": 5}, "expired", {"approved ask", "denied ask", "expired b"}),
        ({"timeoutSeconds": 5, "onTimeout": "approve"}, "approved", {"approved b", "denied ask", "expired b"}),
        ({"timeoutSeconds": 5, "onTimeout": "error"}, "approved", {"approved b", "denied ask", "expired error"}),
    ],
)
def test_an_approval_is_approved_denied_or_expires(data: dict[str, JSON], edge: str, paths: set[str]) -> None:
    """Where each answer leads, and the deadline where there is one: to the node whose output is the run's."""
    found = simulate(sketch("s -> ask", f"ask -{edge}-> b", ask=approval(**data), b={"toolId": "core.transform"}))
    ends = {f"{path.ways['ask']} {''.join(path.output) or path.end}" for path in found.paths}
    assert ends == paths
    assert found.can_expire == (("ask",) if data else ())
    assert ("ask", "denied") in found.dead_ends


def test_a_denied_call_ends_its_path_and_no_run() -> None:
    """An action that requires approval may be denied: no error, no output, and a failure of it is still one."""
    found = simulate(sketch("s -> a", "a -> b", a={"requiresApproval": True}, b={"toolId": "core.transform"}))
    assert ends_of(found) == {"a=denied | done", "a=failed | error a", "a=done b=done | done b"}
    assert found.dead_ends == (("a", "denied"),)


def test_branches_join_and_either_may_end_the_run() -> None:
    """Two actions side by side: both are needed for the end, and one that fails is enough for an error."""
    found = simulate(sketch("s -> a", "s -> b", "a -> c", "b -> c", c={"toolId": "core.transform"}))
    assert ends_of(found) == {"a=done b=done c=done | done c", "a=failed | error a", "a=done b=failed | error b"}


def test_what_is_bound_to_fail_does_not_hide_what_may_fail_before() -> None:
    """Beside a branch that ends the run after a while, another may end it first."""
    found = simulate(
        sketch("s -> w", "w -> f", "s -> b", w={"toolId": "core.wait"}, f={"toolId": "core.fail", "params": {}})
    )
    assert {path.failed for path in found.paths} == {"f", "b"}
    assert not found.sound


def test_nothing_comes_between_a_node_and_what_the_machine_does_at_once() -> None:
    """Where `core.fail` is reached, nothing else can end the run before: so it is in a real run."""
    structure = sketch("s -> b", "s -> f", f={"toolId": "core.fail", "params": {}})
    assert ends_of(simulate(structure)) == {"f=failed | error f"}
    assert History(structure).machine.status == "error"


def test_a_cycle_is_gone_round_until_nothing_new_comes() -> None:
    """The way out with the fewest rounds is returned; those that end alike are one path."""
    again = condition(("again", "nodes.a.output"))
    found = simulate(sketch("s -> a", "a -> c", "c -again-> a", "c -else-> b", c=again))
    assert ends_of(found) == {"a=failed | error a", "a=done c=else b=done | done b", "a=done c=else b=failed | error b"}
    assert found.complete


def test_in_a_cycle_every_order_is_tried() -> None:
    """An exit that was taken before another branch starts the cycle anew stays taken: so both exits of one approval may
    be, in two rounds. If the other branch always came first, none would.
    """
    pure: dict[str, JSON] = {"toolId": "core.transform"}
    found = simulate(
        sketch(
            "s -> h", "h -> t", "t -> c", "c -again-> h", "c -else-> z", "h -> ask", "ask -approved-> h",
            "ask -denied-> x", "ask -expired-> y",
            h=pure, x=pure, y=pure, z=pure, ask=approval(timeoutSeconds=5), c=condition(("again", "nodes.t.output")),
        )
    )  # fmt: skip
    assert {frozenset({"x", "y"} & path.ways.keys()) for path in found.paths} == {*map(frozenset, ("", "x", "y", "xy"))}


def test_a_cycle_that_nothing_leaves_is_endless() -> None:
    """Its way out is never taken: no run ends, and the node behind it is never reached."""
    again = condition(("again", "true"))
    found = simulate(sketch("s -> a", "a -> c", "c -again-> a", "c -else-> b", a={"toolId": "core.transform"}, c=again))
    assert ends_of(found) == {"a=done c=again a=done | endless"}
    assert (found.sound, found.never_reached) == (False, ("b",))


def test_a_simulation_is_broken_off() -> None:
    """Ten choices in a row are a thousand paths: those within the bound are returned, and that there are more."""
    steps = [f"c{n} -{handle}-> c{n + 1}" for n in range(10) for handle in ("x", "else")]
    data: Any = {f"c{n}": condition(("x", "nodes.s.output")) for n in range(11)}
    found = simulate(sketch("s -> c0", *steps, **data), most_paths=100)
    assert (found.complete, found.sound, found.never_reached, len(found.paths)) == (False, True, (), 100)


def test_agents_children_and_items_come_to_one_outcome() -> None:
    """Whatever goes on inside them, they succeed or fail; a wait passes."""
    found = simulate(
        sketch(
            "s -> a", "a -> b", "b -> c", "c -> d",
            a={"type": "agent", "agent_id": 7}, b={"toolId": "core.workflow", "params": {"workflowId": 1}},
            c={"forEach": "input.items", "params": {"x": "{{ item }}"}}, d={"toolId": "core.wait"},
        )
    )  # fmt: skip
    assert [path.failed for path in found.paths] == ["a", "b", "c", None]


def test_journals_are_those_of_the_workflow_where_nothing_forks() -> None:
    """Of tools and edges alone, the workflow's own plan folds each journal to the same end."""
    structure = sketch("s -> a", "s -> b", "a -error-> c", "a -> d", "b -> d", a={"retry": {"maxAttempts": 3}})
    for path in simulate(structure).paths:
        assert fold(compile_plan(structure), path.journal).status == path.end


def test_names_of_nodes_are_not_in_the_way() -> None:
    """A node may be named like what a simulation puts in front of another, and handles may hold any text."""
    odd = 'x" \\ \N{GRINNING FACE}'
    structure = sketch("s -> ask_2", "ask_2 -> c", "c -else-> d", c=condition((odd, "input.x")))
    assert {path.ways.get("c") for path in simulate(structure).paths} == {None, odd, "else"}


def test_an_input_that_the_start_forbids_is_refused() -> None:
    """As a run would be refused with it, naming the field."""
    schema: JSON = {"type": "object", "properties": {"n": {"type": "integer"}}}
    with pytest.raises(Invalid, match=r"`input\.n`"):
        simulate(sketch("s -> a", s={"inputSchema": schema}), {"n": "x"})


def test_items_that_are_no_list_fail_their_node() -> None:
    """With a known input that is not a list, `forEach` fails the node before any call."""
    graph = sketch("s -> a", "a -> z", a={"forEach": "input.items", "params": {"x": "{{ item }}"}})
    assert ends_of(simulate(graph, {"items": 1})) == {"a=expression | error a"}
    assert ends_of(simulate(graph, {"items": [1]})) == {
        "a=done z=done | done z", "a=done z=failed | error z", "a=failed | error a",
    }  # fmt: skip


def test_what_an_expression_can_name_is_known() -> None:
    """The values of a simulation have the names of a run's, of which only the input has a value."""
    known = _Known({"a": 1})
    assert (set(known), len(known), known["input"]) == ({"input", "nodes", "run", "item"}, 4, {"a": 1})
