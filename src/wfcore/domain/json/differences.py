"""Where two JSON values first differ, for messages."""

from collections.abc import Mapping
from typing import Final

import attrs

from wfcore.domain.json.codec import dumps, fingerprint
from wfcore.domain.kernel.json_type import JSON

SHOWN: Final = 200
"""The most characters of a value in a message."""


@attrs.frozen
class ValueDifference:
    """The place of a difference, such as `params.orders[2]` ("" for the whole value), and both values there."""

    path: str
    now: str
    before: str

    def __str__(self) -> str:
        return f"`{self.path}` is {self.now}, recorded {self.before}" if self.path else f"{self.now}, not {self.before}"


def first_difference(now: JSON, before: JSON, path: str = "") -> ValueDifference | None:
    """The first difference in depth, in the order of `now`; None for equal values. Numbers are equal as in JSON."""
    if fingerprint(now) == fingerprint(before):
        return None
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        key = next(key for key in dict.fromkeys([*now, *before]) if _differs(now, before, key))
        inner = f"{path}.{key}" if path else key
        if key in now and key in before:
            return first_difference(now[key], before[key], inner)
        return ValueDifference(inner, _shown(now, key), _shown(before, key))
    if isinstance(now, list) and isinstance(before, list):
        for index, (one, other) in enumerate(zip(now, before, strict=False)):
            found = first_difference(one, other, f"{path}[{index}]")
            if found is not None:
                return found
        return ValueDifference(path, f"a list of {len(now)}", f"a list of {len(before)}")
    return ValueDifference(path, dumps(now)[:SHOWN], dumps(before)[:SHOWN])


def _shown(owner: Mapping[str, JSON], key: str) -> str:
    return dumps(owner[key])[:SHOWN] if key in owner else "absent"


def _differs(now: Mapping[str, JSON], before: Mapping[str, JSON], key: str) -> bool:
    return key not in now or key not in before or fingerprint(now[key]) != fingerprint(before[key])
