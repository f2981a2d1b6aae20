"""The values of CEL over plain JSON: types, equality, order, indexing, and the budget that bounds them.

A CEL value is the JSON value itself: null, bool, int, double (float), string, list and map are Python's own
types, distinguished by `type(x)` only, so that true is never 1. Timestamps and durations are `datetime` (UTC)
and `timedelta`, to the microsecond. JSON has no unsigned ints and no bytes, so expressions have neither.

The CEL language definition (cel-spec, doc/langdef.md) gives the meaning. Ints have 64 bits and overflow is an
error; doubles are IEEE 754; equality and order compare int with double by value; equality between other types is
false. An operation on many elements or characters costs steps for them, so that work and memory are bounded.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import NoneType
from typing import Any, Final

import attrs

Value = Any

MAX_STEPS: Final = 200_000
"""The steps of one budget: about a tenth of a second of work."""

TOO_MANY_STEPS: Final = f"the expression takes too many steps: expressions that share a budget may take {MAX_STEPS:,}"
MAX_DEPTH: Final = 64
CHARACTERS_PER_STEP: Final = 16


class ExpressionError(Exception):
    """An expression does not compile, or its evaluation failed.

    `line` and `column` count from 1 in the source, or in the string of a template; None where they are not known.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column

    def within(self, text: str, offset: int) -> "ExpressionError":
        """The same error with its position in `text`, where the source begins at `offset`."""
        if self.line is None or self.column is None:
            return self
        line, column = place_of(text, offset)
        shift = column - 1 if self.line == 1 else 0
        return ExpressionError(self.message, line + self.line - 1, self.column + shift)


