"""The decisions of users in the entries of a run."""

from msgspec import structs

from wfcore.domain.projections.audit import BY_USERS, DecisionRow, decisions, reminders
from wfcore.domain.run.entries import (
    TAGS,
    Actor,
    Cancelled,
    Decision,
    Forked,
    Moved,
    Paused,
    Resumed,
    Retried,
    Started,
    TimePassed,
)
from wfcore.testing.histories import BEGIN, History, sketch

ANN = Actor("ann")


def test_decisions_of_users() -> None:
    """A resume has its decisions and the turn that it begins; the system and other entries decide nothing."""
    entries = [
        Resumed(1, "r2", ANN, [Decision("i1", "approve")]), TimePassed(2), Paused(3, ANN), Resumed(4, "r3"),
        Cancelled(5, ANN),
    ]  # fmt: skip
    approved = [{"interruptId": "i1", "decision": "approve"}]
    assert decisions(entries) == [
        DecisionRow(1, "ann", "run.resume", {"resumedBy": "r2", "decisions": approved}),
        DecisionRow(3, "ann", "run.interrupt"),
        DecisionRow(5, "ann", "run.cancel"),
    ]


def test_repairs() -> None:
    """A retry has what was chosen, a fork where it begins, a move where it leads; without a chosen variation the
    version is null.
    """
    chosen = ("workflow", 7, "v2")
    entries = [
        Retried(1, "r2", ANN, chosen, True, ("b",), {"a": 1}, ("c",)), Retried(2, "r3", ANN),
        Forked(3, "f1", ANN, "key", ("b",), chosen), Forked(4, "f2", ANN, "key", ("a",)),
    ]  # fmt: skip
    entries.append(Moved(5, ANN, chosen))
    plain = {"retriedBy": "r3", "version": None, "from": [], "outputs": [], "skip": []}
    changed = {"retriedBy": "r2", "version": "v2", "from": ["b"], "outputs": ["a"], "skip": ["c"]}
    assert decisions(entries) == [
        DecisionRow(1, "ann", "run.retry", changed),
        DecisionRow(2, "ann", "run.retry", plain),
        DecisionRow(3, "ann", "run.fork", {"forkedTo": "f1", "version": "v2", "before": "b"}),
        DecisionRow(4, "ann", "run.fork", {"forkedTo": "f2", "version": None, "before": "a"}),
        DecisionRow(5, "ann", "run.move", {"variationId": "v2"}),
    ]


def test_reminders_of_the_system() -> None:
    """Each is reported once, at its moment; what has not taken effect, and what had before, is not."""
    ask = {"type": "humanApproval", "remindAfterSeconds": 5, "escalateAfterSeconds": 9,
           "escalateTo": {"emails": ["boss@example.org"]}}  # fmt: skip
    history = History(sketch("s -> w", w=ask))
    first = dict(history.machine.interrupts)
    second = dict(history.pass_time(5).machine.interrupts)
    third = dict(history.pass_time(4).machine.interrupts)
    (name,) = first
    remind = DecisionRow(BEGIN + 5_000, None, "run.remind", {"interruptId": name})
    escalated = {"interruptId": name, "emails": ["boss@example.org"], "groups": []}
    escalate = DecisionRow(BEGIN + 9_000, None, "run.escalate", escalated)
    assert reminders(first.values(), first) == []
    assert reminders(first.values(), second) == [remind]
    assert reminders(second.values(), third) == [escalate]
    assert reminders(first.values(), third) == [remind, escalate]
    assert reminders(first.values(), {}) == []


def test_every_entry_of_a_user_can_be_audited() -> None:
    """All entries that name who made them, but the first one: its run has a record of its own."""
    by_somebody = {entry for entry in TAGS if "by" in {field.name for field in structs.fields(entry)}}
    assert by_somebody - {Started} == BY_USERS
