"""How interrupts are closed: by a person, by a deadline, or by the system's own turn."""

from wfcore.domain.run.entries import Decision, Resumed
from wfcore.ports.repositories.inbox import _decided
from wfcore.testing.histories import ANN, History, sketch

ASK = sketch("s -> w", w={"type": "humanApproval", "message": "May I?"})


def test_the_vote_of_a_person_is_kept() -> None:
    """A turn that the system made adds no vote."""
    interrupt = History(ASK).waiting("w")
    decision = Decision(interrupt.id, "approve", None)
    by_ann, by_system = (Resumed(5, "run-2", by, (decision,)) for by in (ANN, None))
    assert [vote.by for vote in _decided(interrupt, by_ann, decision).interrupt.answers] == [ANN]
    assert _decided(interrupt, by_system, decision).interrupt.answers == ()
