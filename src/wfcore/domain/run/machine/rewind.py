"""Continuing what a frame has done: on the same graph, or on another one if what was done fits it.

What was done are the nodes that have ended in their current pass: completed, skipped, or failed with a handler. Only
these are compared with the other graph, and where the execution goes on in the middle of visits, the nodes that have
begun: what failed for good, was cancelled or never ran can change or be removed.
Nodes are matched by their ids, edges by their ends and handle. A skipped node that the other graph leads to runs
after all.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Pinned
from wfcore.domain.run.flow import HELD_TAKEN, TAKEN, GraphFlow
from wfcore.domain.run.machine.states.state import Frame, Left, NodeState, RunState
from wfcore.domain.run.plan import EdgePlan, NodePlan, Plan
from wfcore.domain.run.state import IllegalEntry

ENDS: Final = frozenset({NodeState.done, NodeState.failed, NodeState.skipped})
"""The states of a node whose current pass has ended."""

NO_NODES: Final[Mapping[str, NodePlan]] = {}

EdgeName = tuple[str, str, str | None]
"""Source, target and handle."""


@attrs.frozen
class GraphDifference:
    """Why what was done does not fit another graph (interface, Retry: `differences`).

    `arguments`: a node waits in the middle of a visit that the other graph would have begun with other parameters.
    """

    node_id: str
    what: Literal["removed", "type", "edge", "arguments"]
    message: str

    def to_wire(self) -> dict[str, JSON]:
        return {"nodeId": self.node_id, "what": self.what, "message": self.message}


def ended(frame: Frame) -> dict[str, NodePlan]:
    """The nodes of the frame that have ended in their current pass, by id. One that left something behind has not."""
    return {
        node.id: node
        for node, state in zip(frame.plan.nodes, frame.nodes, strict=True)
        if state in ENDS and not (node.index in frame.left and frame.left[node.index].began)
    }


def begun(frame: Frame) -> dict[str, NodePlan]:
    """The nodes of the frame in the middle of a visit, by id."""
    middle = (NodeState.running, NodeState.waiting)
    return {node.id: node for node, state in zip(frame.plan.nodes, frame.nodes, strict=True) if state in middle}


def plan_of(run: RunState, pinned: Pinned | None) -> Plan:
    """The plan of this variation, by default that of the root. `IllegalEntry` if it is not in `plans`."""
    if pinned is None:
        return run.root.plan
    plan = run.plans.get(pinned)
    if plan is None:
        raise IllegalEntry("the plan of the variation is not in `plans`", "plan_missing")
    return plan


def check_fit(found: Sequence[GraphDifference]) -> None:
    """`IllegalEntry` with the differences, if there are any."""
    if found:
        message = "what the run has done does not fit the graph"
        raise IllegalEntry(message, "incompatible", differences=[one.to_wire() for one in found])


def following(plan: Plan, names: Collection[str]) -> set[str]:
    """These nodes, and all to which edges lead from them, without going round a cycle again."""
    found = [node for node in plan.nodes if node.id in names]
    known = {node.index for node in found}
    for node in found:
        for edge in node.outgoing:
            if edge.closes < 0 and edge.target not in known:
                known.add(edge.target)
                found.append(plan.nodes[edge.target])
    return {node.id for node in found}


def differences(
    frame: Frame, plan: Plan, again: Collection[str] = (), active: Mapping[str, NodePlan] = NO_NODES
) -> list[GraphDifference]:
    """Why the frame cannot continue on this plan, if the nodes in `again` and all that follows them run again, and the
    visits of the `active` ones go on.
    """
    if plan is frame.plan:
        return []
    anew = following(plan, again) | set(again)
    kept = {name: node for name, node in {**ended(frame), **active}.items() if name not in anew}
    others = {node.id: node for node in plan.nodes}
    found: list[GraphDifference] = []
    for name, node in kept.items():
        other = others.get(name)
        done = "has begun" if name in active else "has ended"
        if other is None:
            found.append(GraphDifference(name, "removed", f"node `{name}` {done}, and is not in the other graph"))
        elif other.kind is not node.kind:
            message = f"node `{name}` {done} as `{node.kind}`, and is `{other.kind}` in the other graph"
            found.append(GraphDifference(name, "type", message))
    return [*found, *_lost_edges(frame, plan, kept, others), *_new_edges(frame, plan, kept, others)]


def _lost_edges(
    frame: Frame, plan: Plan, kept: Mapping[str, NodePlan], others: Mapping[str, NodePlan]
) -> list[GraphDifference]:
    """Taken edges between completed nodes that the other graph does not have."""
    known, found = {_name(plan, edge) for node in plan.nodes for edge in node.outgoing}, []
    for name, node in kept.items():
        for edge in _taken(frame, node):
            target = frame.plan.nodes[edge.target].id
            completed = target in kept and frame.nodes[edge.target] is not NodeState.skipped
            if completed and name in others and target in others and _name(frame.plan, edge) not in known:
                message = f"the edge from `{name}` to `{target}` was taken, and is not in the other graph"
                found.append(GraphDifference(name, "edge", message))
    return found


def _new_edges(
    frame: Frame, plan: Plan, kept: Mapping[str, NodePlan], others: Mapping[str, NodePlan]
) -> list[GraphDifference]:
    """New predecessors of completed nodes that have not run."""
    found = []
    for name, node in kept.items():
        if frame.nodes[node.index] is NodeState.skipped or name not in others:
            continue
        before = {frame.plan.nodes[edge.source].id for edge in node.incoming}
        sources = dict.fromkeys(plan.nodes[edge.source].id for edge in others[name].incoming)
        for source in sources:
            if source not in before and source not in kept:
                done = "has ended" if frame.nodes[node.index] in ENDS else "has begun"
                message = f"node `{name}` {done}, and follows `{source}` in the other graph, which has not run"
                found.append(GraphDifference(name, "edge", message))
    return found


def rewind(frame: Frame, plan: Plan, again: Collection[str] = (), active: Collection[str] = ()) -> None:
    """Put the frame on this plan, at what it has done before the nodes in `again`.

    What visits left behind stays for the nodes that can begin again. The nodes that are `active` stay in the middle of
    their visits; in the others nothing goes on.
    """
    anew = following(plan, again)
    was = {node.id: node for node in frame.plan.nodes}
    kept = {name: node for name, node in ended(frame).items() if name not in anew}
    kept = _without_open(frame, plan, kept)
    left = {node.index: _routed(frame, kept[node.id], node) for node in plan.nodes if node.id in kept}
    held = _held(frame, plan, anew)
    _move_nodes(frame, plan, was, {*kept, *active}, anew)
    frame.flow = GraphFlow.rebuilt(plan, left, held, {node.index for node in plan.nodes if node.id in active})
    frame.ends = {
        index: None
        for index, taken in left.items()
        if frame.nodes[index] is NodeState.done
        and not taken
        and not any(edge.index in held for edge in plan.nodes[index].outgoing)  # an earlier pass led somewhere
    }
    frame.plan = plan


def _move_nodes(
    frame: Frame, plan: Plan, was: Mapping[str, NodePlan], kept: Collection[str], anew: Collection[str]
) -> None:
    """Give each node of the plan the state, visits and handle of the one that has its id."""
    states, visits, handles, lefts = frame.nodes, frame.visits, frame.handles, frame.left
    frame.nodes = [NodeState.idle] * len(plan.nodes)
    frame.visits = [0] * len(plan.nodes)
    frame.handles, frame.left = {}, {}
    for node in plan.nodes:
        before = was.get(node.id)
        if before is None:
            continue
        frame.visits[node.index] = visits[before.index]
        if node.id in kept:
            frame.nodes[node.index] = states[before.index]
            if before.index in handles:
                frame.handles[node.index] = handles[before.index]
        elif node.id in anew:
            frame.outputs.pop(node.id, None)
        elif node.kind is not before.kind:
            continue  # a new visit, with keys of its own
        elif before.index in lefts and lefts[before.index].began:
            frame.left[node.index] = lefts[before.index]
        elif states[before.index] in (NodeState.running, NodeState.waiting):
            frame.left[node.index] = Left()


def _without_open(frame: Frame, plan: Plan, kept: dict[str, NodePlan]) -> dict[str, NodePlan]:
    """The nodes without the skipped ones that can still be reached, or that a taken edge reaches now."""
    while True:
        reached = {
            plan.nodes[edge.target].id
            for node in plan.nodes
            if node.id in kept
            for edge in _routed(frame, kept[node.id], node)
        }
        dropped = {
            node.id
            for node in plan.nodes
            if node.id in kept
            and frame.nodes[kept[node.id].index] is NodeState.skipped
            and (node.id in reached or any(plan.nodes[edge.source].id not in kept for edge in node.incoming))
        }
        if not dropped:
            return kept
        kept = {name: node for name, node in kept.items() if name not in dropped}


def _taken(frame: Frame, node: NodePlan) -> tuple[EdgePlan, ...]:
    """The edges that the node has taken in its current pass."""
    return _routed(frame, node, node)


def _routed(frame: Frame, was: NodePlan, node: NodePlan) -> tuple[EdgePlan, ...]:
    """The edges of a node that are taken, if it is left as `was` was left."""
    match frame.nodes[was.index]:
        case NodeState.done:
            return node.route(frame.handles.get(was.index))[0]
        case NodeState.failed:
            return node.route("error")[0]
    return ()


def _held(frame: Frame, plan: Plan, anew: Collection[str]) -> set[int]:
    """The edges out of cycles that were taken in any pass."""
    taken = {
        _name(frame.plan, edge)
        for node in frame.plan.nodes
        if node.id not in anew
        for edge in node.outgoing
        if edge.leaves >= 0 and frame.flow.edges.get(edge.index) in (TAKEN, HELD_TAKEN)
    }
    edges = (edge for node in plan.nodes for edge in node.outgoing)
    return {edge.index for edge in edges if edge.leaves >= 0 and _name(plan, edge) in taken}


def _name(plan: Plan, edge: EdgePlan) -> EdgeName:
    return plan.nodes[edge.source].id, plan.nodes[edge.target].id, edge.handle
