"""The syntax of CEL: a source as a tree (cel-spec, doc/langdef.md, "Syntax").

As in cel-python, a sign directly before the digits at the begin of an operand belongs to the number, and `1.` is a
double.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from wfcore.domain.expressions.cel.values import ExpressionError, place_of

MAX_NESTING: Final = 100
"""Levels of parentheses, lists, maps, calls and unary operators."""

_HIDING: Final = r"""
      (?P<comment> //[^\n]*)
    | (?P<bytes> [bB][rR]?["'] | [rR][bB]["'])
    | (?P<raw> [rR] (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "(?!"")[^"\r\n]*" | '(?!'')[^'\r\n]*'))
    | (?P<cooked> \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}
                | "(?!"")(?:[^"\\\r\n]|\\.)*" | '(?!'')(?:[^'\\\r\n]|\\.)*')
    | (?P<open> ["'])
"""
"""Three quotes that are not closed are `open`, not an empty string and a quote: no expression has two strings in a row,
and a text with many of them would be read to its end for each.
"""
BRACES: Final = re.compile(rf"{_HIDING} | (?P<brace> [{{}}])", re.VERBOSE | re.DOTALL)
"""Braces, and the tokens of CEL that can hide braces: comments and string literals."""

_TOKENS: Final = re.compile(
    rf"""{_HIDING}
    | (?P<space> [\t\n\f\r\ ]+)
    | (?P<name> [_a-zA-Z][_a-zA-Z0-9]*)
    | (?P<uint> (?:0x[0-9a-fA-F]+ | [0-9]+)[uU])
    | (?P<float> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
    | (?P<int> 0x[0-9a-fA-F]+ | [0-9]+)
    | (?P<symbol> && | \|\| | [<>=!]= | .)
    """,
    re.VERBOSE | re.DOTALL,
)

_PRECEDENCE: Final[Mapping[str, int]] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_BOOLEANS: Final = ("true", "false")
_LITERALS: Final = {"raw": "string", "cooked": "string", "uint": "uint", "float": "float", "int": "int"}


class Construct(NamedTuple):
    """One construct of the language. `at` is the offset of its token in the source.

    `text` is the token: a name, an operator or a number; of a string it is the value. The forms, with their parts:
    `string`, `int`, `uint`, `float`, `constant` (true, false, null), `name`, `select` (base), `index` (base, key),
    `function` (arguments), `method` (base, arguments), `unary` (operand), `binary` (left, right),
    `choose` (condition, yes, no), `list` (items), `map` (keys and values in turn).
    """

    form: str
    text: str
    at: int
    parts: "tuple[Construct, ...]" = ()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(source: str) -> Construct:
    """The tree of a source. Raises ExpressionError for wrong syntax and too deep nesting."""
    parser = _Parser(source)
    tree = parser.expression()
    if parser.next.kind != "end":
        parser.refuse()
    return tree


def position(source: str, offset: int) -> str:
    """`column 7`, or `line 2, column 7` when there are several lines."""
    line, column = place_of(source, offset)
    return f"line {line}, column {column}" if "\n" in source else f"column {column}"


def too_deep() -> ExpressionError:
    return ExpressionError(f"nested deeper than {MAX_NESTING} levels")


class _Parser:
    """A parser by recursive descent; binary operators climb by precedence. `next` is the first token not read yet."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = iter(_tokens(source))
        self.last = self.next = next(self.tokens)
        self.nesting = 0

    def take(self) -> _Token:
        self.last, self.next = self.next, next(self.tokens, self.next)
        return self.last

    def accept(self, text: str) -> bool:
        if self.next.text != text:
            return False
        self.take()
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise the error for the next token; at the end, it has the position of the last one."""
        at = self.last.at if self.next.kind == "end" else self.next.at
        empty = self.last.kind == "end"
        message = "the expression is empty" if empty else f"syntax error at {position(self.source, at)}"
        raise ExpressionError(message, *place_of(self.source, at))

    def nested(self, read: Callable[[], Construct]) -> Construct:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise too_deep()
        tree = read()
        self.nesting -= 1
        return tree

    def expression(self) -> Construct:
        return self.nested(self.choice)

    def choice(self) -> Construct:
        condition = self.binary(1)
        if self.next.text != "?":
            return condition
        at = self.take().at
        yes = self.binary(1)
        self.expect(":")
        return Construct("choose", "?", at, (condition, yes, self.expression()))

    def binary(self, lowest: int) -> Construct:
        """Operands with operators of at least this precedence; those of the same one group from the left."""
        left = self.unary()
        while (precedence := _PRECEDENCE.get(self.next.text, 0)) >= lowest:
            operator = self.take()
            left = Construct("binary", operator.text, operator.at, (left, self.binary(precedence + 1)))
        return left

    def unary(self) -> Construct:
        if self.next.text not in ("-", "!"):
            return self.member()
        sign = self.take()
        if sign.text == "-" and self.next.kind in ("int", "uint", "float") and self.next.at == sign.at + 1:
            return self.member("-")
        return Construct("unary", sign.text, sign.at, (self.nested(self.unary),))

    def member(self, sign: str = "") -> Construct:
        tree = self.operand(sign)
        while True:
            at = self.next.at
            if self.accept("."):
                tree = self.selection(tree)
            elif self.accept("["):
                tree = Construct("index", "", at, (tree, self.expression()))
                self.expect("]")
            elif self.next.text == "{":
                raise ExpressionError("messages are not supported: JSON has maps only", *place_of(self.source, at))
            else:
                return tree

    def selection(self, base: Construct) -> Construct:
        name = self.name()
        if self.accept("("):
            return Construct("method", name.text, name.at, (base, *self.items(")")))
        return Construct("select", name.text, name.at, (base,))

    def name(self) -> _Token:
        if self.next.kind != "name" or self.next.text in _BOOLEANS:
            self.refuse()
        return self.take()

    def operand(self, sign: str) -> Construct:
        kind, text, at = self.next
        if kind in _LITERALS:
            self.take()
            return Construct(_LITERALS[kind], sign + text if kind not in ("raw", "cooked") else _unquoted(text), at)
        if text in (*_BOOLEANS, "null"):
            self.take()
            return Construct("constant", text, at)
        if self.accept("("):
            tree = self.expression()
            self.expect(")")
            return tree
        if self.accept("["):
            return Construct("list", "", at, self.items("]"))
        if self.accept("{"):
            return Construct("map", "", at, self.entries())
        self.accept(".")
        name = self.name()
        return (
            Construct("function", name.text, name.at, self.items(")"))
            if self.accept("(")
            else Construct("name", *name[1:])
        )

    def items(self, close: str) -> tuple[Construct, ...]:
        if self.accept(close):
            return ()
        items = [self.expression()]
        while self.accept(",") and not (close == "]" and self.next.text == close):  # a list can end in a comma
            items.append(self.expression())
        self.expect(close)
        return tuple(items)

    def entries(self) -> tuple[Construct, ...]:
        if self.accept("}"):
            return ()
        parts: list[Construct] = []
        while not parts or (self.accept(",") and self.next.text != "}"):  # so can a map
            parts.append(self.expression())
            self.expect(":")
            parts.append(self.expression())
        self.expect("}")
        return tuple(parts)


def _tokens(source: str) -> list[_Token]:
    """The tokens, without spaces and comments. The last one has the kind `end` and no text."""
    found: list[_Token] = []
    for match in _TOKENS.finditer(source):
        kind, at = str(match.lastgroup), match.start()
        if kind == "open":
            raise ExpressionError(f"the string at {position(source, at)} is not closed", *place_of(source, at))
        if kind == "bytes":
            raise ExpressionError(f"bytes at {position(source, at)}: JSON has no bytes", *place_of(source, at))
        if kind not in ("space", "comment"):
            found.append(_Token(kind, match.group(), at))
    return [*found, _Token("end", "", 0)]


_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|.)",
    re.DOTALL,
)
_SIMPLE: Final = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))


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
