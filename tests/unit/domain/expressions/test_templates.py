"""Templates: rendering of strings with `{{ expression }}`, and its bounds."""

import json
import re
import time
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import cpu_limit

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.expressions.templates import MAX_SOURCES, compile_template, template_issues
from wfcore.domain.kernel.errors import Issue

SCOPE: dict[str, Any] = {
    "input": {
        "name": "Ann",
        "n": 3,
        "half": 0.5,
        "none": None,
        "yes": True,
        "list": [1, {"a": "é"}],
        "big": "x" * 1000,
    },
    "nodes": {"a": {"output": {"id": 7}}},
    "run": {"id": "r1"},
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ input.n }}", 3),
        ("{{input.n}}", 3),
        ("{{\n input.list \t}}", [1, {"a": "é"}]),
        ("{{ input.none }}", None),
        ("{{ input.yes }}", True),
        (" {{ input.n }}", " 3"),
        ("{{ input.n }}{{ input.half }}", "30.5"),
        ("Dear {{ input.name }}, {{ input.none }}{{ input.yes }}", "Dear Ann, true"),
        ("got {{ input.list }}", 'got [1,{"a":"é"}]'),
        ('{{ {"a": {"b": 1}} }}', {"a": {"b": 1}}),
        ('{{ {"a": {"b": 1}}}}', {"a": {"b": 1}}),
        ('{{{"a":{"b":1}}}}', {"a": {"b": 1}}),
        ('{{ "}}" }}', "}}"),
        ("{{ '{{' + r'}}\\' }}!", "{{}}\\!"),
        ('{{ """a"}}"b""" }}', 'a"}}"b'),
        ('{{ "\\"}}" }}', '"}}'),
        ("{{ 1 // }} }}\n }}", 1),
        ("a }} b", "a }} b"),
        ("{ {input.n} }", "{ {input.n} }"),
        ("{{{{ input.n }}", None),
        (["{{ input.n }}", {"k": "{{ input.name }}", "c": 1}], [3, {"k": "Ann", "c": 1}]),
        ({"{{ input.n }}": "{{ input.n }}"}, {"{{ input.n }}": 3}),
    ],
)
def test_rendering(template: Any, expected: Any) -> None:
    """A string that is one expression becomes its value, any other string becomes text, keys stay unchanged."""
    if expected is None and template.startswith("{{{{"):
        with pytest.raises(ExpressionError):
            compile_template(template)
        return
    found = compile_template(template).render(SCOPE)
    assert (found, type(found)) == (expected, type(expected))


def test_constants_are_not_copied() -> None:
    """A template without expressions is constant and renders to the same object."""
    value = {"a": ["plain", 1, None, {"b": "}} {"}]}
    template = compile_template(value)
    assert template.constant
    assert template.render(SCOPE) is value
    assert not compile_template(["{{ 1 }}"]).constant


def test_parts_without_expressions_are_not_copied() -> None:
    """Inside a template with expressions, the other parts are the same objects."""
    part = {"deep": [1, 2, 3]}
    assert compile_template({"x": "{{ 1 }}", "y": part}).render(SCOPE)["y"] is part


def test_rendered_values_are_data() -> None:
    """The value of an expression is never parsed as a template."""
    scope = {**SCOPE, "input": {"evil": "{{ run.id }}"}}
    assert compile_template("{{ input.evil }}").render(scope) == "{{ run.id }}"
    assert compile_template("a {{ input.evil }}").render(scope) == "a {{ run.id }}"
    assert compile_template("{{ '{' + '{ run.id }}' }}").render(scope) == "{{ run.id }}"


def test_issues_name_each_string() -> None:
    """Every wrong string is an issue with its wire path and the rule `expression`; valid strings are not."""
    value = {
        "items": [{"text": "{{ 1 + }}", "ok": "{{ 1 }}"}],
        "to": "{{ unknown }}",
        "open": "a {{ 1",
        "n": 5,
    }
    assert template_issues(value, "params") == [
        Issue("params.items[0].text", "syntax error at column 3", "expression"),
        Issue(
            "params.to",
            "unknown variable `unknown`: use `input`, `nodes`, `run` or `item`",
            "expression",
        ),
        Issue("params.open", "`{{` is not closed by `}}`", "expression"),
    ]
    assert template_issues("{{ }}", "message") == [Issue("message", "the expression is empty", "expression")]


@pytest.mark.parametrize("template", ["{{", "{{ 'a }}", "{{ { }}", "x {{ 1 }} {{ 2", "{{ 1 + }}", "{{ b'x' }}"])
def test_wrong_templates_do_not_compile(template: str) -> None:
    """`compile_template` refuses exactly the templates that have issues."""
    assert template_issues(template, "")
    with pytest.raises(ExpressionError):
        compile_template(template)


def test_failing_expression_fails_the_rendering() -> None:
    """A missing field is an error, not an empty text."""
    with pytest.raises(ExpressionError, match="has no field `zz`"):
        compile_template("Hello {{ input.zz }}").render(SCOPE)


