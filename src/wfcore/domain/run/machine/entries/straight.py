"""Straight segments: calls of tools that follow one another in the root, with nothing to decide between them.

What an outcome leads to is the same as by `effect_entries.succeeded`, which handles all other outcomes.
"""

from typing import Final

from wfcore.domain.expressions.expression import MAX_STEPS, ExpressionError
from wfcore.domain.run.effects import CallTool
from wfcore.domain.run.entries import Succeeded
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.nodes import NODES, NodeEvent
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import NodeState, Phase, RunState

IDLE: Final = NodeState.idle
BEGUN: Final = NODES[IDLE][NodeEvent.start]
DONE: Final = NODES[BEGUN][NodeEvent.finish]
RUNNING: Final = Phase.running


def go_straight(run: RunState, entry: Succeeded) -> bool:
    """End the visit of a call, and begin the next call of its straight segment.

    False: nothing has changed, because the outcome is not possible, or something else can follow it.
    """
    frame, index = run.root, entry.node
    plan, nodes, flow, pending = frame.plan, frame.nodes, frame.flow, frame.pending
    address = index, entry.visit, entry.step
    effect = pending.get(address)
    if effect is None or effect.attempt != entry.attempt or entry.within:
        return False
    following = plan.straight[index]
    if following < 0 or nodes[following] is not IDLE or following in frame.left:
        return False
    if run.phase is not RUNNING or run.requested_at is not None or "config" in run.info:
        return False
    if run.visited >= run.limits.max_node_visits or len(pending) > run.limits.max_concurrent_effects:
        return False
    node, then = plan.nodes[index], plan.nodes[following]
    assert then.params is not None  # noqa: S101  (an action has them)
    frame.outputs[node.id] = {"output": entry.output}
    params = then.params.value
    if not then.params.constant:
        run.steps.left = MAX_STEPS
        try:
            params = then.params.render(frame.scope, steps=run.steps)
        except ExpressionError:
            del frame.outputs[node.id]
            return False
    del pending[address]
    nodes[index], nodes[following] = DONE, BEGUN
    flow.need[following], flow.taken[following] = 0, 1
    visit = frame.visits[following] = frame.visits[following] + 1
    run.visited += 1
    run.at = entry.at
    if run.sink is None:
        run.seq += 2
    else:
        emit(run, frame, EventKind.node_finished, {"nodeId": node.id, "output": entry.output})
        emit(run, frame, EventKind.node_started, {"nodeId": then.id, "visit": visit})
    address = following, visit, 0
    key = f"{frame.place.prefix}{then.key}:{visit}"
    pending[address] = CallTool(address, 1, key, then.tool, params, 0, then.timeout)
    run.length += 1
    return True
