"""Text, canonical form and instants of JSON values."""

import hashlib
import json
import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Required, TypedDict

import pytest
from msgspec import Meta

from wfcore.domain.json.codec import (
    VISIBLE,
    JsonObject,
    NonEmpty,
    Positive,
    canonical,
    check,
    closed,
    component_name,
    dumps,
    fingerprint,
    from_ms,
    iso_ms,
    page_of,
    parse_iso,
    read,
    schema_ref,
    schemas_of,
    to_ms,
)
from wfcore.domain.json.parsing import MAX_ISSUES
from wfcore.domain.kernel.errors import Invalid, Malformed

UNKNOWN = (
    "is not a known key: use `age`, `code`, `friends`, `kennel`, `kind`, `legs`, `name`, `ok`, `owner`, `tags`, "
    "`title`, `weight`"
)


class Text(str):
    """A text that encoders accept, but for the one that finds numbers that are not finite."""

    __slots__ = ()


class TestText:
    def test_text_is_compact_and_keeps_order(self) -> None:
        """Keys keep their order, characters are not escaped, and there are no spaces."""
        assert dumps({"b": [1, 2.5, None, True], "a": "é\n"}) == '{"b":[1,2.5,null,true],"a":"é\\n"}'

    @pytest.mark.parametrize(
        "value",
        [
            math.nan,
            [math.inf],
            {"a": (None, -math.inf)},
            {"a": Text("null"), "b": math.nan},
            {1: 2},
            {"a": object()},
            "\ud800",
            2**70,
            datetime(2026, 1, 1, tzinfo=UTC),
        ],
    )
    def test_a_value_outside_json_is_an_error(self, value: Any) -> None:
        """No value is changed silently: NaN to null, a number to a key, an object to its text."""
        with pytest.raises(ValueError, match="not a JSON value"):
            dumps(value)
        with pytest.raises(ValueError, match="not a JSON value"):
            canonical(value)

    def test_null_is_accepted(self) -> None:
        """Null and strings with `null` pass the search for numbers that are not finite."""
        assert dumps({"null": [None, "null", 1.5]}) == '{"null":[null,"null",1.5]}'
        assert json.loads(dumps([None, 1e308, -1e308, Text("a")])) == [None, 1e308, -1e308, "a"]


