"""Interrupts: where each of them stands, how they are made, who can decide them, what the decisions lead to.

An interrupt is open as an `approval` or a `connect` until it is decided, expires, or is withdrawn with its node. An
approval that needs several votes stays open (`vote`) until they are complete; one denial decides. It also stays open
when its approvers are reminded, or others become approvers too (`remind`). A connect has no deadline. `deciders` says
who can decide.
"""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, structs

from wfcore.domain.graph.node_types import ELSE, Approvers, NodeType
from wfcore.domain.json.codec import fingerprint, iso_ms
from wfcore.domain.json.values import UnsetType, given
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Actor
from wfcore.domain.run.events import place_to_wire
from wfcore.domain.run.machine.states.state import Frame, InterruptState, RunState, outward
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import IllegalEntry, Interrupt, Table, interrupt_id, move


class InterruptEvent(StrEnum):
    """What can happen to an interrupt. The first four are decisions, as entries have them."""

    approve = "approve"
    deny = "deny"
    connected = "connected"
    cancelled = "cancelled"
    vote = "vote"
    remind = "remind"
    expire = "expire"
    withdraw = "withdraw"


INTERRUPTS: Final[Table[InterruptState, InterruptEvent]] = {
    InterruptState.approval: {
        InterruptEvent.vote: InterruptState.approval,
        InterruptEvent.remind: InterruptState.approval,
        InterruptEvent.approve: InterruptState.approved,
        InterruptEvent.deny: InterruptState.denied,
        InterruptEvent.expire: InterruptState.expired,
        InterruptEvent.withdraw: InterruptState.withdrawn,
    },
    InterruptState.connect: {
        InterruptEvent.connected: InterruptState.connected,
        InterruptEvent.cancelled: InterruptState.cancelled,
        InterruptEvent.withdraw: InterruptState.withdrawn,
    },
    InterruptState.approved: {},
    InterruptState.denied: {},
    InterruptState.connected: {},
    InterruptState.cancelled: {},
    InterruptState.expired: {},
    InterruptState.withdrawn: {},
}

APPROVALS = (str(InterruptEvent.approve), str(InterruptEvent.deny))
CONNECTS = (str(InterruptEvent.connected), str(InterruptEvent.cancelled))
ANSWERS = {str(InterruptState.approval): APPROVALS, str(InterruptState.connect): CONNECTS}
"""The decisions that each type of interrupt can have."""

OPENED = {str(state): state for state in (InterruptState.approval, InterruptState.connect)}


# The state of an interrupt


def open_interrupt(run: RunState, frame: Frame, interrupt: Interrupt) -> None:
    """Wait for a decision, in the frame and in those around it."""
    run.interrupts[interrupt.id] = OPENED[interrupt.type]
    _expect(frame, interrupt)


def _expect(frame: Frame, interrupt: Interrupt) -> None:
    for around in outward(frame):
        around.interrupts[interrupt.id] = interrupt


def add_vote(run: RunState, frame: Frame, voted: Interrupt) -> None:
    """The interrupt has one more vote, and waits for others."""
    move(INTERRUPTS, run.interrupts[voted.id], InterruptEvent.vote)
    _expect(frame, voted)


def remind(run: RunState, frame: Frame, interrupt: Interrupt) -> Interrupt:
    """Let the reminder and the escalation take effect of which one is due at least. Returns the interrupt since."""
    reminded = structs.replace(
        interrupt,
        reminded_at=_taken_effect(interrupt.remind_at, interrupt.reminded_at, run.at),
        escalated_at=_taken_effect(interrupt.escalate_at, interrupt.escalated_at, run.at),
    )
    move(INTERRUPTS, run.interrupts[interrupt.id], InterruptEvent.remind)
    _expect(frame, reminded)
    return reminded


def _taken_effect(due: int | None, before: int | None, now: int) -> int | None:
    """When what is due then has taken effect, if it has: `before`, or now."""
    return now if before is None and due is not None and due <= now else before


def close_interrupt(run: RunState, frame: Frame, name: str, event: InterruptEvent) -> InterruptState:
    """End the wait for this interrupt. Returns the state it ended in."""
    reached = run.interrupts[name] = move(INTERRUPTS, run.interrupts[name], event)
    for around in outward(frame):
        del around.interrupts[name]
    return reached


def decision_of(interrupt: Interrupt) -> InterruptEvent:
    """What the votes so far come to: one denial decides, a vote is one of several. A connect has one vote."""
    last = InterruptEvent(interrupt.answers[-1].decision)
    if last is InterruptEvent.approve and len(interrupt.answers) < interrupt.required:
        return InterruptEvent.vote
    return last


# Making interrupts


