"""Entries about effects: results and failures, announcements, streamed text, progress, opened children.

Each has a check, which raises `IllegalEntry` before anything has moved and returns the effect, and a handler.
"""

from typing import cast

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.agent import agent_loop
from wfcore.domain.run.machine.agent.budget import check_again, count_usage
from wfcore.domain.run.machine.entries import outcomes
from wfcore.domain.run.machine.entries.progress import go_on, open_child
from wfcore.domain.run.machine.nodes import finish
from wfcore.domain.run.machine.states.attempts import POSSIBLE, AttemptEvent, complete, drop, expect, moved
from wfcore.domain.run.machine.states.debugging import show_timing
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import RunState, find_frame
from wfcore.domain.run.machine.states.turns import OPEN
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import IllegalEntry


def check_outcome(run: RunState, entry: e.Outcome) -> Effect:
    """The effect whose outcome this is: it is pending with this attempt, and can have such an outcome now."""
    effect = run.root.pending.get((*entry.within, entry.node, entry.visit, entry.step))
    if effect is None or effect.attempt != entry.attempt or run.phase not in OPEN:
        raise IllegalEntry("no effect waits for this outcome", "stale")
    if type(entry) not in POSSIBLE[type(effect)][effect.state]:
        raise IllegalEntry(f"an attempt that is `{effect.state}` cannot have this outcome", "stale")
    return effect


def check_opened(run: RunState, entry: e.Opened) -> tuple[OpenChild, Plan]:
    """The opener of this child, and the child's plan, which has to be in `plans`."""
    effect = check_outcome(run, entry)
    if not isinstance(effect, OpenChild) or (effect.kind, effect.resource_id) != (entry.kind, entry.resource_id):
        raise IllegalEntry("no effect waits for this child", "stale")
    plan = run.plans.get((entry.kind, entry.resource_id, entry.variation_id))
    if plan is None:
        raise IllegalEntry("the plan of the child is not in `plans`", "plan_missing")
    return effect, plan


def succeeded(run: RunState, entry: e.Succeeded, effect: Effect) -> None:
    """The effect had its result."""
    run.at = entry.at
    frame = find_frame(run, entry.within) if entry.within else run.root
    node = frame.plan.nodes[entry.node]
    if run.requested_at is not None:
        show_timing(run, frame, effect)
    if node.plain:  # most effects: the attempt is gone, as after `complete`
        if frame.outer is None:
            del frame.pending[effect.address]
        else:
            drop(frame, effect.address)
        finish(run, frame, node, entry.output)
    elif isinstance(effect, CallModel):
        agent_loop.end_model_call(run, frame, node, effect, entry)
    elif isinstance(effect, ComposeContext):
        agent_loop.compose(run, frame, node, effect, entry.output)
    else:
        complete(frame, effect)
        outcomes.end_call(run, frame, node, entry.step, entry.output)
    go_on(run, frame)


def failed(run: RunState, entry: e.Failed, effect: Effect) -> None:
    """The attempt failed."""
    run.at = entry.at
    frame = find_frame(run, entry.within)
    show_timing(run, frame, effect)
    count_usage(run, frame, entry.node, entry.usage)
    outcomes.fail_effect(run, frame, effect, entry.message, entry.reason, entry.retryable, entry.info)
    check_again(run, frame, effect.address)
    go_on(run, frame)


def opened(run: RunState, entry: e.Opened, opening: tuple[OpenChild, Plan]) -> None:
    """The child is there: its start node starts."""
    run.at = entry.at
    opener, plan = opening
    go_on(run, open_child(run, find_frame(run, entry.within), opener, entry, plan))


def sent(run: RunState, entry: e.Sent, effect: Effect) -> None:
    """The attempt can have reached its tool from now on."""
    run.at = entry.at
    expect(find_frame(run, entry.within), moved(cast("CallTool", effect), AttemptEvent.send))


def progressed(run: RunState, entry: e.Progressed, effect: Effect) -> None:
    """The tool reported how far its call is; its attempt goes on."""
    run.at = entry.at
    call, frame = moved(cast("CallTool", effect), AttemptEvent.progress), find_frame(run, entry.within)
    expect(frame, call)
    node = frame.plan.nodes[entry.node]
    data: dict[str, JSON] = {"nodeId": node.id, "toolId": call.tool, "progress": entry.progress}
    if call.agent:
        data["toolCallId"] = call.call_id
    elif node.for_each is not None:
        data["index"] = entry.step
    if entry.total is not None:
        data["total"] = entry.total
    if entry.message:
        data["message"] = entry.message
    emit(run, frame, EventKind.tool_progress, data)


def said(run: RunState, entry: e.Said, effect: Effect) -> None:
    """The model streamed some text."""
    run.at = entry.at
    agent_loop.say(run, find_frame(run, entry.within), cast("CallModel", effect), entry.text)
