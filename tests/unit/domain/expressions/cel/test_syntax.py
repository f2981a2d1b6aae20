"""The syntax of CEL: tokens, precedence, and errors with their positions."""

import pytest
from evaluating import refusal, value

from wfcore.domain.expressions.cel.syntax import Construct, parse, position
from wfcore.domain.expressions.cel.values import ExpressionError


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("a || b && c", "(a || (b && c))"),
        ("a && b || c", "((a && b) || c)"),
        ("a < b == c", "((a < b) == c)"),
        ("a - b - c * d % e", "((a - b) - ((c * d) % e))"),
        ("a in b && !c.d", "((a in b) && !(c.d))"),
        ("-a.b * c", "((-(a.b)) * c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a || b ? c && d : e", "((a || b) ? (c && d) : e)"),
        ("a.f(b)[c].d", "(((a.f(b))[c]).d)"),
        ("a.in.null", "((a.in).null)"),
        ("a\n\t// comment\n.b", "a.b"),
        (".f(.a)", "f(a)"),
        ("[a, b,]", "[a, b]"),
        ("{a: b, c: d,\n}", "{a: b, c: d}"),
    ],
)
def test_grouping(source: str, same: str) -> None:
    """Operators group by precedence, those of the same one from the left, and `?:` from the right."""
    assert _shape(source) == _shape(same)


def _shape(source: str) -> object:
    def plain(tree: Construct) -> object:
        return tree.form, tree.text, [plain(part) for part in tree.parts]

    return plain(parse(source))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("--5", 5),
        ("1-1", 0),
        ("1 - -1", 2),
        ("-\n5", -5),
        ("-5.5", -5.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("!!true", True),
    ],
)
def test_signs_and_numbers(source: str, expected: object) -> None:
    """A sign directly before digits belongs to the number where an operand begins, and only there."""
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "the expression is empty"),
        ("  // nothing", "the expression is empty"),
        ("1 +", "syntax error at column 3"),
        ("1\n+ @", "syntax error at line 2, column 3"),
        ("input.a ==\n\n", "syntax error at line 1, column 9"),
        ("input.true", "syntax error at column 7"),
        ("input.5", "syntax error at column 6"),
        ("1 1", "syntax error at column 3"),
        ("(1", "syntax error at column 2"),
        ("1)", "syntax error at column 2"),
        ("[1,,]", "syntax error at column 4"),
        ("[,]", "syntax error at column 2"),
        ("{1: 2,,}", "syntax error at column 7"),
        ("{1 2}", "syntax error at column 4"),
        ("size(1,)", "syntax error at column 8"),
        ("input[]", "syntax error at column 7"),
        ("input[run](1)", "syntax error at column 11"),
        ("true ? true ? 1 : 2 : 3", "syntax error at column 13"),
        ('"open', "the string at column 1 is not closed"),
        ('"""open"', "the string at column 1 is not closed"),
        ("r'''open'", "the string at column 2 is not closed"),
        ('b"x"', "bytes at column 1: JSON has no bytes"),
        ("input{a: 1}", "messages are not supported: JSON has maps only"),
        (r'"\q"', r"unknown escape `\q` in a string"),
        (r'"\U00110000"', r"unknown escape `\U00110000` in a string"),
        (r'"\ud800"', "a string holds a character that is not allowed in JSON"),
        (r'"\x00"', "a string holds a character that is not allowed in JSON"),
    ],
)
def test_refusals(source: str, message: str) -> None:
    """The error has the position of the first token that does not fit; at the end, that of the last token."""
    assert refusal(source) == message


@pytest.mark.parametrize("levels", ["[]", "()", "!", "-"])
def test_nesting_is_bounded(levels: str) -> None:
    """A source with 100 levels has a tree, one with more is refused."""
    opening, closing = levels[0], levels[1:]
    assert parse(opening * 99 + "a" + closing * 99)
    with pytest.raises(ExpressionError, match="nested deeper than 100 levels"):
        parse(opening * 100 + "a" + closing * 100)


def test_positions() -> None:
    """A source of several lines has line and column."""
    assert position("ab", 1) == "column 2"
    assert position("a\nbc", 3) == "line 2, column 2"
