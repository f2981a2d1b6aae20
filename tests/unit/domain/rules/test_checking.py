"""Verdicts on small graphs, and their counter-examples. `tests/properties/test_rule_laws.py` has the laws."""

import time
from typing import Any

import pytest

from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.rules.checking import Verdict, check_rules
from wfcore.domain.rules.rules import Rule, always_ends_in, approved, at_most, failed, never, outcome, parse_rule
from wfcore.domain.run.replay import fold
from wfcore.testing.histories import sketch

ASK: dict[str, JSON] = {"type": "humanApproval", "timeoutSeconds": 60}
REFUND = sketch("s -> ask", "ask -approved-> pay", "ask -denied-> tell", ask=ASK)
AGAIN: dict[str, JSON] = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.mail.output"}]}
LOOP = sketch("s -> mail", "mail -> c", "c -again-> mail", "c -else-> e", c=AGAIN)


def verdict(structure: Any, rule: Rule | str, given: JSON = None, **options: Any) -> Verdict:
    rule = parse_rule(rule) if isinstance(rule, str) else rule
    (found,) = check_rules(structure, [rule], given, **options)
    return found


def text(found: Verdict) -> str:
    return "; ".join(found.lines())


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        (never("pay").without(approved("ask")), "holds: never pay without approved ask"),
        (
            "never tell without approved ask",
            "broken: never tell without approved ask; 1. ask: denied; then `tell` begins",
        ),
        ("never pay", "broken: never pay; 1. ask: approved; then `pay` begins"),
        ("never s", "broken: never s; then `s` begins"),
        (at_most("pay", 1), "holds: at most 1 pay"),
        ("always ends in pay or tell or in error", "holds: always ends in pay or tell or in error"),
        (
            always_ends_in("pay", "tell"),
            "broken: always ends in pay or tell; 1. ask: approved; 2. pay: failed; then the run ends in error",
        ),
        (
            "always ends in pay or in error",
            "broken: always ends in pay or in error; 1. ask: denied; 2. tell: done; then the run ends as `done`",
        ),
    ],
)  # fmt: skip
def test_a_refund(rule: Rule | str, lines: str) -> None:
    """The shortest counter-example is shown as steps."""
    assert text(verdict(REFUND, rule)).removesuffix(", in none of these nodes") == lines


def test_an_approval_by_the_deadline_is_not_an_approval() -> None:
    """With `onTimeout: approve` the handle `approved` is also left when nobody has decided."""
    graph = sketch("s -> ask", "ask -approved-> pay", ask={**ASK, "onTimeout": "approve"})
    found = verdict(graph, "never pay without approved ask")
    assert "1. ask: expired" in text(found)
    assert verdict(graph, "never pay without approved ask or expired ask").holds


def test_a_join_does_not_need_both_branches() -> None:
    """A node runs if one edge into it was taken: beside the approval, another branch leads to it."""
    graph = sketch("s -> ask", "s -> b", "b -> pay", "ask -approved-> pay", ask=ASK)
    found = verdict(graph, "never pay without approved ask")
    assert found.counter_example is not None
    assert found.counter_example.path == ("s", "b", "pay")
    assert set(found.counter_example.steps) == {("b", "done"), ("ask", "denied")}


def test_what_happens_beside_does_not_come_before() -> None:
    """Two branches side by side: nothing says that the approval comes first, in whatever order they are written."""
    for edges in (("s -> ask", "s -> b"), ("s -> b", "s -> ask")):
        graph = sketch(*edges, "b -> pay", "ask -approved-> x", ask=ASK)
        assert not verdict(graph, "never pay without approved ask").holds
        assert verdict(graph, "never pay without done b").holds


def test_an_end_at_once_comes_before_what_would_follow() -> None:
    """Where the denial ends the run, nothing after the join begins any more: the edges alone do not know."""
    graph = sketch(
        "s -> ask", "ask -denied-> stop", "ask -expired-> stop", "ask -approved-> a", "ask -denied-> b", "b -> pay",
        "a -> pay", ask=ASK, stop={"toolId": "core.fail", "params": {}},
    )  # fmt: skip
    found = verdict(graph, "never pay without approved ask")
    assert (found.status, found.decided_by, found.complete) == ("holds", "simulation", True)


