"""All the ends that runs of a workflow can have, each with a journal that leads to it.

The search visits the states of a rehearsal (`rehearse`) by entries of every outcome that an effect can have: first the
states for which the fewest nodes ran again, and of these the farthest. States that differ only in what does not matter,
such as times and numbers of visits, count as one, so that a cycle is repeated until a round adds nothing new. Without
cycles, and without a node that always ends the run, the order in which effects end makes no difference: one order is
taken, else all are.

Every journal folds with `plan` to the end of its path. A simulation assumes that expressions over what is open return
one of their possible values and do not fail, and that no bound is passed. Retries, the items of a `forEach` and the
votes of a quorum are shown as their one outcome; a child or an agent as its success or failure.
"""

from collections.abc import Hashable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import Final, Literal

import attrs

from wfcore.domain.graph.structure import NodeType
from wfcore.domain.kernel.errors import refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address
from wfcore.domain.run.entries import Actor, Entry, Started
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import NodePlan, Plan
from wfcore.domain.run.rehearsal import DENIED, EXPIRED, EXPRESSION, Rehearsal, Way, all_before, rehearse
from wfcore.domain.run.replay import step
from wfcore.domain.run.state import RunStatus

MOST_PATHS: Final = 200
STATES_PER_PATH: Final = 50
"""States that are visited for each path that can be returned, before a simulation is cut short."""

Ways = Mapping[str, str]
"""How nodes ended, when they last did, by node id."""


@attrs.frozen
class Path:
    """One end: `done` with the output of these nodes (none: null, several: an object by node id), `error` because
    `failed` ended the run, or `endless`: into a cycle that no outcome leaves. `steps` are nodes with how they
    ended, in order; `journal` leads to the end.
    """

    end: Literal["done", "error", "endless"]
    steps: tuple[tuple[str, str], ...]
    output: tuple[str, ...]
    failed: str | None
    journal: tuple[Entry, ...]

    @property
    def ways(self) -> dict[str, str]:
        """How the nodes ended, when they last did."""
        return dict(self.steps)

    @property
    def invalid(self) -> bool:
        """Whether an expression ends the run in error, with the input that it was given."""
        return self.end == "error" and self.steps[-1:] == ((self.failed, EXPRESSION),)


@attrs.frozen
class Simulation:
    """What a workflow can come to. `paths` are its ends, one way to each: those `done` differ in how their
    nodes ended, those in `error` in the node and how it failed.

    If it is not `complete`, it was cut short, and there are more; `never_reached` is empty then. `can_expire` are
    approvals, `dead_ends` exits `(node, exit)` that are taken and lead nowhere. `plan` is what the journals fold with.
    """

    paths: tuple[Path, ...]
    complete: bool
    never_reached: tuple[str, ...]
    can_expire: tuple[str, ...]
    dead_ends: tuple[tuple[str, str], ...]
    plan: Plan = attrs.field(repr=False)

    @property
    def can_fail(self) -> tuple[str, ...]:
        """The nodes that can end the run in error: no `error` edge catches them."""
        return tuple(dict.fromkeys(path.failed for path in self.paths if path.failed is not None))

    @property
    def sound(self) -> bool:
        """Whether a path comes to `done`, every cycle can be left, and no expression is known to end a run in error.
        What was not visited, because it was cut short, counts as sound.
        """
        ends = {path.end for path in self.paths}
        finishes = "done" in ends or not self.complete
        return finishes and "endless" not in ends and not any(path.invalid for path in self.paths)


def simulate(structure: Mapping[str, JSON], given: JSON = None, most_paths: int = MOST_PATHS) -> Simulation:
    """Simulate a structure that passed the rules for deployment. `given` is the run's input; with None what reads it
    is open. It is cut short after `most_paths` paths. Invalid when the start node's `inputSchema` forbids the input.
    """
    rehearsal = rehearse(structure, given)
    schema = rehearsal.workflow.nodes[rehearsal.workflow.start].schema
    if schema is not None and given is not None:
        refuse(schema.check(given, "input"), as_invalid=True)
    return _Search(rehearsal, given, most_paths).result()


@attrs.frozen
class _State:
    """A state that was reached from the one numbered `before` by an entry, which was this step."""

    machine: Machine
    ways: Ways
    before: int
    entry: Entry
    step: tuple[str, str] | None = None
    depth: int = 0

    @property
    def repeats(self) -> int:
        """How many times a node ran again."""
        return self.depth - len(self.ways)


