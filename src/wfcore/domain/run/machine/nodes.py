"""Nodes: where each of them stands in its visit, and how visits end and lead on along the edges.

*When* a node can go is not here: `flow` knows that. `rearm` is legal in every state, because a cycle that starts anew
takes all its nodes along.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Effect
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.states.attempts import ATTEMPTS, AttemptEvent, discard, unset_timer
from wfcore.domain.run.machine.states.interrupts import InterruptEvent, close_interrupt
from wfcore.domain.run.machine.states.left import remains
from wfcore.domain.run.machine.states.output import emit, node_error
from wfcore.domain.run.machine.states.rounds import give_up_loop
from wfcore.domain.run.machine.states.state import Frame, NodeState, RunState
from wfcore.domain.run.machine.states.turns import break_bound, fail_run, give_up, give_up_child
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import Table, move


class NodeEvent(StrEnum):
    """What can happen to a node. `ask`: it waits for a person, `answer`: it does not any more."""

    start = "start"
    skip = "skip"
    ask = "ask"
    answer = "answer"
    finish = "finish"
    fail = "fail"
    rearm = "rearm"


NODES: Final[Table[NodeState, NodeEvent]] = {
    NodeState.idle: {
        NodeEvent.start: NodeState.running,
        NodeEvent.skip: NodeState.skipped,
        NodeEvent.rearm: NodeState.idle,
    },
    NodeState.running: {
        NodeEvent.ask: NodeState.waiting,
        NodeEvent.finish: NodeState.done,
        NodeEvent.fail: NodeState.failed,
        NodeEvent.rearm: NodeState.idle,
    },
    NodeState.waiting: {
        NodeEvent.answer: NodeState.running,
        NodeEvent.finish: NodeState.done,
        NodeEvent.fail: NodeState.failed,
        NodeEvent.rearm: NodeState.idle,
    },
    NodeState.done: {NodeEvent.rearm: NodeState.idle},
    NodeState.failed: {NodeEvent.rearm: NodeState.idle},
    NodeState.skipped: {NodeEvent.rearm: NodeState.idle},
}

FINISH: Final = NodeEvent.finish
ACTIVE: Final = frozenset(state for state, row in NODES.items() if FINISH in row)
"""The states of a node in the middle of a visit."""

SKIPS_PER_VISIT = 20
"""Nodes that can be skipped for each node visit of the bound: skipping costs little, but not nothing."""


def advance(frame: Frame, index: int, event: NodeEvent) -> None:
    """Take one row of the table."""
    frame.nodes[index] = move(NODES, frame.nodes[index], event)


def skip(run: RunState, frame: Frame, node: NodePlan) -> None:
    """Skip a node that no taken edge led to."""
    run.skipped += 1
    if run.skipped > len(frame.plan.nodes) + SKIPS_PER_VISIT * run.limits.max_node_visits:
        break_bound(run, "the run skipped too many nodes: a cycle goes round dead paths", "node_visits")
        return
    advance(frame, node.index, NodeEvent.skip)
    emit(run, frame, EventKind.node_skipped, {"nodeId": node.id})
    frame.flow.skip(node.index)


def finish(run: RunState, frame: Frame, node: NodePlan, output: JSON, handle: str | None = None) -> None:
    """End the visit with this output, and leave the node by this handle."""
    index = node.index
    frame.nodes[index] = move(NODES, frame.nodes[index], FINISH)
    frame.outputs[node.id] = {"output": output}
    if handle is not None:
        frame.handles[index] = handle
    if run.sink is None:
        run.seq += 1
    else:
        emit(run, frame, EventKind.node_finished, {"nodeId": node.id, "output": output})
    taken, untaken = node.routes.get(handle) or node.route(handle)
    if not taken and not frame.flow.holds_taken(index):
        frame.ends[index] = None
    if members := frame.flow.leave(index, taken, untaken):
        _rearm(run, frame, members)


def fail(
    run: RunState,
    frame: Frame,
    node: NodePlan,
    message: str,
    reason: str,
    *,
    ends_run: bool = True,
    effect: Effect | None = None,
) -> None:
    """End the visit with an error, which may be that of an effect. Without an `error` edge it ends the frame too: the
    run, or a child, whose opener is notified by `children.notify_openers`. The frame then keeps what the visit leaves.
    """
    if ends_run and not node.catches:
        left = frame.left[node.index] = remains(frame, node.index)
        if effect is not None:
            left.effects[effect.address[-1]] = effect
    forget(run, frame, node.index)
    advance(frame, node.index, NodeEvent.fail)
    error = node_error(run, node, message, reason, effect)
    emit(run, frame, EventKind.node_failed, {"nodeId": node.id, "error": error})
    if not ends_run or node.catches:
        _rearm(run, frame, frame.flow.leave(node.index, *node.route("error")))
    elif frame.outer is None:
        fail_run(run, error)
    else:
        give_up(run, frame)
        run.broken.append((frame, error))


def _rearm(run: RunState, frame: Frame, members: Sequence[int]) -> None:
    """These nodes start anew with their cycle: what they were doing is given up."""
    for index in members:
        if frame.nodes[index] in ACTIVE:
            skipped = {"nodeId": frame.plan.nodes[index].id, "reason": "superseded"}
            emit(run, frame, EventKind.node_skipped, skipped)
            forget(run, frame, index)
        advance(frame, index, NodeEvent.rearm)
        frame.ends.pop(index, None)
        frame.handles.pop(index, None)


def forget(run: RunState, frame: Frame, index: int) -> None:
    """Drop whatever this visit of the node still waits for."""
    batch, loop = frame.batches.pop(index, None), frame.loops.pop(index, None)
    if loop is not None:
        give_up_loop(run, frame, index, loop)
    for step in range(-1, loop.next if loop else batch.next if batch else 1):
        address = (*frame.place.within, index, frame.visits[index], step)
        discard(frame, address)
        unset_timer(frame, address)
        if address in frame.children:
            give_up_child(run, frame.children[address])
    for name in frame.waits.pop(index, {}).values():
        close_interrupt(run, frame, name, InterruptEvent.withdraw)
        held = frame.held.pop(name, None)
        if held is not None:
            move(ATTEMPTS, held.state, AttemptEvent.drop)


def output_of_frame(frame: Frame) -> JSON:
    """The output of the nodes that led nowhere: that of one alone, or those of several by node id."""
    nodes = frame.plan.nodes
    if len(frame.ends) == 1:
        return frame.outputs[nodes[next(iter(frame.ends))].id]["output"]
    return {nodes[index].id: frame.outputs[nodes[index].id]["output"] for index in sorted(frame.ends)} or None
