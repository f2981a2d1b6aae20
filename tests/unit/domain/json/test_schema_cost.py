"""The cost of a schema: paths through it, cycles, and schemas that are too complex."""

from functools import reduce
from typing import Any

import pytest

from wfcore.domain.json.schema_cost import MAX_CHAIN, MAX_PATHS, SchemaTooComplex, cost

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def chain(length: int, keyword: str) -> dict[str, Any]:
    """A schema whose number of paths doubles `length` times."""
    step = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(length)}
    return {"$defs": {**step, f"a{length}": {"type": "string"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    ("schema", "paths", "cycles"),
    [
        (True, 1, 0),
        ({"allOf": [{}, {}]}, 3, 0),
        ({"properties": {"a": {}, "b": {"allOf": [{}]}}}, 3, 0),
        ({"items": {"$ref": "#"}}, 2, 1),
        ({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}}, 2, 1),
        (chain(3, "allOf"), 30, 0),
        ({"$defs": {"a": {"$anchor": "x"}}, "definitions": {"b": {}}, "allOf": [{"$ref": "#x"}]}, 3, 0),
        ({"oneOf": [{"not": True}, {"$ref": "#/oneOf/0"}], "$defs": []}, 6, 0),
        (
            {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"items": {"$ref": "#"}}}, "$ref": "#/$defs/a"},
            5,
            1,
        ),
        ({"allOf": [{}], "unevaluatedItems": True}, 9, 0),
        ({"allOf": [{}, {}], "unevaluatedItems": True, "unevaluatedProperties": {}}, 45, 0),
        ({"definitions": {"a": {"allOf": [{}]}, "b": {"$anchor": "/definitions/a"}}, "$ref": "#/definitions/a"}, 3, 0),
    ],
)
def test_cost(schema: Any, paths: int, cycles: int) -> None:
    """Paths count schemas that can apply to one part of a value: properties are disjoint, branches add up."""
    assert (cost(schema).paths, cost(schema).cycles) == (paths, cycles)


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        (chain(11, "allOf"), None, f"more than {MAX_PATHS} paths"),
        (reduce(lambda inner, _: {"not": inner}, range(MAX_CHAIN), {}), None, f"deeper than {MAX_CHAIN} levels"),
        (reduce(lambda inner, _: {"not": inner}, range(200), {}), None, f"deeper than {MAX_CHAIN} levels"),
        ({"anyOf": [{"items": {"$ref": "#"}}] * 1 + [{"items": {"$ref": "#"}}]}, (), "more than one path"),
        (reduce(lambda inner, _: {"if": inner, "unevaluatedItems": {}}, range(9), {}), None, "paths through it"),
        ({"anyOf": [{"pattern": f".{{900}}{n}"} for n in range(3)]}, ("anyOf", 2), "20,000 states"),
        ({"patternProperties": {f".{{900}}{n}": {} for n in range(3)}}, (), "20,000 states"),
        ({"not": {"$id": "x"}}, ("not", "$id"), "only the root schema"),
        ({"$schema": DRAFT_4, "not": {"id": "x"}}, ("not", "id"), "only the root schema"),
        ({"$ref": "other.json"}, ("$ref",), "must stay inside the schema"),
        ({"$ref": 5}, ("$ref",), "must stay inside the schema"),
        ({"$ref": "#none"}, ("$ref",), "unknown anchor `none`"),
        ({"$ref": "#/$defs/a"}, ("$ref",), "`#/$defs/a` is not in the schema"),
        ({"$ref": "#/allOf/1", "allOf": [{}]}, ("$ref",), "is not in the schema"),
    ],
)
def test_schemas_that_are_too_complex(schema: Any, path: tuple[str, ...] | None, message: str) -> None:
    """The error has the path of the fault and says what is allowed."""
    with pytest.raises(SchemaTooComplex, match="schema") as error:
        cost(schema)
    assert message in error.value.message
    assert path is None or error.value.path == path


@pytest.mark.parametrize(
    ("schema", "scans"),
    [
        ({"properties": {"a": {"pattern": "abc"}, "b": {"pattern": "ab"}}}, 7),
        ({"allOf": [{"pattern": "abc"}, {"pattern": "ab"}]}, 13),
        ({"patternProperties": {"abc": {"pattern": "ab"}}}, 13),
        ({"pattern": "^[a-z]{1,2000}$"}, 8192),
        ({"pattern": "("}, 1),
    ],
)
def test_states_of_patterns(schema: Any, scans: int) -> None:
    """Those that one text can need: properties are disjoint, branches add up. RE2 repeats at most 1,000 times: where it
    cannot tell, they are estimated.
    """
    assert cost(schema).scans == scans


def test_an_id_that_is_a_property_is_no_id() -> None:
    """In draft 4, where `id` is also a keyword."""
    assert cost({"$schema": DRAFT_4, "properties": {"id": {"type": "string"}}}).paths == 2