def place_of(text: str, offset: int) -> tuple[int, int]:
    """The line and the column of an offset, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class Exhausted(Exception):
    """The budget is used up. No operator of the language catches this."""


class EvaluationBudget:
    """The steps that an evaluation may still take. One step is one visited element or a few characters."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    def read(self, text: str) -> None:
        self.spend(1 + len(text) // CHARACTERS_PER_STEP)


@attrs.frozen
class Type:
    """The value of `type(x)`; it can be compared and is not a JSON value."""

    name: str


TYPES: Final[Mapping[type, Type]] = {
    NoneType: Type("null_type"),
    bool: Type("bool"),
    int: Type("int"),
    float: Type("double"),
    str: Type("string"),
    list: Type("list"),
    dict: Type("map"),
    datetime: Type("google.protobuf.Timestamp"),
    timedelta: Type("google.protobuf.Duration"),
    Type: Type("type"),
}
TYPE_NAMES: Final = {kind.name: kind for kind in TYPES.values() if "." not in kind.name}
PLAIN_NAMES: Final = {NoneType: "null", datetime: "timestamp", timedelta: "duration"}
"""The types that messages do not call by their CEL name."""

NUMBERS: Final = frozenset({int, float})
ORDERED: Final = frozenset({bool, int, float, str, datetime, timedelta})


def describe(value: Value) -> str:
    """The name of a value's type, for messages."""
    kind = type(value)
    return PLAIN_NAMES.get(kind) or (TYPES[kind].name if kind in TYPES else kind.__name__)


# Equality and order


def equal(budget: EvaluationBudget, a: Value, b: Value) -> bool:
    """CEL's `==`: by value between int and double, recursive in lists and maps, false between other types."""
    kind = type(a)
    if kind is not type(b):
        return kind in NUMBERS and type(b) in NUMBERS and bool(a == b)
    if kind is str and len(a) > CHARACTERS_PER_STEP:
        budget.read(a)
    elif kind is list:
        return _equal_lists(budget, a, b)
    elif kind is dict:
        return _equal_maps(budget, a, b)
    return bool(a == b)


def _equal_lists(budget: EvaluationBudget, a: list[Value], b: list[Value]) -> bool:
    if len(a) != len(b):
        return False
    budget.spend(len(a))
    return all(equal(budget, x, y) for x, y in zip(a, b, strict=True))


def _equal_maps(budget: EvaluationBudget, a: dict[Value, Value], b: dict[Value, Value]) -> bool:
    if a.keys() != b.keys():
        return False
    budget.spend(len(a))
    return all(equal(budget, value, b[key]) for key, value in a.items())


def ordered(budget: EvaluationBudget, a: Value, b: Value) -> None:
    """Raise ExpressionError for two values that CEL does not order; spend steps for strings."""
    kind = type(a)
    if kind is str and type(b) is str:
        budget.read(a)
    elif not (kind in ORDERED and kind is type(b)) and not (kind in NUMBERS and type(b) in NUMBERS):
        raise ExpressionError(f"cannot compare {describe(a)} with {describe(b)}")


def contained(budget: EvaluationBudget, item: Value, container: Value) -> bool:
    """CEL's `in`: whether `item` is an element of a list or a key of a map."""
    if type(container) is list:
        for element in container:
            budget.spend(1)
            if equal(budget, item, element):
                return True
        return False
    if type(container) is dict:
        return is_key(item) and item in container
    raise ExpressionError(f"`in` needs a list or a map, not {describe(container)}")


def is_key(value: Value) -> bool:
    """Whether a value can be a key of a map: a string or a number; numbers compare by value."""
    return type(value) is str or type(value) in NUMBERS


def index(container: Value, key: Value) -> Value:
    """CEL's `container[key]`; list indices start at 0, negative ones are errors."""
    if type(container) is dict:
        if is_key(key) and key in container:
            return container[key]
        raise ExpressionError(f"no such key {shown(key)}")
    if type(container) is list and type(key) is int:
        if 0 <= key < len(container):
            return container[key]
        raise ExpressionError(f"index `{key}` is outside the list of {len(container)}")
    raise ExpressionError(f"cannot index {describe(container)} with {describe(key)}")


def shown(value: Value) -> str:
    """A value in a message: a short scalar itself, else the name of its type."""
    kind = type(value)
    if (kind is str and len(value) <= 80) or kind is float or (kind is int and abs(value) < 2**64):
        return f"`{value}`"
    return f"({describe(value)})"


# Back to JSON


def in_int64(number: int) -> int:
    if -(2**63) <= number < 2**63:
        return number
    raise ExpressionError("int overflow")


def text_of(value: Value) -> str:
    """CEL's `string(x)`: RFC 3339 for timestamps, seconds such as `1.5s` for durations."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is datetime:
        seconds, point, fraction = value.isoformat().removesuffix("+00:00").partition(".")
        return f"{seconds}{point}{fraction.rstrip('0')}Z"
    if type(value) is timedelta:
        whole, rest = divmod(abs(value), timedelta(seconds=1))
        fraction = f".{rest.microseconds:06}".rstrip("0") if rest else ""
        return f"{'-' if value < timedelta() else ''}{whole}{fraction}s"
    return str(value if type(value) is not int else in_int64(value))


def to_json(budget: EvaluationBudget, value: Value, depth: int = 0) -> Value:
    """A result as plain JSON: timestamps and durations become strings as in proto3's JSON; NaN is an error."""
    kind = type(value)
    if kind is str:
        budget.read(value)
    elif kind is float and not math.isfinite(value):
        raise ExpressionError(f"the result `{value}` is not a JSON number")
    elif kind in {datetime, timedelta}:
        return text_of(value)
    elif kind is list or kind is dict:
        return _container_to_json(budget, value, depth + 1)
    elif kind is Type:
        raise ExpressionError(f"the type `{value.name}` is not a JSON value")
    return value


def _container_to_json(budget: EvaluationBudget, value: Value, depth: int) -> Value:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the result is nested deeper than {MAX_DEPTH} levels")
    budget.spend(1 + len(value))
    if type(value) is list:
        return [to_json(budget, item, depth) for item in value]
    if any(type(key) is not str for key in value):
        raise ExpressionError("the keys of a resulting object must be strings")
    return {key: to_json(budget, item, depth) for key, item in value.items()}
