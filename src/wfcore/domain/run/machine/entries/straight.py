"""Straight segments: calls of tools that follow one another in the root, with nothing to decide between them.

What an outcome leads to is the same as by `effect_entries.succeeded`, which handles all other outcomes. The outcomes of
many calls are applied together: only the last one needs an effect.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from wfcore.domain.expressions.expression import MAX_STEPS, ExpressionError
from wfcore.domain.expressions.templates import Template
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


def go_straight(run: RunState, entries: Sequence[Entry], start: int = 0) -> int:
    """Apply the outcomes from position `start` on, as long as each ends a call and begins the next one of its straight
    segment: end its visit, begin that of the next.

    Returns how many were applied. The next one has changed nothing, because it is not possible, or something else can
    follow it.
    """
    outcome, frame = entries[start], run.root
    if type(outcome) is not Succeeded or outcome.within:
        return 0
    first = outcome.node, outcome.visit, outcome.step
    effect = frame.pending.get(first)
    if effect is None or effect.attempt != outcome.attempt or frame.plan.straight[outcome.node] < 0:
        return 0
    if run.phase is not RUNNING or run.requested_at is not None or "config" in run.info:
        return 0
    limits, sink = run.limits, run.sink
    plan, nodes, flow, pending, visits, outputs = (
        frame.plan, frame.nodes, frame.flow, frame.pending, frame.visits, frame.outputs,
    )  # fmt: skip
    if len(pending) > limits.max_concurrent_effects:
        return 0
    straight, is_known, plans, left = plan.straight, plan.is_next_known, plan.nodes, frame.left
    need, taken, to_visit = flow.need, flow.taken, limits.max_node_visits - run.visited
    count, index, begun, visit, rendered = 0, outcome.node, -1, 0, None
    for position in range(start, len(entries)):
        entry = entries[position]
        if type(entry) is not Succeeded or entry.within or count >= to_visit:
            break
        if count:
            if entry.node != begun or entry.visit != visit or entry.step or entry.attempt != 1:
                break
            index = begun
        following = straight[index]
        if following < 0 or nodes[following] is not IDLE or following in left:
            break
        name = plans[index].id
        outputs[name] = {"output": entry.output}
        if not is_known[index]:
            run.steps.left = MAX_STEPS
            try:
                rendered = params_of(plans[following]).render(frame.scope, steps=run.steps)
            except ExpressionError:
                del outputs[name]
                break
        nodes[index], nodes[following] = DONE, BEGUN
        need[following], taken[following] = 0, 1
        begun = following
        visit = visits[begun] = visits[begun] + 1
        count += 1
        if sink is not None:
            run.at = entry.at
            emit(run, frame, EventKind.node_finished, {"nodeId": name, "output": entry.output})
            emit(run, frame, EventKind.node_started, {"nodeId": plans[begun].id, "visit": visit})
    if count:
        run.at = entries[start + count - 1].at
        run.visited += count
        run.length += count
        run.seq += 0 if sink is not None else 2 * count
        del pending[first]
        then = plans[begun]
        template, key = params_of(then), f"{frame.place.prefix}{then.key}:{visit}"
        params = template.value if template.constant else rendered
        pending[begun, visit, 0] = CallTool((begun, visit, 0), 1, key, then.tool, params, 0, then.timeout)
    return count


def calls_after(run: RunState, address: Address) -> Iterator[tuple[NodePlan, int]]:
    """The calls that follow this one of the root, as long as `go_straight` applies any result and the parameters are
    constant: each is known before the machine has applied the results. Its node and its visit.
    """
    if run.phase is not RUNNING or run.requested_at is not None or "config" in run.info:
        return
    frame, limits = run.root, run.limits
    if len(frame.pending) > limits.max_concurrent_effects:
        return
    plan, nodes, left, visits, index = frame.plan, frame.nodes, frame.left, frame.visits, address[0]
    straight, is_known, plans = plan.straight, plan.is_next_known, plan.nodes
    for _ in range(limits.max_node_visits - run.visited):
        if not is_known[index]:
            return
        index = straight[index]
        if nodes[index] is not IDLE or index in left:
            return
        yield plans[index], visits[index] + 1


def params_of(node: NodePlan) -> Template:
    """The parameters of an action, which has them."""
    assert node.params is not None  # noqa: S101
    return node.params
