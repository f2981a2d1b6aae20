"""Whether the runs of a graph keep rules: by the edges of the graph where they suffice, else by a search of its states.

Rules hold for every input, or for the one that is given; for every outcome of tools, models, people and deadlines; for
every order in which effects end. What an expression over something open returns is open, too. It is assumed that an
expression that no `error` edge catches does not fail, and that no bound of the run is passed.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import attrs

from wfcore.domain.graph.node_types import ELSE, NodeType
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.rules.reach import Ways, reached, shortest_path, ways_of
from wfcore.domain.rules.rules import AlwaysEndsIn, AtMost, Never, Outcome, Rule
from wfcore.domain.rules.search import MAX_STATES, Found, Search, Searched
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import NodePlan, Plan
from wfcore.domain.run.rehearsal import (
    DENIED,
    DONE,
    EXPIRED,
    EXPRESSION,
    FAILED,
    Rehearsal,
    Way,
    known_items,
    rehearse,
)
from wfcore.domain.run.state import RunStatus

STEPS: Final = 50
"""Steps of a counter-example that are written out in a text."""


@attrs.frozen
class CounterExample:
    """A run that breaks a rule.

    `steps` are nodes with how they ended, in order; then `what` happens. `path` are the ids of the nodes on edges that
    were taken from the start to there. `journal` leads there, and folds with `plan`; it is empty where the path was
    read off the edges only, since the graph has too many states.
    """

    steps: tuple[tuple[str, str], ...]
    what: str
    path: tuple[str, ...]
    journal: tuple[Entry, ...] = attrs.field(default=(), repr=False)
    plan: Plan | None = attrs.field(default=None, repr=False)

    def lines(self) -> Iterator[str]:
        """The steps as text, numbered, and what then happens."""
        for number, (node, way) in enumerate(self.steps[:STEPS], 1):
            yield f"{number}. {node}: {way}"
        if len(self.steps) > STEPS:
            yield f"... {len(self.steps) - STEPS} more"
        yield f"then {self.what}"


@attrs.frozen
class Verdict:
    """Whether a rule holds. `unknown`: the graph has more states than were visited, and its edges do not decide.

    `decided_by` the edges of the `graph`, or a `simulation` of `states` states, of which `complete` says whether they
    are all.
    """

    rule: Rule
    status: Literal["holds", "broken", "unknown"]
    decided_by: Literal["graph", "simulation"]
    counter_example: CounterExample | None = None
    complete: bool = True
    states: int = 0

    @property
    def holds(self) -> bool:
        return self.status == "holds"

    def lines(self) -> Iterator[str]:
        """The verdict as text."""
        yield f"{self.status}: {self.rule}"
        if self.counter_example:
            yield from self.counter_example.lines()
        if not self.complete:
            yield f"not all states were visited: the simulation stopped after {self.states}"


def check_rules(
    structure: Mapping[str, JSON], rules: Iterable[Rule], given: JSON = None, most_states: int = MAX_STATES
) -> list[Verdict]:
    """The verdict on each rule, for runs of a structure that passed the rules for deployment.

    `given` is the input of the runs; with None it is open. Invalid for a rule that names an unknown node or outcome,
    at `rules[0]` and so on.
    """
    checker = Checker(structure, given, most_states)
    rules = list(rules)
    refuse(
        [issue for place, rule in enumerate(rules) for issue in checker.issues(rule, f"rules[{place}]")],
        as_invalid=True,
    )
    return [checker.verdict(rule) for rule in rules]


class Checker:
    """Checks rules on one graph. `most_states` is that of each search."""

    def __init__(self, structure: Mapping[str, JSON], given: JSON = None, most_states: int = MAX_STATES) -> None:
        self._rehearsal, self._given, self.most_states = rehearse(structure, given), given, most_states
        self._nodes = {node.id: node for node in self._rehearsal.workflow.nodes}
        self._ways = ways_of(self._rehearsal)

    def issues(self, rule: Rule, path: str) -> list[Issue]:
        """The nodes and outcomes that the rule names and the graph does not have."""
        unknown = [name for name in rule.nodes if name not in self._nodes]
        if unknown:
            known = ", ".join(f"`{name}`" for name in list(self._nodes)[:20])
            return [Issue(path, f"unknown node `{unknown[0][:80]}`: use one of {known}", "reference")]
        if not isinstance(rule, Never):
            return []
        found = []
        for one in rule.unless:
            ways = outcomes_of(self._nodes[one.node])
            if one.node == rule.node:
                found.append(Issue(path, f"`{one.node[:80]}` cannot come before itself", "reference"))
            elif one.way not in ways:
                allowed = ", ".join(f"`{way}`" for way in ways) or "none, since it is a start node"
                message = f"unknown outcome `{one.way[:80]}` of node `{one.node[:80]}`: use {allowed}"
                found.append(Issue(path, message, "reference"))
        return found

    def reached(self, unless: Sequence[Outcome] = ()) -> set[str]:
        """The ids of the nodes that edges lead to before any of these outcomes."""
        nodes = self._rehearsal.workflow.nodes
        return {nodes[index].id for index in reached(self._rehearsal, self._ways_without(unless))}

    def verdict(self, rule: Rule) -> Verdict:
        """The verdict on a rule without issues."""
        if isinstance(rule, Never):
            return self._never(rule)
        return self._at_most(rule) if isinstance(rule, AtMost) else self._always_ends(rule)

    def _never(self, rule: Never) -> Verdict:
        """The rule is broken by a run in which none of the outcomes happens before the node begins."""
        ways = self._ways_without(rule.unless)
        node = self._nodes[rule.node].index
        path = shortest_path(self._rehearsal, ways, node)
        if path is None:
            return Verdict(rule, "holds", "graph")
        searched = self._begins(ways, node, 1)
        if searched.found is None and not searched.complete:
            example = CounterExample((), f"`{rule.node}` begins", tuple(self._ids(path)))
            return Verdict(rule, "broken", "graph", example, complete=False, states=searched.states)
        return self._judged(rule, searched, searched.found, f"`{rule.node}` begins", node)

    def _ways_without(self, unless: Sequence[Outcome]) -> Ways:
        return ways_of(self._rehearsal, lambda node, way: not any(_matches(one, node, way) for one in unless))

    def _at_most(self, rule: AtMost) -> Verdict:
        node = self._nodes[rule.node]
        calls = self._calls(node)
        visits = 1 if calls is None else rule.count // calls + 1 if calls else None
        path = shortest_path(self._rehearsal, self._ways, node.index)
        if visits is None or path is None or (visits > 1 and node.loop < 0):
            return Verdict(rule, "holds", "graph")
        searched = self._begins(self._ways, node.index, visits)
        what = f"`{rule.node}` begins" + ("" if visits == 1 else f" for the {_ordinal(visits)} time")
        if calls is None:
            what += ", with one call for each item of `forEach`, of any number"
        elif calls > 1:
            what += f", with {calls} calls each time"
        return self._judged(rule, searched, searched.found, what, node.index)

    def _always_ends(self, rule: AlwaysEndsIn) -> Verdict:
        ends = frozenset(self._nodes[name].index for name in rule.ends)
        goal = _EndsElsewhere(ends, rule.or_in_error, self._rehearsal)
        searched = self._ends(goal)
        if searched.stuck is not None:
            return self._judged(rule, searched, searched.stuck, "the run goes round a cycle that nothing leaves")
        found = searched.found
        failed = found is not None and goal.in_error(found)
        what = "the run ends in error" if failed else "the run ends as `done`, in none of these nodes"
        return self._judged(rule, searched, found, what)

    def _begins(self, ways: Ways, node: int, times: int) -> Searched:
        """Whether the node can begin so many times. What is found in a reduced search is a run; what is not found is
        certain unless a node ends the run at once.
        """
        goal = _Begins(self._rehearsal, node, times)
        searched = self._search(ways, goal, self.most_states, reduced=True)
        fatal = any(part.fatal and part.instant for part in self._rehearsal.parts.values())
        if searched.found is None and fatal:
            return self._search(ways, goal, self.most_states, reduced=False)
        return searched

    def _ends(self, goal: "_EndsElsewhere") -> Searched:
        """Whether a run ends elsewhere: the shortest one if the graph is small."""
        searched = self._search(self._ways, goal, self.most_states // 10, reduced=False)
        return searched if searched.complete else self._search(self._ways, goal, self.most_states, reduced=True)

    def _search(self, ways: Ways, goal: "_Begins | _EndsElsewhere", most: int, *, reduced: bool) -> Searched:
        return Search(self._rehearsal, self._given, ways, goal, most, reduced=reduced).run()

    def _judged(
        self, rule: Rule, searched: Searched, found: Found | None, what: str, node: int | None = None
    ) -> Verdict:
        example = None
        if found is not None:
            steps = tuple((name, way.name) for name, way in found.steps)
            path = self._taken_path(found, node)
            example = CounterExample(steps, what, path, found.journal, self._rehearsal.plan)
        status: Literal["holds", "broken", "unknown"] = "broken" if example else "holds"
        if example is None and not searched.complete:
            status = "unknown"
        return Verdict(rule, status, "simulation", example, searched.complete or example is not None, searched.states)

    def _taken_path(self, found: Found, node: int | None) -> tuple[str, ...]:
        """The nodes on edges that were taken: from the start to this node, or to the last one that ended."""
        ended: dict[int, list[Way]] = {index: [] for index in self._ways}
        for name, way in found.steps:
            ended[self._nodes[name].index].append(way)
        if node is None:
            node = self._nodes[found.steps[-1][0]].index if found.steps else self._rehearsal.workflow.start
        path = shortest_path(self._rehearsal, ended, node)
        return tuple(self._ids(path or ()))

    def _ids(self, path: Iterable[int]) -> Iterator[str]:
        return (self._rehearsal.workflow.nodes[index].id for index in path)

    def _calls(self, node: NodePlan) -> int | None:
        """How many calls one visit makes; None if that is open."""
        return 1 if node.for_each is None else known_items(node.for_each, self._given)


# Goals


class _Begins:
    """The node begins for the `times`-th time."""

    def __init__(self, rehearsal: Rehearsal, node: int, times: int) -> None:
        self.node, self._times = node, times
        calls = (position for position, part in rehearsal.parts.items() if part.node.index == node)
        self._position = next(calls, node)

    def reached(self, machine: Machine) -> bool:
        return machine.root.visits[self._position] >= self._times

    def counted(self, machine: Machine) -> Hashable:
        return machine.root.visits[self._position]


class _EndsElsewhere:
    """The run ends as `done` without one of these nodes, or in error unless that is allowed."""

    node = None

    def __init__(self, ends: frozenset[int], error_allowed: bool, rehearsal: Rehearsal) -> None:
        self._ends, self._error_allowed = ends, error_allowed
        self._denied = {part.node.index for part in rehearsal.parts.values() if DENIED in part.ways}

    def reached(self, machine: Machine) -> bool:
        if machine.status is RunStatus.error:
            return not self._error_allowed
        return machine.status is RunStatus.done and not self.counted(machine)

    def counted(self, machine: Machine) -> Hashable:
        """The nodes whose output is part of the run's: an action that was denied has none."""
        frame = machine.root
        denied = {index for index in self._denied if frame.handles.get(index) == DENIED.exit}
        return frozenset(index for index in frame.ends if index in self._ends and index not in denied)

    def in_error(self, found: Found) -> bool:
        return bool(found.steps) and found.steps[-1][1].fails


def _matches(one: Outcome, node: str, way: Way) -> bool:
    return one.node == node and way.name in _NAMES.get(one.way, (one.way,))


_NAMES: Final[Mapping[str, tuple[str, ...]]] = {FAILED: (FAILED, EXPRESSION)}
"""The ways that count as an outcome, if these are several."""


def outcomes_of(node: NodePlan) -> tuple[str, ...]:
    """The outcomes that a rule can name of a node."""
    match node.kind:
        case NodeType.START:
            return ()
        case NodeType.CONDITION:
            return (*(handle for handle, _ in node.branches), ELSE)
        case NodeType.HUMAN_APPROVAL:
            return "approved", "denied", EXPIRED
    return (DONE, FAILED, DENIED.name) if node.requires_approval else (DONE, FAILED)


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
