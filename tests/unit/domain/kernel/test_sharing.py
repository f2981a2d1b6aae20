"""Shares of what many organizations wait for."""

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel.sharing import in_turn


def test_owners_take_turns() -> None:
    """The first of each owner, then the second of each; the given order holds within a turn."""
    assert in_turn(["a1", "a2", "a3", "b1", "c1", "b2"], lambda item: item[0]) == ["a1", "b1", "c1", "a2", "b2", "a3"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())))
def test_nothing_is_lost_and_no_owner_waits_for_a_longer_one(items: list[tuple[int, int]]) -> None:
    """The result is a permutation, in order for each owner; no owner's item comes behind a later turn's."""
    shared = in_turn(items, lambda item: item[0])
    turns = [sum(one[0] == item[0] for one in shared[:index]) for index, item in enumerate(shared)]
    assert sorted(shared) == sorted(items)
    assert turns == sorted(turns)
    for owner in range(4):
        assert [item for item in shared if item[0] == owner] == [item for item in items if item[0] == owner]