def test_error_edges_and_failing_expressions_are_ways_to_a_node() -> None:
    """A transform whose open template can fail leads on by its `error` edge; a wait by its time-out."""
    data: Any = {"toolId": "core.transform", "params": {"value": "{{ input.x }}"}}
    assert not verdict(sketch("s -> t", "t -error-> pay", t=data), "never pay").holds
    assert verdict(sketch("s -> t", "t -error-> pay", t=data), "never pay without failed t").holds
    assert verdict(sketch("s -> t", "t -error-> pay", t=data), "never pay", {"x": 1}).holds
    assert verdict(sketch("s -> t", "t -error-> pay", t=data), never("pay").without(failed("t")), {"y": 1}).holds
    wait: Any = {"toolId": "core.wait", "params": {"seconds": 9}, "timeoutSeconds": 5}
    assert not verdict(sketch("s -> t", "t -error-> pay", t=wait), "never pay").holds


@pytest.mark.parametrize(("count", "words"), [(1, "for the 2nd time"), (2, "for the 3rd"), (11, "for the 12th time")])
def test_a_cycle_calls_again(count: int, words: str) -> None:
    """A node of a cycle is called as often as the cycle goes round; one behind it, once."""
    found = verdict(LOOP, at_most("mail", count))
    assert words in text(found)
    assert found.counter_example is not None
    assert len(found.counter_example.steps) == 2 * count
    assert verdict(LOOP, "at most 1 e").holds


def test_every_item_is_a_call() -> None:
    """Of an open list there can be any number; with the input they are counted, in each visit."""
    graph = sketch("s -> mail", mail={"forEach": "input.items", "params": {"x": "{{ item }}"}})
    assert "one call for each item" in text(verdict(graph, "at most 900 mail"))
    items: JSON = {"items": [1, 2, 3]}
    assert verdict(graph, "at most 3 mail", items).holds
    assert "with 3 calls each time" in text(verdict(graph, "at most 2 mail", items))
    for none in ({"items": []}, {"items": 7}, {"other": 1}):
        assert verdict(graph, "at most 0 mail", none).holds
    assert not verdict(sketch("s -> a", "a -> mail", mail={"forEach": "nodes.a.output"}), "at most 9 mail").holds


def test_a_cycle_that_nothing_leaves_never_ends() -> None:
    """Its way out is never taken, so no run ends in the node behind it."""
    again: Any = {"type": "condition", "branches": [{"handle": "again", "when": "true"}]}
    graph = sketch("s -> a", "a -> c", "c -again-> a", "c -else-> b", a={"toolId": "core.transform"}, c=again)
    assert "a cycle that nothing leaves" in text(verdict(graph, "always ends in b or in error"))
    assert verdict(graph, "never b").holds


def test_a_denied_call_has_no_output() -> None:
    """An action that requires approval can be denied: the run then ends without its output."""
    graph = sketch("s -> pay", pay={"requiresApproval": True})
    found = verdict(graph, "always ends in pay or in error")
    assert found.counter_example is not None
    assert found.counter_example.steps == (("pay", "denied"),)


def test_branches_of_conditions_are_outcomes() -> None:
    """With an input that decides them, only that branch is taken."""
    big: Any = {"type": "condition", "branches": [{"handle": "big sum", "when": "input.n > 10"}]}
    graph = sketch("s -> c", "c -else-> pay", "c -else-> x", c=big)
    graph["edges"][1]["sourceHandle"] = "big sum"
    assert verdict(graph, never("pay").without(outcome("c", "big sum"))).holds
    assert verdict(graph, "never pay without else c").counter_example is not None
    assert verdict(graph, "never pay without else c", {"n": 1}).holds


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("never nothing", "unknown node `nothing`: use one of `s`, `ask`, `pay`, `tell`"),
        ("never pay without approved nobody", "unknown node `nobody`"),
        ("never pay without done ask", "unknown outcome `done` of node `ask`: use `approved`, `denied`, `expired`"),
        ("never pay without approved tell", "use `done`, `failed`"),
        ("never pay without done s", "use none, since it is a start node"),
        ("never pay without done pay", "`pay` cannot come before itself"),
        ("at most 1 nothing", "unknown node"),
        ("always ends in tell or nothing", "unknown node"),
    ],
)
def test_a_rule_names_nodes_and_outcomes_that_exist(rule: str, message: str) -> None:
    """Else it is refused, at its place, whatever the other rules say."""
    with pytest.raises(Invalid) as raised:
        check_rules(REFUND, [never("pay"), parse_rule(rule)])
    issue: Any = raised.value.info["errors"]
    assert issue[0]["path"] == "rules[1]"
    assert message in issue[0]["message"]


