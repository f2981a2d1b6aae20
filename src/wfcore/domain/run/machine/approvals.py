"""Approvals: nodes and effects that wait for a person. The table of their waits is in `interrupts`."""

from collections.abc import Mapping

from msgspec.structs import replace

from wfcore.domain.graph.structure import NodeType
from wfcore.domain.json.codec import text_of
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallTool, Effect, OpenChild
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.nodes import NodeEvent, advance, fail, finish
from wfcore.domain.run.machine.requests import CHANGED
from wfcore.domain.run.machine.states.attempts import AttemptEvent, drop, moved
from wfcore.domain.run.machine.states.interrupts import (
    InterruptEvent,
    InterruptOrigin,
    approval_of,
    changed_approval_of,
    close_interrupt,
    connect_of,
    expiry,
    interrupt_to_wire,
    open_interrupt,
    remind,
    renamed,
)
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import Frame, InterruptState, RunState
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import Interrupt


def start_approval(run: RunState, frame: Frame, node: NodePlan) -> None:
    """Start a humanApproval node."""
    wait(run, frame, approval_of(origin_of(run, frame, node), approval_text(run, frame, node)))


def approval_text(run: RunState, frame: Frame, node: NodePlan) -> str:
    """The message of a humanApproval node, rendered. `ExpressionError` if it cannot be."""
    assert node.message is not None  # noqa: S101  (an approval has one)
    return text_of(node.message.render(frame.scope, steps=run.steps))


def origin_of(run: RunState, frame: Frame, node: NodePlan, step: int = -1) -> InterruptOrigin:
    """The origin of an interrupt of the node's current visit."""
    place = frame.place
    return InterruptOrigin(node, run.id, frame.visits[node.index], run.at, place.within, place.path, step, place.items)


def wait(run: RunState, frame: Frame, interrupt: Interrupt, effect: Effect | None = None) -> None:
    """Wait for a decision. `effect` is held until then, and requested after a good one."""
    if interrupt.id in run.root.interrupts:  # another child was there before a move gave its node another position
        interrupt = replace(interrupt, id=renamed(interrupt.id, str(run.length)))
    waits = frame.waits.setdefault(interrupt.node, {})
    if not waits:
        advance(frame, interrupt.node, NodeEvent.ask)
    waits[interrupt.step] = interrupt.id
    if effect is not None:
        drop(frame, effect.address)
        frame.held[interrupt.id] = moved(effect, AttemptEvent.hold)
    open_interrupt(run, frame, interrupt)
    if run.sink is None:
        run.seq += 1
    else:
        emit(run, frame, EventKind.interrupt, interrupt_to_wire(interrupt))


def close_wait(
    run: RunState, frame: Frame, interrupt: Interrupt, event: InterruptEvent
) -> tuple[InterruptState, Effect | None]:
    """End a wait: the state it ended in, and the effect that was held until then. A node that waits for nobody else
    runs again.
    """
    reached = close_interrupt(run, frame, interrupt.id, event)
    waits = frame.waits[interrupt.node]
    del waits[interrupt.step]
    if not waits:
        del frame.waits[interrupt.node]
        if frame.plan.nodes[interrupt.node].kind is not NodeType.HUMAN_APPROVAL:
            advance(frame, interrupt.node, NodeEvent.answer)
    return reached, frame.held.pop(interrupt.id, None)


def expire(run: RunState, frame: Frame, interrupt: Interrupt) -> None:
    """The deadline of a humanApproval node has passed."""
    node = frame.plan.nodes[interrupt.node]
    close_wait(run, frame, interrupt, InterruptEvent.expire)
    handle, output = expiry(interrupt, node, run.at)
    if handle is None:
        fail(run, frame, node, f"the approval `{node.id}` expired", "expired")
    else:
        finish(run, frame, node, output, handle=handle)


def end_or_remind(run: RunState, frame: Frame, interrupt: Interrupt) -> bool:
    """Let what is due of an approval, something is, take effect. Returns whether its deadline has passed."""
    if interrupt.expires_at is not None and interrupt.expires_at <= run.at:
        expire(run, frame, interrupt)
        return True
    emit(run, frame, EventKind.interrupt_reminded, interrupt_to_wire(remind(run, frame, interrupt)))
    return False


def wait_for_call(
    run: RunState, frame: Frame, effect: CallTool | OpenChild, reason: str, info: Mapping[str, JSON]
) -> None:
    """A call was not made: somebody must connect first, or approve it again because its definition has changed."""
    origin = origin_of(run, frame, frame.plan.nodes[effect.address[-3]], effect.address[-1])
    if reason == CHANGED:
        effect = replace(effect, definition=info["definition"])
        wait(run, frame, _changed(run, frame, origin, effect), effect)
    else:
        assert isinstance(effect, CallTool)  # noqa: S101  (a child needs no connection)
        name = _tool_name(frame, effect)
        wait(run, frame, connect_of(origin, effect.tool, info, run.length, effect.call_id, name), effect)


def _changed(run: RunState, frame: Frame, origin: InterruptOrigin, effect: CallTool | OpenChild) -> Interrupt:
    if isinstance(effect, CallTool):
        name = _tool_name(frame, effect)
        return changed_approval_of(origin, run.length, effect.tool, effect.params, effect.call_id, name, "")
    index, _, step = effect.address[-3:]
    call_id, tool_id = as_text(frame.loops[index].open[step]["id"]), f"{effect.kind}:{effect.resource_id}"
    return changed_approval_of(origin, run.length, tool_id, effect.input, call_id, "", effect.definition)


def _tool_name(frame: Frame, effect: CallTool) -> str:
    """The readable name of the tool, as far as the visit knows it."""
    loop, batch = frame.loops.get(effect.address[-3]), frame.batches.get(effect.address[-3])
    if loop is None:
        return "" if batch is None else batch.tool_name
    tools = as_objects(loop.context.get("tools") or ())
    return next((as_text(tool.get("title", "")) for tool in tools if tool.get("toolId") == effect.tool), "")
