"""Hostile expressions, which try to reach Python, to loop or to fill the memory, end soon with a clear error."""

import re
import time

import pytest
from waiting import cpu_limit

from wfcore.domain.expressions.expression import MAX_SOURCE, ExpressionError, compile_expression

SCOPE = {
    "input": {"tier": "gold", "tags": ["a", "b"], "long": "a" * 1_000_000, "longer": ["a"] * 100_000},
    "nodes": {},
    "run": {},
}


def repeated(start: str, step: str, end: str = "") -> str:
    return (start + step * MAX_SOURCE)[: MAX_SOURCE - len(end)] + end


TEN = "[1,1,1,1,1,1,1,1,1,1]"
HOSTILE = {
    # internals of Python
    "dunder field": "input.__class__",
    "dunder method": "input.__class__()",
    "dunder index": 'input["__class__"]',
    "subclasses": '"".__class__.__mro__[1].__subclasses__()',
    "dunder root": "__import__",
    "import call": '__import__("os").system("id")',
    "builtins": "__builtins__",
    "eval": 'eval("1")',
    "exec": 'exec("1")',
    "open": 'open("/etc/passwd")',
    "getattr": 'getattr(input, "x")',
    "globals": "globals()",
    "lambda": "lambda x: x",
    "format": '"{0.__class__}".format(input)',
    "percent format": '"%s" % input',
    "python method": "input.keys()",
    "python str method": "input.tier.upper()",
    "python list method": "input.tags.append(1)",
    "type call": "type(1)(2)",
    "type member": "int.__add__",
    "type of type": "type(type(type))",
    "macro variable dunder": "[1].map(__class__, __class__.__base__)",
    "has dunder": "has(input.__dict__)",
    "key dunder": '{"__class__": 1}.__class__',
    "message": "google.protobuf.Int32Value{value: 1}",
    "semicolon": "1; import os",
    "fstring": 'f"{1}"',
    "walrus": "(x := 1)",
    "star": "[*input.tags]",
    "backtick": "`id`",
    "budget variable": "budget",
    # deep nesting
    "parentheses": "(" * 999 + "1" + ")" * 999,
    "open parentheses": "(" * 2000,
    "not": repeated("", "!", "true"),
    "minus": repeated("", "-", "x"),
    "minus number": repeated("", "-", "1"),
    "lists": "[" * 1000 + "]" * 1000,
    "open lists": "[" * 2000,
    "maps": "{1:" * 400 + "1" + "}" * 400,
    "ternary": repeated("true", "?1:true", "?1:2"),
    "ternary right": repeated("", "true?", "1"),
    "fields": repeated("input", ".a"),
    "indices": repeated("input", "[0]"),
    "index nest": "input[" * 280 + "0" + "]" * 280,
    "calls": "size(" * 300 + "1" + ")" * 300,
    "methods": repeated("input", ".a()"),
    "sum": repeated("1", "+1"),
    "or": repeated("true", "||true"),
    "or false": repeated("false", "||1==2"),
    "comparison": repeated("1", "<1"),
    "nested map": "[1].map(x," * 180 + "1" + ")" * 180,
    "nested has": "has(" * 400,
    "strings": repeated("", '"a"+', '"a"'),
    # bombs
    "map of maps": f"{TEN}.map(a,{TEN}.map(b,{TEN}.map(c,{TEN}.map(d,{TEN}.map(e,{TEN}.map(f,{TEN}))))))",
    "map of big": "input.longer.map(a, input.longer.map(b, input.longer.map(c, 1)))",
    "all of big": "input.longer.all(a, input.longer.all(b, a == b))",
    "filter of big": "input.longer.filter(a, input.longer.filter(b, true) == [])",
    "exists one": "input.longer.exists_one(a, input.longer.exists_one(b, true))",
    "doubling list": repeated("[1]", ".map(x,[x,x])"),
    "doubling and comparing": "[1]" + ".map(x,[x,x])" * 60 + "==[2]" + ".map(x,[x,x])" * 60,
    "doubling and searching": "[1]" + ".map(x,[x,x])" * 60 + " in [[2]" + ".map(x,[x,x])" * 60 + "]",
    "doubling text": '["a"]' + ".map(x,x+x)" * 150,
    "doubling joined lists": "[[1]]" + ".map(x,x+x)" * 150,
    "long text sum": repeated("input.long", "+input.long"),
    "long text in loop": "input.longer.map(a, input.long + a)",
    "long list sum": repeated("input.longer", "+input.longer"),
    "long copies": "[" + "input.long," * 150 + "input.long]",
    "scan in loop": 'input.longer.exists(a, input.long.contains("b"))',
    "equality in loop": 'input.longer.exists(a, input.long != input.long + "")',
    "order in loop": "input.longer.exists(a, input.long < input.long)",
    "list equality in loop": "input.longer.exists(a, input.longer != input.longer)",
    "membership in loop": 'input.longer.exists(a, "b" in input.longer)',
    "number of digits": "1" * 2000,
    "float of digits": "1" * 1999 + ".",
    "exponent": "1e999999999",
    "tower": repeated("9", "*9"),
    "int of long": "int(input.long)",
    "double of long": "double(input.long)",
    "duration of long": "duration(input.long)",
    "duration backtracking": 'duration("' + "a" * 1900 + '!")',
    "timestamp of long": "timestamp(input.long)",
    # patterns and lexers
    "regex nested": 'input.long.matches("(a+)+$b")',
    "regex alternatives": 'input.long.matches("^(a|a)*b$")',
    "regex repeat": '"a".matches("((a{100}){100}){100}")',
    "regex long repeat": 'input.long.matches("(a?){900}a{900}b")',
    "regex class": 'input.long.matches("' + "(.*)" * 400 + 'b")',
    "regex data": "input.long.matches(input.long)",
    "regex of many states": 'input.long.matches("(?:[ab]*a[ab]{900}0)")',
    "regex in loop": 'input.longer.exists(a, input.long.matches("a*b"))',
    "regex compile in loop": 'input.longer.exists(a, a.matches(a + "{900}" + string(size(a))))',
    "open escapes": '"' + r"\n" * 990,
    "open octals": '"' + r"\101" * 490,
    "open triple": '"""' * 660 + '"',
    "quotes": "'\"" * 1000,
    "raw open": 'r"' + "\\" * 1990,
    "comment": "//" * 1000,
    "controls": "".join(chr(n) for n in range(1, 32)),
    "nul": "input\0",
    "unicode digits": "\u0661 + \u0662",
    "unicode name": "input.ïd",
    "surrogate": "'\ud800'",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    """Each expression ends soon, with a plain JSON value or a clear ExpressionError."""
    source, started = HOSTILE[name], time.process_time()
    outcome = outcome_of(source)
    assert time.process_time() - started < cpu_limit(10)
    if isinstance(outcome, ExpressionError):
        assert re.fullmatch(r".{5,300}", outcome.message, re.DOTALL)
    else:
        assert_plain(outcome)


def test_a_pattern_of_many_states_costs_its_states() -> None:
    """A search can visit all of them for each character, however short the pattern is."""
    text, pattern = "ab" * 50_000, "(?:[ab]*a[ab]{900}0)"
    with pytest.raises(ExpressionError, match="too many steps"):
        compile_expression(f"input.text.matches('{pattern}')").evaluate({"input": {"text": text}})
    assert compile_expression("input.text.matches('b$')").evaluate({"input": {"text": text}}) is True


def outcome_of(source: str) -> object:
    try:
        return compile_expression(source).evaluate(SCOPE)
    except ExpressionError as error:
        return error


def assert_plain(found: object) -> None:
    assert type(found) in {bool, int, float, str, list, dict, type(None)}
    for child in found.values() if isinstance(found, dict) else found[:100] if isinstance(found, list) else ():
        assert_plain(child)


def test_hostile_corpus_is_large() -> None:
    """The corpus has at least sixty cases, none longer than `MAX_SOURCE`."""
    assert len(HOSTILE) >= 60
    assert max(map(len, HOSTILE.values())) <= MAX_SOURCE


def test_no_operator_catches_an_exhausted_budget() -> None:
    """An exhausted budget ends the evaluation, also inside `||`, `has` and `exists`."""
    bomb = "input.longer.exists(a, input.longer.exists(b, a != b))"
    for source in (f"{bomb} || true", f"[1].exists(x, {bomb} || x == 1) || true", f"has({{'a': {bomb}}}.a)"):
        with pytest.raises(ExpressionError, match="the expression takes too many steps"):
            compile_expression(source).evaluate(SCOPE)
