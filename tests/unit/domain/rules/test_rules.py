"""Rules as values and as text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.rules.rules import (
    MAX_RULE,
    AlwaysEndsIn,
    AtMost,
    Never,
    Outcome,
    Rule,
    always_ends_in,
    approved,
    at_most,
    denied,
    done,
    expired,
    failed,
    never,
    outcome,
    parse_rule,
)

NAMES = st.text(min_size=1, max_size=8) | st.sampled_from(["or", "in", "error", "without", 'a "b"', "\\", "a b"])
OUTCOMES = st.builds(Outcome, NAMES, NAMES)
RULES = (
    st.builds(Never, NAMES, st.lists(OUTCOMES, max_size=3).map(tuple))
    | st.builds(AtMost, NAMES, st.integers(0, 1_000))
    | st.builds(AlwaysEndsIn, st.lists(NAMES, min_size=1, max_size=3).map(tuple), st.booleans())
)


@given(RULES)
def test_the_text_of_a_rule_is_parsed_to_the_rule(rule: Rule) -> None:
    """Whatever the ids are: with spaces, quotation marks, or words of the grammar."""
    assert parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (never("pay"), "never pay"),
        (never("pay").without(approved("ask")), "never pay without approved ask"),
        (never("pay").without(denied("a"), expired("b")), "never pay without denied a or expired b"),
        (never("pay").without(done("a")).without(failed("b")), "never pay without done a or failed b"),
        (never("pay").without(outcome("c", "over 5")), 'never pay without "over 5" c'),
        (always_ends_in("a", "b"), "always ends in a or b"),
        (always_ends_in("error", or_in_error=True), 'always ends in "error" or in error'),
        (at_most("mail", 1), "at most 1 mail"),
    ],
)
def test_rules_read_like_sentences(rule: Rule, text: str) -> None:
    """In Python and as text."""
    assert str(rule) == text
    assert parse_rule(f"  {text.replace(' ', '  ', 1)} ") == rule


@pytest.mark.parametrize(
    "text",
    [
        "", "never", "never a b", 'never "a', 'never a"b"', "never a without", "never a without approved",
        "never a without approved b or", "never a without approved b c", "always ends in", "always ends in in error",
        "always ends in a b", "at most x a", "at most -1 a", "at most 1001 a", "at most 1", "sometimes a",
        '"never" a', "never " + "a" * MAX_RULE, "__import__('os')",
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    """The error shows the text and the grammar, at the path of the rule."""
    with pytest.raises(Invalid, match="is not a rule: use `never NODE`") as raised:
        parse_rule(text, "rules[3]")
    assert raised.value.info["errors"][0]["path"] == "rules[3]"  # type: ignore[index,call-overload]
    assert len(raised.value.message) < 400


@pytest.mark.parametrize("count", [-1, 1_001, True, "1", 1.5])
def test_a_count_is_a_small_integer(count: Any) -> None:
    """Other values are an error at once, not at the check."""
    with pytest.raises(ValueError, match="from 0 to 1000"):
        at_most("mail", count)


def test_what_is_not_a_rule_is_refused_in_python() -> None:
    """`without` takes outcomes, `always_ends_in` at least one node."""
    with pytest.raises(TypeError, match="takes outcomes"):
        never("pay").without("ask")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one node"):
        always_ends_in()
