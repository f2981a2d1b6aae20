"""Validation by JSON Schema: every issue with its wire path and keyword, offline, in bounded time."""

import time
from functools import reduce
from typing import Any

import pytest
from waiting import cpu_limit

from wfcore.domain.json.schema import MAX_ISSUES, MAX_SCHEMA, compile_schema, schema_issues
from wfcore.domain.kernel.errors import Invalid, Issue

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "size": {"enum": ["s", "m"]},
        "items": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
    "additionalProperties": False,
}


def findings(schema: Any, value: Any) -> list[tuple[str, str]]:
    return [(issue.path, issue.rule) for issue in compile_schema(schema).check(value, "input")]


def test_all_findings_with_paths() -> None:
    """Every error is an issue; the path of a missing or unknown property includes it; the rule is the keyword."""
    value = {"age": -1.5, "size": "l", "items": [{"name": 1}, {}], "extra": 1, "more": 2}
    assert sorted(findings(PERSON, value)) == [
        ("input.age", "minimum"),
        ("input.age", "type"),
        ("input.extra", "additionalProperties"),
        ("input.items[1].name", "required"),
        ("input.more", "additionalProperties"),
        ("input.name", "required"),
        ("input.size", "enum"),
    ]
    assert findings(PERSON, {"name": "Ann", "age": 3}) == []


@pytest.mark.parametrize(
    ("schema", "value", "rule"),
    [
        ({"type": ["string", "null"]}, 1, "type"),
        ({"const": 1}, True, "const"),
        ({"enum": [1]}, True, "enum"),
        ({"maximum": 1}, 2, "maximum"),
        ({"exclusiveMinimum": 1}, 1, "exclusiveMinimum"),
        ({"multipleOf": 2}, 3, "multipleOf"),
        ({"maxLength": 1}, "ab", "maxLength"),
        ({"pattern": "^a$"}, "b", "pattern"),
        ({"format": "email"}, "nobody", "format"),
        ({"format": "date-time"}, "today", "format"),
        ({"minItems": 1}, [], "minItems"),
        ({"uniqueItems": True}, [1, 1.0], "uniqueItems"),
        ({"contains": {"const": 1}}, [2], "contains"),
        ({"minProperties": 1}, {}, "minProperties"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "anyOf"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 1, "oneOf"),
        ({"not": {"type": "string"}}, "a", "not"),
        ({"if": {"minimum": 5}, "then": {"maximum": 9}}, 10, "maximum"),
        ({"unevaluatedProperties": False}, {"a": 1}, "unevaluatedProperties"),
        (False, 1, "falseSchema"),
    ],
)
def test_rules_are_keywords(schema: Any, value: Any, rule: str) -> None:
    """The rule of an issue is the failed keyword, and its path is that of the value."""
    assert findings(schema, value) == [("input", rule)]


