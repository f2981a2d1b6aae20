"""Progress: a run goes on until something outside is needed, and then waits, parks or ends.

Nodes that are ready start, one after the other; a child that has nothing left to do ends, and the frame around it goes
on.
"""

from collections.abc import Callable, Mapping
from typing import Final

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.graph.node_types import ELSE, NodeType
from wfcore.domain.run.effects import Address, OpenChild
from wfcore.domain.run.entries import Opened
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.actions import issue, place_of, start_action
from wfcore.domain.run.machine.agent.agent_loop import resume_loops
from wfcore.domain.run.machine.agent.agents import start_agent
from wfcore.domain.run.machine.approvals import start_approval
from wfcore.domain.run.machine.entries.outcomes import end_call, notify_openers
from wfcore.domain.run.machine.nodes import NODES, NodeEvent, fail, finish, output_of_frame, skip
from wfcore.domain.run.machine.restarts import goes_on, restart
from wfcore.domain.run.machine.states.attempts import ATTEMPTS, AttemptEvent, drop, moved, set_timer
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import Frame, Left, Phase, RunState, find_frame
from wfcore.domain.run.machine.states.turns import (
    ENDED,
    HELD_BACK,
    TurnEvent,
    advance,
    break_bound,
    end,
    give_up,
    show_parked,
)
from wfcore.domain.run.plan import NodePlan, Plan
from wfcore.domain.run.state import move

STEPS_LEFT = 100
"""The steps that expressions can take after one has failed, whatever that one took: the failure may need a handler."""

RUNNING: Final = Phase.running
START: Final = NodeEvent.start


# Starting nodes


def run_ready(run: RunState, frame: Frame) -> None:
    """Start or skip every node that is ready."""
    flow, nodes = frame.flow, frame.plan.nodes
    ready = flow.ready
    while ready and run.phase is RUNNING:
        index = ready.popleft()
        if flow.taken[index]:
            _start(run, frame, nodes[index])
        else:
            skip(run, frame, nodes[index])
        ready = flow.ready


def _start(run: RunState, frame: Frame, node: NodePlan) -> None:
    run.visited += 1
    if run.visited > run.limits.max_node_visits:
        break_bound(run, f"the run passed its bound of {run.limits.max_node_visits} node visits", "node_visits")
        return
    index = node.index
    left = frame.left.pop(index, None) if frame.left else None
    same = left is not None and goes_on(run, frame, node, left)
    visit = frame.visits[index] = frame.visits[index] + (not same)
    frame.nodes[index] = move(NODES, frame.nodes[index], START)
    if run.sink is None:
        run.seq += 1
    else:
        emit(run, frame, EventKind.node_started, {"nodeId": node.id, "visit": visit})
    try:
        if left is None:
            STARTERS[node.kind](run, frame, node)
        else:
            _start_again(run, frame, node, left, same)
    except ExpressionError as error:
        run.steps.left = max(run.steps.left, STEPS_LEFT)
        fail(run, frame, node, str(error), "expression")


def _start_again(run: RunState, frame: Frame, node: NodePlan, left: Left, same: bool) -> None:
    """Start a node whose visit was left."""
    if left.given is None and node.kind not in (NodeType.ACTION, NodeType.AGENT):
        STARTERS[node.kind](run, frame, node)
        return
    for child in restart(run, frame, node, left, same):
        if child.opener is not None and frame.children.get(child.opener.address) is child:
            run_frames(run, child)


def _start_start(run: RunState, frame: Frame, node: NodePlan) -> None:
    finish(run, frame, node, frame.scope["input"])


def _start_condition(run: RunState, frame: Frame, node: NodePlan) -> None:
    for handle, when in node.branches:
        holds = when.evaluate(frame.scope, run.steps)
        if holds is True:
            finish(run, frame, node, {"handle": handle}, handle=handle)
            return
        if holds is not False:
            raise ExpressionError(f"`{when.source}` is not a boolean")
    finish(run, frame, node, {"handle": ELSE}, handle=ELSE)


