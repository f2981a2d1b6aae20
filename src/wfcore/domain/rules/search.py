"""A search for a run that reaches a goal, in the states of a rehearsal: a shortest one, with the machine of real runs.

States that are alike in all that the future depends on count as one: where nodes stand that have not ended, the edges
that cycles hold, and what the goal counts. So a chain of choices has as many states as nodes, not as many as paths.

A `reduced` search lets a node from which no cycle can be reached end before all others that wait: it neither enables
nor prevents what they do, and has to end anyway (a persistent set; Godefroid, 1996). Without cycles that is one order.
Only nodes that at once end the run make a difference, to what begins beside them. The search is A* (Hart, Nilsson and
Raphael, 1968): the distance of a goal never overestimates.
"""

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.rules.reach import UNREACHED, Ways, distances, leading_to
from wfcore.domain.run.effects import Address
from wfcore.domain.run.entries import Actor, Entry, Started
from wfcore.domain.run.flow import HELD_TAKEN
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import NodeState
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.rehearsal import Rehearsal, Way, all_before
from wfcore.domain.run.replay import step

IDLE, RUNNING = NodeState.idle, NodeState.running

MAX_STATES: Final = 5_000
"""The most states of one search, before it is cut short."""


class Goal(Protocol):
    """What is searched for: that a node begins, or an end of the run."""

    @property
    def node(self) -> int | None:
        """The position of the node that has to begin; None for an end."""
        ...

    def reached(self, machine: Machine) -> bool: ...

    def counted(self, machine: Machine) -> Hashable:
        """What two states must have in common, beside where their nodes stand, to be alike."""
        ...


@attrs.frozen
class Found:
    """A run that reaches a goal: its steps, nodes with how they ended, and the journal that leads there."""

    steps: tuple[tuple[str, Way], ...]
    journal: tuple[Entry, ...]


@attrs.frozen
class Searched:
    """What a search came to. Without `complete`, there are states that it did not visit.

    `stuck` leads to a state from which no run can end; known if the search was complete and found nothing.
    """

    found: Found | None
    complete: bool
    states: int
    stuck: Found | None = None


@attrs.frozen
class _State:
    """A state, which was reached from the one numbered `before` by this entry, which was this step."""

    machine: Machine
    before: int
    entry: Entry
    step: tuple[str, Way] | None = None
    depth: int = 0


