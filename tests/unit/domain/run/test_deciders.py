"""Decisions for others: what a delegation gives, and what it does not."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.resources.access import Principal, Role
from wfcore.domain.run.entries import Actor, Decision, Resumed
from wfcore.domain.run.machine.states.deciders import (
    Delegator,
    may_decide,
    may_see,
    sees_as_approver,
)
from wfcore.domain.run.state import IllegalEntry, Interrupt, Vote
from wfcore.testing.histories import ANN, History, sketch

ORG = "org-uuid"
APPROVERS = ("boss@example.org",)


def person(name: str) -> Principal:
    return Principal(ORG, name, f"{name}@example.org", frozenset(), frozenset(), Role.MEMBER, email_verified=True)


def waiting(*votes: Vote, emails: tuple[str, ...] = APPROVERS, allow_self: bool = True) -> Interrupt:
    return Interrupt("int_1", 0, "w", 1, "?", 0, emails=emails, required=9, allow_self=allow_self, answers=votes)


def vote(by: str, behalf: str = "") -> Vote:
    return Vote("approve", Actor(by), 0, None, behalf)


def test_a_delegate_decides_for_an_approver() -> None:
    """Without any access of its own; somebody else's delegation does not help."""
    boss, eve = Delegator(person("boss"), can_use=False), Delegator(person("eve"), can_use=True)
    assert may_decide(person("bob"), waiting(), ANN, False, [eve, boss]) == "boss"
    assert sees_as_approver(person("bob"), waiting(), [eve, boss])
    for can_use, error in ((False, NotFound), (True, Forbidden)):
        with pytest.raises(error):
            may_decide(person("bob"), waiting(), ANN, can_use, [eve])
    assert not sees_as_approver(person("bob"), waiting(), [eve])


def test_own_right_comes_first() -> None:
    """An approver who is also a delegate decides in person."""
    both = waiting(emails=("boss@example.org", "bob@example.org"))
    assert may_decide(person("bob"), both, ANN, False, [Delegator(person("boss"), can_use=True)]) == ""


def test_without_named_approvers_the_delegator_needs_use() -> None:
    """The delegate gets the decision, and no use of the workflow."""
    nobody = waiting(emails=())
    assert may_decide(person("bob"), nobody, ANN, False, [Delegator(person("cy"), can_use=True)]) == "cy"
    with pytest.raises(NotFound):
        may_decide(person("bob"), nobody, ANN, False, [Delegator(person("cy"), can_use=False)])


@pytest.mark.parametrize(("caller", "giver"), [("ann", "boss"), ("bob", "ann")])
def test_self_approval_looks_at_both(caller: str, giver: str) -> None:
    """The starter decides the own run neither for somebody nor through somebody."""
    interrupt = waiting(emails=(f"{giver}@example.org",), allow_self=False)
    with pytest.raises(Forbidden) as caught:
        may_decide(person(caller), interrupt, ANN, False, [Delegator(person(giver), can_use=True)])
    assert caught.value.info == {"reason": "self_approval"}
    other = [Delegator(person("ann"), can_use=True), Delegator(person("boss"), can_use=True)]
    both = waiting(emails=("ann@example.org", "boss@example.org"), allow_self=False)
    assert may_decide(person("bob"), both, ANN, False, other) == "boss"


PEOPLE = ("ann", "bob", "cy", "di")


@given(st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(PEOPLE)), max_size=8))
def test_nobody_counts_twice(tries: list[tuple[str, str]]) -> None:
    """However they take turns for each other, each person is behind at most one vote; the machine says the same."""
    data = {
        "type": "humanApproval",
        "requiredApprovals": 9,
        "approvers": {"emails": [f"{p}@example.org" for p in PEOPLE]},
    }
    history = History(sketch("s -> w", w=data))
    for number, (caller, giver) in enumerate(tries):
        open_one = history.waiting("w")
        outsider = caller == giver
        me = person(caller if outsider else f"{caller}-deputy")
        givers = [] if outsider else [Delegator(person(giver), can_use=False)]
        try:
            behalf = may_decide(me, open_one, ANN, False, givers)
        except Forbidden:
            behalf = None
        entry = Resumed(history.at, f"t-{number}", Actor(me.user_id), (Decision(open_one.id, "approve"),), None,
                        {open_one.id: giver} if givers else {})  # fmt: skip
        if behalf is None:
            with pytest.raises(IllegalEntry):
                history.apply(entry)
        else:
            history.apply(entry)
    votes = history.waiting("w").answers
    for one, other in product(votes, votes):
        assert one is other or one.people.isdisjoint(other.people)
    assert all(may_see(person(name), history.waiting("w"), False) for name in PEOPLE)


@given(
    st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(("", *PEOPLE))), max_size=2),
    st.booleans(),
    st.sampled_from(PEOPLE),
    st.sampled_from(PEOPLE),
)
def test_those_who_are_barred_are_those_who_are_refused(
    votes: list[tuple[str, str]], allow_self: bool, caller: str, giver: str
) -> None:
    """A store that leaves out what `Interrupt.barred` cannot decide leaves out just what `may_decide` refuses."""
    emails = tuple(f"{name}@example.org" for name in PEOPLE)
    interrupt = waiting(*(vote(*one) for one in votes), emails=emails, allow_self=allow_self)
    alone, both = person(caller), [Delegator(person(giver), can_use=False)]
    others = interrupt.barred(ANN.user_id)
    for me, givers, people in ((alone, (), {caller}), (person("deputy"), both, {"deputy", giver})):
        if people.isdisjoint(others):
            may_decide(me, interrupt, ANN, False, givers)
        else:
            with pytest.raises(Forbidden) as refused:
                may_decide(me, interrupt, ANN, False, givers)
            assert refused.value.info["reason"] in {others[user] for user in people & others.keys()}


def test_the_output_says_for_whom() -> None:
    """`answers` of the node has `onBehalfOf`; `decidedBy` has who decided."""
    history = History(sketch("s -> w", "w -approved-> a", w={"type": "humanApproval"}))
    name = history.waiting("w").id
    history.apply(Resumed(history.at, "t", Actor("bob"), (Decision(name, "approve"),), None, {name: "boss"}))
    output = history.machine.nodes["w"]["output"]
    assert output["decidedBy"] == ["bob"]
    assert output["answers"][0]["onBehalfOf"] == "boss"


def test_a_vote_for_the_delegator_too() -> None:
    """Who has decided through a delegate has decided."""
    interrupt = waiting(vote("bob", "boss"))
    with pytest.raises(Forbidden) as caught:
        may_decide(person("boss"), interrupt, ANN, False)
    assert caught.value.info == {"reason": "already_decided"}
