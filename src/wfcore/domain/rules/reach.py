"""Which nodes the edges of a graph can lead to, when only some ways are left in which its nodes can end.

A node begins only if a chain of taken edges leads to it from the start node, all of whose nodes ended before. So what
is not reached here does not begin in any run. This is the rule of dominators: an exit that every path to a node passes
comes before the node.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.rehearsal import DONE, Rehearsal, Way

Ways = Mapping[int, Sequence[Way]]
"""The ways in which nodes can end, by position. The start node has none."""

UNREACHED = 1 << 60
"""The distance of what is not reached."""


def ways_of(rehearsal: Rehearsal, keep: Callable[[str, Way], bool] = lambda _, way: True) -> Ways:
    """All ways of the nodes that `keep` is true for, by the node's id."""
    return {part.node.index: [way for way in part.ways if keep(part.node.id, way)] for part in rehearsal.parts.values()}


def handle_of(node: NodePlan, way: Way) -> str | None:
    """The handle by which a node is left that ended in this way."""
    if way.fails:
        return "error"
    return None if way.exit == DONE and node.kind is not NodeType.CONDITION else way.exit


def targets(node: NodePlan, ways: Ways) -> Iterator[tuple[Way | None, int]]:
    """Where the node can lead: the way, and the next node."""
    if node.index not in ways:
        yield from ((None, edge.target) for edge in node.outgoing)
        return
    for way in ways[node.index]:
        if not (way.fails and not node.catches):
            yield from ((way, edge.target) for edge in node.route(handle_of(node, way))[0])


def reached(rehearsal: Rehearsal, ways: Ways) -> set[int]:
    """The positions of the nodes that edges lead to from the start, itself included."""
    plan = rehearsal.workflow
    found, waiting = {plan.start}, [plan.start]
    while waiting:
        for _, target in targets(plan.nodes[waiting.pop()], ways):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def shortest_path(rehearsal: Rehearsal, ways: Ways, node: int) -> list[int] | None:
    """The positions of the nodes on a shortest path from the start to this node, both included; None without one."""
    plan = rehearsal.workflow
    came_from = {plan.start: plan.start}
    waiting = deque([plan.start])
    while waiting and node not in came_from:
        index = waiting.popleft()
        for _, target in targets(plan.nodes[index], ways):
            if target not in came_from:
                came_from[target] = index
                waiting.append(target)
    if node not in came_from:
        return None
    path = [node]
    while path[-1] != plan.start:
        path.append(came_from[path[-1]])
    return path[::-1]


def distances(rehearsal: Rehearsal, ways: Ways, node: int) -> list[int]:
    """For each node, how many nodes end from its own end on until `node` begins; `UNREACHED` without a path."""
    plan = rehearsal.workflow
    before: list[set[int]] = [set() for _ in plan.nodes]
    for one in plan.nodes:
        for _, target in targets(one, ways):
            before[target].add(one.index)
    found = [UNREACHED] * len(plan.nodes)
    waiting = deque([(node, 0)])
    while waiting:
        index, steps = waiting.popleft()
        for source in before[index]:
            if found[source] == UNREACHED:
                found[source] = steps
                waiting.append((source, steps + 1))
    return found


def leading_to(rehearsal: Rehearsal, node: int) -> frozenset[int]:
    """The nodes that edges of any handle lead from to this node: only what they do decides when it begins."""
    nodes = rehearsal.workflow.nodes
    before: list[list[int]] = [[] for _ in nodes]
    for one in nodes:
        for edge in one.outgoing:
            before[edge.target].append(one.index)
    found: set[int] = set()
    waiting = [node]
    while waiting:
        for source in before[waiting.pop()]:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return frozenset(found)
