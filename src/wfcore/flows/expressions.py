"""Expressions in Python: `flow.input.amount > 1000` is the CEL expression `input.amount > 1000`.

In a text an expression is a template: f"Refund {flow.input.order}?" is "Refund {{ input.order }}?".
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.flows.origins import refused

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "namespace", "null", "package", "return", "true", "var", "void", "while",
    }
)  # fmt: skip
"""Words that CEL does not accept as a field (CEL specification, Syntax)."""


class Expr:
    """A CEL expression. Attributes and items are fields of its value; operators make larger expressions.

    `&`, `|` and `~` are *and*, *or* and *not*: Python's own words cannot be redefined, and raise a FlowError. CEL that
    has no operator in Python is written with `expr`.
    """

    __slots__ = ("_source", "_tight")

    def __init__(self, source: str, *, tight: bool = True) -> None:
        self._source = source
        self._tight = tight

    def __getattr__(self, name: str) -> "Expr":
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: "str | int | Expr") -> "Expr":
        if isinstance(key, str) and _NAME.fullmatch(key) and key not in _RESERVED:
            return Expr(f"{_operand(self)}.{key}")
        return Expr(f"{_operand(self)}[{source_of(key)}]")

    def __str__(self) -> str:
        return f"{{{{ {self._source} }}}}"

    def __format__(self, spec: str) -> str:
        if spec:
            raise refused(f"a format such as `{spec}` cannot be applied: the value is not known yet", "expression")
        return str(self)

    def __repr__(self) -> str:
        return f"expr({self._source!r})"

    def __bool__(self) -> bool:
        raise refused(
            f"`{self._source}` has no value yet: use `&`, `|`, `~` for `and`, `or`, `not`, and a condition for `if`",
            "expression",
        )

    def __iter__(self) -> Any:
        raise refused(f"`{self._source}` has no items yet: use `for_each`", "expression")

    def __contains__(self, item: object) -> bool:
        raise refused(f"use `expr('... in {self._source}')` for `in`", "expression")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> "Expr":  # type: ignore[override]
        return _binary(self, "==", other)

    def __ne__(self, other: object) -> "Expr":  # type: ignore[override]
        return _binary(self, "!=", other)

    def __lt__(self, other: object) -> "Expr":
        return _binary(self, "<", other)

    def __le__(self, other: object) -> "Expr":
        return _binary(self, "<=", other)

    def __gt__(self, other: object) -> "Expr":
        return _binary(self, ">", other)

    def __ge__(self, other: object) -> "Expr":
        return _binary(self, ">=", other)

    def __and__(self, other: object) -> "Expr":
        return _binary(self, "&&", other)

    def __rand__(self, other: object) -> "Expr":
        return _binary(other, "&&", self)

    def __or__(self, other: object) -> "Expr":
        return _binary(self, "||", other)

    def __ror__(self, other: object) -> "Expr":
        return _binary(other, "||", self)

    def __invert__(self) -> "Expr":
        return Expr(f"!{_operand(self)}", tight=False)

    def __neg__(self) -> "Expr":
        return Expr(f"-{_operand(self)}", tight=False)

    def __add__(self, other: object) -> "Expr":
        return _binary(self, "+", other)

    def __radd__(self, other: object) -> "Expr":
        return _binary(other, "+", self)

    def __sub__(self, other: object) -> "Expr":
        return _binary(self, "-", other)

    def __rsub__(self, other: object) -> "Expr":
        return _binary(other, "-", self)

    def __mul__(self, other: object) -> "Expr":
        return _binary(self, "*", other)

    def __rmul__(self, other: object) -> "Expr":
        return _binary(other, "*", self)

    def __truediv__(self, other: object) -> "Expr":
        return _binary(self, "/", other)

    def __rtruediv__(self, other: object) -> "Expr":
        return _binary(other, "/", self)

    def __mod__(self, other: object) -> "Expr":
        return _binary(self, "%", other)


def expr(source: str) -> Expr:
    """An expression in CEL, such as `size(input.lines) > 3 && "a" in input.tags`."""
    return Expr(source, tight=False)


def source_of(value: object) -> str:
    """The CEL of an expression or of a JSON value. Raises FlowError for another value."""
    if isinstance(value, Expr):
        return value._source  # noqa: SLF001  (a public name would hide a field of that name)
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(source_of, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{source_of(key)}: {source_of(each)}' for key, each in value.items())}}}"
    raise refused(f"a `{type(value).__name__}` is not a value of an expression: use JSON values", "expression")


def to_json(value: Any) -> JSON:
    """A parameter as it is stored: each expression in it is a template."""
    if isinstance(value, Expr):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise refused(f"a `{type(value).__name__}` is not a JSON value", "type")


def bare(value: "Expr | str") -> str:
    """The source where only an expression stands (`when`, `forEach`)."""
    return value if isinstance(value, str) else source_of(value)


def _operand(value: object) -> str:
    source = source_of(value)
    return f"({source})" if isinstance(value, Expr) and not value._tight else source  # noqa: SLF001


def _binary(left: object, operator: str, right: object) -> Expr:
    return Expr(f"{_operand(left)} {operator} {_operand(right)}", tight=False)
