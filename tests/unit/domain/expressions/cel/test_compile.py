"""Compilation of CEL source: literals, names and references."""

import pytest
from evaluating import refusal, value

from wfcore.domain.expressions.cel.compile import compile_source
from wfcore.domain.expressions.cel.values import ExpressionError


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r'"a\n\x41\u00e9\U0001F600\101\\\"" ', 'a\nA\u00e9\U0001f600A\\"'),
        ("int == int", True),
        ("true ? 1 : 2", 1),
        ("- 1", -1),
        ("!true", False),
        ("null", None),
        ('{"a": [1, false]}', {"a": [1, False]}),
        ('"a".matches("a")', True),
        ('"a".matches("a" + "b")', False),
        (".input.tier", "gold"),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("-9223372036854775808", -(2**63)),
        (".5e1", 5.0),
        (r"r'a\n'", r"a\n"),
        ('"""a"b\nc"""', 'a"b\nc'),
        ("'''it's'''", "it's"),
        ("1 // a 'comment\n + 1", 2),
        ('"// no comment"', "// no comment"),
    ],
)
def test_meaning(source: str, expected: object) -> None:
    """Literals, comments and variables have the value and the type of the CEL language definition."""
    found = value(source)
    assert (found, repr(type(found))) == (expected, repr(type(expected)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("foo.bar", "unknown variable `foo`: use `input`, `nodes`, `run` or `item`"),
        ("[1].map(x, y)", "unknown variable `y`"),
        ("[1].map(x, x) == x", "unknown variable `x`"),
        ("foo(1)", "unknown function `foo`"),
        ("input.foo()", "unknown method `foo`"),
        ("[1].reduce(a, b, 0, a + b)", "unknown method `reduce`"),
        ("size()", "wrong number of arguments for `size`"),
        ("has(input)", "`has` takes one field selection"),
        ("[1].map(1, 2)", "`map` takes a variable and an expression"),
        ("[1].map(x, x, x, x)", "`map` takes a variable and an expression"),
        ("[1].filter(x, true, x)", "`filter` takes a variable and an expression"),
        ("1u", "`1u`: JSON has no unsigned ints"),
        ("9223372036854775808", "int overflow"),
    ],
)
def test_refusals(source: str, message: str) -> None:
    """A fault in the source raises ExpressionError with the fault and its position."""
    assert message in refusal(source)


def test_references() -> None:
    """References are the node ids read by a literal name, as field or index; a macro variable is not one."""
    source = 'nodes.a.output > 1 || has(nodes.b.output) || nodes["c-d"] == nodes[input.x] && [nodes.e] == []'
    assert compile_source(source).references == {"a", "b", "c-d", "e"}
    assert compile_source("[input].map(nodes, nodes.a)").references == frozenset()


def test_paths_and_items() -> None:
    """`is_path` marks a plain path to a value that never changes; `reads_item` ignores macro variables."""
    assert compile_source("nodes.a.output").is_path
    assert not compile_source("nodes").is_path
    assert not compile_source("input.a + 1").is_path
    assert not compile_source("input[run.a]").is_path
    assert compile_source("item.a").reads_item
    assert not compile_source("[1].map(item, item)").reads_item


def test_nesting_is_bounded() -> None:
    """Also that of operators which the syntax reads one after the other."""
    assert value("1" + "+1" * 99) == 100
    with pytest.raises(ExpressionError, match="nested deeper than 100 levels"):
        compile_source("1" + "+1" * 100)