def renamed(name: str, root: str) -> str:
    """Another id for an interrupt: that in an execution, with this root, that was forked from its own."""
    return "int_" + hashlib.sha256(f"{root}\n{name}".encode()).hexdigest()[:24]


class InterruptOrigin(Struct, frozen=True):
    """Where an interrupt comes from: a visit of a node in a frame of an execution, at a time in epoch milliseconds; the
    step of the visit, or -1 for the whole visit. `root` is the id of the execution's first run.
    """

    node: NodePlan
    root: str
    visit: int
    at: int
    within: tuple[int, ...] = ()
    path: tuple[str, ...] = ()
    step: int = -1
    items: tuple[int | None, ...] = ()

    def interrupt(self, message: str, *where: JSON, **fields: Any) -> Interrupt:
        """An interrupt with this origin; `where` makes it another one than those before it."""
        framed = (*self.within,) if self.within else ()
        apart = (framed, self.step, *where) if framed or self.step >= 0 else where
        return Interrupt(
            interrupt_id(self.root, self.node.id, self.visit, *apart),
            self.node.index,
            self.node.id,
            self.visit,
            message,
            self.at,
            step=self.step,
            within=self.within,
            path=self.path,
            items=self.items,
            **fields,
        )


def approval_of(origin: InterruptOrigin, message: str) -> Interrupt:
    """The approval of a humanApproval node."""
    approval, timeout = origin.node.approval, origin.node.timeout
    emails, groups = _people(approval.approvers)
    escalate_emails, escalate_groups = _people(approval.escalate_to)
    return origin.interrupt(
        message or f"approve `{origin.node.id}`?",
        expires_at=_after(origin.at, timeout),
        emails=emails,
        groups=groups,
        required=given(approval.required_approvals) or 1,
        allow_self=approval.allow_self_approval is not False,
        form_schema=given(approval.form_schema),
        remind_at=_after(origin.at, given(approval.remind_after_seconds)),
        escalate_at=_after(origin.at, given(approval.escalate_after_seconds)),
        escalate_emails=escalate_emails,
        escalate_groups=escalate_groups,
    )


def _after(at: int, seconds: float | None) -> int | None:
    return None if seconds is None else at + int(seconds * 1000)


