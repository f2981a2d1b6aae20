"""How deep a JSON value is nested. A scalar has depth 0, `[]` depth 1."""

from typing import Final

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


_CONTAINERS: Final = (dict, list)
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
"""The types of most values: a look-up here is faster than `isinstance`."""
