"""The one door to JSON Schema (draft 2020-12 unless `$schema` names another).

Schemas come from customers. Nothing is ever fetched for them: a reference that leaves the schema is an
issue. Their patterns run on an engine of linear time. A few lines of references can ask for a million million
checks, so the ways through a schema are counted before it is accepted (`json_schema_cost`), and a value that
would take too long is refused.
"""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from wfcore.domain.json.schema_cost import Cost, SchemaTooComplex, cost
from wfcore.domain.kernel.errors import Issue, join_path, refuse
from wfcore.domain.kernel.json_type import JSON

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = ["MAX_CHECKS", "MAX_ISSUES", "MAX_SCHEMA", "Schema", "compile_schema", "schema_issues"]

MAX_SCHEMA: Final = 64 * 1024
"""The most characters of a schema as JSON."""
MAX_ISSUES: Final = 100
"""The most issues of one check."""
MAX_CHECKS: Final = 10_000_000
"""The most checks (see `Cost`) that a value may take."""
FEW_WAYS: Final = 8
"""A schema with no more ways through it costs what reading the value costs: it need not be measured first."""
MAX_EXPLAINED: Final = 200_000
"""With more checks than these only the first issue is told: the validator collects before it answers."""
MAX_MESSAGE: Final = 200
REGEX_BYTES: Final = 1 << 20
META_SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"


@attrs.frozen
class Schema:
    """A compiled schema. Two are equal when their canonical texts are."""

    text: str
    _cost: Cost = attrs.field(eq=False, repr=False)
    _validator: "Validator" = attrs.field(eq=False, repr=False)

    def check(self, value: JSON, path: str) -> list[Issue]:
        """What is wrong with `value`, at wire paths below `path`, the rule being the keyword; at most 100."""
        try:
            if self._cost.ways <= FEW_WAYS and self._cost.circles <= 1 and self._validator.is_valid(value):
                return []
            parts, depth = _extent(value)
            checks = self._cost.ways * parts * depth ** max(self._cost.circles - 1, 0)
            if checks > MAX_CHECKS:
                return [Issue(path, "too large for its schema: it would take too long to check", "schema")]
            return [] if self._validator.is_valid(value) else self._explain(value, path, checks)
        except ValueError:
            return [Issue(path, "holds text or a number that is no JSON", "schema")]

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
    """Compile a schema, once for each canonical text. Raises Invalid with every issue of a wrong one."""
    refuse(schema_issues(schema, ""))
    return _compile(_canonical(schema))


def schema_issues(schema: JSON, path: str) -> list[Issue]:
    """Why `schema` is no JSON Schema that can be used, at wire paths below `path`; rule `schema`."""
    try:
        text = _canonical(schema)
    except (ValueError, TypeError, RecursionError):
        return [Issue(path, "a schema must be JSON", "schema")]
    if len(text) > MAX_SCHEMA:
        return [Issue(path, f"a schema has at most {MAX_SCHEMA} characters", "schema")]
    return [Issue(_wire_path(path, steps), message, "schema") for steps, message in _faults(text)]


Fault = tuple[tuple[str | int, ...], str]


@lru_cache(maxsize=1024)
def _faults(text: str) -> tuple[Fault, ...]:
    schema = json.loads(text)
    if type(schema) not in {dict, bool}:
        return (((), "a schema must be an object or a boolean"),)
    try:
        cost(schema)
        if wrong := _against_meta_schema(schema):
            return wrong
        _compile(text)
    except SchemaTooComplex as error:
        return ((error.path, error.message),)
    except ValueError as error:
        return ((tuple(getattr(error, "instance_path", ())), _sentence(error)),)
    return ()


def _against_meta_schema(schema: JSON) -> tuple[Fault, ...]:
    """Every fault of the default draft at once; of a schema in another draft, compiling tells the first."""
    if type(schema) is dict and schema.get("$schema", META_SCHEMA) != META_SCHEMA:
        return ()
    errors = _validator({"$ref": META_SCHEMA}).iter_errors(schema)
    faults = dict.fromkeys((tuple(error.instance_path), _sentence(error)) for error in errors)
    return tuple(faults)[:MAX_ISSUES]


@lru_cache(maxsize=1024)
def _compile(text: str) -> Schema:
    schema = json.loads(text)
    return Schema(text, cost(schema), _validator(schema))


def _validator(schema: JSON) -> "Validator":
    import jsonschema_rs

    patterns = jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES, dfa_size_limit=REGEX_BYTES)
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=patterns, validate_formats=True)


def _canonical(schema: JSON) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _extent(value: JSON) -> tuple[int, int]:
    """How many parts a value has, itself included, and how many levels."""
    parts, depth, level = 0, 0, [value]
    while level:
        parts, depth = parts + len(level), depth + 1
        level = [child for part in level for child in _children(part)]
    return parts, depth


def _children(value: JSON) -> Iterable[JSON]:
    return value if type(value) is list else value.values() if type(value) is dict else ()


def _issues(error: "ValidationError", path: str) -> Iterator[Issue]:
    """One error as issues; a property that is missing or not allowed gives its own path."""
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
        yield Issue(where, _sentence(error), rule)


def _wire_path(path: str, steps: Any) -> str:
    for step in steps:
        path = join_path(path, f"[{step}]" if type(step) is int else step)
    return path


def _sentence(error: ValueError) -> str:
    """The first line of a validator's message in the house's form: no capital, no full stop, no flood."""
    text = str(getattr(error, "message", error)).partition("\n")[0].rstrip(".").replace('"', "`")
    text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}..."
    return text[:1].lower() + text[1:]
