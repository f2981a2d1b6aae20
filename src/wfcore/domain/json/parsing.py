"""Parsing of request bodies: from bytes to a JSON value.

An accepted body means the same to every parser and every store: strict RFC 8259 in UTF-8 without a byte order
mark, and I-JSON (RFC 7493) where parsers differ. Repeated keys, NaN, infinity, lone surrogates, NUL and integers
outside 64 bits are refused; depth and number of values are bounded. Keys keep their order.

A fast parser reads every body. A cheap test then finds bodies that may have repeated keys, long integers or NUL.
Only those are parsed again by a slow parser, which confirms a fault and gives its path.
"""

import json
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import attrs
import orjson

from wfcore.domain.json.nesting import MAX_VALUE_DEPTH
from wfcore.domain.kernel.errors import Issue, Malformed, refuse
from wfcore.domain.kernel.json_type import JSON

MAX_INTEGER = 2**63 - 1
MAX_ISSUES = 1_000
"""The most issues in a response: a small hostile body must not cause a large response."""

_MAX_KEY_SHOWN = 100

_Steps = tuple[str | int, ...]


@attrs.frozen
class JsonLimits:
    """Bounds of a body; the caller bounds its bytes. A scalar has depth 0, `[]` depth 1."""

    max_depth: int = 64
    max_values: int = attrs.field(default=200_000, validator=attrs.validators.ge(1))


DEFAULT_LIMITS = JsonLimits()


def parse_json(body: bytes, limits: JsonLimits = DEFAULT_LIMITS) -> JSON:
    """Parse a request body. Raises Malformed with the faults in `info.errors`, under the rule `json`."""
    containers = body.count(b"[") + body.count(b"{")  # at most: a text can have such a mark
    if containers + body.count(b",") >= limits.max_values and _has_more_values(body, limits.max_values):
        raise _malformed(f"more than {limits.max_values} values")
    try:
        tree: JSON = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _malformed(f"not JSON: {error}") from None
    around = ENCODED_LEVELS - limits.max_depth if containers > limits.max_depth else 0
    try:
        text = orjson.dumps(_within(around, tree))
    except orjson.JSONEncodeError:
        raise _malformed(f"nested deeper than {limits.max_depth} levels") from None
    if _may_have_faults(body, text):
        refuse(first_issues(_located_faults(body)))
    return tree


def faults_of(tree: object) -> list[Issue]:
    """The faults of a value that Python code gave: what is not JSON, and what `parse_json` refuses in a text."""
    return first_issues(Issue(wire_path(steps), message, "json") for steps, message in _faults(tree, ()))


def wire_path(steps: Iterable[str | int]) -> str:
    """The wire path of steps: `nodes`, 3, `type` give `nodes[3].type`. Keys over 100 characters are shortened."""
    shown = (f"[{step}]" if isinstance(step, int) else f".{_shown(step)}" for step in steps)
    return "".join(shown).removeprefix(".")


def first_issues(issues: Iterable[Issue]) -> list[Issue]:
    """The first `MAX_ISSUES` issues, and one more that says so if others are left out."""
    found = list(islice(issues, MAX_ISSUES + 1))
    if len(found) > MAX_ISSUES:
        found[-1] = Issue("", f"more than {MAX_ISSUES} faults; the others are not listed", found[0].rule)
    return found


def _shown(key: str) -> str:
    return key if len(key) <= _MAX_KEY_SHOWN else f"{key[:_MAX_KEY_SHOWN]}…"


def _malformed(message: str) -> Malformed:
    return Malformed(message, {"errors": [Issue("", message, "json").to_wire()]})


# Every value but the root follows a comma or is the first one in a container. A match is the text before such a
# mark, with whole strings, and the mark. The quantifiers are possessive (no backtracking): linear time on any bytes.
_MARK = re.compile(
    rb'(?:[^",\[{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{](?=[ \t\r\n]*+[\]}]))*+(?:([,\[{])|\Z)', re.DOTALL
)


def _has_more_values(body: bytes, limit: int) -> bool:
    """Whether the text holds more than `limit` values; checked before parsing, which takes memory for each."""
    marks = (match for match in _MARK.finditer(body) if match.lastindex)
    return next(islice(marks, limit - 1, None), None) is not None


