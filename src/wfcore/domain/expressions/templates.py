"""Templates: JSON whose strings may hold `{{ expression }}`.

A string that is exactly one `{{ expression }}` becomes the expression's value, of any type. In any other string
each expression becomes text: a string unchanged, null as the empty string, other values as compact JSON. Keys are
never templates. A rendered value is data: expressions in it are not evaluated.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from wfcore.domain.expressions.cel.syntax import BRACES
from wfcore.domain.expressions.cel.values import TOO_MANY_STEPS, EvaluationBudget, Exhausted, place_of
from wfcore.domain.expressions.expression import Expression, ExpressionError, Scope, compile_expression
from wfcore.domain.json.nesting import MAX_VALUE_DEPTH, is_deeper
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON

__all__ = ["MAX_RENDERED", "MAX_SOURCES", "Template", "compile_template", "expressions", "template_issues"]

MAX_RENDERED: Final = 1 << 20
"""The most characters that the expressions of one template may yield, as text or compact JSON."""

MAX_SOURCES: Final = 1 << 16
"""The most characters of all expressions of one template, with their braces."""

STEPS_PER_EXPRESSION: Final = 5
CHARACTERS_PER_STEP: Final = 64
"""The cost of rendering, in steps of evaluation."""

MAX_UNCHECKED_DEPTH: Final = MAX_VALUE_DEPTH // 2
"""Levels that a value may have without a check of the result: request parsing allows the template no more than this."""

Render = Callable[[Scope, "RenderBudget"], JSON]


class RenderBudget:
    """The characters that a template may still yield, and the steps of evaluation left, which others may share.

    `may_be_deep`: the value of an expression may have more than `MAX_UNCHECKED_DEPTH` levels.
    """

    __slots__ = ("left", "may_be_deep", "steps")

    def __init__(self, left: int, steps: EvaluationBudget) -> None:
        self.left = left
        self.may_be_deep = False
        self.steps = steps

    def spend(self, text: str) -> None:
        self.steps.spend(STEPS_PER_EXPRESSION + len(text) // CHARACTERS_PER_STEP)
        self.left -= len(text)
        if self.left < 0:
            raise Exhausted


@attrs.frozen
class Template:
    """A compiled template. `constant`: `value` holds no expression."""

    value: JSON
    constant: bool
    _render: Render = attrs.field(eq=False, repr=False)

    def render(self, scope: Scope, limit: int = MAX_RENDERED, steps: EvaluationBudget | None = None) -> JSON:
        """The value in this scope; a constant template returns the value that it was compiled from.

        Raises ExpressionError when an expression fails, or when all expressions together yield more than `limit`
        characters or take more than `steps`, a budget that others may share.
        """
        if self.constant:
            return self.value
        budget = RenderBudget(limit, steps or EvaluationBudget())
        try:
            budget.steps.spend(1)
            value = self._render(scope, budget)
        except Exhausted:
            too_long = f"the rendered value is longer than {limit} characters"
            raise ExpressionError(TOO_MANY_STEPS if budget.steps.left < 0 else too_long) from None
        except RecursionError:
            raise ExpressionError("the values are nested too deep") from None
        if budget.may_be_deep and is_deeper(value):
            raise ExpressionError(f"the rendered value is nested deeper than {MAX_VALUE_DEPTH} levels")
        return value


def compile_template(value: JSON) -> Template:
    """Compile every string of a JSON value. Raises ExpressionError for the first expression that is not valid."""
    constant = True
    for _, one in expressions(value, ""):
        if isinstance(one, ExpressionError):
            raise one
        constant = False
    return Template(value, constant, _constant(value) if constant else _renderer(value))


def expressions(value: JSON, path: str) -> Iterator[tuple[str, Expression | ExpressionError]]:
    """Every expression in the strings of a JSON value, or why it is not valid, with the wire path of its string.

    After `MAX_SOURCES` characters there is no other expression, but an error.
    """
    left = MAX_SOURCES
    for where, text in strings(value, path):
        for length, part in parts_of(text):
            if isinstance(part, str):
                continue
            left -= length
            if left < 0:
                yield where, ExpressionError(f"the expressions of a template have at most {MAX_SOURCES:,} characters")
                return
            yield where, part


def template_issues(value: JSON, path: str) -> list[Issue]:
    """One issue for each expression that is not valid, at the wire path of its string, under the rule `expression`."""
    found = ((where, one) for where, one in expressions(value, path) if isinstance(one, ExpressionError))
    return [Issue(where, error.message, "expression") for where, error in found]


def strings(value: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Every string in a JSON value that may hold an expression, with its wire path, in order."""
    if type(value) is str:
        if "{{" in value:
            yield path, value
    elif type(value) is list:
        for position, item in enumerate(value):
            yield from strings(item, f"{path}[{position}]")
    elif type(value) is dict:
        for key, item in value.items():
            yield from strings(item, join_path(path, key))


