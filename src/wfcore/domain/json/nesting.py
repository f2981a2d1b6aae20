"""How deep a JSON value is nested. A scalar has depth 0, `[]` depth 1."""

from typing import Final

from wfcore.domain.kernel.json_type import JSON

DEEPEST: Final = 128
"""Levels that a value of a run may have: each encoder can write it, with all that stands around it in an answer."""


def is_deeper(tree: JSON, limit: int = DEEPEST) -> bool:
    """Level by level rather than by recursion: parsers let through more levels than Python has frames."""
    level: list[JSON] = [[tree]]
    depth = -1
    while level and depth < limit:
        depth += 1
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
    return bool(level)