def _within(levels: int, tree: JSON) -> JSON:
    """The value within so many arrays."""
    for _ in range(levels):
        tree = [tree]
    return tree


def _is_not_encoded(levels: int) -> bool:
    try:
        orjson.dumps(_within(levels, None))
    except orjson.JSONEncodeError:
        return True
    return False


ENCODED_LEVELS: Final = bisect_left(range(1, 1024), True, key=_is_not_encoded)
"""The most levels that orjson encodes: 254 in its README. A value within so many arrays less its bound is encoded
exactly if it keeps the bound. A pass over its containers would take four times as long as the whole encoding.
"""

_DIGITS_AS_ZERO = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_LONG_NUMBER = b"0" * len(str(MAX_INTEGER))


def _may_have_faults(body: bytes, text: bytes) -> bool:
    r"""Whether the body may hold NUL, an integer outside 64 bits or a repeated key. There are no false negatives.

    For repeated keys it counts colons: the body has one for each member and those inside strings. The `text` of the
    parsed body has the same number, unless members were lost. Only an escaped colon (`\u003a`) falsifies the count.
    """
    return (
        (b"\\" in body and (b"\\u0000" in body or b"\\u003" in body))
        or _LONG_NUMBER in body.translate(_DIGITS_AS_ZERO)
        or body.count(b":") != text.count(b":")
    )


class _RepeatedKeys(dict[str, JSON]):
    """An object with repeated keys."""

    names: list[str]


class _IntegerTooLarge:
    """Replaces an integer that is too long to be converted in little time."""


def _located_faults(body: bytes) -> Iterator[Issue]:
    tree = json.loads(body, object_pairs_hook=_object, parse_int=_integer)
    return (Issue(wire_path(steps), message, "json") for steps, message in _faults(tree, ()))


def _object(members: list[tuple[str, JSON]]) -> dict[str, JSON]:
    if len(value := dict(members)) == len(members):
        return value
    repeated = _RepeatedKeys(value)
    repeated.names = [key for key, times in Counter(key for key, _ in members).items() if times > 1]
    return repeated


def _integer(text: str) -> int | _IntegerTooLarge:
    return int(text) if len(text.removeprefix("-")) <= len(_LONG_NUMBER) else _IntegerTooLarge()


def _faults(value: object, steps: _Steps) -> Iterator[tuple[_Steps, str]]:
    """The paths and messages of faults. Recursion is safe: the depth is bounded."""
    if isinstance(value, (list, tuple, Mapping)) and len(steps) > MAX_VALUE_DEPTH:
        yield steps, f"nested deeper than {MAX_VALUE_DEPTH} levels"
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _faults(item, (*steps, index))
    elif isinstance(value, Mapping):
        yield from _object_faults(value, steps)
    elif fault := _scalar_fault(value):
        yield steps, fault


def _object_faults(value: Mapping[object, object], steps: _Steps) -> Iterator[tuple[_Steps, str]]:
    if isinstance(value, _RepeatedKeys):
        for name in value.names:
            yield (*steps, name), f"repeated key `{_shown(name)}`"
    for key, item in value.items():
        if not isinstance(key, str):
            yield steps, f"must have keys of type `str`, not `{type(key).__name__}`"
        elif fault := _text_fault(key):
            yield steps, f"{fault} in a key"
        else:
            yield from _faults(item, (*steps, key))


_TYPES = "a `dict`, `list`, `str`, `int`, `float`, `bool` or None"


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, str):
        return f"{fault} in a string" if (fault := _text_fault(value)) else None
    if isinstance(value, _IntegerTooLarge) or (isinstance(value, int) and abs(value) > MAX_INTEGER):
        return f"an integer outside -{MAX_INTEGER} to {MAX_INTEGER}"
    if isinstance(value, float):
        return None if math.isfinite(value) else "a number that is not finite"
    if value is None or isinstance(value, int):
        return None
    awaited = ": await it first" if isinstance(value, Awaitable) else ""
    return f"must be {_TYPES}, not `{type(value).__name__}`{awaited}"


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return "NUL"
    return None if text.isascii() or not SURROGATE.search(text) else "a lone surrogate"


SURROGATE = re.compile("[\ud800-\udfff]")
