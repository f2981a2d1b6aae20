"""Expressions in Python: the CEL that they are, and its value."""

from typing import Any

import pytest

from wfcore.domain.expressions.expression import compile_expression
from wfcore.flows import Expr, Flow, FlowError, expr

FLOW = Flow("Expressions")
GIVEN = FLOW.input
N, TAGS = GIVEN.n, GIVEN.tags


@pytest.mark.parametrize(
    ("made", "source"),
    [
        (GIVEN.order.lines[0].sku, "input.order.lines[0].sku"),
        (GIVEN["a b"]["in"].x, 'input["a b"]["in"].x'),
        (GIVEN[N], "input[input.n]"),
        ((N > 1) & ~(N == 7) | (N != 2), "((input.n > 1) && (!(input.n == 7))) || (input.n != 2)"),
        (2 * (N + 1) - 3, "(2 * (input.n + 1)) - 3"),
        (1 + N % 2, "1 + (input.n % 2)"),
        (8 / N, "8 / input.n"),
        (N / 2 <= 3.5, "(input.n / 2) <= 3.5"),
        (10 - N >= -N, "(10 - input.n) >= (-input.n)"),
        (N * 2 < 4, "(input.n * 2) < 4"),
        (True & (N > 0), "true && (input.n > 0)"),
        (False | (N > 0), "false || (input.n > 0)"),
        (TAGS == ["a", None, {"k": True}], 'input.tags == ["a", null, {"k": true}]'),
        (expr("size(input.tags)") > 0, "(size(input.tags)) > 0"),
        (FLOW.run.userId, "run.userId"),
        (FLOW.item.sku, "item.sku"),
        (FLOW.start.output, "nodes.start.output"),
        ("Dear " + GIVEN.name, '"Dear " + input.name'),
        (GIVEN.name + "!", 'input.name + "!"'),
    ],
)
def test_the_source(made: Expr, source: str) -> None:
    """Operators in the order of Python, whatever that of CEL is; strings as in JSON; it compiles."""
    assert repr(made) == f"expr({source!r})"
    assert f"a {made}" == f"a {{{{ {source} }}}}"
    compile_expression(source)


@pytest.mark.parametrize(
    ("made", "value"),
    [((N > 1) & ~(N == 7), True), (2 * (N + 1) - 3, 5), (TAGS[1], "b"), (N % 2 == 1, True), (TAGS == ["a", "b"], True)],
)
def test_the_value(made: Expr, value: Any) -> None:
    """The value of the CEL is that of the same expression in Python."""
    source = str(made)[3:-3]
    assert compile_expression(source).evaluate({"input": {"n": 3, "tags": ["a", "b"]}}) == value


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda: bool(N > 1), "use `&`, `|`, `~` for `and`, `or`, `not`"),
        (lambda: (N > 1) and (N < 3), "`input.n > 1` has no value yet"),
        (lambda: list(TAGS), "`input.tags` has no items yet: use `for_each`"),
        (lambda: "a" in TAGS, "use `expr('... in input.tags')` for `in`"),
        (lambda: f"{N:.2f}", "a format such as `.2f` cannot be applied"),
        (lambda: {1} == N, "a `set` is not a value of an expression"),
    ],
)
def test_what_python_cannot_express(use: Any, words: str) -> None:
    """A clear error at the line, instead of a wrong expression."""
    with pytest.raises(FlowError) as refused:
        use()
    assert words in str(refused.value)
    assert str(refused.value).startswith("tests/unit/flows/test_expressions.py:")


def test_expressions_have_no_special_attributes() -> None:
    """So that `copy`, `pickle` and mocks do not take an expression for something else; it can be a key."""
    with pytest.raises(AttributeError):
        _ = N.__wrapped__
    assert {N: 1}[N] == 1