def test_form_of_messages() -> None:
    """Messages are in lower case, without a full stop, short, and show values in backticks."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"maxLength": 3}}, "required": ["c"]}
    messages = [issue.message for issue in compile_schema(schema).check({"a": 1, "b": "x" * 5000}, "")]
    assert {"must be string", "`c` is missing"} <= set(messages)
    assert all(len(message) <= 210 and not message[0].isupper() for message in messages)


def test_at_most_a_hundred() -> None:
    """A value with a thousand errors gives a hundred issues."""
    assert len(findings({"items": {"type": "string"}}, list(range(1000)))) == MAX_ISSUES


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (5, "data.inputSchema"),
        ([], "data.inputSchema"),
        (None, "data.inputSchema"),
        ({"type": "strin"}, "data.inputSchema.type"),
        ({"properties": {"a": {"minimum": "x"}}}, "data.inputSchema.properties.a.minimum"),
        ({"properties": {"a": 1}}, "data.inputSchema.properties.a"),
        ({"allOf": [True, {"required": "a"}]}, "data.inputSchema.allOf[1].required"),
        ({"pattern": "("}, "data.inputSchema.pattern"),
        ({"pattern": "(?=a)b"}, "data.inputSchema.pattern"),
        ({"pattern": "(a{1000}){1000}"}, "data.inputSchema.pattern"),
        ({"patternProperties": {"(": True}}, "data.inputSchema.patternProperties"),
        ({"$schema": "http://evil.example/schema"}, "data.inputSchema"),
        ({"$schema": 5}, "data.inputSchema.$schema"),
        ({"a": float("nan")}, "data.inputSchema"),
    ],
)
def test_wrong_schemas(schema: Any, path: str) -> None:
    """A wrong schema gives an issue at the path of the fault, with the rule `schema`, and does not compile."""
    issues = schema_issues(schema, "data.inputSchema")
    assert [(issue.path, issue.rule) for issue in issues] == [(path, "schema")]
    with pytest.raises(Invalid):
        compile_schema(schema)


def test_all_faults_of_a_schema() -> None:
    """Several faults of a schema are several issues."""
    assert len(schema_issues({"minimum": "x", "maximum": "y", "properties": 5}, "s")) == 3


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize(
    "reference",
    [
        "http://example.com/s",
        "https://example.com/s#/a",
        "file:///etc/passwd",
        "other.json",
        "urn:x",
        "//host/s",
        "#/$defs/no",
        "#/a/9999999",
        "#/a/x",
        "#nobody",
        "",
        5,
    ],
)
def test_references_never_leave_the_schema(keyword: str, reference: Any) -> None:
    """A reference out of the schema, or to a missing part, is an issue at the reference; nothing is fetched."""
    schema = {"properties": {"x": {keyword: reference}}, "a": []}
    assert [issue.path for issue in schema_issues(schema, "s")] == [f"s.properties.x.{keyword}"]


def test_references_inside_the_schema() -> None:
    """Pointers (with their escapes), anchors and recursion within the schema work."""
    schema = {
        "$defs": {"a/b~c": {"type": "string"}, "named": {"$anchor": "here", "type": "integer"}},
        "properties": {
            "p": {"$ref": "#/$defs/a~1b~0c"},
            "q": {"$ref": "#here"},
            "r": {"$dynamicRef": "#here"},
            "children": {"items": {"$ref": "#"}},
        },
    }
    value = {"p": 1, "q": "", "r": "", "children": [{"children": [{"q": "x"}]}]}
    assert sorted(findings(schema, value)) == [
        ("input.children[0].children[0].q", "type"),
        ("input.p", "type"),
        ("input.q", "type"),
        ("input.r", "type"),
    ]


def test_embedded_ids_are_refused() -> None:
    """An id inside a schema would change the meaning of its references: only the root schema may have one."""
    assert schema_issues({"$id": "http://x.example/s", "properties": {"a": {"$ref": "#"}}}, "s") == []
    assert [issue.path for issue in schema_issues({"not": {"$id": "http://x.example/s"}}, "s")] == ["s.not.$id"]


def test_properties_named_like_keywords() -> None:
    """The name of a property and the members of a constant are not keywords."""
    schema = {
        "properties": {"$ref": {"type": "string"}, "$id": True},
        "default": {"$ref": "http://x"},
        "const": {},
    }
    assert schema_issues(schema, "s") == []


def test_older_drafts() -> None:
    """`$schema` chooses the draft, and faults of such a schema are found."""
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert findings(draft7, [1, 2]) == [("input[0]", "type")]
    assert schema_issues({**draft7, "type": 5}, "s")


def chain(length: int, keyword: str) -> dict[str, Any]:
    """A schema whose number of paths doubles `length` times."""
    step = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(length)}
    return {"$defs": {**step, f"a{length}": {"type": "string"}}, "$ref": "#/$defs/a0"}


CATASTROPHES = {
    "large": {"description": "x" * MAX_SCHEMA},
    "deep": reduce(lambda inner, _: {"not": inner}, range(200), {}),
    "very deep": reduce(lambda inner, _: {"not": inner}, range(5000), {}),
    "deep definitions": reduce(lambda inner, _: {"$defs": {"a": inner}}, range(200), {}),
    "doubling all": chain(30, "allOf"),
    "doubling any": chain(30, "anyOf"),
    "long chain": {
        "$defs": {**{f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(500)}, "a500": True},
        "$ref": "#/$defs/a0",
    },
    "two paths back": {"properties": {"c": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
    "two paths back by different keywords": {"allOf": [{"properties": {"c": {"$ref": "#"}}}, {"items": {"$ref": "#"}}]},
    "overlapping names": {"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
    "name and pattern": {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
    "contains": {"items": {"$ref": "#"}, "contains": {"$ref": "#"}},
    "mutual": {
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"properties": {"c": {"$ref": "#/$defs/b"}}}]},
                  "b": {"properties": {"c": {"$ref": "#/$defs/a"}}}},
        "$ref": "#/$defs/a",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CATASTROPHES)
def test_catastrophic_schemas_are_refused(name: str) -> None:
    """A schema that may need exponential work is refused before it is used, and quickly."""
    started = time.process_time()
    issues = schema_issues(CATASTROPHES[name], "s")
    assert [issue.rule for issue in issues] == ["schema"]
    assert time.process_time() - started < cpu_limit(1)


def test_values_that_take_too_long_are_refused() -> None:
    """Many paths times many parts is an issue; a value with fewer parts passes the same schema."""
    schema = compile_schema({"items": {"oneOf": [{"const": n} for n in range(1500)]}})
    assert schema.check(list(range(100)), "input") == []
    assert [issue.message[:9] for issue in schema.check(list(range(20_000)), "input")] == ["too large"]


def test_chained_cycles_are_bounded() -> None:
    """Cycles that lead to cycles cost a power of the value's depth: shallow values pass, deep values do not."""
    cycles = {
        f"a{n}": {"properties": {"c": {"$ref": f"#/$defs/a{n}"}}, "allOf": [{"$ref": f"#/$defs/a{n + 1}"}]}
        for n in range(8)
    }
    schema = compile_schema({"$defs": {**cycles, "a8": {"type": "object"}}, "$ref": "#/$defs/a0"})
    started = time.process_time()
    assert schema.check({"c": {"c": {}}}, "input") == []
    assert len(schema.check(reduce(lambda inner, _: {"c": inner}, range(60), {}), "input")) == 1
    assert time.process_time() - started < cpu_limit(1)


