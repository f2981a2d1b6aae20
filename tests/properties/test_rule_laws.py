"""Verdicts on rules are those of a search that knows no shortcut, on random graphs of any shape."""

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any

import attrs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds import structured, tangled

from wfcore.domain.rules.checking import Verdict, check_rules, outcomes_of
from wfcore.domain.rules.rules import AlwaysEndsIn, AtMost, Never, Outcome, Rule
from wfcore.domain.run.entries import Actor, Entry, Failed, Started, Succeeded
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.rehearsal import DENIED, Rehearsal, rehearse
from wfcore.domain.run.replay import fold, step

SOME = settings(max_examples=60)
MOST = 1_500

Steps = tuple[tuple[str, str], ...]


@attrs.frozen
class Seen:
    """A state: the machine, how nodes ended on the way there, and which began before which outcomes."""

    machine: Machine
    steps: Steps


def states(rehearsal: Rehearsal, rule: Rule) -> Iterator[Seen]:
    """All states in every order, each way there with another history of what the rule names; at most `MOST`."""
    started = Started(0, "r", Actor("a"), None, {})
    waiting = [Seen(step(Machine(rehearsal.plan), started), ())]
    known: set[Hashable] = set()
    while waiting:
        state = waiting.pop(0)
        key = key_of(rehearsal, state, rule)
        if key in known:
            continue
        known.add(key)
        assume(len(known) < MOST)
        yield state
        waiting += successors(rehearsal, state)


def key_of(rehearsal: Rehearsal, state: Seen, rule: Rule) -> Hashable:
    frame = state.machine.root
    flow = frame.flow
    place = (
        tuple(frame.nodes),
        tuple(flow.need),
        tuple(flow.taken),
        tuple(flow.unsettled),
        frozenset(flow.edges.items()),
    )
    happened = frozenset(one for one in state.steps if one[0] in rule.nodes)
    visits = tuple(min(begun(rehearsal, state.machine, name), 3) for name in rule.nodes)
    return place, state.machine.status, frozenset(frame.ends), frozenset(frame.handles.items()), happened, visits


def successors(rehearsal: Rehearsal, state: Seen) -> Iterator[Seen]:
    parts = rehearsal.parts
    waiting = sorted(state.machine.pending)
    for address in [one for one in waiting if parts[one[0]].instant] or waiting:
        part = parts[address[0]]
        for way in part.ways:
            entry: Entry
            if way.fails:
                entry = Failed(0, *address, 1, way.name, way.name, retryable=False)
            else:
                entry = Succeeded(0, *address, 1, part.exits.index(way.exit))
            yield Seen(step(state.machine, entry), (*state.steps, (part.node.id, way.name)))


def begun(rehearsal: Rehearsal, machine: Machine, name: str) -> int:
    """How many times the node began."""
    for position, part in rehearsal.parts.items():
        if part.node.id == name:
            return machine.root.visits[position]
    return 1


def breaks(rehearsal: Rehearsal, state: Seen, rule: Rule) -> bool:
    """Whether this state shows that the rule is broken."""
    machine = state.machine
    match rule:
        case Never():
            return begun(rehearsal, machine, rule.node) > 0 and not any(
                (one.node, way) in state.steps
                for one in rule.unless
                for way in ([one.way, "expression"] if one.way == "failed" else [one.way])
            )
        case AtMost():
            node = next(node for node in rehearsal.workflow.nodes if node.id == rule.node)
            times = begun(rehearsal, machine, rule.node)
            return times > rule.count or (node.for_each is not None and times > 0)
        case AlwaysEndsIn():
            if machine.status == "error":
                return not rule.or_in_error
            held = {part.node.id for part in rehearsal.parts.values() if DENIED in part.ways}
            denied = {node for node, way in dict(state.steps).items() if way == DENIED.name and node in held}
            ends = {rehearsal.workflow.nodes[index].id for index in machine.root.ends} - denied
            return machine.status == "done" and ends.isdisjoint(rule.ends)


def is_broken(rehearsal: Rehearsal, rule: Rule) -> int | None:
    """The fewest steps after which the rule is broken; None if it holds."""
    return next((len(one.steps) for one in states(rehearsal, rule) if breaks(rehearsal, one, rule)), None)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], Rule]:
    structure = draw(structured(people=True) | tangled() | tangled())
    assume(len(structure["nodes"]) <= 12)
    plan = compile_plan(structure)
    nodes = [node for node in plan.nodes if node.index != plan.start]
    node, other = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
    if draw(st.integers(0, 3)) == 0:  # an end at once, without an effect
        stop = draw(st.sampled_from(structure["nodes"][1:]))
        if stop["type"] == "action":
            stop["data"] = {"toolId": "core.fail", "params": {}}
    kind = draw(st.integers(0, 5))
    if kind < 3 and node is not other:
        ways = outcomes_of(other)
        return structure, Never(node.id, tuple(Outcome(other.id, way) for way in draw(st.sets(st.sampled_from(ways)))))
    if kind == 3:
        return structure, AtMost(node.id, draw(st.integers(0, 2)))
    return structure, AlwaysEndsIn((node.id, other.id), draw(st.booleans()))


@SOME
@given(cases())
def test_a_verdict_is_that_of_a_search_without_shortcuts(case: tuple[dict[str, Any], Rule]) -> None:
    """Joins, cycles, errors, deadlines: a rule holds if and only if no state in any order breaks it. A counter-example
    is a legal journal that ends in such a state, and names the nodes of a path of the graph.
    """
    structure, rule = case
    rehearsal = rehearse(structure)
    fewest = is_broken(rehearsal, rule)
    (verdict,) = check_rules(structure, [rule], most_states=20_000)
    assert verdict.complete
    if isinstance(rule, AlwaysEndsIn) and fewest is None and not verdict.holds:
        assert not fold_of(verdict).ended  # a cycle that nothing leaves
        return
    assert verdict.holds == (fewest is None)
    if verdict.counter_example is None:
        return
    assert breaks(rehearsal, Seen(fold_of(verdict), verdict.counter_example.steps), rule)
    edges = {(edge["source"], edge["target"]) for edge in structure["edges"]}
    path = verdict.counter_example.path
    assert set(pairwise(path)) <= edges
    if isinstance(rule, Never) and not any(part.instant for part in rehearsal.parts.values()):
        assert len(verdict.counter_example.steps) == fewest


def fold_of(verdict: Verdict) -> Machine:
    example = verdict.counter_example
    assert example is not None
    assert example.plan is not None
    machine = fold(example.plan, example.journal)
    assert len(example.journal) == len(example.steps) + 1
    return machine
