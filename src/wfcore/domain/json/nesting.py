"""How deep a JSON value is nested, and how large it is. A scalar has depth 0, `[]` depth 1."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from wfcore.domain.kernel.json_type import JSON

MAX_VALUE_DEPTH: Final = 128
"""The most levels of a value in a run. Every encoder can write such a value, with the response around it."""


def is_deeper(tree: JSON, limit: int = MAX_VALUE_DEPTH) -> bool:
    """Whether the value has more than `limit` levels.

    It does not use recursion: parsers accept more levels than Python has stack frames.
    """
    level: list[list[JSON] | dict[str, JSON]] = [[tree]]
    depth = -1
    while level and depth < limit:
        depth += 1
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if type(item) not in _SCALARS and isinstance(item, _CONTAINERS)
        ]
    return bool(level)


class Extent(NamedTuple):
    """The parts of a value, itself included, its levels, and the characters of its texts and keys."""

    parts: int
    levels: int
    characters: int

    @property
    def bytes(self) -> int:
        """What the value takes in memory, roughly."""
        return 100 * self.parts + 2 * self.characters


def extent(value: object) -> Extent:
    """The extent of a JSON value; other objects in it count as scalars."""
    parts, levels, characters, level = 0, 0, 0, [value]
    while level:
        parts, levels = parts + len(level), levels + 1
        characters += sum(map(_own_characters, level))
        level = [child for part in level for child in _children(part)]
    return Extent(parts, levels, characters)


def _own_characters(value: object) -> int:
    if type(value) is str:
        return len(value)
    return sum(len(key) for key in value if type(key) is str) if isinstance(value, Mapping) else 0


def _children(value: object) -> Collection[object]:
    return value if type(value) is list else value.values() if isinstance(value, Mapping) else ()


_CONTAINERS: Final = (dict, list)
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
"""The types of most values: a look-up here is faster than `isinstance`."""
