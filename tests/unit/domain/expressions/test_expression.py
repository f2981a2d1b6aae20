"""Compiled expressions: caching, bounds and errors of an evaluation."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from evaluating import refusal, value

from wfcore.domain.expressions.expression import (
    MAX_SOURCE,
    EvaluationBudget,
    ExpressionError,
    compile_expression,
)


def test_compiled_once() -> None:
    """The same source gives the same object; another source is unequal."""
    assert compile_expression("input.tier") is compile_expression("input.tier")
    assert compile_expression("input.tier") != compile_expression("input.count")


def test_values_pass_unchanged() -> None:
    """A plain path returns the same object, whatever numbers it holds."""
    huge = {"n": 10**30, "deep": [[]]}
    assert compile_expression("input").evaluate({"input": huge}) is huge


def test_booleans_count_only_as_booleans() -> None:
    """A condition must be a boolean: a number, string or list is an error."""
    for other in (1, 1.0, "true", [True], {"a": 1}):
        with pytest.raises(ExpressionError):
            compile_expression("input ? 1 : 2").evaluate({"input": other})


def test_source_length() -> None:
    """A source of 2,000 characters compiles, a longer one does not."""
    assert value("1" + " " * (MAX_SOURCE - 1)) == 1
    assert "at most 2000 characters" in refusal("1" + " " * MAX_SOURCE)


def test_heavy_libraries_are_imported_late() -> None:
    """Importing these modules does not import RE2 or the validator: the first pattern or schema does."""
    modules = "wfcore.domain.expressions.expression, wfcore.domain.expressions.templates, wfcore.domain.json.schema"
    heavy = "{'jsonschema_rs', 're2'}"
    program = f"import sys, {modules}; print({heavy} & {{*sys.modules}})"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "set()\n"


def test_a_shared_budget() -> None:
    """Evaluations with one budget share its steps; an exhausted budget is an error."""
    budget = EvaluationBudget(10)
    expression = compile_expression("[1, 2].map(x, x)")
    assert expression.evaluate({}, budget) == [1, 2]
    assert budget.left == 5
    assert expression.evaluate({}, budget) == [1, 2]
    with pytest.raises(ExpressionError, match="takes too many steps"):
        expression.evaluate({}, budget)


def test_very_deep_values() -> None:
    """Values beyond the stack are an error, not a RecursionError."""
    deep: Any = reduce(lambda inner, _: [inner], range(100_000), 1)
    other: Any = reduce(lambda inner, _: [inner], range(100_000), 1)
    with pytest.raises(ExpressionError, match="the values are nested too deep"):
        compile_expression("input.a == input.b").evaluate({"input": {"a": deep, "b": other}})


def test_a_deep_stack_of_the_caller() -> None:
    """If the stack has no frames left for compiling, that is an ExpressionError too."""
    free = sys.getrecursionlimit() - len(inspect.stack(0))
    with pytest.raises(ExpressionError, match="the expression is nested too deep"):
        deeper(free - 100, lambda: compile_expression("[" * 90 + "]" * 90))


def deeper(levels: int, call: Callable[[], object]) -> object:
    return deeper(levels - 1, call) if levels else call()
