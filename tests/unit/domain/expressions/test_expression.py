"""CEL expressions: their meaning (cel-spec, doc/langdef.md), their errors and their bounds."""

import subprocess
import sys

import pytest

from wfcore.domain.expressions.expression import MAX_SOURCE, ExpressionError, compile_expression

SCOPE = {
    "input": {
        "tier": "gold",
        "count": 3,
        "rate": 1.5,
        "none": None,
        "on": True,
        "tags": ["a", "b"],
        "items": [{"q": 1, "ok": True}, {"q": 2.5, "ok": False}],
        "when": "2024-02-29T12:30:15.25+02:00",
        "a.b": 1,
    },
    "nodes": {"check": {"output": {"amount": 150}}, "a-b": {"output": 7}},
    "run": {"id": "r1"},
}


def value(source: str) -> object:
    return compile_expression(source).evaluate(SCOPE)


def refusal(source: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        value(source)
    return caught.value.message


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("input.tier", "gold"),
        (".input.tier", "gold"),
        ('input["tier"]', "gold"),
        ('input["a.b"]', 1),
        ("input.items[1].q", 2.5),
        ('nodes["a-b"].output', 7),
        ("input.none", None),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("-9223372036854775808", -(2**63)),
        (".5e1", 5.0),
        ("7 / -2", -3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("1.0 / 4.0", 0.25),
        ("- -3", 3),
        ("-input.rate", -1.5),
        ("!input.on", False),
        ("1 < 1.5", True),
        ("1 == 1.0", True),
        ("9223372036854775807 == 9223372036854775807.0", False),
        ("true == 1", False),
        ("1 in [true]", False),
        ("1 in [1.0]", True),
        ("[1, [true]] == [1.0, [true]]", True),
        ('{"a": 1} == {"a": true}', False),
        ('{"a": 1} == {"b": 1}', False),
        ("[1] == [1, 2]", False),
        ('"1" != 1', True),
        ("null == false", False),
        ("false < true", True),
        ('"a" < "b"', True),
        ('"a" in {"a": 1}', True),
        ("true in {1: 2}", False),
        ('{1: "one"}[1.0]', "one"),
        ("[1] + [2]", [1, 2]),
        ("{}", {}),
        ("[]", []),
        ("input.count > 2 ? 1 : 1 / 0", 1),
        ("1 / 0 > 0 || true", True),
        ("true || 1 / 0 > 0", True),
        ("1 / 0 > 0 && false", False),
        ("null || true", True),
        ("has(input.tier)", True),
        ("has(input.none)", True),
        ("has(input.missing)", False),
        ("has(input.missing.deeper)", False),
        ("[1, 2].map(x, x * 2)", [2, 4]),
        ("[1, 2].map(input, input)", [1, 2]),
        ("[1, 2, 3].map(x, x > 1, x * 10)", [20, 30]),
        ("input.items.map(i, has(i.q) && i.q > 1.5, i.q)", [2.5]),
        ("[[1], [2]].map(x, x.map(y, x + [y]))", [[[1, 1]], [[2, 2]]]),
        ("input.items.filter(i, i.q > 1.5).map(i, i.q)", [2.5]),
        ("input.items.exists(i, i.ok)", True),
        ("input.items.all(i, i.ok)", False),
        ("input.items.exists_one(i, i.ok)", True),
        ("[1, 0].exists(x, 1 / x == 1)", True),
        ("[0, 1].all(x, 1 / x == 2)", False),
        ('{"k": 1}.map(k, k)', ["k"]),
        ('"héllo".size()', 5),
        ("size(input.tags)", 2),
        ('"abc".contains("b")', True),
        ('"abc".startsWith("a") && "abc".endsWith("c")', True),
        ('"abc".matches("^a.c$")', True),
        ('matches("abc", "b")', True),
        ("type(input.count) == int && type(1.0) == double", True),
        ("type(type(1)) == type", True),
        ("dyn(1)", 1),
        ('int("12") + int(2.9)', 14),
        ('double("1e3") + double(2)', 1002.0),
        ("1 + 1.5", 2.5),
        ("input.count * 1.5 - 1 / 4.0", 4.25),
        ('bool("TRUE")', True),
        ('string(1.5) + string(2) + string(true) + string("x")', "1.52truex"),
        ("timestamp(input.when)", "2024-02-29T10:30:15.25Z"),
        ("string(timestamp(0))", "1970-01-01T00:00:00Z"),
        ("int(timestamp(input.when))", 1709202615),
        ('timestamp(input.when).getHours("+05:30")', 16),
        ('timestamp(input.when).getHours("Europe/Berlin")', 11),
        ("timestamp(input.when).getDayOfWeek()", 4),
        ("timestamp(input.when).getMonth()", 1),
        ("timestamp(input.when).getDate()", 29),
        ("timestamp(input.when).getDayOfMonth()", 28),
        ("timestamp(input.when).getDayOfYear()", 59),
        ("timestamp(input.when).getFullYear()", 2024),
        ("timestamp(input.when).getMilliseconds()", 250),
        ('timestamp(input.when) - duration("1h") < timestamp(input.when)', True),
        ('duration("-1h30m1.5s")', "-5401.5s"),
        ('duration("-90m").getHours()', -1),
        ('timestamp("2024-01-02T00:00:00Z") - timestamp("2024-01-01T00:00:00Z") == duration("24h")', True),
        (r'"a\n\x41\u00e9\U0001F600\101\\\"" ', 'a\nA\u00e9\U0001f600A\\"'),
        (r"r'a\n'", r"a\n"),
        ('"""a"b\nc"""', 'a"b\nc'),
        ("'''it's'''", "it's"),
        ("1 // a 'comment\n + 1", 2),
        ('"// no comment"', "// no comment"),
    ],
)
def test_meaning(source: str, expected: object) -> None:
    """Every construct has the value and the type of the CEL language definition."""
    found = value(source)
    assert (found, repr(type(found))) == (expected, repr(type(expected)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "the expression is empty"),
        ("  // nothing", "the expression is empty"),
        ("1 +", "syntax error at column 3"),
        ("1\n+ @", "syntax error at line 2, column 3"),
        ("input.true", "syntax error: found `true`"),
        ('"open', "the string at column 1 is not closed"),
        ("foo.bar", "unknown variable `foo`: use `input`, `nodes`, `run` or `item`"),
        ("[1].map(x, y)", "unknown variable `y`"),
        ("[1].map(x, x) == x", "unknown variable `x`"),
        ("foo(1)", "unknown function `foo`"),
        ("input.foo()", "unknown method `foo`"),
        ("[1].reduce(a, b, 0, a + b)", "unknown method `reduce`"),
        ("size()", "wrong number of arguments for `size`"),
        ("size(1)", "`size` does not take (int)"),
        ("has(input)", "`has` takes one field selection"),
        ("[1].map(1, 2)", "`map` takes a variable and an expression"),
        ("[1].map(x, x, x, x)", "`map` takes a variable and an expression"),
        ("[1].filter(x, true, x)", "`filter` takes a variable and an expression"),
        ("input{a: 1}", "messages are not supported"),
        ('b"x"', "bytes at column 1"),
        ("1u", "`1u`: JSON has no unsigned ints"),
        ("9223372036854775808", "int overflow"),
        ("9223372036854775807 + 1", "int overflow"),
        ("-9223372036854775808 / -1", "int overflow"),
        ("- (-9223372036854775808)", "int overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("5 % 1.5", "cannot compute int % double"),
        ("true + 1", "cannot compute bool + int"),
        ('-"a"', "cannot negate string"),
        ("!1", "`!` needs bools, not int"),
        ("1 && true", "`&&` needs bools, not int"),
        ("true && 1", "`&&` needs bools, not int"),
        ("1 ? 2 : 3", "`?` needs a bool, not int"),
        ("[1].filter(x, x)", "the condition for `x` must be a bool, not int"),
        ("[0, 0].exists(x, 1 / x == 1)", "division by zero"),
        ("(1).map(x, x)", "a macro needs a list or a map, not int"),
        ('1 < "a"', "cannot compare int with string"),
        ("true < 1", "cannot compare bool with int"),
        ('"a" in "abc"', "`in` needs a list or a map, not string"),
        ("[1][-1]", "index `-1` is outside the list of 1"),
        ("[1][true]", "cannot index list with bool"),
        ("{1: 2}[true]", "no such key (bool)"),
        ('"abc"[0]', "cannot index string with int"),
        ("input.missing", "`input` has no field `missing`"),
        ("input.count.x", "`input.count` is int and has no field `x`"),
        ("nodes.skipped.output", "`nodes` has no field `skipped`"),
        ("input.items[0].zz", "no such field `zz`"),
        ("[1][0].zz", "int has no field `zz`"),
        ("item", "the variable `item` is not available here"),
        ('{"a": 1, "a": 2}', "the key `a` is repeated"),
        ("{true: 1}", "bool cannot be a key"),
        ("{1: 1}", "the keys of a resulting object must be strings"),
        ("int", "the type `int` is not a JSON value"),
        ("1.0 / 0.0", "the result `inf` is not a JSON number"),
        ("[0.0 / 0.0]", "the result `nan` is not a JSON number"),
        ('int("1.5")', "`1.5` is not a valid int"),
        ("int(1e19)", "int overflow"),
        ('int(double("NaN"))', "`nan` is not a valid int"),
        ('double("1_0")', "`1_0` is not a valid double"),
        ('bool("yes")', "`yes` is not a valid bool"),
        ('timestamp("2024-02-30T00:00:00Z")', "is not a valid timestamp"),
        ("timestamp(9223372036854775807)", "is not a valid timestamp"),
        ('timestamp("2024-01-01")', "is not a valid timestamp"),
        ('duration("1 hour")', "`1 hour` is not a valid duration"),
        ('timestamp("9999-12-31T23:59:59Z") + duration("1s")', "the time is out of range"),
        ('timestamp(0).getHours("localtime")', "`localtime` is not a valid time zone"),
        ('timestamp(0).getHours("right/UTC")', "`right/UTC` is not a valid time zone"),
        ('timestamp(0).getHours("+25:00")', "`+25:00` is not a valid time zone"),
        ('"a".matches("(")', "`(` is not a valid RE2 pattern"),
        (r'"a".matches("(?=a)")', "is not a valid RE2 pattern"),
        (r'"\q"', r"unknown escape `\q`"),
        (r'"\U00110000"', "unknown escape"),
        (r'"\ud800"', "a character that is not allowed in JSON"),
        (r'"\x00"', "a character that is not allowed in JSON"),
    ],
)
def test_refusals(source: str, message: str) -> None:
    """A fault raises ExpressionError with a message that gives the fault and its position."""
    assert message in refusal(source)