class Search:
    """One search. `ways` are those that nodes can end in; with none, a node never ends."""

    def __init__(
        self,
        rehearsal: Rehearsal,
        given: JSON,
        ways: Ways,
        goal: Goal,
        most_states: int = MAX_STATES,
        *,
        reduced: bool,
    ) -> None:
        self._rehearsal, self._goal, self._most, self._ways = rehearsal, goal, most_states, ways
        self._parts = rehearsal.parts
        self._relevant = None if goal.node is None else leading_to(rehearsal, goal.node)
        self._distances = () if goal.node is None else distances(rehearsal, ways, goal.node)
        self._commuting = _before_no_cycle(rehearsal.plan) if reduced else frozenset()
        self._around = [_loops_around(rehearsal.plan, node.loop) for node in rehearsal.plan.nodes]
        self._held = [edge for edges in rehearsal.plan.exits for edge in edges]
        self._edges = {edge.index: edge for node in rehearsal.plan.nodes for edge in node.outgoing}
        self._states: list[_State] = []
        self._next: list[tuple[int, int, int]] = []
        self._known: dict[Hashable, int] = {}
        self._led_from: list[list[int]] = []
        started = Started(0, "simulation", Actor("simulation"), given, {})
        self._arrive(_State(step(Machine(rehearsal.plan), started), -1, started))

    def run(self) -> Searched:
        """Search until the goal is reached, nothing is left, or too many states were visited."""
        while self._next and len(self._states) <= self._most:
            _, _, number = heappop(self._next)
            state = self._states[number]
            if self._goal.reached(state.machine):
                return Searched(self._found(number), complete=True, states=len(self._states))
            for address, way in self._options(state.machine):
                self._arrive(self._after(number, address, way))
        complete = not self._next
        stuck = self._stuck() if complete else None
        return Searched(None, complete, len(self._states), None if stuck is None else self._found(stuck))

    def _options(self, machine: Machine) -> Iterator[tuple[Address, Way]]:
        """What can happen next. What the machine decides at once comes before all else, in any order."""
        waiting = [(address, self._parts[address[0]]) for address in sorted(machine.pending)]
        instant, relevant = [one for one in waiting if one[1].instant], self._relevant
        if instant:
            chosen = [(address, part) for address, part in instant if self._ways[part.node.index]]
        else:
            chosen = [one for one in waiting if relevant is None or one[1].node.index in relevant]
        alone = [one for one in chosen if one[0][0] in self._commuting]
        for address, part in alone[:1] or chosen:
            for way in self._ways[part.node.index]:
                yield address, way

    def _after(self, number: int, address: Address, way: Way) -> _State:
        state, part = self._states[number], self._parts[address[0]]
        entry = self._rehearsal.ending(address, way)
        return _State(step(state.machine, entry), number, entry, (part.node.id, way), state.depth + 1)

    def _arrive(self, state: _State) -> None:
        """Record the state, unless one like it is known that is not farther from the start."""
        key = self._key(state.machine)
        number = self._known.get(key)
        if number is None or state.depth < self._states[number].depth:
            distance = self._distance(state.machine)
            if distance >= UNREACHED:
                return
            number = self._known[key] = len(self._states)
            self._states.append(state)
            self._led_from.append([])
            heappush(self._next, (state.depth + distance, -state.depth, number))
        if state.before >= 0:
            self._led_from[number].append(state.before)

    def _distance(self, machine: Machine) -> int:
        """The fewest nodes that have to end before the goal is reached; `UNREACHED` if it cannot be."""
        goal, frame = self._goal, machine.root
        if goal.node is None or goal.reached(machine):
            return 0
        if machine.ended:
            return UNREACHED
        ends = [1 + self._distances[self._rehearsal.place(index)] for index, *_ in machine.pending]
        led = [index for index, taken in enumerate(frame.flow.taken) if taken and frame.nodes[index] is IDLE]
        led += [edge.target for edge in self._held if frame.flow.edges.get(edge.index) == HELD_TAKEN]
        places = map(self._rehearsal.place, led)
        return min([*ends, *(1 if one == goal.node else 2 + self._distances[one] for one in places)], default=UNREACHED)

    def _key(self, machine: Machine) -> Hashable:
        """All that the future depends on."""
        frame = machine.root
        counted = self._goal.counted(machine)
        if machine.ended:
            return machine.status, counted
        flow, alive = frame.flow, {index for index, left in enumerate(frame.flow.unsettled) if left}
        nodes = [
            state if state is RUNNING else (flow.need[index], flow.taken[index] > 0) if state is IDLE else None
            for index, state in enumerate(frame.nodes)
        ]
        edges = frozenset(item for item in flow.edges.items() if self._matters(item[0], alive)) if alive else None
        return tuple(nodes), edges, tuple(flow.unsettled), counted

    def _matters(self, edge: int, alive: set[int]) -> bool:
        """Whether a cycle under way holds this edge, or can decide it anew."""
        plan = self._edges[edge]
        return plan.leaves in alive or not alive.isdisjoint(self._around[plan.target])

    def _stuck(self) -> int | None:
        """A state that leads to no end, the nearest to the start; only an end as the goal visits all of them."""
        if self._goal.node is not None:
            return None
        ends = (number for number, state in enumerate(self._states) if state.machine.ended)
        lead = all_before(ends, self._led_from)
        others = (number for number in range(len(self._states)) if number not in lead)
        return min(others, key=lambda number: self._states[number].depth, default=None)

    def _found(self, number: int) -> Found:
        way = list[_State]()
        while number >= 0:
            way.append(self._states[number])
            number = way[-1].before
        way.reverse()
        return Found(tuple(state.step for state in way if state.step), tuple(state.entry for state in way))


def _loops_around(plan: Plan, loop: int) -> frozenset[int]:
    """The cycle and those around it."""
    found = set()
    while loop >= 0:
        found.add(loop)
        loop = plan.loops[loop].parent
    return frozenset(found)


def _before_no_cycle(plan: Plan) -> frozenset[int]:
    """The nodes that are in no cycle and from which no edges lead into one."""
    before: list[list[int]] = [[] for _ in plan.nodes]
    for node in plan.nodes:
        for edge in node.outgoing:
            before[edge.target].append(node.index)
    found = {node.index for node in plan.nodes if node.loop >= 0}
    waiting = list(found)
    while waiting:
        for source in before[waiting.pop()]:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return frozenset(range(len(plan.nodes))) - found
