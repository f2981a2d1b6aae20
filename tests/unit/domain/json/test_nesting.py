"""The depth of JSON values."""

from functools import reduce
from typing import Any

import pytest

from wfcore.domain.json.nesting import MAX_VALUE_DEPTH, is_deeper


@pytest.mark.parametrize(
    ("tree", "depth"),
    [(1, 0), ("text", 0), (None, 0), ([], 1), ({}, 1), ([[1], {}], 2), ({"a": [{"b": 1}], "c": []}, 3)],
)
def test_depth(tree: Any, depth: int) -> None:
    """A scalar has depth 0, an empty array depth 1."""
    assert not is_deeper(tree, depth)
    assert depth == 0 or is_deeper(tree, depth - 1)


def test_the_default_bound() -> None:
    """A value of a run has at most 128 levels."""
    deepest: Any = reduce(lambda inner, _: [inner], range(MAX_VALUE_DEPTH), 1)
    assert not is_deeper(deepest)
    assert is_deeper({"a": deepest})


def test_very_deep_values_do_not_recurse() -> None:
    """A depth beyond Python's stack is measured."""
    assert is_deeper(reduce(lambda inner, _: [inner], range(100_000), 1))