def split(text: str) -> list[str | Expression]:
    """The parts of a string whose expressions are valid: plain text and expressions, in order."""
    return [part for _, part in parts_of(text) if not isinstance(part, ExpressionError)]


def parts_of(text: str) -> Iterator[tuple[int, str | Expression | ExpressionError]]:
    """The parts of a string, each with its length. After an expression that is not closed there is no other part."""
    end = 0
    while (start := text.find("{{", end)) >= 0:
        if start > end:
            yield start - end, text[end:start]
        try:
            end = _close(text, start + 2) + 2
        except ExpressionError as error:
            yield len(text) - start, error
            return
        yield end - start, _compiled(text, start + 2, end - 2)
    if end < len(text):
        yield len(text) - end, text[end:]


def _compiled(text: str, start: int, end: int) -> Expression | ExpressionError:
    """The expression between two offsets, or its error with the position in `text`."""
    source = text[start:end]
    try:
        return compile_expression(source.strip())
    except ExpressionError as error:
        return error.within(text, start + len(source) - len(source.lstrip()))


def _close(text: str, start: int) -> int:
    """The offset of the `}}` that ends an expression: outside its strings, its comments and its own braces.

    Only as much as an expression can have is searched: a text can have megabytes.
    """
    depth = 0
    for token in BRACES.finditer(text, start, start + MAX_SOURCES):
        if token["open"] or token["bytes"]:
            break
        if token["brace"] == "{":
            depth += 1
        elif token["brace"] and depth:
            depth -= 1
        elif token["brace"] and text.startswith("}}", token.start()):
            return token.start()
    raise ExpressionError("`{{` is not closed by `}}`", *place_of(text, start - 2))


def _renderer(value: JSON) -> Render:
    """The closure that renders a value: parts without an expression are reused unchanged."""
    if not any(True for _ in strings(value, "")):
        return _constant(value)
    if type(value) is str:
        return _text_renderer(split(value))
    if type(value) is list:
        items = [_renderer(item) for item in value]
        return lambda scope, budget: [item(scope, budget) for item in items]
    fields = [(key, _renderer(item)) for key, item in as_object(value).items()]
    return lambda scope, budget: {key: field(scope, budget) for key, field in fields}


def _constant(value: JSON) -> Render:
    return lambda _scope, _budget: value


def _constant_text(text: str) -> Callable[[Scope, RenderBudget], str]:
    return lambda _scope, _budget: text


def _text_renderer(parts: list[str | Expression]) -> Render:
    if len(parts) == 1 and isinstance(parts[0], Expression):
        return _as_value(parts[0])
    pieces = [_as_text(part) if isinstance(part, Expression) else _constant_text(part) for part in parts]
    return lambda scope, budget: "".join(piece(scope, budget) for piece in pieces)


def _as_value(expression: Expression) -> Render:
    def render(scope: Scope, budget: RenderBudget) -> JSON:
        value = expression.evaluate(scope, budget.steps)
        text = _text_of(value)
        budget.spend(text)
        budget.may_be_deep = budget.may_be_deep or text.count("[") + text.count("{") > MAX_UNCHECKED_DEPTH
        return value

    return render


def _as_text(expression: Expression) -> Callable[[Scope, RenderBudget], str]:
    def render(scope: Scope, budget: RenderBudget) -> str:
        value = expression.evaluate(scope, budget.steps)
        text = "" if value is None else _text_of(value)
        budget.spend(text)
        return text

    return render


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _text_of(value: JSON) -> str:
    """A string unchanged, any other value as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return _compact(value)
    except ValueError:
        raise ExpressionError("a number has too many digits to be rendered") from None
