"""Which checks pass, and what a check that did not pass says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.evaluations.cases import cases_of
from wfcore.domain.evaluations.checks import CheckResult, Observed, results_of
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import SkillContent

CALL: dict[str, JSON] = {"tool": "look", "args": {"name": "Ann", "deep": {"n": 1}}, "output": 3}


def checked(observed: Observed, **check: Any) -> CheckResult:
    """The result of one check."""
    case = {"id": "a", "input": {"message": "hi"}, "checks": [check]}
    (result,) = results_of(cases_of(SkillContent(evaluations=[case]))[0], observed)
    return result


@pytest.mark.parametrize(
    ("output", "check", "message"),
    [
        ("a cup of tea", {"kind": "contains", "value": "tea"}, ""),
        ("a cup of tea", {"kind": "contains", "value": "Tea"}, 'the output does not contain `"Tea"`'),
        ({"a": ["x"]}, {"kind": "contains", "value": '["x"]'}, ""),
        ("order 17", {"kind": "matches", "pattern": "[0-9]+$"}, ""),
        ("order", {"kind": "matches", "pattern": "[0-9]+$"}, "the output does not match `[0-9]+$`"),
        (
            "ab" * 50_000,
            {"kind": "matches", "pattern": "[ab]*a[ab]{900}0"},
            "the pattern was not searched: the text is too long for the pattern",
        ),
        ("yes", {"kind": "equals", "value": "yes"}, ""),
        ("3", {"kind": "equals", "value": "3"}, ""),
        ("3", {"kind": "equals", "value": 3}, ""),
        ('{"b": 1, "a": null}', {"kind": "equals", "value": {"a": None, "b": 1.0}}, ""),
        ("three", {"kind": "equals", "value": 3}, "the output is not `3`"),
        ("true", {"kind": "equals", "value": 1}, "the output is not `1`"),
        (None, {"kind": "equals", "value": None}, ""),
        ('{"a": 1}', {"kind": "jsonSchema", "schema": {"required": ["a"]}}, ""),
        ("text", {"kind": "jsonSchema", "schema": {"type": "string"}}, ""),
        ("{}", {"kind": "jsonSchema", "schema": {"required": ["a"]}}, "`output.a`: `a` is missing"),
    ],
)
def test_checks_of_the_output(output: JSON, check: Any, message: str) -> None:
    """A text is compared as text; where a check is about JSON, as the value that it spells."""
    assert checked(Observed(output), **check) == CheckResult(check["kind"], not message, message)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('output.contains("tea") && size(toolCalls) == 1 && cost < 0.5', ""),
        ('toolCalls.exists(call, call.tool == "look" && call.args.name == "Ann")', ""),
        ("cost > 1.0", "the expression is false"),
        ("output", 'the expression must be true or false, not `"tea"`'),
        ("output.missing", "the expression failed: "),
        ("toolCalls[7].tool == 'x'", "the expression failed: "),
    ],
)
def test_expressions(expression: str, message: str) -> None:
    """Over output, tool calls and cost; one that fails has not passed."""
    result = checked(Observed("tea", [CALL], 0.25), kind="cel", expression=expression)
    assert result.passed is not bool(message)
    assert result.message.startswith(message)


def test_a_cost_that_is_not_known_is_null() -> None:
    assert checked(Observed("x"), kind="cel", expression="cost == null").passed
    assert not checked(Observed("x"), kind="cel", expression="cost < 1.0").passed


@pytest.mark.parametrize(
    ("tool", "args", "called"),
    [
        ("look", {}, True),
        ("look", {"name": "Ann"}, True),
        ("look", {"deep": {"n": 1.0}}, True),
        ("look", {"name": "Bo"}, False),
        ("look", {"age": None}, False),
        ("pay", {}, False),
    ],
)
def test_calls_of_tools(tool: str, args: Any, called: bool) -> None:
    """The named arguments must be equal, others do not count; `notToolCalled` is the opposite."""
    given = {"tool": tool, **({"args": args} if args else {})}
    assert checked(Observed("x", [CALL]), kind="toolCalled", **given).passed is called
    assert checked(Observed("x", [CALL]), kind="notToolCalled", **given).passed is not called


def test_a_missing_call_says_what_was_called() -> None:
    """With the arguments that were wanted; and a call whose arguments are not an object has none."""
    wanted: dict[str, Any] = {"kind": "toolCalled", "tool": "pay", "args": {"sum": 3}}
    expected = '`pay` was not called with `{"sum": 3}`; calls: '
    assert checked(Observed("x", [CALL, CALL]), **wanted).message == expected + "`look`"
    assert checked(Observed("x", [{"tool": "pay", "args": "3"}]), **wanted).message == expected + "`pay`"
    assert checked(Observed("x"), kind="toolCalled", tool="pay").message == "`pay` was not called; calls: none"
    forbidden = checked(Observed("x", [CALL]), kind="notToolCalled", tool="look", args={"name": "Ann"})
    assert forbidden.message == '`look` was called with `{"name": "Ann"}`'


@pytest.mark.parametrize(
    ("judgements", "message"),
    [
        ({0: {"passed": True, "reason": "fine"}}, ""),
        ({0: {"passed": False, "reason": "rude"}}, "rude"),
        ({0: {"passed": False, "reason": ""}}, "the judge gave no reason"),
        ({1: {"passed": True, "reason": "fine"}}, "the judge has not decided"),
    ],
)
def test_judges(judgements: Any, message: str) -> None:
    """A judge that has not decided has not passed the case."""
    result = checked(Observed("x", judgements=judgements), kind="judge", criteria="it is polite")
    assert result == CheckResult("judge", not message, message)


def test_long_values_are_cut() -> None:
    assert len(checked(Observed("x"), kind="contains", value="y" * 10_000).message) < 300


def test_all_expressions_of_a_case_share_one_budget() -> None:
    """So that a case with many checks takes no longer than one expression can."""
    costly = {"kind": "cel", "expression": "toolCalls.all(a, toolCalls.all(b, a.tool == b.tool))"}
    case = {"id": "a", "input": {"message": "hi"}, "checks": [costly] * 20}
    found = results_of(cases_of(SkillContent(evaluations=[case]))[0], Observed("x", [CALL] * 90))
    assert found[0].passed
    assert "steps" in found[-1].message


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5)
"""Without U+0000, which the JSON of requests cannot contain."""


@given(st.recursive(st.none() | st.booleans() | st.integers(-99, 99) | TEXTS,
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
                    max_leaves=6))  # fmt: skip
def test_every_output_equals_and_fits_itself(value: Any) -> None:
    """As a value and, unless the check wants a text, as its JSON text."""
    assert checked(Observed(value), kind="equals", value=value).passed
    assert checked(Observed(value), kind="jsonSchema", schema={"const": value}).passed or isinstance(value, str)
    if not isinstance(value, str):
        assert checked(Observed(dumps(value)), kind="equals", value=value).passed


@given(st.text(max_size=30), st.text(min_size=1, max_size=3))
def test_contains_is_python_s_in(output: str, part: str) -> None:
    assert checked(Observed(output), kind="contains", value=part).passed is (part in output)
