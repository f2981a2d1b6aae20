"""The decisions of users on runs, and reminders of undecided ones, for the audit."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Actor, Cancelled, Decision, Entry, Forked, Moved, Paused, Resumed, Retried
from wfcore.domain.run.state import Interrupt


class DecisionRow(Struct, frozen=True, gc=False):
    """What a user decided about a run; None is the system. `at` is in epoch milliseconds; `action` is that of the
    audit.
    """

    at: int
    user_id: str | None
    action: str
    details: Mapping[str, JSON] = field(default_factory=dict)


BY_USERS: Final = frozenset({Resumed, Retried, Forked, Moved, Cancelled, Paused})
"""The entries that users can make."""


def decisions(entries: Iterable[Entry], before: Iterable[Interrupt] = ()) -> list[DecisionRow]:
    """The decisions of users in these entries; those of the system are not recorded. `before` are the interrupts that
    were open: of a call, the row has what its approver was shown.
    """
    made = [entry for entry in entries if type(entry) in BY_USERS]
    if not made:
        return []
    calls = {one.id: one.call for one in before if one.call is not None}
    return [row for entry in made if (row := _decision(entry, calls))]


def reminders(before: Iterable[Interrupt], after: Mapping[str, Interrupt]) -> list[DecisionRow]:
    """What the system did about approvals that nobody has decided: it reminded their approvers, or named others."""
    made = []
    for old in before:
        new = after.get(old.id, old)
        for verb, then, at in (("remind", old.reminded_at, new.reminded_at),
                               ("escalate", old.escalated_at, new.escalated_at)):  # fmt: skip
            if at is not None and then is None:
                made.append(DecisionRow(at, None, f"run.{verb}", {"interruptId": new.id, **_escalation(verb, new)}))
    return made


def _escalation(verb: str, interrupt: Interrupt) -> dict[str, JSON]:
    if verb == "remind":
        return {}
    return {"emails": list(interrupt.escalate_emails), "groups": list(interrupt.escalate_groups)}


def _decision(entry: Entry, calls: Mapping[str, Mapping[str, JSON]]) -> DecisionRow | None:
    match entry:
        case Resumed(by=Actor() as by):
            made: list[JSON] = [_made(entry, one, calls) for one in entry.decisions]
            return DecisionRow(entry.at, by.user_id, "run.resume", {"resumedBy": entry.run_id, "decisions": made})
        case Retried(by=by):
            changed = {"version": _version(entry), "from": list(entry.again), "outputs": list(entry.outputs)}
            return DecisionRow(
                entry.at, by.user_id, "run.retry", {"retriedBy": entry.run_id, **changed, "skip": list(entry.skip)}
            )
        case Forked(by=by):
            about = {"forkedTo": entry.run_id, "version": _version(entry), "before": entry.again[0]}
            return DecisionRow(entry.at, by.user_id, "run.fork", about)
        case Moved(by=by):
            return DecisionRow(entry.at, by.user_id, "run.move", {"variationId": entry.pinned[2]})
        case Cancelled(by=by):
            return DecisionRow(entry.at, by.user_id, "run.cancel")
        case Paused(by=by):
            return DecisionRow(entry.at, by.user_id, "run.interrupt")
    return None


SHOWN: Final = ("toolId", "toolName", "aiDescription")


def _made(entry: Resumed, one: Decision, calls: Mapping[str, Mapping[str, JSON]]) -> JSON:
    behalf, call = entry.on_behalf_of.get(one.interrupt_id), calls.get(one.interrupt_id, {})
    made: dict[str, JSON] = {"interruptId": one.interrupt_id, "decision": one.decision}
    made |= {key: call[key] for key in SHOWN if key in call}
    return made if behalf is None else {**made, "onBehalfOf": behalf}


def _version(entry: Retried | Forked) -> JSON:
    """The id of the variation that runs from now on; None for the one before."""
    return None if entry.pinned is None else entry.pinned[2]
