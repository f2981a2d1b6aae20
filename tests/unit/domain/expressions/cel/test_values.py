"""The values of CEL: equality, order, membership, indexing and results."""

from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest
from evaluating import refusal, value

from wfcore.domain.expressions.cel.values import (
    MAX_DEPTH,
    MAX_STEPS,
    EvaluationBudget,
    Exhausted,
    ExpressionError,
    describe,
    equal,
    in_int64,
    shown,
    text_of,
    to_json,
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[1, 2][1]", 2),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ("1 < 1.5", True),
        ("1 == 1.0", True),
        ("9223372036854775807 == 9223372036854775807.0", False),
        ("true == 1", False),
        ("1 in [true]", False),
        ("1 in [1.0]", True),
        ("[1, [true]] == [1.0, [true]]", True),
        ('{"a": 1} == {"a": true}', False),
        ('{"a": 1} == {"b": 1}', False),
        ("[1] == [1, 2]", False),
        ('"1" != 1', True),
        ("null == false", False),
        ("false < true", True),
        ('"a" < "b"', True),
        ('"a" in {"a": 1}', True),
        ("true in {1: 2}", False),
        ('{1: "one"}[1.0]', "one"),
    ],
)
def test_meaning(source: str, expected: object) -> None:
    """Relations and indices have the value of the CEL language definition."""
    found = value(source)
    assert (found, repr(type(found))) == (expected, repr(type(expected)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('1 < "a"', "cannot compare int with string"),
        ("true < 1", "cannot compare bool with int"),
        ('"a" in "abc"', "`in` needs a list or a map, not string"),
        ("[1][-1]", "index `-1` is outside the list of 1"),
        ("[1][true]", "cannot index list with bool"),
        ("{1: 2}[true]", "no such key (bool)"),
        ('"abc"[0]', "cannot index string with int"),
        ("{1: 1}", "the keys of a resulting object must be strings"),
        ("int", "the type `int` is not a JSON value"),
        ("1.0 / 0.0", "the result `inf` is not a JSON number"),
        ("[0.0 / 0.0]", "the result `nan` is not a JSON number"),
    ],
)
def test_refusals(source: str, message: str) -> None:
    """Wrong operands and results outside JSON raise ExpressionError."""
    assert message in refusal(source)


class TestBudget:
    """The steps of an evaluation."""

    def test_an_exhausted_budget(self) -> None:
        """A budget can be spent completely, but not further."""
        budget = EvaluationBudget(3)
        budget.spend(3)
        with pytest.raises(Exhausted):
            budget.read("")

    def test_reading_costs_by_length(self) -> None:
        """Every 16 characters cost a step."""
        budget = EvaluationBudget()
        budget.read("x" * 160)
        assert budget.left == MAX_STEPS - 11

    def test_equality_of_short_texts_is_free(self) -> None:
        """Only long texts, lists and maps cost steps."""
        budget = EvaluationBudget(0)
        assert equal(budget, "a", "a")
        with pytest.raises(Exhausted):
            equal(budget, "a" * 17, "a" * 17)


class TestMessages:
    """Values in messages."""

    def test_types(self) -> None:
        """A type has a plain name, or its CEL name, a foreign one that of Python."""
        assert (describe(None), describe(1.5), describe(object())) == ("null", "double", "object")
        assert (describe(datetime.now(UTC)), describe(timedelta(1))) == ("timestamp", "duration")

    @pytest.mark.parametrize(
        ("given", "text"),
        [("a", "`a`"), (1, "`1`"), (1.5, "`1.5`"), ("a" * 81, "(string)"), (2**64, "(int)"), ([], "(list)")],
    )
    def test_only_short_scalars_are_shown(self, given: object, text: str) -> None:
        """Other values are shown by the name of their type."""
        assert shown(given) == text


class TestResults:
    """Results as JSON."""

    def test_times_become_text(self) -> None:
        """As in proto3's JSON, without trailing zeros."""
        assert text_of(datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)) == "2026-01-01T00:00:00.5Z"
        assert to_json(EvaluationBudget(), timedelta(seconds=-90, milliseconds=-5)) == "-90.005s"
        assert text_of(timedelta(seconds=2)) == "2s"
        assert (text_of(True), text_of(False), text_of(7)) == ("true", "false", "7")

    def test_ints_have_64_bits(self) -> None:
        """A larger int overflows."""
        assert in_int64(2**63 - 1) == 2**63 - 1
        with pytest.raises(ExpressionError, match="int overflow"):
            in_int64(2**63)

    def test_depth_is_bounded(self) -> None:
        """A result has at most 64 levels."""
        deep = reduce(lambda inner, _: [inner], range(MAX_DEPTH), 1)
        assert to_json(EvaluationBudget(), deep) == deep
        with pytest.raises(ExpressionError, match="nested deeper than 64 levels"):
            to_json(EvaluationBudget(), [deep])
