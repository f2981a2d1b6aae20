"""Laws of request parsing, of the canonical form and of checks, over arbitrary bytes and values."""

import json
import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.api import resources as shapes
from wfcore.api import runs as run_shapes
from wfcore.domain.json.codec import (
    canonical,
    check,
    component_name,
    dumps,
    fingerprint,
    iso_ms,
    parse_iso,
    schemas_of,
)
from wfcore.domain.json.parsing import MAX_INTEGER, JsonLimits, parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [":", "::", "a:b", '"', "\\", ",", "[", "{}", "null", "1.0", "12345678901234567890"]
)
INTEGERS = st.integers(-MAX_INTEGER, MAX_INTEGER)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES: st.SearchStrategy[JSON] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)
SHAPES = [
    shape
    for name, shape in {**vars(shapes), **vars(run_shapes)}.items()
    if name.startswith(("Create", "Patch", "Resume", "Toggle", "Validate", "Supervision"))
    and not name.endswith("Fields")
]


def keys_of(shape: type) -> set[str]:
    """The keys of a shape on the wire."""
    return {*schemas_of([shape])[component_name(shape)]["properties"]}


def repeats_keys(body: bytes) -> bool:
    repeated = []
    json.loads(body, object_pairs_hook=lambda pairs: repeated.append(len(dict(pairs)) < len(pairs)))
    return any(repeated)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """JSON text with a few bytes replaced, inserted or removed."""
    body = bytearray(json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans())).encode())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        put = draw(st.sampled_from([b"", b'"', b":", b",", b"[", b"}", b"\\", b"0", b"\\u0000", b"NaN", b'"a":1,']))
        body[at : at + draw(st.integers(0, 2))] = put
    return bytes(body)


@given(st.binary(max_size=40) | mutated())
def test_parsing_gives_a_tree_or_malformed(body: bytes) -> None:
    """For any bytes: Malformed, or the tree of the standard parser, without losing a key."""
    try:
        tree = parse_json(body)
    except Malformed:
        return
    assert canonical(tree) == canonical(json.loads(body.decode("utf-8")))
    assert not repeats_keys(body)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_every_json_value_is_accepted(value: JSON, ascii_only: bool, indent: int | None) -> None:
    """A value in the accepted ranges is accepted in any notation, and parsed unchanged."""
    tree = parse_json(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode())
    assert tree == value
    assert json.dumps(tree) == json.dumps(value)


@given(VALUES)
def test_values_are_counted_exactly(value: JSON) -> None:
    """The bound on values agrees with a plain count of the tree."""

    def size(tree: JSON) -> int:
        inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
        return 1 + sum(map(size, inner))

    body, count = json.dumps(value).encode(), size(value)
    parse_json(body, JsonLimits(max_values=count))
    if count > 1:
        with pytest.raises(Malformed, match="more than"):
            parse_json(body, JsonLimits(max_values=count - 1))


@given(st.lists(st.tuples(TEXTS, SCALARS), min_size=1, max_size=5), st.data())
def test_a_repeated_key_never_passes(members: list[tuple[str, JSON]], data: st.DataObject) -> None:
    """A repeated key of one object is refused, plain or with escapes."""
    again = data.draw(st.sampled_from(members))
    escaped = '"' + "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else char for char in again[0]) + '"'
    texts = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in members]
    body = "[{" + ",".join([*texts, f"{escaped}:{json.dumps(again[1])}"]) + "}]"
    with pytest.raises(Malformed, match="repeated key"):
        parse_json(body.encode())


