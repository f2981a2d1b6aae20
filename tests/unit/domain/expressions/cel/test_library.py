"""The standard library of CEL: arithmetic, conversions, functions and methods."""

import pytest
from evaluating import refusal, value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("7 / -2", -3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("1.0 / 4.0", 0.25),
        ("[1] + [2]", [1, 2]),
        ('"héllo".size()', 5),
        ("size(input.tags)", 2),
        ('"abc".contains("b")', True),
        ('"abc".startsWith("a") && "abc".endsWith("c")', True),
        ('"abc".matches("^a.c$")', True),
        ('matches("abc", "b")', True),
        ("type(input.count) == int && type(1.0) == double", True),
        ("type(type(1)) == type", True),
        ("dyn(1)", 1),
        ('int("12") + int(2.9)', 14),
        ('double("1e3") + double(2)', 1002.0),
        ("1 + 1.5", 2.5),
        ("input.count * 1.5 - 1 / 4.0", 4.25),
        ('bool("TRUE")', True),
        ('string(1.5) + string(2) + string(true) + string("x")', "1.52truex"),
        ("timestamp(input.when)", "2024-02-29T10:30:15.25Z"),
        ("string(timestamp(0))", "1970-01-01T00:00:00Z"),
        ("int(timestamp(input.when))", 1709202615),
        ('timestamp(input.when).getHours("+05:30")', 16),
        ('timestamp(input.when).getHours("Europe/Berlin")', 11),
        ("timestamp(input.when).getDayOfWeek()", 4),
        ("timestamp(input.when).getMonth()", 1),
        ("timestamp(input.when).getDate()", 29),
        ("timestamp(input.when).getDayOfMonth()", 28),
        ("timestamp(input.when).getDayOfYear()", 59),
        ("timestamp(input.when).getFullYear()", 2024),
        ("timestamp(input.when).getMilliseconds()", 250),
        ('timestamp(input.when) - duration("1h") < timestamp(input.when)', True),
        ('duration("-1h30m1.5s")', "-5401.5s"),
        ('duration("-90m").getHours()', -1),
        ('timestamp("2024-01-02T00:00:00Z") - timestamp("2024-01-01T00:00:00Z") == duration("24h")', True),
    ],
)
def test_meaning(source: str, expected: object) -> None:
    """Every function has the value and the type of the CEL language definition."""
    found = value(source)
    assert (found, repr(type(found))) == (expected, repr(type(expected)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("9223372036854775807 + 1", "int overflow"),
        ("-9223372036854775808 / -1", "int overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ('int("1.5")', "`1.5` is not a valid int"),
        ("int(1e19)", "int overflow"),
        ('int(double("NaN"))', "`nan` is not a valid int"),
        ('double("1_0")', "`1_0` is not a valid double"),
        ('bool("yes")', "`yes` is not a valid bool"),
        ('timestamp("2024-02-30T00:00:00Z")', "is not a valid timestamp"),
        ('timestamp("2024-02-28T24:00:00Z")', "is not a valid timestamp"),
        ("timestamp(9223372036854775807)", "is not a valid timestamp"),
        ('timestamp("2024-01-01")', "is not a valid timestamp"),
        ('duration("1 hour")', "`1 hour` is not a valid duration"),
        ('timestamp("9999-12-31T23:59:59Z") + duration("1s")', "the time is out of range"),
        ('timestamp(0).getHours("localtime")', "`localtime` is not a valid time zone"),
        ('timestamp(0).getHours("right/UTC")', "`right/UTC` is not a valid time zone"),
        ('timestamp(0).getHours("+25:00")', "`+25:00` is not a valid time zone"),
        ('"a".matches("(")', "`(` is not a valid RE2 pattern"),
        (r'"a".matches("(?=a)")', "is not a valid RE2 pattern"),
    ],
)
def test_refusals(source: str, message: str) -> None:
    """Wrong arguments raise ExpressionError."""
    assert message in refusal(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("string(0.0 / 0.0)", "nan"),
        ("string(-1.0 / 0.0)", "-inf"),
        ("string(1.0 / -0.0)", "-inf"),
        ("timestamp(0).getMinutes() + timestamp(0).getSeconds()", 0),
        ('timestamp(0).getHours("-01:30")', 22),
        ('timestamp(0).getHours("UTC")', 0),
        ('duration("1500ms").getMilliseconds()', 1500),
        ('duration("2h").getMinutes() + duration("2h").getSeconds()', 7320),
        ('duration("90us")', "0.00009s"),
    ],
)
def test_edges(source: str, expected: object) -> None:
    """Divisions by zero follow IEEE 754, offsets have a sign, durations count whole units."""
    assert value(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        'timestamp("0001-01-01T00:00:00+01:00")',
        'timestamp("0001-01-01T00:00:00Z").getHours("-01:00")',
        'timestamp(0).getHours("No/Where")',
        'timestamp(0).getHours("+10:60")',
        'duration("999999999999999999h")',
        'duration("' + "1s" * 101 + '")',
        'double("' + "1" * 401 + '")',
        '"a".matches("' + "a" * 1001 + '")',
    ],
)
def test_values_out_of_range(source: str) -> None:
    """Times outside the calendar, unknown zones and texts that are too long raise ExpressionError."""
    refusal(source)
