"""The position of an error of an expression."""

from wfcore.domain.expressions.cel.values import ExpressionError


def test_an_error_without_a_position_stays_as_it_is() -> None:
    """Where an expression stands in a text says nothing of an error without a place in the expression."""
    error = ExpressionError("no such field")
    assert error.within("{{ input.a }}", 3) is error


def test_a_position_is_moved_into_the_text() -> None:
    """The first line of the expression begins at its offset; later lines begin at the left."""
    text = "a\nb {{ input.x }}"
    first, second = (ExpressionError("e", line, 2).within(text, text.index("input")) for line in (1, 2))
    assert [(error.line, error.column) for error in (first, second)] == [(2, 7), (3, 2)]