def reordered(value: JSON) -> JSON:
    """The same JSON value: keys in reverse order, small integers as floats."""
    if isinstance(value, dict):
        return {key: reordered(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return [reordered(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
        return float(value)
    return value


@given(VALUES)
def test_equal_values_have_one_canonical_form(value: JSON) -> None:
    """The order of keys and the notation of numbers do not change canonical form and fingerprint."""
    assert canonical(reordered(value)) == canonical(value)
    assert fingerprint(reordered(value)) == fingerprint(value)


@given(VALUES)
def test_the_canonical_form_is_the_value(value: JSON) -> None:
    """The canonical form parses to the value, and is its own canonical form."""
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text


def tagged(value: JSON) -> JSON:
    """Python equality of tagged values is equality of JSON values: booleans do not equal numbers."""
    match value:
        case bool() | None:
            return ("constant", value)
        case list():
            return [tagged(item) for item in value]
        case dict():
            return {key: tagged(item) for key, item in value.items()}
    return value


@given(VALUES, VALUES)
def test_json_equality_is_equality_of_values(a: JSON, b: JSON) -> None:
    """Canonical forms are equal exactly if the values are equal."""
    assert (canonical(a) == canonical(b)) == (tagged(a) == tagged(b))


@given(VALUES)
def test_text_keeps_everything(value: JSON) -> None:
    """Text parses to the same value with the same order of keys and the same types of numbers."""
    assert json.dumps(json.loads(dumps(value))) == json.dumps(value)


@given(st.sampled_from([0x7FF, 0xFFF]), st.integers(0, 2**52 - 1), VALUES, VALUES)
def test_no_value_hides_a_number_that_is_not_finite(exponent: int, fraction: int, before: JSON, after: JSON) -> None:
    """The infinities and every NaN, whatever bits it has, beside any values."""
    (number,) = struct.unpack(">d", (exponent << 52 | fraction).to_bytes(8, "big"))
    with pytest.raises(ValueError, match="not finite"):
        dumps([before, {"a": [number]}, after])


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_instants_round_trip(ms: int) -> None:
    """Every millisecond of the years 1 to 9999 round-trips, and texts sort like instants."""
    assert parse_iso(iso_ms(ms)) == ms
    assert iso_ms(ms) == iso_ms(parse_iso(iso_ms(ms)))
    assert ms == 253_402_300_799_999 or iso_ms(ms) < iso_ms(ms + 1)


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_agree_with_the_library(instant: datetime) -> None:
    """A text of the standard library is the same instant, truncated to milliseconds."""
    expected = instant.replace(microsecond=instant.microsecond // 1000 * 1000)
    assert iso_ms(parse_iso(instant.isoformat())).removesuffix("Z") == expected.replace(tzinfo=None).isoformat(
        timespec="milliseconds"
    )


@st.composite
def near_bodies(draw: st.DrawFn) -> tuple[type, dict[str, Any]]:
    """A shape, and an object with its keys and any values."""
    shape = draw(st.sampled_from(SHAPES))
    keys = st.sampled_from(sorted(keys_of(shape))) | TEXTS
    return shape, draw(st.dictionaries(keys, VALUES, max_size=5))


@given(near_bodies())
def test_any_json_can_be_checked(near: tuple[type, dict[str, Any]]) -> None:
    """A check never raises, never changes the tree, and gives at most one issue for a path and rule."""
    shape, data = near
    before = dumps(data)
    issues = check(shape, data)
    assert dumps(data) == before
    assert len({(issue.path, issue.rule) for issue in issues}) == len(issues)
    unknown = {issue.path for issue in issues if issue.rule == "unknown"}
    assert data.keys() - keys_of(shape) <= unknown | {""}


@given(near_bodies())
def test_checks_agree_with_the_document(near: tuple[type, dict[str, Any]]) -> None:
    """A check accepts what the published schema describes, except for parts that domain modules check."""
    import jsonschema_rs

    shape, data = near
    loose = {
        name: {"type": "object"} for name in ("Trigger", "WorkflowStructure", "AgentSelection", "AccessConfigBody")
    }
    schema = {
        "$ref": f"#/components/schemas/{shape.__name__}",
        "components": {"schemas": shapes.schema_components(*SHAPES) | loose},
    }
    assert jsonschema_rs.is_valid(schema, data) == (check(shape, data) == [])
