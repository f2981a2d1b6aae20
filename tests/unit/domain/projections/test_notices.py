"""Which events follow from the interrupts before and after entries, and from the status of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from wfcore.domain.projections.notices import Moment, end_notices, interrupt_notices
from wfcore.domain.run.entries import Actor, Decision, Resumed
from wfcore.domain.run.state import Interrupt, RunStatus

MOMENT = Moment("workflow", 7, "ann", 100, {"interrupt.opened": ("mail",)})


def interrupt(name: str, expires_at: int | None = None) -> Interrupt:
    return Interrupt(name, 0, "a", 1, "may it?", 1, expires_at)


NAMES = st.sets(st.sampled_from("abcdef"))


@given(NAMES, NAMES)
def test_each_change_is_one_notice(before: set[str], after: set[str]) -> None:
    """Every interrupt that is open only before is resolved once, every one that is open only after is opened once."""
    opened = {name: interrupt(name) for name in after}
    found = list(interrupt_notices(MOMENT, "r", "running", [interrupt(name) for name in before], opened, ()))
    assert {one.interrupt_id for one in found if one.event == "interrupt.resolved"} == before - after
    assert {one.interrupt_id for one in found if one.event == "interrupt.opened"} == after - before
    assert len(found) == len(before ^ after)
    assert all(one.handlers == (("mail",) if one.event == "interrupt.opened" else ()) for one in found)


def test_how_an_interrupt_was_resolved() -> None:
    """By the decision, by its deadline, or by the end of its run; in the turn that it interrupted."""
    before = [interrupt("a", 200), interrupt("b", 100), interrupt("c", 101), interrupt("d")]
    turn = Resumed(100, "r-2", Actor("bo"), (Decision("a", "deny"),))
    found = list(interrupt_notices(MOMENT, "r-2", "running", before, {}, [turn], "r-1"))
    assert {one.interrupt_id: one.decision for one in found} == {
        "a": "deny", "b": "expired", "c": "cancelled", "d": "cancelled"
    }  # fmt: skip
    assert {one.run_id for one in found} == {"r-1"}


@pytest.mark.parametrize("field", ["reminded_at", "escalated_at"])
def test_a_reminder_is_one_notice(field: str) -> None:
    """Of the interrupt that has changed, in the current turn."""
    before, other = interrupt("a"), interrupt("b")
    after = {"a": structs.replace(before, **{field: 100}), "b": structs.replace(other, required=2)}
    (found,) = interrupt_notices(MOMENT, "r-2", "interrupted", [before, other], after, (), "r-1")
    assert (found.event, found.interrupt_id, found.run_id) == ("interrupt.reminded", "a", "r-2")


@pytest.mark.parametrize("status", RunStatus)
def test_ends(status: RunStatus) -> None:
    """Only the end of an execution is reported."""
    events = {"done": "run.finished", "cancelled": "run.finished", "error": "run.failed"}
    found = [(one.event, one.status) for one in end_notices(MOMENT, "r", status)]
    assert found == ([(events[status], status)] if status in events else [])
