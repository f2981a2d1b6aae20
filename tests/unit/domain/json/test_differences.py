"""The first difference of two JSON values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.json.differences import ValueDifference, first_difference

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("now", "before", "found"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("a.b[1]", "2", "3")),
        ({"a": 1}, {"b": 1}, ("a", "1", "absent")),
        ({"a": 1}, {"a": 1, "b": None}, ("b", "absent", "null")),
        ([1], [1, 2], ("", "a list of 1", "a list of 2")),
        ({"a": [1]}, {"a": {"b": 1}}, ("a", "[1]", '{"b":1}')),
        ("x" * 300, None, ("", '"' + "x" * 199, "null")),
        (True, 1, ("", "true", "1")),
    ],
)
def test_the_first_difference(now: Any, before: Any, found: tuple[str, str, str]) -> None:
    """Its place, and both values there."""
    assert first_difference(now, before) == ValueDifference(*found)


def test_in_words() -> None:
    """With the place, or the whole values."""
    assert str(first_difference({"a": 1}, {"a": 2})) == "`a` is 1, recorded 2"
    assert str(first_difference(1, 2)) == "1, not 2"


@given(VALUES, VALUES)
def test_there_is_one_exactly_for_different_values(one: Any, other: Any) -> None:
    assert (first_difference(one, other) is None) == (fingerprint(one) == fingerprint(other))
