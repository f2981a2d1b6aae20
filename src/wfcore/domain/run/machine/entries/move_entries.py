"""A parked execution continues on another variation of its workflow, in its turn: what it waits for stays open.

It fits if what it has done fits, as for a retry, and if every visit that has begun would have begun with the same
parameters. The open approval of a humanApproval node gets the texts, approvers and deadlines that the node has now; its
votes stay if nothing of what its approvers decide on has changed. Children stay on their own variations.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs
from msgspec.structs import replace

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, Effect, OpenChild
from wfcore.domain.run.machine.approvals import approval_text, origin_of
from wfcore.domain.run.machine.restarts import goes_on
from wfcore.domain.run.machine.rewind import GraphDifference, begun, check_fit, differences, plan_of, rewind
from wfcore.domain.run.machine.states.attempts import AnEffect
from wfcore.domain.run.machine.states.interrupts import approval_of
from wfcore.domain.run.machine.states.left import remains
from wfcore.domain.run.machine.states.state import Frame, RunState, children_of, find_frame, pinned_of
from wfcore.domain.run.machine.states.turns import TURNS, TurnEvent, advance
from wfcore.domain.run.plan import NodePlan, Plan
from wfcore.domain.run.state import Interrupt, move

DECIDED_ON: Final = (
    "message", "form_schema", "emails", "groups", "required", "allow_self", "escalate_emails", "escalate_groups",
)  # fmt: skip
"""The fields of an approval that a vote is about."""


def check_moved(run: RunState, entry: e.Moved) -> Plan:
    """The plan on which the execution continues; it has to be in `plans`."""
    move(TURNS, run.phase, TurnEvent.move, "not_waiting")
    plan = plan_of(run, entry.pinned)
    check_fit(_differences(run, entry, plan))
    return plan


def moved(run: RunState, entry: e.Moved, plan: Plan) -> None:
    """The execution is on the other plan, and waits for what it waited for. Its stream shows nothing of it."""
    run.at = entry.at
    advance(run, TurnEvent.move)
    _put_on(run, entry, plan)
    root = run.root
    for index, waits in root.waits.items():
        node = root.plan.nodes[index]
        if node.kind is NodeType.HUMAN_APPROVAL:
            (name,) = waits.values()
            root.interrupts[name] = _renewed(run, root, node, root.interrupts[name])


# Whether it fits


def _differences(run: RunState, entry: e.Moved, plan: Plan) -> list[GraphDifference]:
    """Why the execution cannot continue on this plan, in the middle of its visits."""
    was = begun(run.root)
    found = differences(run.root, plan, active=was)
    if found or plan is run.root.plan:
        return found
    twin = run.copy()
    _put_on(twin, entry, plan)
    return [
        GraphDifference(name, "arguments", f"node `{name}` {why}")
        for name, node in begun(twin.root).items()
        if (why := _why_other(twin, was[name], node))
    ]


def _why_other(run: RunState, was: NodePlan, node: NodePlan) -> str:
    """How the visit of a node, which has begun as `was`, differs from one that begins now; "" if it does not."""
    root = run.root
    if node.kind is NodeType.HUMAN_APPROVAL:
        try:
            approval_text(run, root, node)
        except ExpressionError as error:
            return f"has a message that cannot be rendered: {error}"
        return ""
    if was.requires_approval is not node.requires_approval:
        return "has begun, and its `requiresApproval` differs in the other graph"
    same = was.tool == node.tool and goes_on(run, root, node, remains(root, node.index))
    return "" if same else "waits in a visit that has begun with other arguments than in the other graph"


# Moving


def _put_on(run: RunState, entry: e.Moved, plan: Plan) -> None:
    """Put the root on the plan, with its visits that have begun: nodes have other positions there."""
    root = run.root
    run.pinned, run.is_draft = entry.pinned, False
    places = {node.id: node.index for node in plan.nodes}
    was = begun(root)
    positions = {node.index: places[name] for name, node in was.items()}
    rewind(root, plan, active=was)
    root.waits = {positions[index]: waits for index, waits in root.waits.items()}
    root.batches = {positions[index]: batch for index, batch in root.batches.items()}
    root.loops = {positions[index]: loop for index, loop in root.loops.items()}
    _renumber(run, positions)


def _renumber(run: RunState, positions: Mapping[int, int]) -> None:
    """Give whatever is under way its new addresses: each begins with the position of a node of the root."""

    def new(address: Address) -> Address:
        return (positions[address[0]], *address[1:]) if address else ()

    def renamed(effect: Effect) -> Effect:
        return _readdressed(run, effect, new(effect.address))

    root = run.root
    frames = [root, *children_of(root)]
    effects = {address: renamed(effect) for address, effect in root.pending.items()}
    interrupts = {
        name: replace(
            one, within=new(one.within), node=one.node if one.within else positions[one.node]
        )
        for name, one in root.interrupts.items()
    }  # fmt: skip
    held = [{name: renamed(effect) for name, effect in frame.held.items()} for frame in frames]
    openers = [frame.opener and _readdressed(run, frame.opener, new(frame.opener.address)) for frame in frames]
    for frame, own, opener in zip(frames, held, openers, strict=True):
        frame.held, frame.opener = own, opener
        frame.place = replace(frame.place, within=new(frame.place.within))
        frame.children = {new(address): child for address, child in frame.children.items()}
        _refill(frame.pending, {new(address): effects[address] for address in frame.pending})
        _refill(frame.timers, {new(address): due for address, due in frame.timers.items()})
        _refill(frame.interrupts, {name: interrupts[name] for name in frame.interrupts})


def _readdressed(run: RunState, effect: AnEffect, address: Address) -> AnEffect:
    """The effect at another address. What opens a child names the variation of its frame from now on."""
    fields = {"frame": pinned_of(run, find_frame(run, effect.address[:-3]))} if isinstance(effect, OpenChild) else {}
    return replace(effect, address=address, **fields)


def _refill(values: dict[Any, Any], new: Mapping[Any, Any]) -> None:
    """Replace the content of a dict that others hold on to."""
    values.clear()
    values.update(new)


def _renewed(run: RunState, frame: Frame, node: NodePlan, interrupt: Interrupt) -> Interrupt:
    """The open approval of a node, as if the node had opened it at the time when it was opened."""
    origin = structs.replace(origin_of(run, frame, node), at=interrupt.opened_at)
    made = replace(approval_of(origin, approval_text(run, frame, node)), id=interrupt.id)
    is_same = all(getattr(made, name) == getattr(interrupt, name) for name in DECIDED_ON)
    return replace(
        made,
        answers=interrupt.answers if is_same else (),
        reminded_at=interrupt.reminded_at if made.remind_at == interrupt.remind_at else None,
        escalated_at=interrupt.escalated_at if made.escalate_at == interrupt.escalate_at else None,
    )
