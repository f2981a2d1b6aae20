"""Templates: JSON whose strings may hold `{{ expression }}`.

A string that is one whole `{{ expression }}` becomes the expression's value, whatever its type; in any other
string each expression becomes text: strings as they are, null as nothing, the rest as compact JSON. Keys are
never templates, and what was rendered is data: it is never looked into again.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from wfcore.domain.expressions.cel.compile import TOKEN
from wfcore.domain.expressions.cel.values import TOO_MANY_STEPS, EvaluationBudget, Exhausted
from wfcore.domain.expressions.expression import Expression, ExpressionError, Scope, compile_expression
from wfcore.domain.json.nesting import DEEPEST, is_deeper
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_type import JSON

__all__ = ["MAX_RENDERED", "Template", "compile_template", "template_issues"]

MAX_RENDERED: Final = 1 << 20
"""The most characters that the expressions of one template may contribute, as text or compact JSON."""

STEPS_PER_EXPRESSION: Final = 5
CHARACTERS_PER_STEP: Final = 64
"""What rendering costs in steps of evaluation."""

FLAT: Final = DEEPEST // 2
"""Levels of a value that may stand anywhere: the template around it came through the input gate, and has no more."""

Render = Callable[[Scope, "Room"], JSON]


class Room:
    """How many characters a template may still contribute, and how many steps it and others may still take.

    `nests`: one of its expressions may have given more than `FLAT` levels.
    """

    __slots__ = ("left", "nests", "steps")

    def __init__(self, left: int, steps: EvaluationBudget) -> None:
        self.left = left
        self.nests = False
        self.steps = steps

    def take(self, text: str) -> None:
        self.steps.spend(STEPS_PER_EXPRESSION + len(text) // CHARACTERS_PER_STEP)
        self.left -= len(text)
        if self.left < 0:
            raise Exhausted


_UNTOUCHED: Final = Room(0, EvaluationBudget())
"""What a constant is given: it takes nothing."""


@attrs.frozen
class Template:
    """A compiled template. `constant`: it holds no expression; `references`: ids of the nodes it reads."""

    constant: bool
    references: frozenset[str]
    _render: Render = attrs.field(eq=False, repr=False)
    reads_item: bool = False

    def render(self, scope: Scope, limit: int = MAX_RENDERED, steps: EvaluationBudget | None = None) -> JSON:
        """The value in this scope; of a constant template the very value it was made from.

        Raises ExpressionError when an expression fails, when all together give over `limit` characters or take more
        than `steps`, a budget that may be shared with others.
        """
        if self.constant:
            return self._render(scope, _UNTOUCHED)
        room = Room(limit, steps or EvaluationBudget())
        try:
            room.steps.spend(1)
            value = self._render(scope, room)
        except Exhausted:
            too_long = f"the rendered value is longer than {limit} characters"
            raise ExpressionError(TOO_MANY_STEPS if room.steps.left < 0 else too_long) from None
        except RecursionError:
            raise ExpressionError("the values are nested too deep") from None
        if room.nests and is_deeper(value):
            raise ExpressionError(f"the rendered value is nested deeper than {DEEPEST} levels")
        return value


def compile_template(value: JSON) -> Template:
    """Compile every string of a JSON value. Raises ExpressionError for the first expression that is wrong."""
    expressions = [part for _, text in strings(value, "") for part in split(text) if isinstance(part, Expression)]
    if not expressions:
        return Template(True, frozenset(), _handing_on(value))
    references = frozenset().union(*(expression.references for expression in expressions))
    reads_item = any(expression.reads_item for expression in expressions)
    return Template(False, references, _renderer(value), reads_item)


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
        return lambda scope, room: [item(scope, room) for item in items]
    fields = [(key, _renderer(item)) for key, item in value.items()]
    return lambda scope, room: {key: field(scope, room) for key, field in fields}


def _handing_on(value: JSON) -> Render:
    return lambda _scope, _room: value


def _text_renderer(parts: list[str | Expression]) -> Render:
    if len(parts) == 1 and isinstance(parts[0], Expression):
        return _whole(parts[0])
    pieces = [_as_text(part) if isinstance(part, Expression) else _handing_on(part) for part in parts]
    return lambda scope, room: "".join(piece(scope, room) for piece in pieces)


def _whole(expression: Expression) -> Render:
    def render(scope: Scope, room: Room) -> JSON:
        value = expression.evaluate(scope, room.steps)
        text = _written(value)
        room.take(text)
        room.nests = room.nests or text.count("[") + text.count("{") > FLAT
        return value

    return render


def _as_text(expression: Expression) -> Render:
    def render(scope: Scope, room: Room) -> str:
        value = expression.evaluate(scope, room.steps)
        text = "" if value is None else _written(value)
        room.take(text)
        return text

    return render


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _written(value: JSON) -> str:
    """A string as it is, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return _compact(value)
    except ValueError:
        raise ExpressionError("a number has too many digits to be written") from None
