"""Checks of what the run of a case did. They are pure and bounded: RE2 patterns, CEL within one budget, JSON Schemas
within their cost.

A check that cannot be applied, such as an expression that fails, has not passed; its message says why.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.evaluations.cases import VARIABLES, CheckKind, EvaluationCase, EvaluationCheck
from wfcore.domain.expressions.cel.library import is_in
from wfcore.domain.expressions.expression import EvaluationBudget, ExpressionError, compile_expression
from wfcore.domain.json.codec import text_of
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import same_json

SHOWN: Final = 200
"""Characters of a value that a message shows."""


@attrs.frozen
class Observed:
    """What the run of a case did.

    `tool_calls` are `{"tool", "args", "output"}`, or `error` instead of `output`, in the order of the results. `cost`
    is that of the skill's agents, without judges; None when their models have no price. `judgements` has for each
    check of kind `judge`, by position, `{"passed", "reason"}`; one that is missing could not be made.
    """

    output: JSON = None
    tool_calls: Sequence[Mapping[str, JSON]] = ()
    cost: float | None = None
    judgements: Mapping[int, Mapping[str, JSON]] = attrs.field(factory=dict)

    @property
    def text(self) -> str:
        """The output as text."""
        return text_of(self.output)

    def value(self) -> JSON:
        """The output as a JSON value: parsed, if it is a text. Raises Malformed for a text that is not JSON."""
        return parse_json(self.output.encode()) if isinstance(self.output, str) else self.output


@attrs.frozen
class CheckResult:
    """Whether a check passed; the message says why it did not."""

    kind: CheckKind
    passed: bool
    message: str = ""

    def to_wire(self) -> dict[str, JSON]:
        return {"kind": self.kind, "passed": self.passed, "message": self.message}


def results_of(case: EvaluationCase, observed: Observed) -> list[CheckResult]:
    """The result of every check of the case. All expressions of the case share one budget."""
    budget = EvaluationBudget()
    return [_result(check, place, observed, budget) for place, check in enumerate(case.checks)]


def _result(check: EvaluationCheck, place: int, observed: Observed, budget: EvaluationBudget) -> CheckResult:
    if check.kind == "judge":
        why = _judged(observed.judgements.get(place))
    elif check.kind == "cel":
        why = _fulfilled(given(check.expression) or "", observed, budget)
    else:
        why = _TESTS[check.kind](check, observed)
    return CheckResult(check.kind, not why, why)


def _judged(judgement: Mapping[str, JSON] | None) -> str:
    if judgement is None:
        return "the judge has not decided"
    return "" if judgement.get("passed") is True else _cut(str(judgement.get("reason") or "the judge gave no reason"))


def _fulfilled(expression: str, observed: Observed, budget: EvaluationBudget) -> str:
    values: tuple[JSON, ...] = observed.output, [dict(call) for call in observed.tool_calls], observed.cost
    try:
        found = compile_expression(expression, VARIABLES).evaluate(dict(zip(VARIABLES, values, strict=True)), budget)
    except ExpressionError as error:
        return f"the expression failed: {error.message}"
    if found is True:
        return ""
    return "the expression is false" if found is False else f"the expression must be true or false, not {_shown(found)}"


def _contains(check: EvaluationCheck, observed: Observed) -> str:
    return "" if check.value in observed.text else f"the output does not contain {_shown(check.value)}"


def _matches(check: EvaluationCheck, observed: Observed) -> str:
    pattern = given(check.pattern) or ""
    try:
        found = is_in(observed.text, pattern, EvaluationBudget())
    except ExpressionError as error:
        return f"the pattern was not searched: {error.message}"
    return "" if found else f"the output does not match `{_cut(pattern)}`"


def _equals(check: EvaluationCheck, observed: Observed) -> str:
    """A text equals itself only; any other value also equals its JSON text."""
    output = observed.output
    if not isinstance(check.value, str):
        try:
            output = observed.value()
        except Malformed:
            return f"the output is not {_shown(check.value)}"
    return "" if same_json(output, check.value) else f"the output is not {_shown(check.value)}"


def _fits_schema(check: EvaluationCheck, observed: Observed) -> str:
    """An output that is text is checked as the JSON value that it spells, otherwise as a string."""
    try:
        output = observed.value()
    except Malformed:
        output = observed.output
    issues = compile_schema(check.schema).check(output, "output")
    return "; ".join(f"`{issue.path}`: {issue.message}" for issue in issues[:3])


def _called(check: EvaluationCheck, observed: Observed) -> str:
    if _calls(check, observed):
        return ""
    made = [str(call["tool"]) for call in observed.tool_calls]
    listed = ", ".join(f"`{tool}`" for tool in dict.fromkeys(made)) or "none"
    return f"`{given(check.tool)}` was not called{_with_args(check)}; calls: {_cut(listed)}"


def _not_called(check: EvaluationCheck, observed: Observed) -> str:
    return f"`{given(check.tool)}` was called{_with_args(check)}" if _calls(check, observed) else ""


def _calls(check: EvaluationCheck, observed: Observed) -> bool:
    """Whether a call of the tool has the arguments of the check; it can have more."""
    wanted = given(check.args) or {}
    return any(call["tool"] == given(check.tool) and _has(call["args"], wanted) for call in observed.tool_calls)


def _has(args: JSON, wanted: Mapping[str, JSON]) -> bool:
    return isinstance(args, Mapping) and all(
        name in args and same_json(args[name], value) for name, value in wanted.items()
    )


def _with_args(check: EvaluationCheck) -> str:
    return f" with {_shown(given(check.args))}" if given(check.args) else ""


def _shown(value: JSON) -> str:
    return f"`{_cut(json.dumps(value, ensure_ascii=False))}`"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


_TESTS: Final[Mapping[str, Callable[[EvaluationCheck, Observed], str]]] = {
    "contains": _contains,
    "matches": _matches,
    "equals": _equals,
    "jsonSchema": _fits_schema,
    "toolCalled": _called,
    "notToolCalled": _not_called,
}
"""For each kind of check a function that returns why it has not passed; "" when it has."""