@pytest.mark.parametrize("template", ["{{ input.big }}", "a{{ input.big }}", ["{{ [input.big] }}"]])
def test_rendered_size_is_bounded(template: Any) -> None:
    """All expressions of a template together yield at most the limit, as values and as text."""
    assert compile_template([template] * 3).render(SCOPE, limit=4000)
    with pytest.raises(ExpressionError, match="longer than 4000 characters"):
        compile_template([template] * 5).render(SCOPE, limit=4000)


def test_default_limit_is_a_mebibyte() -> None:
    """Without a limit, a rendering ends at 1,048,576 characters."""
    scope = {"input": "x" * (1 << 19)}
    assert len(compile_template("{{ input }}{{ input }}").render(scope)) == 1 << 20
    with pytest.raises(ExpressionError):
        compile_template("{{ input }}{{ input }}{{ 1 }}").render(scope)


def test_deep_values() -> None:
    """A template with 64 levels, the most that request parsing accepts, compiles, renders and is checked."""
    deep = reduce(lambda inner, _: {"a": [inner]}, range(32), "{{ input.n }}")
    expected = reduce(lambda inner, _: {"a": [inner]}, range(32), 3)
    assert compile_template(deep).render(SCOPE) == expected
    assert template_issues(deep, "") == []


def nested(value: Any, levels: int) -> Any:
    return reduce(lambda inner, _: [inner], range(levels), value)


def test_depth_of_rendered_values_is_bounded() -> None:
    """A rendered value has at most 128 levels, which every encoder of a run can write."""
    template = compile_template(nested("{{ nodes.a.output }}", 64))
    assert template.render({"nodes": {"a": {"output": nested(1, 64)}}}) == nested(1, 128)
    with pytest.raises(ExpressionError, match="nested deeper than 128 levels"):
        template.render({"nodes": {"a": {"output": nested(1, 65)}}})


def test_very_deep_values() -> None:
    """Values beyond the stack are an ExpressionError, not a RecursionError."""
    with pytest.raises(ExpressionError, match="the values are nested too deep"):
        compile_template("{{ input }}").render({"input": nested(1, 100_000)})


def test_numbers_of_many_digits() -> None:
    """A number that Python refuses to print is an ExpressionError, not a ValueError."""
    with pytest.raises(ExpressionError, match="too many digits"):
        compile_template("a {{ input }}").render({"input": 10**5000})


def test_long_texts_are_scanned_once() -> None:
    """Texts of many braces and quotes are scanned in linear time: quadratic time would take minutes."""
    assert compile_template("{ '\" " * 200_000).constant
    assert template_issues("{{ 1 }}" + "{ '\"" * 200_000 + "{{ 1 }}", "") == []
    assert len(template_issues("{{ '" * 50_000, "")) == 1


@pytest.mark.parametrize("source", ["1", "'" + "a" * 1000 + "'", "1 +"])
def test_the_expressions_of_a_template_have_a_limit(source: str) -> None:
    """All of a value together, valid or not; texts around them do not count."""
    one = f"{{{{{source}}}}}"
    most = MAX_SOURCES // len(one)
    valid = source != "1 +"
    texts = ["x" * MAX_SOURCES + one, *[one] * (most - 2)]
    assert len(template_issues({"a": [texts, one]}, "")) == (0 if valid else most)
    assert [issue.path for issue in template_issues({"a": [texts, one, one]}, "p")][-1] == "p.a[2]"
    with pytest.raises(ExpressionError, match="at most 65,536 characters" if valid else "syntax error"):
        compile_template([one] * (most + 1))


def test_the_end_of_an_expression_is_not_looked_for_without_bound() -> None:
    """Only where an expression can end: a text of megabytes would be read in vain."""
    started, text = time.process_time(), "{{" + "{" * 5_000_000 + "1 }}"
    too_long = "the expressions of a template have at most 65,536 characters"
    assert template_issues(text, "p") == [Issue("p", too_long, "expression")]
    assert time.process_time() - started < cpu_limit(1)
    assert template_issues("{{" + " " * (MAX_SOURCES - 6) + "1 }}", "p") == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("a{}\"' 1+", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
def test_any_value_renders_or_is_refused(value: Any) -> None:
    """There are issues exactly if compiling fails; a rendered value is JSON; without `{{` it is constant."""
    issues = template_issues(value, "")
    if issues:
        with pytest.raises(ExpressionError, match=re.escape(issues[0].message)):
            compile_template(value)
        return
    template = compile_template(value)
    assert template.constant == ("{{" not in str([*strings_of(value)]))
    json.dumps(template.render({"input": 1}))


def strings_of(value: Any) -> Any:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for child in value.values() if isinstance(value, dict) else value:
            yield from strings_of(child)


@given(st.text())
def test_text_around_expressions_is_kept(text: str) -> None:
    """A string value is rendered unchanged, between the unchanged parts of the template."""
    template = compile_template("[{{ input }}]")
    assert template.render({"input": text}) == f"[{text}]"
