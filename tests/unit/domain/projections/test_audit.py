"""The decisions of users in the entries of a run."""

from wfcore.domain.projections.audit import DecisionRow, decisions
from wfcore.domain.run.entries import Actor, Cancelled, Decision, Paused, Resumed, TimePassed

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
