"""JSON values: text, canonical form, fingerprint, instants, and checks against a shape.

A shape is a TypedDict of `wfcore.api`. Its JSON Schema is the one that a body is checked against and that the
OpenAPI document shows. A check does not convert the value.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import msgspec
import orjson
from msgspec import Meta

from wfcore.domain.json.parsing import faults_of, first_issues, wire_path
from wfcore.domain.json.values import shape_of
from wfcore.domain.kernel.errors import Issue, join_path, refuse, usable
from wfcore.domain.kernel.ids import SLUG_FORM
from wfcore.domain.kernel.json_readers import as_list, as_object, as_text, as_texts
from wfcore.domain.kernel.json_type import JSON

if TYPE_CHECKING:
    from jsonschema_rs import EvaluationErrorEntry, Validator

NonEmpty = Annotated[str, Meta(min_length=1)]
"""The type of a shape's field: a string of at least one character."""

# --- text, canonical form, fingerprint ---


_CONTROL: Final = r"\x00-\x1f\x7f-\x9f"
_INVISIBLE: Final = (
    r"\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0"
)
VISIBLE: Final = f"^([^{_CONTROL}]*[^{_CONTROL}{_INVISIBLE}][^{_CONTROL}]*)?$"
"""The pattern of a name: it has a visible character, and no control characters; the shortest length is a rule apart."""


def dumps(value: JSON) -> str:
    """Compact JSON text that keeps the order of keys. Raises ValueError when `value` is not a JSON value."""
    return _encode(value).decode()


def text_of(value: JSON) -> str:
    """A string unchanged, any other value as compact JSON text."""
    return value if isinstance(value, str) else dumps(value)


def canonical(value: JSON) -> bytes:
    """The same text for all values that are equal as JSON: no spaces, sorted keys, shortest numbers.

    1, 1.0 and 1e0 are one number; true and 1 are two values. As in RFC 8785, except that integers keep all
    their digits, keys are sorted by code point and very large or small numbers may have another form.
    Raises ValueError when `value` is not a JSON value.
    """
    text = _encode(value, orjson.OPT_SORT_KEYS)
    return _encode(_whole(value), orjson.OPT_SORT_KEYS) if _MAYBE_WHOLE_FLOAT.search(text) else text


def fingerprint(value: JSON) -> str:
    """SHA-256 of the canonical form, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def value_issues(value: object) -> list[Issue]:
    """What prevents that a value is the body of a request, under the rule `json`: nearly always nothing."""
    return issues_and_null(value)[0]


def issues_and_null(value: object) -> tuple[list[Issue], bool]:
    """The `value_issues`, and whether there may be a null in the value."""
    try:
        text = orjson.dumps(value, option=_CHECKED)
    except TypeError:
        return faults_of(value), True
    may_have_nul, may_have_null = _BACKSLASH in text and b"\\u0000" in text, b"null" in text
    has_faults = may_have_nul or (may_have_null and _may_have_infinity(value))
    return faults_of(value) if has_faults else [], may_have_null


_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_CHECKED = _PLAIN | orjson.OPT_STRICT_INTEGER  # it refuses those over 53 bits: some of them are wrong
_BACKSLASH: Final = 0x5C
_MAYBE_WHOLE_FLOAT = re.compile(rb"[0-9](?:\.0|e)", re.ASCII)


def _encode(value: JSON, option: int = 0) -> bytes:
    try:
        text = orjson.dumps(value, option=_PLAIN | option)
    except TypeError as error:
        raise ValueError(f"not a JSON value: {error}") from None
    # orjson writes NaN and the infinities as null; the standard library refuses them
    if b"null" in text and _may_have_infinity(value):
        try:
            _strict(value)
        except ValueError:
            raise ValueError("not a JSON value: a number is not finite") from None
    return text


_strict = json.JSONEncoder(allow_nan=False, check_circular=False, default=lambda _: None).encode


def _may_have_infinity(value: object) -> bool:
    """Whether the value may hold NaN or an infinity. There are no false negatives.

    In MessagePack their first two bytes are one of two pairs, which no text in UTF-8 has. A single byte is found much
    faster.
    """
    try:
        packed = _packed(value)
    except TypeError:  # a subclass of a scalar type, which orjson accepts
        return True
    return (0x7F in packed or 0xFF in packed) and (b"\xcb\x7f" in packed or b"\xcb\xff" in packed)


_packed = msgspec.msgpack.Encoder().encode


def _whole(value: JSON) -> JSON:
    """The value with whole floats as integers, if they fit in 64 bits."""
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, (list, tuple)) else value


# --- instants ---

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Python 3.14 reads hour 24 as the next day.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970, rounded down. Raises TypeError for a naive datetime."""
    return (instant - EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """The inverse of `to_ms`, in UTC. Raises OverflowError outside the years 1 to 9999."""
    return EPOCH + ms * _MILLISECOND


def iso_ms(epoch_ms: int) -> str:
    """Milliseconds since 1970 as an RFC 3339 instant of the years 1 to 9999: `2026-01-02T03:04:05.678Z`."""
    seconds, milliseconds = divmod(epoch_ms, 1000)
    return f"{_iso_seconds(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=256)
def _iso_seconds(seconds: int) -> str:
    """The cache serves the many instants of one second that a busy process writes."""
    return from_ms(seconds * 1000).replace(tzinfo=None).isoformat()


def parse_iso(text: str) -> int:
    """An RFC 3339 instant as milliseconds since 1970, rounded down. Raises ValueError for any other text."""
    if not _INSTANT.fullmatch(text):
        raise ValueError("not an RFC 3339 instant")
    return to_ms(datetime.fromisoformat(text))


# --- shapes and their schemas ---

JsonObject = dict[str, Any]
NOT_DOTS = r"^([.]{0,2}[^.]|[.]{3})"
"""Any text but `.` and `..`, which a path cannot hold (RFC 3986, 5.2.4)."""
_NO_DOTS = r"^([.]{0,2}[!-\-/-~][!-~]*|[.]{3}[!-~]*)$"
RunId = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=_NO_DOTS, description="Visible ASCII, neither `.` nor `..`")
]
"""An object with free keys, kept verbatim."""