class TestCanonicalForm:
    def test_keys_are_sorted_and_spaces_left_out(self) -> None:
        """Objects that differ in the order of keys have one canonical form."""
        assert canonical({"b": {"d": 1, "c": 2}, "a": []}) == b'{"a":[],"b":{"c":2,"d":1}}'

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1.0, b"1"),
            (-0.0, b"0"),
            (1e3, b"1000"),
            (1e16, b"10000000000000000"),
            (float(2**53), b"9007199254740992"),
            (2**53 + 1, b"9007199254740993"),
            (0.1, b"0.1"),
            (1.5, b"1.5"),
            ("1.0", b'"1.0"'),
        ],
    )
    def test_numbers_have_one_text(self, value: Any, text: bytes) -> None:
        """A whole float is written as the equal integer; integers keep all digits."""
        assert canonical({"a": [value]}) == b'{"a":[' + text + b"]}"

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (True, 1),
            (False, 0),
            (None, 0),
            ("1", 1),
            ([], {}),
            ({"a": None}, {}),
            ([1, 2], [2, 1]),
            (2**53, 2**53 + 1),
        ],
    )
    def test_different_values_stay_different(self, a: Any, b: Any) -> None:
        """True is not 1, null is not absence, arrays have an order, integers above 2**53 differ."""
        assert canonical({"v": a}) != canonical({"v": b})
        assert fingerprint({"v": a}) != fingerprint({"v": b})

    def test_equal_values_are_equal(self) -> None:
        """The order of keys and the notation of a number make no difference."""
        assert canonical({"a": 1, "b": [2.0]}) == canonical({"b": [2], "a": 1.0})

    def test_the_fingerprint_is_sha_256_of_the_canonical_form(self) -> None:
        """Clients can compute the digest that they get."""
        assert fingerprint({"b": 1, "a": 2.0}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


class TestInstants:
    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_767_323_045_678, "2026-01-02T03:04:05.678Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ],
    )
    def test_instants_are_written_with_milliseconds_and_z(self, ms: int, text: str) -> None:
        """Text and number denote the same instant, from the year 1 to the year 9999."""
        assert iso_ms(ms) == text
        assert parse_iso(text) == ms

    @pytest.mark.parametrize(
        ("text", "same"),
        [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
            ("2026-01-02T03:04:05.6789999Z", "2026-01-02T03:04:05.678Z"),
            ("2026-01-02T05:34:05.1+02:30", "2026-01-02T03:04:05.100Z"),
            ("2026-01-01T19:04:05-08:00", "2026-01-02T03:04:05.000Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
        ],
    )
    def test_offsets_and_fractions_are_read(self, text: str, same: str) -> None:
        """Any RFC 3339 offset is parsed; finer fractions are rounded down to the millisecond."""
        assert iso_ms(parse_iso(text)) == same

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05Z\n",
            "2026-01-02T03:04:05,5Z",
            "2026-13-02T03:04:05Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+01:00:30",
            "2026-W01-2T03:04:05Z",
            "0000-01-01T00:00:00Z",
            "\uff12026-01-02T03:04:05Z",
        ],
    )
    def test_other_notations_are_errors(self, text: str) -> None:
        """Only a complete RFC 3339 instant in ASCII is accepted."""
        with pytest.raises(ValueError):
            parse_iso(text)

    def test_datetimes(self) -> None:
        """Milliseconds are rounded down; a naive datetime is an error."""
        assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)) == -1
        assert from_ms(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
        with pytest.raises(TypeError):
            to_ms(datetime(2026, 1, 1))  # noqa: DTZ001


class OwnerDto(TypedDict, total=False):
    """Who owns a pet."""

    name: Required[NonEmpty]


class Kennel(TypedDict, total=False):
    size: int


class PetDto(TypedDict, total=False):
    name: Required[Annotated[str, Meta(max_length=3, pattern=r"\S")]]
    age: Positive
    weight: Annotated[float, Meta(gt=0)]
    kind: Literal["cat", "dog"]
    legs: Literal[4]
    code: Annotated[str, Meta(pattern="^[a-z]+$")]
    title: Annotated[str, Meta(pattern=VISIBLE)]
    owner: OwnerDto | None
    friends: list[OwnerDto]
    kennel: Annotated[JsonObject, Meta(extra_json_schema=schema_ref(Kennel))]
    ok: Annotated[bool, Meta(extra_json_schema={"const": True})]
    tags: dict[str, int]


class TestCheck:
    """Checks of a value against a shape."""

    @pytest.mark.parametrize(
        ("data", "path", "rule", "message"),
        [
            ([], "", "type", "must be of type object, not array"),
            ({}, "name", "required", "is required"),
            ({"name": "a", "x": 1}, "x", "unknown", UNKNOWN),
            ({"name": "a", "a/~b": 1}, "a/~b", "unknown", UNKNOWN),
            ({"name": 1}, "name", "type", "must be of type string, not number"),
            ({"name": "abcd"}, "name", "maxLength", "must have at most 3 characters"),
            ({"name": " "}, "name", "pattern", "must not be blank"),
            ({"name": "a", "code": "A"}, "code", "pattern", "must match `^[a-z]+$`"),
            ({"name": "a", "title": "\u200b"}, "title", "pattern",
             "must have a visible character and no control character"),
            ({"name": "a", "age": 0}, "age", "minimum", "must be at least 1"),
            ({"name": "a", "age": 2**60}, "age", "maximum", f"must be at most {2**53 - 1}"),
            ({"name": "a", "age": 1.5}, "age", "integer", "must be a whole number"),
            ({"name": "a", "age": True}, "age", "type", "must be of type number, not boolean"),
            ({"name": "a", "weight": 0}, "weight", "exclusiveMinimum", "must be more than 0"),
            ({"name": "a", "kind": "cow"}, "kind", "enum", "`cow` is not one of `cat`, `dog`"),
            ({"name": "a", "kind": None}, "kind", "type", "must be of type string, not null"),
            ({"name": "a", "legs": 3}, "legs", "enum", "`3` is not `4`"),
            ({"name": "a", "ok": False}, "ok", "const", "`false` is not `true`"),
            ({"name": "a", "owner": {}}, "owner.name", "required", "is required"),
            ({"name": "a", "owner": 1}, "owner", "type", "must be of type object, not number"),
            ({"name": "a", "friends": [{"name": "b"}, {"name": ""}]}, "friends[1].name", "minLength",
             "must not be empty"),
            ({"name": "a", "tags": {"0": "x"}}, "tags.0", "type", "must be of type number, not string"),
        ],
    )  # fmt: skip
    def test_each_rule(self, data: Any, path: str, rule: str, message: str) -> None:
        """A fault is one issue, with the wire path of the value."""
        [issue] = check(PetDto, data)
        assert (issue.path, issue.rule, issue.message) == (path, rule, message)

    @pytest.mark.parametrize(
        "data",
        [
            {"name": "a"},
            {"name": "a", "age": 7.0, "owner": None, "kennel": {"size": "free"}, "ok": True, "legs": 4},
            {"name": "a", "owner": {"name": "b"}, "friends": [], "tags": {"x": 1}},
        ],
    )
    def test_valid_values(self, data: Any) -> None:
        """A valid value has no issues, and `read` returns it unchanged."""
        assert check(PetDto, data) == []
        assert read(PetDto, data) is data

    def test_read_raises(self) -> None:
        """A wrong type makes a request malformed, a broken rule makes it invalid."""
        with pytest.raises(Malformed):
            read(PetDto, {"name": 1})
        with pytest.raises(Invalid) as error:
            read(PetDto, {"name": "long"}, "pet")
        assert error.value.info["errors"][0]["path"] == "pet.name"

    def test_each_fault_is_reported_once(self) -> None:
        """A missing key and an unknown key of one object are two issues."""
        assert {(issue.path, issue.rule) for issue in check(PetDto, {"x": 1})} == {
            ("name", "required"),
            ("x", "unknown"),
        }
        assert len(check(PetDto, {"x": 1})) == 2

    def test_long_values_are_cut(self) -> None:
        """A message shows at most 60 characters of a value."""
        [issue] = check(PetDto, {"name": "a", "kind": "x" * 1_000})
        assert issue.message == f"`{'x' * 60}…` is not one of `cat`, `dog`"

    def test_the_list_is_truncated(self) -> None:
        """After `MAX_ISSUES` issues, one says that there are more."""
        issues = check(PetDto, {"name": "a"} | {f"k{number}": 1 for number in range(2 * MAX_ISSUES)})
        assert len(issues) == MAX_ISSUES + 1


class TestSchemas:
    """JSON Schemas of shapes."""

    def test_names_have_no_suffix(self) -> None:
        """A schema has the name of its class without `Dto`, in references too."""
        schemas = schemas_of([PetDto])
        assert schemas.keys() == {"Pet", "Owner"}
        assert schemas["Pet"]["properties"]["friends"]["items"] == {"$ref": "#/components/schemas/Owner"}
        assert schemas["Owner"]["description"] == "Who owns a pet."
        assert (component_name(PetDto), component_name(Kennel)) == ("Pet", "Kennel")

    def test_a_page(self) -> None:
        """A page has its items and the token of the next page."""
        assert page_of("pets", PetDto) == {
            "type": "object",
            "properties": {
                "pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                "nextPageToken": {"type": ["string", "null"]},
            },
            "required": ["pets", "nextPageToken"],
        }

    def test_closed_schemas(self) -> None:
        """Only schemas with properties forbid unknown keys."""
        assert closed({"properties": {}}) == {"properties": {}, "additionalProperties": False}
        assert closed({"type": "string"}) == {"type": "string"}
