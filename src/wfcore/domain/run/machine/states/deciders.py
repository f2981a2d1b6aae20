"""Who can see and decide an interrupt, and what a decision must be.

`may_decide` is the one function that says who can decide: HTTP, Python, the command line and the chat page call it.
"""

from collections.abc import Collection, Sequence
from typing import Final

import attrs

from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Forbidden, Issue, NotFound, refuse
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Actor, Decision
from wfcore.domain.run.machine.states.interrupts import ANSWERS
from wfcore.domain.run.state import Interrupt


@attrs.frozen
class Delegator:
    """Somebody who has delegated decisions to another user, and whether that somebody can use the target."""

    principal: Principal
    can_use: bool


NOBODY: Final[Sequence[Delegator]] = ()


def may_see(principal: Principal, interrupt: Interrupt, can_use: bool) -> bool:
    """Whether this principal can see the interrupt by own right. Named approvers can without access to the workflow; if
    none is named, everybody can who can use it. Those to whom it was escalated can too.
    """
    if _is_one_of(principal, *interrupt.escalated_to):
        return True
    return _is_one_of(principal, interrupt.emails, interrupt.groups) if interrupt.named else can_use


def sees_as_approver(principal: Principal, interrupt: Interrupt, delegators: Sequence[Delegator] = NOBODY) -> bool:
    """Whether a principal without use can see the interrupt: by own right, or for somebody who can."""
    return may_see(principal, interrupt, False) or any(
        may_see(one.principal, interrupt, one.can_use) for one in delegators
    )


def may_decide(
    principal: Principal,
    interrupt: Interrupt,
    starter: Actor,
    can_use: bool,
    delegators: Sequence[Delegator] = NOBODY,
) -> str:
    """Raise unless this principal can decide this interrupt: `NotFound` if they cannot see it, else `Forbidden`.

    Returns for whom: "" by own right, else the user id of one of the `delegators`, who have delegated their decisions.
    A delegation gives no other right: nobody decides twice, neither in person nor through others, and a starter who
    cannot approve the own run can do so in neither role.
    """
    if may_see(principal, interrupt, can_use):
        _check_people((principal.user_id,), interrupt, starter)
        return ""
    found = [one.principal.user_id for one in delegators if may_see(one.principal, interrupt, one.can_use)]
    if not found:
        if can_use:
            raise Forbidden("only the named approvers can decide", {"reason": "not_an_approver"})
        raise NotFound
    refused = None
    for name in found:
        try:
            _check_people((principal.user_id, name), interrupt, starter)
        except Forbidden as error:
            refused = refused or error
        else:
            return name
    assert refused is not None  # noqa: S101  (there was a delegator)
    raise refused


def _check_people(people: Collection[str], interrupt: Interrupt, starter: Actor) -> None:
    """Forbidden when one of these, who decide as one, started the run and must not, or has decided before."""
    refused = interrupt.barred(starter.user_id)
    reasons = {refused[user] for user in people if user in refused}
    if "self_approval" in reasons:
        raise Forbidden("the user who started the run cannot approve it", {"reason": "self_approval"})
    if reasons:
        raise Forbidden("you have decided this before", {"reason": "already_decided"})


def check_answer(interrupt: Interrupt, decision: Decision, path: str = "") -> None:
    """Raise (422) for a decision of the wrong kind, and for data that does not fit the form."""
    allowed = ANSWERS[interrupt.type]
    if decision.decision not in allowed:
        expected = " or ".join(f"`{name}`" for name in allowed)
        refuse([Issue(f"{path}decision", f"`{decision.decision}` is not {expected}", "enum")])
    if interrupt.form_schema is not None and decision.decision == "approve":
        refuse(compile_schema(interrupt.form_schema).check(decision.data, path + "data"), as_invalid=True)


def _is_one_of(principal: Principal, emails: Sequence[str], groups: Sequence[str]) -> bool:
    return principal.verified_email in emails or not principal.all_groups().isdisjoint(groups)
