"""Forms at the terminal."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.cli.forms import Form, fields_of, question, value_of


class Terminal:
    """A user who types these lines, and what was shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)
        self.shown: list[str] = []

    def ask(self, question: str) -> str:
        self.shown.append(question)
        line = next(self._lines, None)
        if line is None:
            raise EOFError
        return line

    def fill(self, schema: Any) -> Any:
        return Form(schema, self.ask, self.shown.append).read()


def schema(required: Iterable[str] = (), **fields: Any) -> Any:
    return {"type": "object", "required": [*required], "properties": fields, "additionalProperties": False}


@pytest.mark.parametrize(
    ("field", "required", "expected"),
    [
        ({}, False, "f"),
        ({"title": "Sum", "type": "integer", "minimum": 1, "maximum": 9}, True,
         "Sum (whole number; at least 1; at most 9; required)"),
        ({"enum": ["low", "high", 3, True]}, False, "f (one of low, high, 3, y)"),
        ({"type": "boolean", "default": False}, False, "f (y or n; default n)"),
        ({"type": "string", "minLength": 3, "default": "abc"}, False, "f (text; at least 3 characters; default abc)"),
        ({"type": ["string", "null"]}, False, "f"),
    ],
)  # fmt: skip
def test_a_question_says_what_is_allowed(field: Any, required: bool, expected: str) -> None:
    """Type or choices, limits, whether a value is required, and the default."""
    assert question("f", field, required=required) == expected


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("y", {"type": "boolean"}, True), ("No", {"type": "boolean"}, False), ("x", {"type": "boolean"}, "x"),
        ("7", {"type": "string"}, "7"), ("7", {"type": "integer"}, 7), ("7.0", {"type": "integer"}, 7),
        ("7.5", {"type": "integer"}, 7.5), ("1e2", {"type": "number"}, 100.0), ("[1]", {"type": "array"}, [1]),
        ("3", {"enum": [3, "high"]}, 3), ("high", {"enum": [3, "high"]}, "high"), ("y", {"enum": [True]}, True),
        ("low", {"enum": ["high"]}, "low"), ("{", {}, "{"),
    ],
)  # fmt: skip
def test_a_text_means_a_value(text: str, field: Any, value: Any) -> None:
    """By the choices and the type of its field."""
    assert value_of(text, field) == value
    assert type(value_of(text, field)) is type(value)


def test_only_a_wrong_field_comes_again() -> None:
    """At once; a blank line is the default, or leaves an optional field out."""
    user = Terminal("", "x", "7", "", "", "maybe", "y")
    form = schema(["n"], n={"type": "integer", "description": "How many"}, m={"default": 3}, t={"type": "string"},
                  b={"type": "boolean"})  # fmt: skip
    assert user.fill(form) == {"n": 7, "m": 3, "b": True}
    number = "n (whole number; required):"
    assert user.shown[:7] == [
        "How many",
        number,
        "a value is required",
        number,
        "must be integer",
        number,
        "m (default 3):",
    ]
    assert user.shown.count("b (y or n):") == 2


def test_a_rule_between_fields() -> None:
    """Its fields come again, or all of them where it names none; the others keep their values."""
    form = schema(["a"], a={"type": "string"}, b={"type": "string"}, c={"type": "integer"})
    pair = {**form, "dependentSchemas": {"a": {"properties": {"b": {"const": "ok"}}}}}
    user = Terminal("x", "no", "1", "ok")
    assert user.fill(pair) == {"a": "x", "b": "ok", "c": 1}
    assert [line for line in user.shown if line.endswith(":")][3:] == ["b (text):"]
    few = {**form, "maxProperties": 1}
    assert Terminal("x", "y", "", "x", "", "").fill(few) == {"a": "x"}


def test_a_field_that_refers_to_a_definition() -> None:
    """The definitions of the form apply to its fields; a field that refers to elsewhere is checked with all others."""
    form = {**schema(n={"$ref": "#/$defs/small"}), "$defs": {"small": {"maximum": 3}}}
    assert Terminal("4", "3").fill(form) == {"n": 3}
    other = schema(a={"maximum": 3}, b={"$ref": "#/properties/a"})
    assert Terminal("1", "4", "2").fill(other) == {"a": 1, "b": 2}


def test_a_form_without_fields() -> None:
    """One value as JSON; a blank line is an empty object. The end of the lines ends the form."""
    assert Terminal("").fill(True) == {}
    assert Terminal("x", "[1]").fill({"type": "array"}) == [1]
    with pytest.raises(EOFError):
        Terminal().fill(schema(["n"], n={}))
    assert fields_of(True) == fields_of({"properties": 1}) == {}


@given(st.lists(st.sampled_from(["", "y", "n", "7", "x", "high", "-1"]), max_size=12))
def test_what_a_form_returns_is_valid(lines: list[str]) -> None:
    """Whatever the user types."""
    form = schema(["n", "e"], n={"type": "integer", "minimum": 0}, e={"enum": ["high", 7]}, b={"type": "boolean"})
    try:
        data = Terminal(*lines).fill(form)
    except EOFError:
        return
    assert data["n"] >= 0
    assert data["e"] in ("high", 7)
    assert data.get("b") in (None, True, False)