Positive = Annotated[int, Meta(ge=1, le=2**53 - 1)]
CENTURY: Final = 100 * 366 * 86_400
"""Seconds of at least a hundred years: the longest time that a request or a setting can name."""

Seconds = Annotated[int, Meta(ge=1, le=CENTURY, description="At most a hundred years")]
Time = Annotated[str, Meta(description="RFC 3339, UTC, milliseconds", examples=["2026-01-02T03:04:05.678Z"])]

_COMPONENTS = "#/components/schemas/"


def component_name(shape: type) -> str:
    """The name of the shape's schema: the class name without the suffix `Dto`, which marks wire shapes."""
    return shape.__name__.removesuffix("Dto")


def schema_ref(shape: type) -> dict[str, JSON]:
    """A reference to the shape's schema in the components of an OpenAPI document."""
    return {"$ref": _COMPONENTS + component_name(shape)}


def schemas_of(shapes: Iterable[type], prefix: str = _COMPONENTS) -> dict[str, dict[str, JSON]]:
    """The JSON Schemas of `shapes` and of all shapes they refer to, by name (JSON Schema 2020-12, OpenAPI 3.1)."""
    types = list(map(shape_of, shapes))
    components = msgspec.json.schema_components(types, ref_template=f"{prefix}{{name}}")[1]
    return {name.removesuffix("Dto"): dict(as_object(_renamed(schema))) for name, schema in components.items()}