def wide(count: int, after: str) -> dict[str, JSON]:
    """So many branches side by side within a cycle: more states than a search visits."""
    edges = [edge for n in range(count) for edge in (f"h -> a{n}", f"a{n} -> b{n}", f"b{n} -> c")]
    check: Any = {"type": "condition", "branches": [{"handle": "again", "when": "input.x"}]}
    return sketch("s -> h", *edges, "c -again-> h", "c -else-> ask", f"ask -{after}-> pay", c=check, ask=ASK)


def test_of_too_many_states_the_edges_still_decide() -> None:
    """`never ... without` is decided; other rules are unknown, and both say that not all states were visited."""
    large = wide(8, "denied")
    found = verdict(large, "never pay without approved ask", most_states=300)
    assert (found.status, found.decided_by, found.complete) == ("broken", "graph", False)
    assert found.counter_example is not None
    assert found.counter_example.path == ("s", "h", "a0", "b0", "c", "ask", "pay")
    assert (found.counter_example.journal, found.counter_example.steps) == ((), ())
    assert "not all states were visited" in text(found)
    assert verdict(wide(8, "approved"), "never pay without approved ask", most_states=300).holds
    unknown = verdict(large, "at most 3 b7", most_states=300)
    assert (unknown.status, unknown.holds, unknown.complete) == ("unknown", False, False)


def test_fifty_nodes_are_decided_within_a_second() -> None:
    """Choices, cycles and branches in a row: each is one step of a search, not a factor of it."""
    edges, data, before = [], dict[str, Any](), "s"
    for n in range(10):
        names = f"{before} -> c{n}", f"c{n} -x-> a{n}", f"c{n} -else-> b{n}", f"a{n} -> j{n}", f"b{n} -> j{n}"
        edges += [*names, f"j{n} -> d{n}", f"d{n} -x-> c{n}"]
        check = {"type": "condition", "branches": [{"handle": "x", "when": "input.x"}]}
        data |= {f"c{n}": check, f"d{n}": check}
        edges.append(f"d{n} -else-> e{n}")
        before = f"e{n}"
    graph = sketch(*edges, f"{before} -> ask", "ask -approved-> pay", "ask -denied-> no", ask=ASK, **data)
    rules = ["never no without approved ask", "at most 1 a9", "always ends in pay or no or ask or in error"]
    began = time.process_time()
    found = check_rules(graph, [never("pay").without(approved("ask")), *map(parse_rule, rules)])
    spent = time.process_time() - began
    assert [one.status for one in found] == ["holds", "broken", "broken", "holds"]
    assert len(graph["nodes"]) > 50  # type: ignore[arg-type]
    assert all(one.complete for one in found)
    assert sum(one.states for one in found) < 1_500, spent


def test_a_counter_example_is_a_journal() -> None:
    """It folds with the plan of the simulation to the moment at which the rule is broken."""
    example = verdict(REFUND, "never tell without approved ask").counter_example
    assert example is not None
    assert example.plan is not None
    machine = fold(example.plan, example.journal)
    assert [machine.plan.nodes[address[0]].id for address in machine.pending] == ["tell"]


def test_long_counter_examples_are_cut() -> None:
    """The text shows the first steps and how many follow."""
    found = verdict(LOOP, at_most("mail", 40))
    assert "... 30 more" in text(found)
    assert "for the 41st time" in text(found)
