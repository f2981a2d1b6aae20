"""Compilation of CEL source to Python closures: cel-python parses it, closures evaluate it on plain JSON.

A closure takes the activation (the variables and the budget) and returns a value or raises. `&&`, `||`, `all`
and `exists` ignore an error in one operand when another one decides (cel-spec, Logical Operators); an exhausted
budget always ends the evaluation. Only `all`, `exists`, `exists_one`, `filter` and `map` iterate. Each iteration
costs the size of its body, so a bounded source on bounded data ends in bounded time.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from wfcore.domain.expressions.cel import closures
from wfcore.domain.expressions.cel.closures import Code
from wfcore.domain.expressions.cel.library import FUNCTIONS, METHODS, Overloads, compiled_pattern
from wfcore.domain.expressions.cel.values import TYPE_NAMES, ExpressionError, Value, in_int64, place_of

if TYPE_CHECKING:
    from celpy.celparser import CELParser
    from lark import Token, Tree

Node: TypeAlias = "Tree[Token]"

MAX_NESTING: Final = 100
ROOTS: Final = ("input", "nodes", "run", "item")
"""The variables of the expressions of graphs."""


@attrs.frozen
class Compiled:
    """The result of a compilation.

    `references` are the ids of the nodes it reads. `is_path`: it is one plain path to a value that never changes
    (not `nodes` itself, which grows during the run).
    """

    run: Code
    references: frozenset[str]
    is_path: bool
    reads_item: bool


def compile_source(source: str, roots: Sequence[str] = ROOTS) -> Compiled:
    """Compile CEL over the variables `roots`.

    Raises ExpressionError for wrong syntax, unknown names, wrong arity and too deep nesting.
    """
    blanked, literals = _literals(source)
    compiler = _Compiler(literals, roots)
    tree = _core(_parse(blanked))
    run = compiler.compile(tree)
    is_path = compiler.path_of(tree) not in (None, ("nodes", ()))
    return Compiled(run, frozenset(compiler.references), is_path, compiler.reads_item)


# Strings are read here and blanked before parsing: the parser's own pattern for them backtracks exponentially.

TOKEN: Final = re.compile(
    r"""
      (?P<comment> //[^\n]*)
    | (?P<bytes> [bB][rR]?["'] | [rR][bB]["'])
    | (?P<raw> [rR] (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\r\n]*" | '[^'\r\n]*'))
    | (?P<cooked> \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}
                | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*')
    | (?P<open> ["'])
    | (?P<brace> [{}])
    """,
    re.VERBOSE | re.DOTALL,
)
"""The tokens of CEL that can hide or nest braces: comments, string literals, braces."""

_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|.)",
    re.DOTALL,
)
_SIMPLE: Final = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))


def _literals(source: str) -> tuple[str, dict[int, str]]:
    """The source with the content of every string blanked in place, and the strings by their offset."""
    literals: dict[int, str] = {}
    pieces, end = [], 0
    for token in TOKEN.finditer(source):
        if token["open"]:
            at = token.start()
            raise ExpressionError(f"the string at {position(source, at)} is not closed", *place_of(source, at))
        if token["bytes"]:
            at = token.start()
            raise ExpressionError(f"bytes at {position(source, at)}: JSON has no bytes", *place_of(source, at))
        if token["brace"]:
            continue
        text = token.group()
        blank = " " * len(text) if token["comment"] else f'"{"x" * (len(text) - 2)}"'
        pieces += [source[end : token.start()], blank]
        end = token.end()
        if not token["comment"]:
            literals[token.start()] = _unquoted(text)
    return "".join([*pieces, source[end:]]), literals


def _unquoted(literal: str) -> str:
    raw = literal[0] in "rR"
    body = literal[1:] if raw else literal
    width = 3 if len(body) >= 6 and body[:3] == body[0] * 3 else 1
    text = body[width:-width] if raw else _ESCAPE.sub(_unescaped, body[width:-width])
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise ExpressionError("a string holds a character that is not allowed in JSON")
    return text


def _unescaped(match: re.Match[str]) -> str:
    simple, byte, short, long, octal = match.groups()
    if simple:
        return _SIMPLE[simple]
    digits = byte or short or long
    number = int(digits, 16) if digits else int(octal, 8) if octal else 0x110000
    if number > 0x10FFFF:
        raise ExpressionError(f"unknown escape `{match.group()}` in a string")
    return chr(number)


def position(source: str, offset: int) -> str:
    """`column 7`, or `line 2, column 7` when there are several lines."""
    line, column = place_of(source, offset)
    return f"line {line}, column {column}" if "\n" in source else f"column {column}"


# Parsing


@lru_cache(maxsize=1)
def _parser() -> "CELParser":
    from celpy.celparser import CELParser

    return CELParser()


def _parse(source: str) -> Node:
    from celpy.celparser import CELParseError

    try:
        return _parser().parse(source)
    except CELParseError as error:
        raise ExpressionError(_syntax_message(source, error.line, error.column), error.line, error.column) from None


def _syntax_message(source: str, line: int | None, column: int | None) -> str:
    if not source.strip():
        return "the expression is empty"
    if line is None:  # the parser gives no position for these two words only
        return "syntax error: found `true` or `false`, expected a name or an operator"
    return f"syntax error at {f'line {line}, ' if source.count(chr(10)) else ''}column {column}"


_LEVELS: Final = {
    "expr",
    "conditionalor",
    "conditionaland",
    "relation",
    "addition",
    "multiplication",
    "unary",
}
_WRAPPERS: Final = frozenset({*_LEVELS, "member", "primary", "paren_expr"})


def _core(tree: Node) -> Node:
    """The innermost tree that carries meaning: the grammar wraps every value a dozen times."""
    while len(tree.children) == 1 and tree.data in _WRAPPERS:
        tree = _tree(tree.children[0])
    return tree


def _tree(child: "Tree[Token] | Token") -> Node:
    return child  # type: ignore[return-value]  # the grammar determines which children are trees


def _arguments(children: Sequence[Any]) -> list[Node]:
    return [_core(_tree(child)) for child in children[0].children] if children else []


# Compiling


class _Compiler:
    """The state of one compilation: nodes read, size so far, macro variables in scope (`bound`)."""

    def __init__(self, literals: dict[int, str], roots: Sequence[str]) -> None:
        self.literals = literals
        self.roots = roots
        self.references: set[str] = set()
        self.reads_item = False
        self.bound: list[str] = []
        self.size = 0
        self.nesting = 0

    def compile(self, tree: Node) -> Code:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise ExpressionError(f"nested deeper than {MAX_NESTING} levels")
        tree = _core(tree)
        path = self.path_of(tree)
        code = self.path(*path) if path else self.operation(tree)
        self.nesting -= 1
        self.size += 1
        return code

    def operation(self, tree: Node) -> Code:
        build: Callable[..., Code] | None = getattr(self, f"on_{tree.data}", None)
        if build is None:
            raise ExpressionError("messages are not supported: JSON has maps only")
        return build(*tree.children)

    def path_of(self, tree: Node) -> tuple[str, tuple[str, ...]] | None:
        """`root.a["b"]` as (root, (a, b)) if every step is a literal name and the root is a variable; else None."""
        names: list[str] = []
        while tree.data in {"member_dot", "member_index"}:
            name = str(tree.children[1]) if tree.data == "member_dot" else self.string(_tree(tree.children[1]))
            if name is None:
                return None
            names.append(name)
            tree = _core(_tree(tree.children[0]))
        if tree.data not in {"ident", "dot_ident"}:
            return None
        root = str(tree.children[0])
        return (root, tuple(reversed(names))) if root in self.bound or root in self.roots else None

    def string(self, tree: Node) -> str | None:
        """The value of a string literal; None for any other tree."""
        tree = _core(tree)
        return self.literals.get(_start(tree.children[0])) if tree.data == "literal" else None

    def path(self, root: str, names: tuple[str, ...]) -> Code:
        if root == "nodes" and root not in self.bound:
            self.references.update(names[:1])
        self.reads_item |= root == "item" and root not in self.bound
        return closures.path(root, names)

    # One method for each rule of the grammar.

    def on_literal(self, token: "Token") -> Code:
        return closures.constant(_scalar(token) if "STRING" not in token.type else self.literals[_start(token)])

    def on_ident(self, name: "Token") -> Code:
        if str(name) in TYPE_NAMES:
            return closures.constant(TYPE_NAMES[str(name)])
        *most, last = (f"`{root}`" for root in self.roots)
        message = f"unknown variable `{name}`: use {', '.join(most)} or {last}"
        raise ExpressionError(message, name.line, name.column)

    on_dot_ident = on_ident

    def on_member_dot(self, base: Node, name: "Token") -> Code:
        return closures.select(self.compile(base), str(name))

    def on_member_index(self, base: Node, key: Node) -> Code:
        return closures.item(self.compile(base), self.compile(key))

    def on_member_dot_arg(self, base: Node, name: "Token", *rest: Node) -> Code:
        if str(name) in closures.MACROS:
            return self.macro(base, str(name), _arguments(rest))
        return self.call(METHODS, str(name), [base, *_arguments(rest)])

    def on_ident_arg(self, name: "Token", *rest: Node) -> Code:
        if str(name) == "has":
            return self.has(_arguments(rest))
        return self.call(FUNCTIONS, str(name), _arguments(rest))

    on_dot_ident_arg = on_ident_arg

    def on_expr(self, condition: Node, yes: Node, no: Node) -> Code:
        return closures.choose(self.compile(condition), self.compile(yes), self.compile(no))

    def on_conditionalor(self, left: Node, right: Node) -> Code:
        return closures.either(self.compile(left), self.compile(right))

    def on_conditionaland(self, left: Node, right: Node) -> Code:
        return closures.both(self.compile(left), self.compile(right))

    def on_relation(self, left: Node, right: Node) -> Code:
        relate = closures.RELATIONS[left.data.removeprefix("relation_")]
        return relate(self.compile(_tree(left.children[0])), self.compile(right))

    def on_addition(self, left: Node, right: Node) -> Code:
        symbol = _SYMBOLS[left.data]
        return closures.arithmetic(symbol, self.compile(_tree(left.children[0])), self.compile(right))

    on_multiplication = on_addition

    def on_unary(self, sign: Node, operand: Node) -> Code:
        build = closures.negated if sign.data == "unary_neg" else closures.inverted
        return build(self.compile(operand))

    def on_list_lit(self, *rest: Node) -> Code:
        return closures.list_of([self.compile(item) for item in _arguments(rest)])

    def on_map_lit(self, *rest: Node) -> Code:
        codes = [self.compile(part) for part in _arguments(rest)]
        return closures.map_of(list(zip(codes[::2], codes[1::2], strict=True)))

    def has(self, arguments: Sequence[Node]) -> Code:
        if len(arguments) != 1 or arguments[0].data != "member_dot":
            raise ExpressionError("`has` takes one field selection, such as `has(input.name)`")
        return closures.has(self.compile(arguments[0]))

    def call(self, table: Mapping[str, Overloads], name: str, arguments: Sequence[Node]) -> Code:
        if name not in table:
            raise ExpressionError(f"unknown {'function' if table is FUNCTIONS else 'method'} `{name}`")
        if len(arguments) not in {len(types) for types in table[name]}:
            raise ExpressionError(f"wrong number of arguments for `{name}`")
        if name == "matches" and (pattern := self.string(arguments[1])) is not None:
            compiled_pattern(pattern)
        return closures.call(name, table[name], [self.compile(argument) for argument in arguments])

    def macro(self, base: Node, name: str, arguments: Sequence[Node]) -> Code:
        """`map` may have a condition before its expression, and then maps only the items that satisfy it."""
        steps = ["filter", "map"] if name == "map" and len(arguments) == 3 else [name]
        if len(arguments) != len(steps) + 1 or arguments[0].data != "ident":
            raise ExpressionError(f"`{name}` takes a variable and an expression, such as `list.{name}(x, x.done)`")
        code, variable = self.compile(base), str(arguments[0].children[0])
        for step, body in zip(steps, arguments[1:], strict=True):
            code = self.loop(code, variable, step, body)
        return code

    def loop(self, items: Code, variable: str, name: str, tree: Node) -> Code:
        before = self.size
        self.bound.append(variable)
        body = self.compile(tree)
        self.bound.pop()
        return closures.MACROS[name](closures.Comprehension(items, variable, body, self.size - before))


_SYMBOLS: Final = {
    "addition_add": "+",
    "addition_sub": "-",
    "multiplication_mul": "*",
    "multiplication_div": "/",
    "multiplication_mod": "%",
}


def _start(token: "Tree[Token] | Token") -> int:
    """The offset of a token; -1 for true and false, to which the parser gives no position."""
    return -1 if (start := getattr(token, "start_pos", None)) is None else int(start)


def _scalar(token: "Token") -> Value:
    """The value of a literal that is not a string."""
    if token.type == "INT_LIT":
        return in_int64(int(token, 16 if "0x" in token else 10))
    if token.type == "FLOAT_LIT":
        return float(token)
    if token.type == "UINT_LIT":
        raise ExpressionError(f"`{token}`: JSON has no unsigned ints")
    return {"true": True, "false": False, "null": None}[str(token)]
