"""The constructs of CEL: paths, logic, arithmetic, calls, lists, maps and macros."""

import pytest
from evaluating import refusal, value

from wfcore.domain.expressions.cel import closures
from wfcore.domain.expressions.cel.values import EvaluationBudget
from wfcore.domain.expressions.expression import compile_expression


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("false ? 1 : 2", 2),
        ("1 != 2", True),
        ("2 in [1]", False),
        ('"b" <= "a"', False),
        ('size("ab")', 2),
        ("[1].all(x, x == 1)", True),
        ("true && true", True),
        ("input.tier", "gold"),
        ('input["tier"]', "gold"),
        ('input["a.b"]', 1),
        ("input.items[1].q", 2.5),
        ('nodes["a-b"].output', 7),
        ("input.none", None),
        ("- -3", 3),
        ("-input.rate", -1.5),
        ("!input.on", False),
        ("{}", {}),
        ("[]", []),
        ("input.count > 2 ? 1 : 1 / 0", 1),
        ("1 / 0 > 0 || true", True),
        ("true || 1 / 0 > 0", True),
        ("1 / 0 > 0 && false", False),
        ("null || true", True),
        ("has(input.tier)", True),
        ("has(input.none)", True),
        ("has(input.missing)", False),
        ("has(input.missing.deeper)", False),
        ("[1, 2].map(x, x * 2)", [2, 4]),
        ("[1, 2].map(input, input)", [1, 2]),
        ("[1, 2, 3].map(x, x > 1, x * 10)", [20, 30]),
        ("input.items.map(i, has(i.q) && i.q > 1.5, i.q)", [2.5]),
        ("[[1], [2]].map(x, x.map(y, x + [y]))", [[[1, 1]], [[2, 2]]]),
        ("input.items.filter(i, i.q > 1.5).map(i, i.q)", [2.5]),
        ("input.items.exists(i, i.ok)", True),
        ("input.items.all(i, i.ok)", False),
        ("input.items.exists_one(i, i.ok)", True),
        ("[1, 0].exists(x, 1 / x == 1)", True),
        ("[0, 1].all(x, 1 / x == 2)", False),
        ('{"k": 1}.map(k, k)', ["k"]),
    ],
)
def test_meaning(source: str, expected: object) -> None:
    """Every construct has the value and the type of the CEL language definition."""
    found = value(source)
    assert (found, repr(type(found))) == (expected, repr(type(expected)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("size(1)", "`size` does not take (int)"),
        ("- (-9223372036854775808)", "int overflow"),
        ("5 % 1.5", "cannot compute int % double"),
        ("true + 1", "cannot compute bool + int"),
        ('-"a"', "cannot negate string"),
        ("!1", "`!` needs bools, not int"),
        ("1 && true", "`&&` needs bools, not int"),
        ("true && 1", "`&&` needs bools, not int"),
        ("1 ? 2 : 3", "`?` needs a bool, not int"),
        ("[1].filter(x, x)", "the condition for `x` must be a bool, not int"),
        ("[0, 0].exists(x, 1 / x == 1)", "division by zero"),
        ("(1).map(x, x)", "a macro needs a list or a map, not int"),
        ("input.missing", "`input` has no field `missing`"),
        ("input.count.x", "`input.count` is int and has no field `x`"),
        ("nodes.skipped.output", "`nodes` has no field `skipped`"),
        ("input.items[0].zz", "no such field `zz`"),
        ("[1][0].zz", "int has no field `zz`"),
        ("item", "the variable `item` is not available here"),
        ('{"a": 1, "a": 2}', "the key `a` is repeated"),
        ("{true: 1}", "bool cannot be a key"),
    ],
)
def test_refusals(source: str, message: str) -> None:
    """A fault in an evaluation raises ExpressionError with the fault."""
    assert message in refusal(source)


def test_a_path_that_exists_has_no_missing_step() -> None:
    """Asking for the missing step of a path without one is a mistake of the caller."""
    with pytest.raises(AssertionError, match=r"input\.a exists"):
        closures._missing_step(closures.Activation({"input": {"a": 1}}, EvaluationBudget()), "input", ["a"])


def test_iterations_cost_steps() -> None:
    """Each iteration of a macro costs the size of its body."""
    budget = EvaluationBudget(100)
    assert compile_expression("[1, 2].map(x, x + x)").evaluate({}, budget) == [2, 4]
    assert budget.left < 100 - 2 * 3
