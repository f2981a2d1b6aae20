"""Validation by JSON Schema (draft 2020-12 unless `$schema` names another).

Schemas come from customers. wfcore never fetches anything for a schema: a reference out of the schema is an
issue. Patterns run on a regular expression engine with linear time, for each of their states. A few lines of
references can require 10**12 checks. So `schema_cost` bounds the paths through a schema and the states of its patterns,
and a value that would take too long is refused.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from wfcore.domain.json.nesting import extent
from wfcore.domain.json.patterns import REGEX_BYTES, regex_options
from wfcore.domain.json.schema_cost import Cost, SchemaTooComplex, cost
from wfcore.domain.kernel.errors import Issue, join_path, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.recent import cached_texts

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = ["MAX_CHECKS", "MAX_ISSUES", "MAX_SCHEMA", "Schema", "compile_schema", "schema_issues"]

MAX_SCHEMA: Final = 64 * 1024
"""The most characters of a schema as JSON."""
MAX_ISSUES: Final = 100
"""The most issues of one check."""
MAX_CHECKS: Final = 10_000_000
"""The most checks (see `Cost`) of one value."""
FEW_PATHS: Final = 8
"""With at most so many paths, checking costs about as much as reading the value: no estimate is needed."""
MAX_EXPLAINED: Final = 200_000
"""Above so many checks only the first issue is reported: the validator collects all issues before it returns."""
STATES_PER_CHECK: Final = 5
"""The states of a pattern that take as long, for one character, as one check."""
MAX_MESSAGE: Final = 200
SMALL_TEXT, SMALL_STATES, SMALL_BYTES = 8 * 1024, 500, 64 * 1024
"""The characters and the states of schemas that the cache keeps many of, and the memory of their searches."""
META_SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"


@attrs.frozen
class Schema:
    """A compiled schema. Two are equal when their canonical texts are equal."""

    text: str
    _cost: Cost = attrs.field(eq=False, repr=False)
    _validator: "Validator" = attrs.field(eq=False, repr=False)

    def check(self, value: JSON, path: str) -> list[Issue]:
        """The issues of `value`, at wire paths below `path`; the rule is the keyword; at most `MAX_ISSUES`."""
        try:
            few = self._cost.paths <= FEW_PATHS and self._cost.cycles <= 1 and not self._cost.scans
            if few and self._validator.is_valid(value):
                return []
            checks = self._checks(value)
            if checks > MAX_CHECKS:
                return [Issue(path, "too large for its schema: it would take too long to check", "schema")]
            return [] if self._validator.is_valid(value) else self._explain(value, path, checks)
        except ValueError:
            return [Issue(path, "holds a string or a number that is not JSON", "schema")]

    def _checks(self, value: JSON) -> int:
        """The most checks that the value can take."""
        parts, depth, characters = extent(value)
        scanned = self._cost.scans * characters // STATES_PER_CHECK
        again: int = depth ** max(self._cost.cycles - 1, 0)
        return self._cost.paths * parts * again + scanned

    def _explain(self, value: JSON, path: str, checks: int) -> list[Issue]:
        errors = self._validator.iter_errors(value) if checks <= MAX_EXPLAINED else self._first(value)
        issues = (issue for error in errors for issue in _issues(error, path))
        return list(dict.fromkeys(issues))[:MAX_ISSUES]

    def _first(self, value: JSON) -> "Iterator[ValidationError]":
        import jsonschema_rs

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield error


def compile_schema(schema: JSON) -> Schema:
    """Compile a schema, once for each canonical text. Raises Invalid with every issue of the schema."""
    refuse(schema_issues(schema, ""))
    return _compile(_canonical(schema))


def schema_issues(schema: JSON, path: str) -> list[Issue]:
    """The issues for which `schema` cannot be used, at wire paths below `path`, under the rule `schema`."""
    try:
        text = _canonical(schema)
    except (ValueError, TypeError, RecursionError):
        return [Issue(path, "a schema must be JSON", "schema")]
    if len(text) > MAX_SCHEMA:
        return [Issue(path, f"a schema has at most {MAX_SCHEMA} characters", "schema")]
    return [Issue(_wire_path(path, steps), message, "schema") for steps, message in _faults(text)]


Fault = tuple[tuple[str | int, ...], str]


@cached_texts(small=SMALL_TEXT, many=512, few=32)
def _faults(text: str) -> tuple[Fault, ...]:
    schema: JSON = json.loads(text)
    if not isinstance(schema, dict | bool):
        return (((), "a schema must be an object or a boolean"),)
    try:
        cost(schema)
        if wrong := _against_meta_schema(schema):
            return wrong
        _compile(text)
    except SchemaTooComplex as error:
        return ((error.path, error.message),)
    except ValueError as error:
        return ((tuple(getattr(error, "instance_path", ())), _message_of(error)),)
    return ()


def _against_meta_schema(schema: dict[str, JSON] | bool) -> tuple[Fault, ...]:
    """Every fault of a schema in the default draft; for another draft, compilation reports the first one."""
    if isinstance(schema, dict) and schema.get("$schema", META_SCHEMA) != META_SCHEMA:
        return ()
    errors = _validator({"$ref": META_SCHEMA}, REGEX_BYTES).iter_errors(schema)
    faults = dict.fromkeys((tuple(error.instance_path), _message_of(error)) for error in errors)
    return tuple(faults)[:MAX_ISSUES]


def _compile(text: str) -> Schema:
    """The compiled schema of a canonical text. The process keeps many small ones and a few large ones."""
    found = _cost_of(text)
    is_small = len(text) <= SMALL_TEXT and found.states <= SMALL_STATES
    return _compile_small(text) if is_small else _compile_large(text)


@cached_texts(small=SMALL_TEXT, many=512, few=32)
def _cost_of(text: str) -> Cost:
    return cost(json.loads(text))


@lru_cache(maxsize=512)
def _compile_small(text: str) -> Schema:
    return Schema(text, _cost_of(text), _validator(json.loads(text), SMALL_BYTES, _cost_of(text).patterns))


@lru_cache(maxsize=32)
def _compile_large(text: str) -> Schema:
    return Schema(text, _cost_of(text), _validator(json.loads(text), REGEX_BYTES, _cost_of(text).patterns))


def _validator(schema: dict[str, JSON] | bool, cached: int, patterns: int = 1) -> "Validator":
    """A validator whose searches keep at most `cached` bytes together."""
    import jsonschema_rs

    options = regex_options(REGEX_BYTES, cached // max(patterns, 1))
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=options, validate_formats=True)


def _canonical(schema: JSON) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _issues(error: "ValidationError", path: str) -> Iterator[Issue]:
    """The issues of one error; the path of a missing or forbidden property includes the property."""
    rule, where = error.kind.name, _wire_path(path, error.instance_path)
    detail: Any = error.kind.value if rule in {"required", "additionalProperties", "type"} else None
    if rule == "required":
        yield Issue(join_path(where, detail), f"`{detail}` is missing", rule)
    elif rule == "additionalProperties":
        for name in detail:
            yield Issue(join_path(where, name), f"`{name}` is not allowed", rule)
    elif rule == "type":
        yield Issue(where, f"must be {' or '.join(detail)}", rule)
    else:
        yield Issue(where, _message_of(error), rule)


def _wire_path(path: str, steps: Any) -> str:
    for step in steps:
        path = join_path(path, f"[{step}]" if type(step) is int else step)
    return path


def _message_of(error: ValueError) -> str:
    """The first line of a validator's message in lower case, without a full stop, at most `MAX_MESSAGE` characters."""
    text = str(getattr(error, "message", error)).partition("\n")[0].rstrip(".").replace('"', "`")
    text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}..."
    return text[:1].lower() + text[1:]
