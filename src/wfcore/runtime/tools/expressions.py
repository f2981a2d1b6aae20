"""Evaluation of an expression or a template on given values: editors show what it yields (interface, Expressions)."""

import attrs

from wfcore.api.choices import EvaluateExpression
from wfcore.domain.expressions.cel.compile import ROOTS
from wfcore.domain.expressions.expression import ExpressionError, compile_expression
from wfcore.domain.expressions.templates import compile_template
from wfcore.domain.json.values import UNSET, given
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.ports import Ports


@attrs.frozen
class Evaluation:
    """The value, or the error with its position."""

    value: JSON = None
    error: ExpressionError | None = None

    def to_wire(self) -> dict[str, JSON]:
        if self.error is None:
            return {"value": self.value}
        return {"error": {"message": self.error.message, "line": self.error.line, "column": self.error.column}}


class Expressions:
    """Evaluates expressions. It reads nothing of the organization: the caller gives the values."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("workflows:read")
    async def evaluate(self, me: Principal, body: EvaluateExpression | Tree) -> Evaluation:
        """The value of a `source` (CEL) or of a `template` with `{{ expressions }}`, bounded as in runs.

        `values` are the variables `input`, `nodes`, `run` and `item`. An expression that is not valid, or fails, gives
        an evaluation with its error. Invalid for a body with both or neither, and for other variables.
        """
        wanted = parsed(EvaluateExpression, body, {}, _issues)
        values = given(wanted.values) or {}
        try:
            if wanted.source is not UNSET:
                return Evaluation(compile_expression(wanted.source).evaluate(values))
            template = await beside_loop(size_of(wanted.template), compile_template, wanted.template)
            return Evaluation(template.render(values))
        except ExpressionError as error:
            return Evaluation(error=error)


def _issues(tree: Tree) -> list[Issue]:
    if not isinstance(tree, dict):
        return []
    issues = []
    if "source" in tree and "template" in tree:
        issues.append(Issue("template", "cannot be combined with `source`", "exclusive"))
    elif "source" not in tree and "template" not in tree:
        issues.append(Issue("source", "is required, or `template`", "required"))
    values = tree.get("values")
    if isinstance(values, dict):
        allowed = ", ".join(f"`{name}`" for name in sorted(ROOTS))
        issues += [
            Issue(join_path("values", name), f"is not a variable: use {allowed}", "unknown")
            for name in values
            if name not in ROOTS
        ]
    return issues
