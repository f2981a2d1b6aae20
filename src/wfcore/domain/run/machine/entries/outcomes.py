"""What follows an outcome, a decision or a timer: the part that requested the effect or opened the wait goes on."""

from collections.abc import Mapping

from wfcore.domain.graph.structure import NodeType
from wfcore.domain.kernel.json_readers import as_integer, as_object, as_text, optional_integer
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address, CallModel, CallTool, Effect, OpenChild
from wfcore.domain.run.machine import actions
from wfcore.domain.run.machine.agent import agent_loop
from wfcore.domain.run.machine.agent.budget import decide_spending, hold_call
from wfcore.domain.run.machine.approvals import close_wait, wait_for_call
from wfcore.domain.run.machine.nodes import fail, finish
from wfcore.domain.run.machine.requests import fail_attempt, is_broken_off, is_final, needs_person, request, retry
from wfcore.domain.run.machine.states.attempts import ATTEMPTS, AttemptEvent, drop, moved, unset_timer
from wfcore.domain.run.machine.states.interrupts import InterruptEvent, output_of
from wfcore.domain.run.machine.states.rounds import REFUSED
from wfcore.domain.run.machine.states.state import Frame, InterruptState, RunState
from wfcore.domain.run.machine.states.turns import give_up
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import Interrupt, move

GOOD = frozenset({InterruptState.approved, InterruptState.connected})
"""The ends of an interrupt after which a held effect is requested."""


# Effects


def end_call(run: RunState, frame: Frame, node: NodePlan, step: int, output: JSON) -> None:
    """A call of a tool, or a child, had its result: that of an action, or of a call that a model requested."""
    loop = frame.loops.get(node.index)
    if loop is None:
        actions.end_call(run, frame, node, step, output)
    else:
        agent_loop.end_call_well(run, frame, node, loop, step, output)


def fail_effect(
    run: RunState,
    frame: Frame,
    effect: Effect,
    message: str,
    reason: str,
    retryable: bool,
    info: Mapping[str, JSON] | None,
) -> None:
    """An attempt of an effect of this frame failed, or was not made because a person has to decide first."""
    if info is not None and needs_person(effect, reason, info):
        if isinstance(effect, CallModel):
            node = frame.plan.nodes[effect.address[-3]]
            times, since = as_integer(info["times"]), optional_integer(info.get("since"))
            hold_call(run, frame, node, effect, as_object(info["budget"]), times, since)
        else:
            assert isinstance(effect, CallTool | OpenChild)  # noqa: S101  (nothing else needs a person)
            wait_for_call(run, frame, effect, reason, info)
    elif isinstance(effect, CallModel) and is_broken_off(effect, reason):
        retry(run, frame, effect, 0, message, reason, broken_off=effect.broken_off + 1)
    else:
        fail_call(run, frame, effect, message, reason, retryable)


def fail_call(run: RunState, frame: Frame, effect: Effect, message: str, reason: str, retryable: bool) -> None:
    """An attempt failed: the model that requested it gets the error; without one its node tries again, or fails."""
    if not agent_loop.knows(frame, effect):
        fail_attempt(run, frame, effect, message, reason, retryable)
        return
    drop(frame, effect.address)
    move(ATTEMPTS, effect.state, AttemptEvent.fail)
    index, _, step = effect.address[-3:]
    node, loop = frame.plan.nodes[index], frame.loops[index]
    agent_loop.end_call_in_error(run, frame, node, loop, step, message, reason)


def ends_run(frame: Frame, effect: Effect, retryable: bool, reason: str = "failed") -> bool:
    """Whether a failure of this attempt would end the whole run: nothing in its frame or those around it catches it."""
    node, outer, opener = frame.plan.nodes[effect.address[-3]], frame.outer, frame.opener
    if agent_loop.knows(frame, effect) or not is_final(node, effect, retryable, reason):
        return False
    return outer is None or opener is None or ends_run(outer, opener, True)


# Decisions


def settle(run: RunState, frame: Frame, interrupt: Interrupt, event: InterruptEvent) -> None:
    """The votes on an interrupt came to this decision."""
    node, loop = frame.plan.nodes[interrupt.node], frame.loops.get(interrupt.node)
    reached, held = close_wait(run, frame, interrupt, event)
    if node.kind is NodeType.HUMAN_APPROVAL:
        finish(run, frame, node, output_of(interrupt), handle=reached)
        return
    if held is not None:
        held = moved(held, AttemptEvent.request if reached in GOOD else AttemptEvent.drop)
    if isinstance(held, CallModel):
        renewed = agent_loop.renewed_call(run, frame, node, held, loop)
        decide_spending(run, frame, node, renewed, reached)
    elif held is not None and reached in GOOD:
        request(run, frame, held)
    elif loop is not None:
        agent_loop.end_call_in_error(run, frame, node, loop, interrupt.step, REFUSED[reached], str(reached))
    else:
        _settle_action(run, frame, node, reached)


def _settle_action(run: RunState, frame: Frame, node: NodePlan, reached: InterruptState) -> None:
    if reached is InterruptState.approved:
        actions.issue(run, frame, node)
    elif reached is InterruptState.cancelled:
        fail(run, frame, node, f"the connection that `{node.id}` needs was refused", "connection_cancelled")
    else:
        fail(run, frame, node, f"`{node.id}` was denied", "denied", ends_run=False)


# Timers and children


def end_timer(run: RunState, frame: Frame, address: Address) -> None:
    """The timer of this step is due: a wait is over, or a child has passed its time limit."""
    unset_timer(frame, address)
    child = frame.children.get(address)
    if child is None or child.opener is None:
        actions.end_wait(run, frame, address)
    else:
        give_up(run, child)
        fail_call(run, frame, child.opener, f"no end within {child.opener.timeout:g} seconds", "timeout", True)
        keep_child(child, frame, child.opener)


def notify_openers(run: RunState) -> None:
    """The openers of the children that failed have failed: they are tried again, or caught, or fail their frames."""
    while run.broken:
        child, error = run.broken.pop(0)
        outer, opener = child.outer, child.opener
        assert outer is not None and opener is not None  # noqa: PT018, S101  (a child has both)
        fail_call(run, outer, opener, as_text(error["message"]), as_text(as_object(error["info"])["reason"]), True)
        keep_child(child, outer, opener)


def keep_child(child: Frame, outer: Frame, opener: OpenChild) -> None:
    """Keep a child that failed its node for good, for a retry."""
    index, _, step = opener.address[-3:]
    left = outer.left.get(index)
    if left is not None and left.effects.get(step) is opener:
        left.children[step] = child
