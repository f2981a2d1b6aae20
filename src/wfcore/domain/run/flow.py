"""How a run moves along the edges: joins, dead paths, cycles (interface, WorkflowStructure).

A node may go when every edge into it has been decided; it runs if at least one was taken, else it is skipped
and its own edges are not taken (dead-path elimination; Leymann and Roller, "Production Workflow", 2000).
An edge that closes a cycle does not count in joins. When it is taken, it re-arms the nodes of its cycle and starts the
head anew at once. An edge that leads out of a cycle is held until the cycle is left, that is, until all its nodes have
settled in a pass that does not start another; it then counts as taken if any pass took it.

`GraphFlow` is changed in place and belongs to one machine. It knows nothing of what nodes do.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from wfcore.domain.run.loops import loops_within
from wfcore.domain.run.plan import EdgePlan, Plan

UNDECIDED, NOT_TAKEN, TAKEN, HELD_NOT_TAKEN, HELD_TAKEN = range(5)


class GraphFlow:
    """Which nodes may go next. `ready` holds their positions in the order in which they became ready."""

    __slots__ = ("edges", "need", "plan", "ready", "taken", "unsettled")
    plan: Plan
    need: list[int]
    taken: list[int]
    ready: deque[int]
    edges: dict[int, int]
    unsettled: list[int]

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.need = list(plan.joins)
        self.taken = [0] * len(plan.nodes)
        self.ready = deque()
        self.edges = {}
        self.unsettled = [len(loop.nodes) + len(loop.children) for loop in plan.loops]

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.plan = self.plan
        twin.need = self.need.copy()
        twin.taken = self.taken.copy()
        twin.ready = self.ready.copy()
        twin.edges = self.edges.copy()
        twin.unsettled = self.unsettled.copy()
        return twin

    @classmethod
    def rebuilt(
        cls, plan: Plan, left: Mapping[int, Sequence[EdgePlan]], held: Collection[int], begun: Collection[int] = ()
    ) -> Self:
        """The flow of a graph of which some nodes have ended and some have `begun`; of the others, those are ready that
        can begin.

        `left` has the edges taken by each node that has ended, `held` the positions of edges out of a cycle that an
        earlier pass took.
        """
        flow = cls(plan)
        for index, loop in enumerate(plan.loops):  # a cycle stands before those around it
            flow.unsettled[index] = sum(node not in left for node in loop.nodes)
            flow.unsettled[index] += sum(flow.unsettled[child] > 0 for child in loop.children)
        for node in plan.nodes:
            for edge in node.outgoing:
                flow._restore(edge, left, held)
        for node in plan.nodes:
            states = [flow.edges.get(edge.index, UNDECIDED) for edge in node.incoming]
            flow.taken[node.index] = states.count(TAKEN)
            # a node that has ended or begun is not started by a late decision of one more edge
            undecided = sum(state not in (TAKEN, NOT_TAKEN) for state in states)
            flow.need[node.index] = 0 if node.index in left or node.index in begun else undecided
        flow.taken[plan.start] = 1
        waiting = (node for node, need in enumerate(flow.need) if not need)
        flow.ready.extend(node for node in waiting if node not in left and node not in begun)
        return flow

    def _restore(self, edge: EdgePlan, left: Mapping[int, Sequence[EdgePlan]], held: Collection[int]) -> None:
        """Decide one edge as it was decided before."""
        if edge.closes >= 0:
            return
        taken = edge.index in held
        if edge.source in left:
            taken = taken or edge in left[edge.source]
        elif not taken:
            return
        if edge.leaves >= 0 and self.unsettled[edge.leaves] and edge.target not in left:
            self.edges[edge.index] = HELD_TAKEN if taken else HELD_NOT_TAKEN
        else:
            self.edges[edge.index] = TAKEN if taken else NOT_TAKEN

    def begin(self) -> None:
        """Make the start node ready."""
        self.taken[self.plan.start] = 1
        self.ready.append(self.plan.start)

    def leave(self, node: int, taken: Sequence[EdgePlan], untaken: Sequence[EdgePlan]) -> Sequence[int]:
        """The node ended and its edges are decided. Returns the nodes of a cycle that starts anew: all they did is
        void.
        """
        if self.plan.loops:
            return self._leave_in_loops(node, taken, untaken)
        # The same as deciding edge by edge, for graphs without cycles: no edge is ever looked at again.
        need, ready = self.need, self.ready
        for edge in taken:
            target = edge.target
            self.taken[target] += 1
            need[target] -= 1
            if not need[target]:
                ready.append(target)
        for edge in untaken:
            target = edge.target
            need[target] -= 1
            if not need[target]:
                ready.append(target)
        return ()

    def holds_taken(self, node: int) -> bool:
        """Whether an earlier pass took an edge of the node that leads out of its cycle."""
        return bool(self.edges) and any(
            edge.leaves >= 0 and self.edges.get(edge.index) == HELD_TAKEN for edge in self.plan.nodes[node].outgoing
        )

    def skip(self, node: int) -> None:
        """A dead path reached the node: none of its edges is taken."""
        self.leave(node, (), self.plan.nodes[node].outgoing)

    def _leave_in_loops(self, node: int, taken: Sequence[EdgePlan], untaken: Sequence[EdgePlan]) -> Sequence[int]:
        for edge in untaken:
            if edge.closes < 0:
                self._decide(edge, False)
        for edge in taken:
            if edge.closes < 0:
                self._decide(edge, True)
        again = [edge for edge in taken if edge.closes >= 0]
        if again:
            return self._restart(min(again, key=lambda edge: len(self._around(edge.closes))))
        self._settle(self.plan.nodes[node].loop)
        return ()

    def _around(self, loop: int) -> list[int]:
        """The cycle and those around it, inside out: the outermost cycle has the fewest."""
        found = []
        while loop >= 0:
            found.append(loop)
            loop = self.plan.loops[loop].parent
        return found

    def _decide(self, edge: EdgePlan, taken: bool) -> None:
        if edge.leaves < 0:
            self._deliver(edge, taken)
        elif taken or self.edges.get(edge.index) != HELD_TAKEN:
            self.edges[edge.index] = HELD_TAKEN if taken else HELD_NOT_TAKEN

    def _deliver(self, edge: EdgePlan, taken: bool) -> None:
        self.edges[edge.index] = TAKEN if taken else NOT_TAKEN
        self.taken[edge.target] += taken
        self.need[edge.target] -= 1
        if not self.need[edge.target]:
            self.ready.append(edge.target)

    def _settle(self, loop: int) -> None:
        """One more node or inner cycle of this cycle is at rest; the last one leaves the cycle."""
        while loop >= 0:
            self.unsettled[loop] -= 1
            if self.unsettled[loop]:
                return
            for edge in self.plan.exits[loop]:
                self._deliver(edge, self.edges.get(edge.index) == HELD_TAKEN)
            loop = self.plan.loops[loop].parent

    def _restart(self, closing: EdgePlan) -> Sequence[int]:
        loop = closing.closes
        within = loops_within(self.plan.loops, loop)
        members = [node for inner in within for node in self.plan.loops[inner].nodes]
        inside = set(members)
        for node in members:
            for edge in self.plan.nodes[node].outgoing:
                if edge.target in inside:
                    self.edges.pop(edge.index, None)
        for inner in within:
            plan = self.plan.loops[inner]
            self.unsettled[inner] = len(plan.nodes) + len(plan.children)
        for node in members:
            states = [self.edges.get(edge.index, UNDECIDED) for edge in self.plan.nodes[node].incoming]
            self.need[node] = sum(state not in (TAKEN, NOT_TAKEN) for state in states)
            self.taken[node] = states.count(TAKEN)
        self.ready = deque(node for node in self.ready if node not in inside)
        head = self.plan.loops[loop].head
        self.need[head] = 0
        self.taken[head] = 1
        self.ready.append(head)
        return members
