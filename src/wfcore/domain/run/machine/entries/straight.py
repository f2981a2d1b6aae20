"""Straight segments: calls of tools that follow one another in the root, with nothing to decide between them.

What an outcome leads to is the same as by `effect_entries.succeeded`, which handles all other outcomes. The outcomes of
many calls are applied together: only the last one needs an effect.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from wfcore.domain.expressions.expression import MAX_STEPS, ExpressionError
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address, CallTool
from wfcore.domain.run.entries import Entry, Succeeded
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.nodes import NODES, NodeEvent
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import NodeState, Phase, RunState
from wfcore.domain.run.plan import NodePlan

IDLE: Final = NodeState.idle
BEGUN: Final = NODES[IDLE][NodeEvent.start]
DONE: Final = NODES[BEGUN][NodeEvent.finish]
RUNNING: Final = Phase.running
NOT_BEGUN: Final[Address] = ()


def go_straight(run: RunState, entries: Sequence[Entry], start: int = 0) -> int:
    """Apply the outcomes from position `start` on, as long as each ends a call and begins the next one of its straight
    segment: end its visit, begin that of the next.

    Returns how many were applied. The next one has changed nothing, because it is not possible, or something else can
    follow it.
    """
    if run.phase is not RUNNING or run.requested_at is not None or "config" in run.info:
        return 0
    frame, limits, sink = run.root, run.limits, run.sink
    plan, nodes, flow, pending, visits, outputs = (
        frame.plan, frame.nodes, frame.flow, frame.pending, frame.visits, frame.outputs,
    )  # fmt: skip
    if len(pending) > limits.max_concurrent_effects:
        return 0
    straight, left, to_visit = plan.straight, frame.left, limits.max_node_visits - run.visited
    count, begun, rendered = 0, NOT_BEGUN, None
    for position in range(start, len(entries)):
        entry = entries[position]
        if type(entry) is not Succeeded or entry.within or count >= to_visit:
            break
        index = entry.node
        address = index, entry.visit, entry.step
        if not count:
            effect = pending.get(address)
            if effect is None or effect.attempt != entry.attempt:
                break
        elif address != begun or entry.attempt != 1:
            break
        following = straight[index]
        if following < 0 or nodes[following] is not IDLE or following in left:
            break
        node, then = plan.nodes[index], plan.nodes[following]
        outputs[node.id] = {"output": entry.output}
        template = then.params
        assert template is not None  # noqa: S101  (an action has them)
        params = template.value
        if not template.constant:
            run.steps.left = MAX_STEPS
            try:
                params = template.render(frame.scope, steps=run.steps)
            except ExpressionError:
                del outputs[node.id]
                break
        if not count:
            del pending[address]
        nodes[index], nodes[following] = DONE, BEGUN
        flow.need[following], flow.taken[following] = 0, 1
        visit = visits[following] = visits[following] + 1
        begun, rendered = (following, visit, 0), params
        count += 1
        if sink is not None:
            run.at = entry.at
            emit(run, frame, EventKind.node_finished, {"nodeId": node.id, "output": entry.output})
            emit(run, frame, EventKind.node_started, {"nodeId": then.id, "visit": visit})
    if count:
        run.at = entries[start + count - 1].at
        run.visited += count
        run.length += count
        run.seq += 0 if sink is not None else 2 * count
        then = plan.nodes[begun[0]]
        key = f"{frame.place.prefix}{then.key}:{begun[1]}"
        pending[begun] = CallTool(begun, 1, key, then.tool, rendered, 0, then.timeout)
    return count


def calls_after(run: RunState, address: Address) -> Iterator[tuple[Address, NodePlan, JSON]]:
    """The calls that follow this one of the root, as long as `go_straight` applies any result and the parameters are
    constant: each is known before the machine has applied the results. Its address, its node and the parameters.
    """
    if run.phase is not RUNNING or run.requested_at is not None or "config" in run.info:
        return
    frame, limits = run.root, run.limits
    if len(frame.pending) > limits.max_concurrent_effects:
        return
    plan, nodes, left, visits, index = frame.plan, frame.nodes, frame.left, frame.visits, address[0]
    for _ in range(limits.max_node_visits - run.visited):
        if not plan.is_next_known[index]:
            return
        index = plan.straight[index]
        if nodes[index] is not IDLE or index in left:
            return
        then = plan.nodes[index]
        assert then.params is not None  # noqa: S101  (an action has them)
        yield (index, visits[index] + 1, 0), then, then.params.value
