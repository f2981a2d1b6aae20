"""Waits for a person: how they are opened, who may answer, what the answers come to.

`may_decide` is the one decision function: every door (HTTP, Python, the command line, a chat page) asks it.
"""

import hashlib
from collections.abc import Mapping, Sequence

from wfcore.domain.access import Principal
from wfcore.domain.codec import fingerprint, iso_ms
from wfcore.domain.errors import JSON, Forbidden, Issue, NotFound, refuse
from wfcore.domain.json_schema import compile_schema
from wfcore.domain.run.entries import Actor, Decision
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import Interrupt

APPROVALS = ("approve", "deny")
CONNECTS = ("connected", "cancelled")


def interrupt_id(root: str, node_id: str, visit: int) -> str:
    """The same visit of the same node of the same execution always waits under the same id."""
    return "int_" + hashlib.sha256(f"{root}\n{node_id}\n{visit}".encode()).hexdigest()[:24]


def approval_of(
    node: NodePlan, root: str, visit: int, at: int, call: Mapping[str, JSON] | None = None, message: str = ""
) -> Interrupt:
    """Open an approval: of a humanApproval node, or of the stored call of an action that requires one."""
    data = node.data
    approvers = data.get("approvers") or {}
    timeout = node.timeout if call is None else None
    return Interrupt(
        interrupt_id(root, node.id, visit),
        node.index,
        node.id,
        visit,
        message or (f"allow `{node.tool}` with these arguments?" if call else f"approve `{node.id}`?"),
        at,
        None if timeout is None else at + int(timeout * 1000),
        tuple(str(email).lower() for email in approvers.get("emails") or ()),
        tuple(approvers.get("groups") or ()),
        int(data.get("requiredApprovals") or 1),
        bool(data.get("allowSelfApproval", True)),
        data.get("formSchema"),
        call,
    )


def stored_call(node: NodePlan, calls: Sequence[JSON]) -> dict[str, JSON]:
    """What an approval binds: the tool and the exact arguments, with the digest of both."""
    arguments = calls[0] if node.for_each is None else list(calls)
    bound = {"toolId": node.tool, "arguments": arguments}
    return {**bound, "digest": fingerprint(bound)}


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
    return {**wire, **(interrupt.call or {})}


def verdict(interrupt: Interrupt) -> str | None:
    """The handle that the answers lead to: one denial decides; None while approvals are missing."""
    if any(answer.decision == "deny" for answer in interrupt.answers):
        return "denied"
    return "approved" if len(interrupt.answers) >= interrupt.required else None


def output_of(interrupt: Interrupt) -> dict[str, JSON]:
    """The output of an answered humanApproval node; `data` and `decidedAt` are those of the last answer."""
    last = interrupt.answers[-1]
    return {
        "decision": last.decision,
        "data": last.data,
        "decidedBy": [answer.by.user_id for answer in interrupt.answers],
        "decidedAt": iso_ms(last.at),
    }


def expiry(interrupt: Interrupt, node: NodePlan, at: int) -> tuple[str | None, dict[str, JSON]]:
    """The handle by which a passed deadline leaves the node (None: as an error), and the node's output."""
    output: dict[str, JSON] = {"decision": "expired", "data": None, "decidedBy": [], "decidedAt": iso_ms(at)}
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
    allowed = APPROVALS if interrupt.type == "approval" else CONNECTS
    if decision.decision not in allowed:
        expected = " or ".join(f"`{name}`" for name in allowed)
        refuse([Issue(f"{path}decision", f"`{decision.decision}` is not {expected}", "enum")])
    if interrupt.form_schema is not None and decision.decision == "approve":
        refuse(compile_schema(interrupt.form_schema).check(decision.data, path + "data"), as_invalid=True)


def _is_approver(principal: Principal, interrupt: Interrupt) -> bool:
    return principal.verified_email in interrupt.emails or not principal.all_groups().isdisjoint(interrupt.groups)
