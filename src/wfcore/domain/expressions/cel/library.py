"""The standard library of CEL: its operators, conversions, functions and methods, as tables of overloads.

The exact types of the arguments select an overload; its first argument is the budget. The tables follow the list
of standard definitions of the CEL language definition (cel-spec, doc/langdef.md), without unsigned ints and bytes.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from wfcore.domain.expressions.cel.values import (
    CHARACTERS_PER_STEP,
    TYPES,
    EvaluationBudget,
    Exhausted,
    ExpressionError,
    Value,
    in_int64,
    shown,
    text_of,
)

Function = Callable[..., Value]
Overloads = Mapping[tuple[type, ...], Function]

MAX_PATTERN: Final = 1_000
STATES_PER_STEP: Final = 100
"""The states of a pattern that take, for one character, as long as a step, in the worst case."""
PARSING: Final = 8
"""Steps that a time, a duration or a calendar field costs in addition to those of the expression."""


# Arithmetic


def _int64(compute: Callable[[int, int], int]) -> Function:
    def checked(_: EvaluationBudget, a: int, b: int) -> int:
        return in_int64(compute(a, b))

    return checked


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise ExpressionError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise ExpressionError("modulus by zero")
    return -(abs(a) % abs(b)) if a < 0 else a % abs(b)


def _ratio(a: float, b: float) -> float:
    """IEEE 754 division; Python raises for a zero divisor."""
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _without_cost(compute: Callable[[Any, Any], Value]) -> Function:
    """An operator that costs no steps; a time outside the calendar is an error."""

    def checked(_: EvaluationBudget, a: Value, b: Value) -> Value:
        try:
            return compute(a, b)
        except OverflowError:
            raise ExpressionError("the time is out of range") from None

    return checked


def _join_text(budget: EvaluationBudget, a: str, b: str) -> str:
    budget.spend(1 + (len(a) + len(b)) // CHARACTERS_PER_STEP)
    return a + b


def _join_lists(budget: EvaluationBudget, a: list[Value], b: list[Value]) -> list[Value]:
    budget.spend(1 + len(a) + len(b))
    return a + b


def _mixed(compute: Callable[[float, float], float]) -> Overloads:
    """Overloads for two doubles, and for an int and a double: JSON has one type of number."""
    on_doubles = _without_cost(lambda a, b: compute(float(a), float(b)))
    return {(float, float): on_doubles, (int, float): on_doubles, (float, int): on_doubles}


ARITHMETIC: Final[Mapping[str, Overloads]] = {
    "+": {
        (int, int): _int64(operator.add),
        **_mixed(operator.add),
        (str, str): _join_text,
        (list, list): _join_lists,
        (datetime, timedelta): _without_cost(operator.add),
        (timedelta, datetime): _without_cost(operator.add),
        (timedelta, timedelta): _without_cost(operator.add),
    },
    "-": {
        (int, int): _int64(operator.sub),
        **_mixed(operator.sub),
        (datetime, datetime): _without_cost(operator.sub),
        (datetime, timedelta): _without_cost(operator.sub),
        (timedelta, timedelta): _without_cost(operator.sub),
    },
    "*": {(int, int): _int64(operator.mul), **_mixed(operator.mul)},
    "/": {(int, int): _int64(_quotient), **_mixed(_ratio)},
    "%": {(int, int): _int64(_remainder)},
}


# Conversions

_INT: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?Infinity|NaN")
_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?!24)[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_DURATION: Final = re.compile(r"(?P<sign>[+-]?)(?P<parts>(?:[0-9]{1,18}(?:\.[0-9]{1,9})?(?:ns|us|ms|s|m|h))+)")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRUE, _FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}
_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")
_ZONE: Final = re.compile(r"[A-Z][A-Za-z_]*(?:/[A-Za-z0-9_+-]+){1,2}")


def _not_valid(value: Value, kind: str) -> ExpressionError:
    return ExpressionError(f"{shown(value)} is not a valid {kind}")


def _int_of_double(_: EvaluationBudget, value: float) -> int:
    if not math.isfinite(value):
        raise _not_valid(value, "int")
    return in_int64(math.trunc(value))


def _int_of_text(_: EvaluationBudget, text: str) -> int:
    if not _INT.fullmatch(text):
        raise _not_valid(text, "int")
    return in_int64(int(text))


def _double_of_int(_: EvaluationBudget, value: int) -> float:
    return float(in_int64(value))


def _double_of_text(_: EvaluationBudget, text: str) -> float:
    if len(text) > 400 or not _DOUBLE.fullmatch(text):
        raise _not_valid(text, "double")
    return float(text)


def _bool_of_text(_: EvaluationBudget, text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise _not_valid(text, "bool")
    return text in _TRUE


def _timestamp(budget: EvaluationBudget, text: str) -> datetime:
    """RFC 3339, section 5.6."""
    budget.spend(PARSING)
    if not _TIMESTAMP.fullmatch(text):
        raise _not_valid(text, "timestamp")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _not_valid(text, "timestamp") from None


def _timestamp_of_int(_: EvaluationBudget, seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    except OverflowError:
        raise _not_valid(seconds, "timestamp") from None


def _duration(budget: EvaluationBudget, text: str) -> timedelta:
    budget.spend(PARSING)
    match = _DURATION.fullmatch(text) if len(text) <= 200 else None
    if match is None:
        raise _not_valid(text, "duration")
    seconds = math.fsum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(match["parts"]))
    try:
        return timedelta(seconds=-seconds if match["sign"] == "-" else seconds)
    except OverflowError:
        raise _not_valid(text, "duration") from None


# Text and time


def _size(_: EvaluationBudget, value: str | list[Value] | dict[Value, Value]) -> int:
    return len(value)


def _text_test(test: Callable[[str, str], bool]) -> Function:
    def tested(budget: EvaluationBudget, text: str, part: str) -> bool:
        budget.read(text)
        return test(text, part)

    return tested


def _matches(budget: EvaluationBudget, text: str, pattern: str) -> bool:
    """Search `text` for an RE2 pattern, in time linear in the text and in the states of the pattern."""
    budget.spend(100 + 10 * len(pattern))
    compiled = compiled_pattern(pattern)
    budget.spend(len(text) * compiled.programsize // STATES_PER_STEP)
    return bool(compiled.search(text))


def is_in(text: str, pattern: str, budget: EvaluationBudget) -> bool:
    """Whether a text has a match of an RE2 pattern. Raises ExpressionError for one that is not valid or takes more
    steps than the budget has.
    """
    try:
        return _matches(budget, text, pattern)
    except Exhausted:
        raise ExpressionError("the text is too long for the pattern") from None


@lru_cache(maxsize=256)
def compiled_pattern(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]

    if len(pattern) > MAX_PATTERN:
        raise ExpressionError(f"a pattern has at most {MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors, options.max_mem = False, 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise ExpressionError(f"`{pattern}` is not a valid RE2 pattern") from None


def _zone(name: str) -> tzinfo:
    """A fixed offset such as `+02:00`, `UTC`, or an IANA name of the form Area/City."""
    if name == "UTC":
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups()
        if int(hours) < 24 and int(minutes) < 60:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-offset if sign == "-" else offset)
    elif len(name) <= 64 and _ZONE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, LookupError):
            pass
    raise ExpressionError(f"{shown(name)} is not a valid time zone")


def _field(read: Callable[[datetime], int]) -> Overloads:
    def local(budget: EvaluationBudget, moment: datetime, zone: str = "UTC") -> int:
        budget.spend(PARSING)
        try:
            return read(moment.astimezone(_zone(zone)))
        except OverflowError:
            raise ExpressionError("the time is out of range") from None

    return {(datetime,): local, (datetime, str): local}


def _duration_or_field(unit: timedelta, read: Callable[[datetime], int]) -> Overloads:
    def total(_: EvaluationBudget, duration: timedelta) -> int:
        return _quotient(duration // timedelta(microseconds=1), unit // timedelta(microseconds=1))

    return {**_field(read), (timedelta,): total}


def _identity(_: EvaluationBudget, value: Value) -> Value:
    return value


def _text(_: EvaluationBudget, value: Value) -> str:
    return text_of(value)


_SIZE: Final[Overloads] = {(str,): _size, (list,): _size, (dict,): _size}
_MATCHES: Final[Overloads] = {(str, str): _matches}

FUNCTIONS: Final[Mapping[str, Overloads]] = {
    "size": _SIZE,
    "matches": _MATCHES,
    "type": {(kind,): lambda _, value: TYPES[type(value)] for kind in TYPES},
    "dyn": {(kind,): _identity for kind in TYPES},
    "bool": {(bool,): _identity, (str,): _bool_of_text},
    "int": {
        (int,): _identity,
        (float,): _int_of_double,
        (str,): _int_of_text,
        (datetime,): lambda _, moment: int(moment.timestamp() // 1),
    },
    "double": {(float,): _identity, (int,): _double_of_int, (str,): _double_of_text},
    "string": {(kind,): _text for kind in (str, bool, int, float, datetime, timedelta)},
    "timestamp": {(datetime,): _identity, (str,): _timestamp, (int,): _timestamp_of_int},
    "duration": {(timedelta,): _identity, (str,): _duration},
}

METHODS: Final[Mapping[str, Overloads]] = {
    "size": _SIZE,
    "matches": _MATCHES,
    "contains": {(str, str): _text_test(operator.contains)},
    "startsWith": {(str, str): _text_test(str.startswith)},
    "endsWith": {(str, str): _text_test(str.endswith)},
    "getFullYear": _field(lambda t: t.year),
    "getMonth": _field(lambda t: t.month - 1),
    "getDate": _field(lambda t: t.day),
    "getDayOfMonth": _field(lambda t: t.day - 1),
    "getDayOfWeek": _field(lambda t: t.isoweekday() % 7),
    "getDayOfYear": _field(lambda t: t.timetuple().tm_yday - 1),
    "getHours": _duration_or_field(timedelta(hours=1), lambda t: t.hour),
    "getMinutes": _duration_or_field(timedelta(minutes=1), lambda t: t.minute),
    "getSeconds": _duration_or_field(timedelta(seconds=1), lambda t: t.second),
    "getMilliseconds": _duration_or_field(timedelta(milliseconds=1), lambda t: t.microsecond // 1000),
}
