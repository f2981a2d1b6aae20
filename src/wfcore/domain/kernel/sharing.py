"""Shares: what many organizations wait for is given to them in turn."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_turn(items: Iterable[T], owner: Callable[[T], Hashable]) -> list[T]:
    """The first item of each owner, then the second of each, and so on; within a turn in the given order."""
    seen: Counter[Hashable] = Counter()
    ranked = []
    for item in items:
        ranked.append((seen[owner(item)], item))
        seen[owner(item)] += 1
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]
