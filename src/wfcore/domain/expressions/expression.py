"""The expression language: CEL over `input`, `nodes`, `run` and `item`.

Expressions are CEL (github.com/google/cel-spec), compiled to closures over plain JSON. They cannot loop without end,
allocate without bound or use anything of Python: the source is short, nesting is bounded, and every evaluation has a
budget of steps, which several evaluations can share.

Where cel-python and the CEL language definition differ, the definition holds: `1 < 1.5` and `1 == 1.0` are
compared by value, values of different types are unequal (never an error), negative list indices are errors,
and true is not a number. One exception follows cel-python: `has(a.b.c)` is also false when `a.b` is missing.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from wfcore.domain.expressions.cel.closures import Activation, Code
from wfcore.domain.expressions.cel.compile import ROOTS, compile_source
from wfcore.domain.expressions.cel.values import (
    MAX_STEPS,
    TOO_MANY_STEPS,
    EvaluationBudget,
    Exhausted,
    ExpressionError,
    to_json,
)
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.recent import cached_texts

__all__ = [
    "MAX_SOURCE",
    "MAX_STEPS",
    "EvaluationBudget",
    "Expression",
    "ExpressionError",
    "Scope",
    "compile_expression",
]

MAX_SOURCE: Final = 2_000
"""The most characters of one expression."""

Scope = Mapping[str, JSON]
"""The variables: `input`, `nodes` (id to {"output": value}), `run`, and inside a `forEach` also `item`."""


@attrs.frozen
class Expression:
    """A compiled expression. `references` are the ids of the nodes it reads, as `nodes.<id>` or `nodes["<id>"]`."""

    source: str
    references: frozenset[str]
    _run: Code = attrs.field(eq=False, repr=False)
    _is_path: bool = attrs.field(eq=False, repr=False)
    reads_item: bool = False

    def evaluate(self, scope: Scope, steps: EvaluationBudget | None = None) -> JSON:
        """The value as plain JSON; timestamps and durations become strings. `steps` is a budget to share.

        Raises ExpressionError for a missing field, a wrong type, a division by zero, a result that is not JSON
        (NaN, a type, an int key), or more steps than the budget allows.
        """
        budget = steps or EvaluationBudget()
        try:
            value = self._run(Activation(scope, budget))
            plain: JSON = value if self._is_path or type(value) is bool else to_json(budget, value)
        except Exhausted:
            raise ExpressionError(TOO_MANY_STEPS) from None
        except RecursionError:
            raise ExpressionError("the values are nested too deep") from None
        return plain


@cached_texts(small=100, many=4_096, few=64)
def compile_expression(source: str, roots: tuple[str, ...] = ROOTS) -> Expression:
    """Compile CEL source over the variables `roots`; results are cached.

    Raises ExpressionError for a syntax error, an unknown variable or function, a source of more than `MAX_SOURCE`
    characters, and nesting that is too deep.
    """
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"an expression has at most {MAX_SOURCE} characters, not {len(source)}")
    try:
        compiled = compile_source(source, roots)
    except RecursionError:
        raise ExpressionError("the expression is nested too deep") from None
    return Expression(source, compiled.references, compiled.run, compiled.is_path, compiled.reads_item)
