"""Waits for a person: how they are opened, who may answer, what the answers come to.

`may_decide` is the one decision function: every door (HTTP, Python, the command line, a chat page) asks it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import attrs

from wfcore.domain.json.codec import dumps, fingerprint, iso_ms
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.effects import CallTool
from wfcore.domain.run.entries import Actor, Decision
from wfcore.domain.run.events import place_to_wire
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import Interrupt

APPROVALS = ("approve", "deny")
CONNECTS = ("connected", "cancelled")
ANSWERS = {"approval": APPROVALS, "connect": CONNECTS}


def interrupt_id(root: str, node_id: str, visit: int, *where: JSON) -> str:
    """The same visit of the same node of the same execution always waits under the same id; `where` tells apart what
    waits in children, or step by step.
    """
    place = f"{root}\n{node_id}\n{visit}" + (f"\n{dumps(list(where))}" if where else "")
    return "int_" + hashlib.sha256(place.encode()).hexdigest()[:24]


@attrs.frozen
class Asker:
    """Who asks: a visit of a node in a frame of an execution, at a time; the step of the visit, or -1 for all of it."""

    node: NodePlan
    root: str
    visit: int
    at: int
    within: tuple[int, ...] = ()
    path: tuple[str, ...] = ()
    step: int = -1
    items: tuple[int | None, ...] = ()

    def interrupt(self, message: str, *where: JSON, **fields: Any) -> Interrupt:
        """An interrupt of this asker."""
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


def approval_of(asker: Asker, message: str) -> Interrupt:
    """The approval of a humanApproval node."""
    data, timeout = asker.node.data, asker.node.timeout
    approvers = data.get("approvers") or {}
    return asker.interrupt(
        message or f"approve `{asker.node.id}`?",
        expires_at=None if timeout is None else asker.at + int(timeout * 1000),
        emails=tuple(str(email).lower() for email in approvers.get("emails") or ()),
        groups=tuple(approvers.get("groups") or ()),
        required=int(data.get("requiredApprovals") or 1),
        allow_self=bool(data.get("allowSelfApproval", True)),
        form_schema=data.get("formSchema"),
    )


def call_approval_of(asker: Asker, tool: str, arguments: JSON, call_id: str = "") -> Interrupt:
    """The approval of a call. It binds the tool and the exact arguments, with the digest of both."""
    call = _bound(tool, arguments)
    return asker.interrupt(f"allow `{tool}` with these arguments?", call=call, tool_call_id=call_id)


def changed_approval_of(asker: Asker, call: CallTool, length: int) -> Interrupt:
    """The same for a tool that is not what was approved. It may change once more: `length` is that of the journal."""
    message = f"`{call.tool}` has changed since it was approved: allow it with these arguments?"
    return asker.interrupt(message, length, call=_bound(call.tool, call.params), tool_call_id=call.call_id)


def _bound(tool: str, arguments: JSON) -> dict[str, JSON]:
    bound = {"toolId": tool, "arguments": arguments}
    return {**bound, "digest": fingerprint(bound)}


def connect_of(asker: Asker, tool: str, needed: Mapping[str, JSON], length: int, call_id: str = "") -> Interrupt:
    """The wait for a connection that a call needs. It may be asked for again: `length` is that of the journal."""
    about = {"toolId": tool, **{name: needed[name] for name in ("provider", "connectionId") if name in needed}}
    return asker.interrupt(f"`{tool}` needs a connection", length, type="connect", call=about, tool_call_id=call_id)


def budget_of(asker: Asker, budget: Mapping[str, JSON], length: int) -> Interrupt:
    """The question whether to go on after the budget is spent. It may be asked again: `length` is the journal's."""
    told = " and ".join(f"{budget[name]} {unit}" for name, unit in BUDGETS.items() if name in budget)
    whose = f"the {budget['of']}'s" if "of" in budget else "the"
    each = f" a {budget['period']}" if "period" in budget else ""
    message = f"{whose} budget of {told}{each} is spent: go on with as much again?"
    return asker.interrupt(message, length, call={"budget": dict(budget)})


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
    return {**wire, **place_to_wire(interrupt.path, interrupt.items), **(interrupt.call or {})}


def verdict(interrupt: Interrupt) -> str | None:
    """The handle that the answers lead to: one denial decides; None while approvals are missing. A connect's one
    answer says it itself.
    """
    if interrupt.type == "connect":
        return interrupt.answers[-1].decision
    if any(answer.decision == "deny" for answer in interrupt.answers):
        return "denied"
    return "approved" if len(interrupt.answers) >= interrupt.required else None


def output_of(interrupt: Interrupt) -> dict[str, JSON]:
    """The output of an answered humanApproval node. `data` and `decidedAt` are those of the last answer, which decided;
    `decidedBy` are all who decided so, `answers` what everybody said.
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
        {"userId": answer.by.user_id, "decision": answer.decision, "data": answer.data, "at": iso_ms(answer.at)}
        for answer in interrupt.answers
    ]


def expiry(interrupt: Interrupt, node: NodePlan, at: int) -> tuple[str | None, dict[str, JSON]]:
    """The handle by which a passed deadline leaves the node (None: as an error), and the node's output."""
    output: dict[str, JSON] = {
        "decision": "expired", "data": None, "decidedBy": [], "decidedAt": iso_ms(at), "answers": _answers(interrupt),
    }  # fmt: skip
    if node.route("expired")[0]:
        return "expired", output
    on_timeout = node.data.get("onTimeout") or "deny"
    return {"approve": "approved", "deny": "denied"}.get(on_timeout), output


def may_see(principal: Principal, interrupt: Interrupt, can_use: bool) -> bool:
    """Named approvers see their interrupt even without access to the workflow; when none is named, use is
    needed.
    """
    return _is_approver(principal, interrupt) if interrupt.named else can_use


def may_decide(principal: Principal, interrupt: Interrupt, starter: Actor, can_use: bool) -> None:
    """Raise unless this principal may answer this interrupt: `NotFound` for who may not even see it, else
    `Forbidden`.
    """
    if not may_see(principal, interrupt, can_use):
        if can_use:
            raise Forbidden("only the named approvers may decide", {"reason": "not_an_approver"})
        raise NotFound
    if not interrupt.allow_self and principal.user_id == starter.user_id:
        raise Forbidden("who started the run may not approve it", {"reason": "self_approval"})
    if any(answer.by.user_id == principal.user_id for answer in interrupt.answers):
        raise Forbidden("you have decided this before", {"reason": "already_decided"})


def check_answer(interrupt: Interrupt, decision: Decision, path: str = "") -> None:
    """Refuse a decision of the wrong kind, or data that breaks the form (422)."""
    allowed = ANSWERS[interrupt.type]
    if decision.decision not in allowed:
        expected = " or ".join(f"`{name}`" for name in allowed)
        refuse([Issue(f"{path}decision", f"`{decision.decision}` is not {expected}", "enum")])
    if interrupt.form_schema is not None and decision.decision == "approve":
        refuse(compile_schema(interrupt.form_schema).check(decision.data, path + "data"), as_invalid=True)


def _is_approver(principal: Principal, interrupt: Interrupt) -> bool:
    return principal.verified_email in interrupt.emails or not principal.all_groups().isdisjoint(interrupt.groups)