STARTERS: Final[Mapping[NodeType, Callable[[RunState, Frame, NodePlan], None]]] = {
    NodeType.START: _start_start,
    NodeType.ACTION: start_action,
    NodeType.CONDITION: _start_condition,
    NodeType.AGENT: start_agent,
    NodeType.HUMAN_APPROVAL: start_approval,
}


def resume_frame(run: RunState, frame: Frame) -> None:
    """Request what was held back while the run was paused."""
    for index, batch in list(frame.batches.items()):
        if -1 not in frame.waits.get(index, ()) and frame.batches.get(index) is batch:
            issue(run, frame, frame.plan.nodes[index])
    resume_loops(run, frame)
    notify_openers(run)


# Children


def open_child(run: RunState, outer: Frame, opener: OpenChild, entry: Opened, plan: Plan) -> Frame:
    """Open the child that an effect of the frame `outer` requested; its time limit begins."""
    drop(outer, opener.address)
    if opener.timeout is not None:
        set_timer(outer, opener.address, run.at + int(opener.timeout * 1000))
    place = place_of(outer, outer.plan.nodes[entry.node], opener)
    child = Frame(plan, place, outer, moved(opener, AttemptEvent.open), entry)
    child.scope = {"input": entry.input, "nodes": child.outputs, "run": run.info}
    outer.children[opener.address] = child
    child.flow.begin()
    return child


def _end_child(run: RunState, child: Frame, outer: Frame, opener: OpenChild) -> None:
    """The child has nothing left to do: its output is the result of the effect that opened it."""
    output = output_of_frame(child)
    give_up(run, child)
    move(ATTEMPTS, opener.state, AttemptEvent.succeed)
    end_call(run, outer, outer.plan.nodes[opener.address[-3]], opener.address[-1], output)
    notify_openers(run)


def _is_over(child: Frame, outer: Frame, opener: OpenChild) -> bool:
    """Whether nothing is left to do; what was held back while the run is paused is something."""
    busy = child.pending or child.timers or child.interrupts or child.flow.ready or child.batches or child.loops
    return not busy and outer.children.get(opener.address) is child


# Going on, and coming to rest


def go_on(run: RunState, frame: Frame) -> None:
    """Let everything happen that follows from what happened in this frame."""
    if frame.outer is None:
        run_ready(run, frame)
    else:
        run_frames(run, frame)
    if not run.root.pending or run.phase in HELD_BACK:
        rest(run)


def run_frames(run: RunState, frame: Frame) -> None:
    """Run this frame and those around it, as far as they can."""
    run_ready(run, frame)
    while frame.outer is not None and frame.opener is not None:
        notify_openers(run)
        if _is_over(frame, frame.outer, frame.opener):
            _end_child(run, frame, frame.outer, frame.opener)
        frame = frame.outer
        run_ready(run, frame)


def rest(run: RunState) -> None:
    """Park or finish when nothing can go on by itself."""
    if run.phase in ENDED or not _is_at_rest(run):
        return
    root = run.root
    under_way = root.flow.ready or root.pending or root.timers or root.batches or root.loops
    if root.interrupts or (run.phase in HELD_BACK and under_way):
        show_parked(run)
        advance(run, TurnEvent.park)
    else:
        run.output = output_of_frame(root)
        end(run, TurnEvent.finish, EventKind.done, {"status": "done", "output": run.output})


def _is_at_rest(run: RunState) -> bool:
    """Whether nothing can go on by itself. For a paused run, what is not due yet does not count."""
    if run.phase in HELD_BACK:
        return all(effect.not_before > run.at for effect in run.root.pending.values())
    return not run.root.pending and all(_bounds_child(run, address) for address in run.root.timers)


def _bounds_child(run: RunState, address: Address) -> bool:
    """Whether this timer is only the time limit of a child, not work."""
    return address in find_frame(run, address[:-3]).children