def _renamed(schema: JSON) -> JSON:
    """The schema with references to component names (see `component_name`); what can be null has its description."""
    if isinstance(schema, list):
        return [_renamed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = {key: item.removesuffix("Dto") if key == "$ref" else _renamed(item) for key, item in schema.items()}
    match named:
        case {"anyOf": [{"description": text}, {"type": "null"}]}:  # of the field, not only of its values
            return {"description": text, **named}
    return named


def page_of(items: str, shape: type) -> dict[str, JSON]:
    """The schema of one page of a list: the items under the key `items`, and the token of the next page or null."""
    properties: dict[str, JSON] = {
        items: {"type": "array", "items": schema_ref(shape)},
        "nextPageToken": {"type": ["string", "null"]},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def closed(schema: dict[str, JSON]) -> dict[str, JSON]:
    """The schema of a shape, with unknown keys forbidden."""
    return schema | {"additionalProperties": False} if "properties" in schema else schema


# --- checks ---

S = TypeVar("S")


def read(shape: type[S], data: JSON, path: str = "") -> S:
    """`data` itself, typed as `shape`. Raises Malformed or Invalid with all issues of `check`."""
    refuse(check(shape, data, path))
    return cast("S", data)


def check(shape: type, data: JSON, path: str = "") -> list[Issue]:
    """All issues of `data` against `shape`, with wire paths below `path`.

    Rules: `type` and `required` (a malformed request), `unknown`, `enum`, `const`, `integer`, `minLength`,
    `maxLength`, `minimum`, `maximum`, `exclusiveMinimum`, `minItems`, `maxItems`, `pattern`. The path of
    a missing or unknown key includes the key. A whole number is an integer in any notation: 7.0 passes unchanged.
    """
    validator, schema = _validator(shape)
    if validator.is_valid(data):
        return []
    errors = validator.evaluate(data).errors()
    issues = (issue for error in errors for issue in _issues(error, schema, data))
    return first_issues(Issue(join_path(path, issue.path), issue.message, issue.rule) for issue in _distinct(issues))


def _distinct(issues: Iterable[Issue]) -> Iterator[Issue]:
    """One issue for each path and rule: the validator reports a missing key and a wrong choice more than once."""
    seen = set()
    for issue in issues:
        if (issue.path, issue.rule) not in seen:
            seen.add((issue.path, issue.rule))
            yield issue


@cache
def _validator(shape: type) -> "tuple[Validator, JSON]":
    import jsonschema_rs

    definitions = schemas_of([shape], "#/$defs/")
    schema = _schema_for_check({"$ref": f"#/$defs/{component_name(shape)}", "$defs": definitions})
    linear = jsonschema_rs.RegexOptions()
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=linear), schema


def _for_check(schema: JSON) -> JSON:
    """The schema in a form that gives one error for each fault, at the path of the fault."""
    if isinstance(schema, list):
        return [_for_check(item) for item in schema]
    return _schema_for_check(schema) if isinstance(schema, dict) else schema


def _schema_for_check(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    return closed(_single_error_form({key: _for_check(item) for key, item in schema.items()}))


def _single_error_form(schema: dict[str, JSON]) -> dict[str, JSON]:
    match schema:
        case {"type": "integer"}:  # 1.5 breaks the rule `integer`, not `type`
            return schema | {"type": "number", "multipleOf": 1}
        case {"anyOf": [branch, {"type": "null"}]}:  # report the faults of the branch instead of "no branch matches"
            return {"if": {"type": "null"}, "else": branch}
        case {"$ref": str(ref)} if ref.startswith(_COMPONENTS):  # for clients: a domain module checks the value
            return {key: item for key, item in schema.items() if key != "$ref"}
    return schema


_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "minLength": "must have at least {} characters",
        "maxLength": "must have at most {} characters",
        "minimum": "must be at least {}",
        "maximum": "must be at most {}",
        "exclusiveMinimum": "must be more than {}",
        "minItems": "must have at least {} entries",
        "maxItems": "must have at most {} entries",
        "pattern": "must match `{}`",
    }
)
_TYPES: Mapping[type, str] = MappingProxyType(
    {
        type(None): "null",
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
)
_MAX_VALUE_SHOWN = 60


def _issues(error: "EvaluationErrorEntry", schema: JSON, data: JSON) -> Iterator[Issue]:
    keyword = error["schemaLocation"].rpartition("/")[2]
    _, (*_, rules, expected) = _follow(error["schemaLocation"], schema)
    steps, (*_, value) = _follow(error["instanceLocation"], data)
    place = wire_path(steps)
    match keyword:
        case "required" | "additionalProperties":  # the library checks both at once and may report either
            yield from _key_issues(steps, as_object(rules), as_object(value))
        case "type":
            yield _type_issue(place, as_text(expected), value)
        case "enum" | "const":
            yield _option_issue(place, keyword, as_list(expected) if keyword == "enum" else [expected], value)
        case "pattern" if expected == r"\S":
            yield Issue(place, "must not be blank", "pattern")
        case "pattern" if expected == VISIBLE:
            yield Issue(place, "must have a visible character and no control character", "pattern")
        case "pattern" if expected == SLUG_FORM:
            yield Issue(place, "must be letters a to z, digits and inner hyphens", "pattern")
        case "pattern" if expected == _NO_DOTS:
            yield Issue(place, "must be visible ASCII characters, neither `.` nor `..`", "pattern")
        case "pattern" if expected == NOT_DOTS:
            yield Issue(place, "must be neither `.` nor `..`", "pattern")
        case "minLength" | "minItems" if expected == 1:
            yield Issue(place, "must not be empty", keyword)
        case "multipleOf":
            yield Issue(place, "must be a whole number", "integer")
        case _:
            yield Issue(place, _MESSAGES.get(keyword, "is not allowed").format(expected), keyword)


def _key_issues(steps: Sequence[str | int], rules: Mapping[str, JSON], value: Mapping[str, JSON]) -> Iterator[Issue]:
    for key in as_texts(rules["required"]):
        if key not in value:
            yield Issue(wire_path([*steps, key]), "is required", "required")
    known = as_object(rules["properties"])
    for key in value:
        if key not in known:
            yield Issue(wire_path([*steps, key]), f"is not a known key{usable(known)}", "unknown")


def _follow(pointer: str, tree: JSON) -> tuple[list[str | int], list[JSON]]:
    """The steps of a JSON Pointer (RFC 6901), and the values on the way, from the root on."""
    steps, values = list[str | int](), [tree]
    for token in pointer.split("/")[1:]:
        key, parent = token.replace("~1", "/").replace("~0", "~"), values[-1]
        if isinstance(parent, list):
            steps.append(int(key))
            values.append(parent[int(key)])
        else:
            steps.append(key)
            values.append(as_object(parent)[key])
    return steps, values


def _type_of(value: JSON) -> str:
    return _TYPES.get(type(value), type(value).__name__)


def _type_issue(place: str, expected: str, value: JSON) -> Issue:
    return Issue(place, f"must be of type {expected}, not {_type_of(value)}", "type")


def _option_issue(place: str, rule: str, options: Sequence[JSON], value: JSON) -> Issue:
    types = sorted({_type_of(option) for option in options})
    if _type_of(value) not in types:
        return _type_issue(place, " or ".join(types), value)
    shown = ", ".join(f"`{text_of(option)}`" for option in options)
    given = text_of(value)
    given = given if len(given) <= _MAX_VALUE_SHOWN else f"{given[:_MAX_VALUE_SHOWN]}…"
    return Issue(place, f"`{given}` is not {'one of ' if len(options) > 1 else ''}{shown}", rule)