class _Search:
    """Visits the states of a rehearsal. `led_from` has for each state those that lead to it."""

    def __init__(self, rehearsal: Rehearsal, given: JSON, most_paths: int) -> None:
        self._rehearsal, self._most = rehearsal, most_paths
        self._parts = rehearsal.parts
        self._any_order = not rehearsal.plan.loops and not any(part.fatal for part in self._parts.values())
        self._states: list[_State] = []
        self._next: list[tuple[int, int, int]] = []
        self._known: dict[Hashable, int] = {}
        self._led_from: list[list[int]] = []
        self._ends: dict[Hashable, int] = {}
        self._visited: set[int] = set()
        self._left: dict[tuple[int, Way], None] = {}
        started = Started(0, "simulation", Actor("simulation"), given, {})
        self._arrive(_State(step(Machine(rehearsal.plan), started), {}, -1, started))

    def result(self) -> Simulation:
        complete = self._visit()
        paths = [self._path(number) for number in islice(self._ends.values(), self._most)]
        if complete and (stuck := self._stuck()) is not None:
            paths.append(self._path(stuck))
        nodes = self._rehearsal.workflow.nodes
        return Simulation(
            tuple(paths),
            complete,
            tuple(node.id for node in nodes if complete and node.index not in self._visited),
            tuple(nodes[index].id for index, way in self._left if way.name == EXPIRED),
            tuple((nodes[index].id, way.name) for index, way in self._left if _leads_nowhere(nodes[index], way)),
            self._rehearsal.plan,
        )

    def _visit(self) -> bool:
        """Visit states. False: there are more than can be visited."""
        while self._next and len(self._ends) <= self._most and len(self._states) <= STATES_PER_PATH * self._most:
            _, _, number = heappop(self._next)
            for address, way in self._options(self._states[number].machine):
                self._arrive(self._after(number, address, way))
        return not self._next and len(self._ends) <= self._most

    def _options(self, machine: Machine) -> Iterator[tuple[Address, Way]]:
        waiting = sorted(machine.pending)
        chosen = [address for address in waiting if self._parts[address[0]].instant] or waiting
        for address in chosen[:1] if self._any_order else chosen:
            for way in self._parts[address[0]].ways:
                yield address, way

    def _after(self, number: int, address: Address, way: Way) -> _State:
        state, part = self._states[number], self._parts[address[0]]
        self._left[part.node.index, way] = None
        entry = self._rehearsal.ending(address, way)
        after = step(state.machine, entry)
        ways = {**state.ways, part.node.id: way.name}
        return _State(after, ways, number, entry, (part.node.id, way.name), state.depth + 1)

    def _arrive(self, state: _State) -> None:
        """Record the state, and the state that leads to it."""
        key = self._key(state)
        number = self._known.setdefault(key, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._led_from.append([])
            place = self._rehearsal.place
            self._visited |= {place(index) for index, visits in enumerate(state.machine.root.visits) if visits}
            if state.machine.ended:
                self._ends[key] = number
            else:
                heappush(self._next, (state.repeats, -state.depth, number))
        if state.before >= 0:
            self._led_from[number].append(state.before)

    def _key(self, state: _State) -> Hashable:
        """All that matters for what can still happen, and for the path."""
        machine, root = state.machine, state.machine.root
        if machine.status is RunStatus.error:
            return state.step
        shown = frozenset(root.ends), frozenset(state.ways.items())
        if machine.ended:
            return shown
        flow = root.flow
        counts = tuple(flow.need), tuple(flow.taken), tuple(flow.unsettled)
        return shown, tuple(root.nodes), counts, frozenset(root.flow.edges.items())

    def _stuck(self) -> int | None:
        """The last found of the states that lead to no end."""
        lead = all_before(self._ends.values(), self._led_from)
        return max(set(range(len(self._states))) - lead, default=None)

    def _path(self, number: int) -> Path:
        last, way = self._states[number], list[_State]()
        while number >= 0:
            way.append(self._states[number])
            number = way[-1].before
        failed = last.step[0] if last.step and last.machine.status is RunStatus.error else None
        return Path(
            _END.get(last.machine.status, "endless"),
            tuple(state.step for state in reversed(way) if state.step),
            tuple(self._output(last)) if last.machine.status is RunStatus.done else (),
            failed,
            tuple(state.entry for state in reversed(way)),
        )

    def _output(self, state: _State) -> Iterator[str]:
        """The nodes whose output is that of the run: an action that was denied has none."""
        for index in sorted(state.machine.root.ends):
            node = self._rehearsal.workflow.nodes[index]
            if not (node.kind is NodeType.ACTION and state.ways[node.id] == DENIED.name):
                yield node.id


_END: Mapping[RunStatus, Literal["done", "error"]] = {RunStatus.done: "done", RunStatus.error: "error"}


def _leads_nowhere(node: NodePlan, way: Way) -> bool:
    """Whether an exit that can be taken has no edge, on a node that has others."""
    branches = node.kind in (NodeType.CONDITION, NodeType.HUMAN_APPROVAL) or way == DENIED
    return branches and not way.fails and bool(node.outgoing) and not node.route(way.exit)[0]
