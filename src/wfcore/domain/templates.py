"""Templates: JSON whose strings may hold `{{ expression }}`.

A string that is one whole `{{ expression }}` becomes the expression's value, whatever its type; in any other
string each expression becomes text: strings as they are, null as nothing, the rest as compact JSON. Keys are
never templates, and what was rendered is data: it is never looked into again.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from wfcore.domain.cel.compile import TOKEN
from wfcore.domain.cel.values import Budget, Exhausted
from wfcore.domain.errors import JSON, Issue, join_path
from wfcore.domain.expressions import Expression, ExpressionError, Scope, compile_expression

__all__ = ["MAX_RENDERED", "Template", "compile_template", "template_issues"]

MAX_RENDERED: Final = 1 << 20
"""The most characters that the expressions of one template may contribute, as text or compact JSON."""

Render = Callable[[Scope, Budget], JSON]


@attrs.frozen
class Template:
    """A compiled template. `constant`: it holds no expression; `references`: ids of the nodes it reads."""

    constant: bool
    references: frozenset[str]
    _render: Render = attrs.field(eq=False, repr=False)

    def render(self, scope: Scope, limit: int = MAX_RENDERED) -> JSON:
        """The value in this scope; of a constant template the very value it was made from.

        Raises ExpressionError when an expression fails or all together give over `limit` characters.
        """
        budget = Budget(limit)
        try:
            return self._render(scope, budget)
        except Exhausted:
            raise ExpressionError(f"the rendered value is longer than {limit} characters") from None


def compile_template(value: JSON) -> Template:
    """Compile every string of a JSON value. Raises ExpressionError for the first expression that is wrong."""
    expressions = [part for _, text in strings(value, "") for part in split(text) if isinstance(part, Expression)]
    if not expressions:
        return Template(True, frozenset(), _handing_on(value))
    references = frozenset().union(*(expression.references for expression in expressions))
    return Template(False, references, _renderer(value))


def template_issues(value: JSON, path: str) -> list[Issue]:
    """The strings of a JSON value that are no template, each with its wire path; rule `expression`."""
    issues = []
    for where, text in strings(value, path):
        try:
            split(text)
        except ExpressionError as error:
            issues.append(Issue(where, error.message, "expression"))
    return issues


def strings(value: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Every string inside a JSON value that may be a template, with its wire path, in order."""
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
    """A string as its pieces of plain text and its expressions, in order."""
    parts: list[str | Expression] = []
    end = 0
    while (start := text.find("{{", end)) >= 0:
        parts.append(text[end:start])
        close = _close(text, start + 2)
        parts.append(compile_expression(text[start + 2 : close].strip()))
        end = close + 2
    return [part for part in [*parts, text[end:]] if part != ""]


def _close(text: str, start: int) -> int:
    """Where the `}}` of an expression stands: outside its strings, its comments and its own braces."""
    depth = 0
    for token in TOKEN.finditer(text, start):
        if token["open"] or token["bytes"]:
            break
        if token["brace"] == "{":
            depth += 1
        elif token["brace"] and depth:
            depth -= 1
        elif token["brace"] and text.startswith("}}", token.start()):
            return token.start()
    raise ExpressionError("`{{` without its `}}`")


def _renderer(value: JSON) -> Render:
    """The closure that rebuilds what holds an expression, and hands on unchanged what holds none."""
    if not any(True for _ in strings(value, "")):
        return _handing_on(value)
    if type(value) is str:
        return _text_renderer(split(value))
    if type(value) is list:
        items = [_renderer(item) for item in value]
        return lambda scope, budget: [item(scope, budget) for item in items]
    fields = [(key, _renderer(item)) for key, item in value.items()]
    return lambda scope, budget: {key: field(scope, budget) for key, field in fields}


def _handing_on(value: JSON) -> Render:
    return lambda _scope, _budget: value


def _text_renderer(parts: list[str | Expression]) -> Render:
    if len(parts) == 1 and isinstance(parts[0], Expression):
        return _whole(parts[0])
    pieces = [_as_text(part) if isinstance(part, Expression) else _handing_on(part) for part in parts]
    return lambda scope, budget: "".join(piece(scope, budget) for piece in pieces)


def _whole(expression: Expression) -> Render:
    def render(scope: Scope, budget: Budget) -> JSON:
        value = expression.evaluate(scope)
        budget.spend(len(_written(value)))
        return value

    return render


def _as_text(expression: Expression) -> Render:
    def render(scope: Scope, budget: Budget) -> str:
        value = expression.evaluate(scope)
        text = "" if value is None else _written(value)
        budget.spend(len(text))
        return text

    return render


def _written(value: JSON) -> str:
    """A string as it is, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise ExpressionError("a number has too many digits to be written") from None
