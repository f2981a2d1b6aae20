"""Forms at the terminal: the fields of a JSON Schema, prompted for one by one."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from wfcore.domain.json.codec import text_of
from wfcore.domain.json.schema import compile_schema, schema_issues
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_list, as_number
from wfcore.domain.kernel.json_type import JSON

YES_NO: Final[Mapping[str, bool]] = {
    "y": True, "yes": True, "true": True, "n": False, "no": False, "false": False,
}  # fmt: skip
"""Texts of a boolean, in lower case."""

_TYPES: Final = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "y or n", "array": "JSON list",
    "object": "JSON object", "null": "null",
}  # fmt: skip
_LIMITS: Final = {
    "minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}",
    "exclusiveMaximum": "less than {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
}  # fmt: skip


class Form:
    """Prompts for data that fits a schema. `ask` returns the user's line for a question, `say` shows a message."""

    def __init__(self, schema: JSON, ask: Callable[[str], str], say: Callable[[str], None]) -> None:
        self._schema = schema
        self._fields = fields_of(schema)
        self._ask = ask
        self._say = say

    def read(self) -> JSON:
        """Valid data. Only a field whose value was wrong is prompted for again; EOFError ends it."""
        data: dict[str, JSON] = {}
        todo: Iterable[str] = self._fields
        while self._fields:
            for name in todo:
                data.pop(name, None)
                value = self._field(name)
                if value is not None:
                    data[name] = value
            issues = compile_schema(self._schema).check(data, "data")
            if not issues:
                return data
            self._show(issues)
            wrong = {name for name in self._fields for issue in issues if _is_about(issue, name)}
            todo = [name for name in self._fields if name in wrong] or self._fields
        return self._whole()

    def _whole(self) -> JSON:
        """The value of a schema without fields; a blank line is an empty object."""
        while True:
            text = self._ask("data (JSON):")
            value = _parsed(text) if text else {}
            issues = compile_schema(self._schema).check(value, "data")
            if not issues:
                return value
            self._show(issues)

    def _field(self, name: str) -> JSON:
        """The value of one field; None for one that is left out."""
        field = self._fields[name]
        required = self._requires(name) and "default" not in field
        if description := field.get("description"):
            self._say(str(description))
        while True:
            text = self._ask(f"{question(name, field, required=required)}:")
            if not text:
                if not required:
                    return field.get("default")
                self._say("a value is required")
                continue
            value = value_of(text, field)
            issues = self._faults(value, field)
            if not issues:
                return value
            self._show(issues)

    def _faults(self, value: JSON, field: Mapping[str, JSON]) -> list[Issue]:
        """The issues of one value; none for a schema that refers to others and is checked with all of them."""
        shared = {key: part for key, part in _object(self._schema).items() if key in ("$defs", "definitions")}
        alone: JSON = {**shared, **field}
        return [] if schema_issues(alone, "") else compile_schema(alone).check(value, "")

    def _requires(self, name: str) -> bool:
        return name in as_list(_object(self._schema).get("required") or [])

    def _show(self, issues: Iterable[Issue]) -> None:
        for issue in issues:
            self._say(f"{issue.path}: {issue.message}" if issue.path else issue.message)


def fields_of(schema: JSON) -> dict[str, Mapping[str, JSON]]:
    """The fields that a form names, each with its schema, which can be empty."""
    return {name: _object(field) for name, field in _object(_object(schema).get("properties")).items()}


def question(name: str, field: Mapping[str, JSON], *, required: bool) -> str:
    """The title of a field with its type or choices, its limits, whether it is required, and its default."""
    choices = field.get("enum")
    notes = []
    if isinstance(choices, list):
        notes.append("one of " + ", ".join(map(_shown, choices)))
    elif (kind := _TYPES.get(str(field.get("type")))) is not None:
        notes.append(kind)
    notes += [text.format(_shown(field[key])) for key, text in _LIMITS.items() if key in field]
    notes += ["required"] if required else []
    if "default" in field:
        notes.append(f"default {_shown(field['default'])}")
    title = str(field.get("title") or name)
    return f"{title} ({'; '.join(notes)})" if notes else title


def value_of(text: str, field: Mapping[str, JSON]) -> JSON:
    """The value that a text means in a field: one of its choices, a boolean, text as it is, other types as JSON."""
    choices = field.get("enum")
    if isinstance(choices, list):
        return next((choice for choice in choices if _shown(choice) == text), text)
    if field.get("type") == "boolean" and text.lower() in YES_NO:
        return YES_NO[text.lower()]
    if field.get("type") == "string":
        return text
    value = _parsed(text)
    whole = field.get("type") == "integer" and isinstance(value, float) and value.is_integer()
    return int(as_number(value)) if whole else value


def _parsed(text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except ValueError:
        return text
    return value


def _shown(value: JSON) -> str:
    if isinstance(value, bool):
        return "y" if value else "n"
    return text_of(value)


def _object(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}


def _is_about(issue: Issue, name: str) -> bool:
    rest = issue.path.removeprefix(f"data.{name}")
    return rest != issue.path and rest[:1] in ("", ".", "[")