def test_references() -> None:
    """References are the node ids read by a literal name, as field or index; a macro variable is not one."""
    source = 'nodes.a.output > 1 || has(nodes.b.output) || nodes["c-d"] == nodes[input.x] && [nodes.e] == []'
    assert compile_expression(source).references == {"a", "b", "c-d", "e"}
    assert compile_expression("[input].map(nodes, nodes.a)").references == frozenset()


def test_compiled_once() -> None:
    """The same source gives the same object; another source is unequal."""
    assert compile_expression("input.tier") is compile_expression("input.tier")
    assert compile_expression("input.tier") != compile_expression("input.count")


def test_values_pass_unchanged() -> None:
    """A plain path returns the same object, whatever numbers it holds."""
    huge = {"n": 10**30, "deep": [[]]}
    assert compile_expression("input").evaluate({"input": huge}) is huge


def test_booleans_count_only_as_booleans() -> None:
    """A condition must be a boolean: a number, string or list is an error."""
    for other in (1, 1.0, "true", [True], {"a": 1}):
        with pytest.raises(ExpressionError):
            compile_expression("input ? 1 : 2").evaluate({"input": other})


def test_source_length() -> None:
    """A source of 2,000 characters compiles, a longer one does not."""
    assert value("1" + " " * (MAX_SOURCE - 1)) == 1
    assert "at most 2000 characters" in refusal("1" + " " * MAX_SOURCE)


def test_compiling_does_not_change_the_recursion_limit() -> None:
    """The environment of cel-python would raise it."""
    before = sys.getrecursionlimit()
    compile_expression("1 + 1 + 1")
    assert sys.getrecursionlimit() == before


def test_heavy_libraries_are_imported_late() -> None:
    """Importing these modules does not import the parser or the validator: the first source does."""
    modules = "wfcore.domain.expressions.expression, wfcore.domain.expressions.templates, wfcore.domain.json.schema"
    heavy = "{'celpy', 'jsonschema_rs', 're2'}"
    program = f"import sys, {modules}; print({heavy} & {{*sys.modules}})"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "set()\n"