def test_many_errors_are_not_collected() -> None:
    """For very many parts only the first error is reported: the validator would collect all of them."""
    assert findings({"items": {"type": "string"}}, list(range(300_000))) == [("input[0]", "type")]


def test_patterns_run_in_linear_time() -> None:
    """A pattern that takes exponential time in other engines is fast on a long text."""
    started = time.process_time()
    assert findings({"pattern": "^(a+)+$"}, "a" * 100_000 + "b") == [("input", "pattern")]
    assert time.process_time() - started < cpu_limit(1)


def test_text_outside_json() -> None:
    """A lone surrogate is an issue, not an encoding error."""
    assert findings({"type": "string"}, "\ud800") == [("input", "schema")]


def test_equality_and_cache() -> None:
    """Schemas are cached by canonical text: key order does not matter, 1 and true are two constants."""
    assert compile_schema({"minimum": 1, "type": "integer"}) is compile_schema({"type": "integer", "minimum": 1})
    schemas = [compile_schema({"const": constant}) for constant in (1, True, "1")]
    assert len({schema.text for schema in schemas}) == 3
    assert [schema.check(True, "") == [] for schema in schemas] == [False, True, False]


def test_later_changes_do_not_matter() -> None:
    """A compiled schema does not change when the caller changes its source object."""
    source: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    schema = compile_schema(source)
    source["properties"]["a"]["type"] = "integer"
    assert schema.check({"a": 1}, "") == [Issue("a", "must be string", "type")]