def _people(approvers: Approvers | UnsetType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The e-mails and groups of approvers."""
    if isinstance(approvers, UnsetType):
        return (), ()
    return tuple(email.lower() for email in given(approvers.emails) or ()), tuple(given(approvers.groups) or ())


def call_approval_of(
    origin: InterruptOrigin, tool: str, arguments: JSON, call_id: str = "", name: str = "", variation_id: str = ""
) -> Interrupt:
    """The approval of a call. It binds the tool, the exact arguments and the variation that the call of a workflow or
    a skill runs, with the digest of them. `name` is the readable name of the tool.
    """
    shown = _shown(origin, tool, name)
    call = {**_bound(tool, arguments, variation_id), **shown}
    message = f"allow `{shown.get('toolName', tool)}` with these arguments?"
    return origin.interrupt(message, call=call, tool_call_id=call_id)


def changed_approval_of(
    origin: InterruptOrigin, length: int, tool: str, arguments: JSON, call_id: str, name: str, variation_id: str
) -> Interrupt:
    """The same for a call of what is not what was approved. It can change again: the journal's `length` is in the
    id.
    """
    shown = _shown(origin, tool, name)
    message = f"`{shown.get('toolName', tool)}` has changed since it was approved: allow it with these arguments?"
    bound = {**_bound(tool, arguments, variation_id), **shown}
    return origin.interrupt(message, length, call=bound, tool_call_id=call_id)


def _shown(origin: InterruptOrigin, tool: str, name: str) -> dict[str, JSON]:
    """What an approver is shown of the tool, beside its id: the texts of the action, else its readable name."""
    return {**({"toolName": name} if name not in ("", tool) else {}), **origin.node.shown}


def _bound(tool: str, arguments: JSON, variation_id: str) -> dict[str, JSON]:
    bound = {"toolId": tool, "arguments": arguments, **({"variationId": variation_id} if variation_id else {})}
    return {**bound, "digest": fingerprint(bound)}


def connect_of(
    origin: InterruptOrigin, tool: str, needed: Mapping[str, JSON], length: int, call_id: str = "", name: str = ""
) -> Interrupt:
    """The wait for a connection that a call needs. It can be needed again, so the journal's `length` is in the id."""
    shown = _shown(origin, tool, name)
    about = {"toolId": tool, **{key: needed[key] for key in ("provider", "connectionId") if key in needed}, **shown}
    message = f"`{shown.get('toolName', tool)}` needs a connection"
    return origin.interrupt(message, length, type="connect", call=about, tool_call_id=call_id)


def budget_of(origin: InterruptOrigin, budget: Mapping[str, JSON], length: int) -> Interrupt:
    """The approval of going on after a budget is spent. It can follow again, so the journal's `length` is in the id."""
    amounts = " and ".join(f"{budget[name]} {unit}" for name, unit in BUDGETS.items() if name in budget)
    whose = f"the {budget['of']}'s" if "of" in budget else "the"
    each = f" a {budget['period']}" if "period" in budget else ""
    message = f"{whose} budget of {amounts}{each} is spent: go on with as much again?"
    return origin.interrupt(message, length, call={"budget": dict(budget)})


BUDGETS = {"maxTokens": "tokens", "maxCost": "of cost"}


def interrupt_to_wire(interrupt: Interrupt) -> dict[str, JSON]:
    """The fields of an `interrupt` event and of an inbox item."""
    wire: dict[str, JSON] = {
        "interruptId": interrupt.id,
        "type": interrupt.type,
        "nodeId": interrupt.node_id,
        "message": interrupt.message,
        "expiresAt": None if interrupt.expires_at is None else iso_ms(interrupt.expires_at),
        "requiredApprovals": interrupt.required,
        "approvals": len(interrupt.answers),
    }
    if interrupt.form_schema is not None:
        wire["formSchema"] = interrupt.form_schema
    if interrupt.tool_call_id:
        wire["toolCallId"] = interrupt.tool_call_id
    for name, at in (("remindedAt", interrupt.reminded_at), ("escalatedAt", interrupt.escalated_at)):
        if at is not None:
            wire[name] = iso_ms(at)
    return {**wire, **place_to_wire(interrupt.path, interrupt.items), **(interrupt.call or {})}


def output_of(interrupt: Interrupt) -> dict[str, JSON]:
    """The output of a decided humanApproval node. `data` and `decidedAt` are those of the last vote, which decided;
    `decidedBy` are all users who voted like it, `answers` all votes.
    """
    last = interrupt.answers[-1]
    return {
        "decision": last.decision,
        "data": last.data,
        "decidedBy": [answer.by.user_id for answer in interrupt.answers if answer.decision == last.decision],
        "decidedAt": iso_ms(last.at),
        "answers": _answers(interrupt),
    }


def _answers(interrupt: Interrupt) -> list[JSON]:
    return [
        {
            "userId": answer.by.user_id,
            "decision": answer.decision,
            "data": answer.data,
            "at": iso_ms(answer.at),
            **({"onBehalfOf": answer.on_behalf_of} if answer.on_behalf_of else {}),
        }
        for answer in interrupt.answers
    ]


HANDLES: Final[Mapping[str, str]] = {"approve": "approved", "deny": "denied", "expired": "expired"}
"""The handle by which a humanApproval with this decision is left."""


def exit_by_hand(node: NodePlan, given: JSON, by: Actor, at: int) -> tuple[JSON, str | None]:
    """The output of a node that a user gives instead of running it, and the handle by which it is left.

    A condition needs its `handle`, a humanApproval its `decision`, as text or as a field of an object. `IllegalEntry`
    for another one.
    """
    field = {NodeType.CONDITION: "handle", NodeType.HUMAN_APPROVAL: "decision"}.get(node.kind)
    if field is None:
        return given, None
    named = given.get(field) if isinstance(given, dict) else given
    condition = field == "handle"
    handles = {name: name for name in (*(handle for handle, _ in node.branches), ELSE)} if condition else HANDLES
    if not isinstance(named, str) or named not in handles:
        allowed = " or ".join(f"`{name}`" for name in handles)
        raise IllegalEntry(
            f"the output of `{node.id}` must name its {field}: {allowed}", "unknown_exit", nodeId=node.id
        )
    if condition:
        return {"handle": named}, named
    form = given.get("data") if isinstance(given, dict) else None
    decided = {"decision": named, "data": form, "decidedBy": [by.user_id], "decidedAt": iso_ms(at), "answers": []}
    return decided, handles[named]


def expiry(interrupt: Interrupt, node: NodePlan, at: int) -> tuple[str | None, dict[str, JSON]]:
    """The handle by which a node is left after its deadline (None: as an error), and the node's output."""
    output: dict[str, JSON] = {
        "decision": "expired", "data": None, "decidedBy": [], "decidedAt": iso_ms(at), "answers": _answers(interrupt),
    }  # fmt: skip
    if node.route("expired")[0]:
        return "expired", output
    on_timeout = given(node.approval.on_timeout) or "deny"
    return {"approve": "approved", "deny": "denied"}.get(on_timeout), output
