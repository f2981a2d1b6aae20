"""The inbox: who can see an interrupt, as subjects of an index; and how interrupts end.

A named approver is the subject of a grant (`e:` and the address, `g:` and the group), and so is, after the escalation,
an approver to whom the interrupt was escalated. Without named approvers the
subject is the target (`r:workflow/7`), which everybody has who can use it, or the starter (`u:`) of a run without a
resource. Who has decided is also a subject (`u:`).
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from wfcore.domain.run.entries import Decision, Entry, Resumed
from wfcore.domain.run.state import Interrupt, Vote


class ClosedInterrupt(Struct, frozen=True, gc=False):
    """An interrupt with the decision or deadline that ended it. `at` is in epoch milliseconds."""

    interrupt: Interrupt
    decision: str
    at: int

    @property
    def deciders(self) -> tuple[str, ...]:
        """The subjects of the users who have decided."""
        return tuple({f"u:{vote.by.user_id}": None for vote in self.interrupt.answers})


def target_subject(kind: str, resource_id: int) -> str:
    """The subject of everybody who can use a resource."""
    return f"r:{kind}/{resource_id}"


def is_target(subject: str) -> bool:
    """Whether a subject is `target_subject` of some resource."""
    return subject.startswith("r:")


def approvers_of(interrupt: Interrupt, kind: str, resource_id: int | None, user_id: str) -> list[str]:
    """The subjects that can see the interrupt, of an execution of this target that this user started."""
    escalated = _subjects(*interrupt.escalated_to)
    if interrupt.named:
        return list(dict.fromkeys([*_subjects(interrupt.emails, interrupt.groups), *escalated]))
    return [f"u:{user_id}" if resource_id is None else target_subject(kind, resource_id), *escalated]


def _subjects(emails: Iterable[str], groups: Iterable[str]) -> list[str]:
    return [*(f"e:{email}" for email in emails), *(f"g:{group}" for group in groups)]


def closed_interrupts(
    before: Mapping[str, Interrupt], after: Iterable[Interrupt], entries: Sequence[Entry]
) -> list[ClosedInterrupt]:
    """Those that the entries have ended by a decision or by their deadline; withdrawn ones are left out."""
    still, decided = {one.id for one in after}, dict[str, tuple[Resumed, Decision]]()
    for entry in entries:
        if isinstance(entry, Resumed):
            decided.update({one.interrupt_id: (entry, one) for one in entry.decisions})
    now = max((entry.at for entry in entries), default=0)
    found = []
    for name, interrupt in before.items():
        if name in decided and name not in still:
            turn, decision = decided[name]
            found.append(_decided(interrupt, turn, decision))
        elif name not in still and interrupt.expires_at is not None and interrupt.expires_at <= now:
            found.append(ClosedInterrupt(interrupt, "expired", now))
    return found


def _decided(interrupt: Interrupt, turn: Resumed, decision: Decision) -> ClosedInterrupt:
    votes = interrupt.answers
    if turn.by is not None:
        behalf = turn.on_behalf_of.get(interrupt.id, "")
        votes = (*votes, Vote(decision.decision, turn.by, turn.at, decision.data, behalf))
    return ClosedInterrupt(structs.replace(interrupt, answers=votes), decision.decision, turn.at)
