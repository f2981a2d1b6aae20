"""The built-in guardrails, and the catalog of the guardrails of one installation.

`redact-emails` replaces e-mail addresses with `[email]`, `redact-secrets` replaces keys, tokens and passwords with
`[secret]`. `block-patterns` (`patterns`: RE2 patterns) blocks a text that matches a pattern, `json-schema` (`schema`)
blocks a text that is not JSON or does not match the schema. Each takes time linear in the text; patterns and schemas
also have a bound, above which the text is blocked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import attrs

from wfcore.domain.expressions.cel.library import compiled_pattern, is_in
from wfcore.domain.expressions.cel.values import MAX_STEPS, EvaluationBudget, ExpressionError
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.json.schema import Schema, compile_schema, schema_issues
from wfcore.domain.kernel.errors import Issue, Malformed
from wfcore.domain.kernel.json_readers import as_text, as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.recent import cached_texts
from wfcore.ports.guardrails import Allowed, Blocked, Guardrail, GuardrailDescription, Replaced, Verdict

MAX_GUARDRAILS: Final = 20
"""Guardrails that one access configuration can name."""
MAX_PATTERNS: Final = 100
SEARCH_STEPS: Final = 5 * MAX_STEPS
"""The steps in which all patterns of a guardrail search one text."""

EMAIL: Final = r"[\pL\pN._%+'&=*!#$/?^{|}~-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+"

DIGITS: Final = (str.isdigit,)
MIXED_CASE_AND_DIGITS: Final = (str.isupper, str.islower, str.isdigit)

SECRETS: Final = (
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", ()),
    (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", ()),
    (r"://[^\s/:@]+:[^\s/@]+@", ()),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", ()),
    (r"\bAIza[\w-]{30,}", ()),
    (r"\b(?:sk|pk|rk|whsec|glpat|svc|gh[opsur]|github_pat|xox[aboprs])[_-][\w-]{16,}={0,2}", DIGITS),
    (r"(?i)\bbearer\s+[\w.~+/-]{16,}={0,2}", DIGITS),
    (r"(?i)\b(?:api[_-]?key|secret|token|password|passwd|pwd)[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{6,}", DIGITS),
    (r"[\w+]{32,}={0,2}", MIXED_CASE_AND_DIGITS),
)
"""Patterns of secrets. A match counts only if it has a character of each listed kind: ordinary words do not."""


@attrs.frozen
class Redaction:
    """Replaces each match of a pattern with `mark`, if the match has a character of each kind."""

    name: str
    mark: str
    patterns: Sequence[tuple[str, Sequence[Callable[[str], bool]]]]

    def check(self, text: str) -> Verdict:
        redacted = text
        for pattern, kinds in self.patterns:
            redacted = compiled_pattern(pattern).sub(partial(self._marked, kinds), redacted)
        return Allowed() if redacted == text else Replaced(redacted)

    def _marked(self, kinds: Sequence[Callable[[str], bool]], found: Any) -> str:
        word: str = found.group(0)
        return self.mark if all(any(map(kind, word)) for kind in kinds) else word


@attrs.frozen
class PatternBlock:
    """Blocks a text that matches one of the patterns, or is too long to search for them."""

    name: str
    patterns: Sequence[str]

    def check(self, text: str) -> Verdict:
        budget = EvaluationBudget(SEARCH_STEPS)
        for number, pattern in enumerate(self.patterns, 1):
            try:
                if is_in(text, pattern, budget):
                    return Blocked(f"the text matches forbidden pattern {number}")
            except ExpressionError as error:
                return Blocked(f"forbidden pattern {number} was not searched: {error.message}")
        return Allowed()


@attrs.frozen
class SchemaBlock:
    """Blocks a text that is not JSON, or does not match the schema."""

    name: str
    schema: Schema

    def check(self, text: str) -> Verdict:
        try:
            value = parse_json(text.encode(errors="replace"))
        except Malformed:
            return Blocked("the text is not valid JSON")
        issues = self.schema.check(value, "")
        return Blocked(f"the text does not match its schema: rule `{issues[0].rule}`") if issues else Allowed()


WITHOUT_OPTIONS: Final[Mapping[str, Guardrail]] = {
    "redact-emails": Redaction("redact-emails", "[email]", [(EMAIL, ())]),
    "redact-secrets": Redaction("redact-secrets", "[secret]", SECRETS),
}
"""The built-in guardrails without options."""


def _pattern_block(options: Mapping[str, JSON]) -> Guardrail:
    return PatternBlock("block-patterns", tuple(as_texts(options["patterns"])))


def _schema_block(options: Mapping[str, JSON]) -> Guardrail:
    return SchemaBlock("json-schema", compile_schema(options["schema"]))


def _pattern_issues(options: Mapping[str, JSON], path: str) -> list[Issue]:
    patterns = options.get("patterns")
    if not isinstance(patterns, list) or not 1 <= len(patterns) <= MAX_PATTERNS:
        return [Issue(f"{path}.patterns", f"must be an array of 1 to {MAX_PATTERNS} patterns", "patterns")]
    places = ((f"{path}.patterns[{index}]", pattern) for index, pattern in enumerate(patterns))
    return [Issue(place, why, "pattern") for place, pattern in places if (why := _pattern_fault(pattern))]


def _pattern_fault(pattern: JSON) -> str:
    """Why the value is not a valid pattern; "" when it is valid."""
    if not isinstance(pattern, str) or not pattern:
        return "must be an RE2 pattern"
    try:
        compiled_pattern(pattern)
    except ExpressionError as error:
        return str(error)
    return ""


def _schema_issues(options: Mapping[str, JSON], path: str) -> list[Issue]:
    if "schema" not in options:
        return [Issue(f"{path}.schema", "is required", "required_if")]
    return schema_issues(options["schema"], f"{path}.schema")


PATTERNS: Final[Mapping[str, JSON]] = {
    "type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": MAX_PATTERNS,
}  # fmt: skip


@attrs.frozen
class _GuardrailKind:
    """A kind of guardrail with options: their JSON Schemas by name, their validation, and a factory."""

    options: Mapping[str, JSON]
    issues: Callable[[Mapping[str, JSON], str], list[Issue]]
    make: Callable[[Mapping[str, JSON]], Guardrail]


WITH_OPTIONS: Final[Mapping[str, _GuardrailKind]] = {
    "block-patterns": _GuardrailKind({"patterns": PATTERNS}, _pattern_issues, _pattern_block),
    "json-schema": _GuardrailKind({"schema": {}}, _schema_issues, _schema_block),
}

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "redact-emails": "Replaces e-mail addresses with `[email]`.",
    "redact-secrets": "Replaces keys, tokens and passwords with `[secret]`.",
    "block-patterns": "Blocks a text that matches one of the RE2 `patterns`.",
    "json-schema": "Blocks a text that is not JSON, or does not match the JSON Schema `schema`.",
}
"""What the built-in guardrails do."""


class GuardrailCatalog:
    """Implements the port `Guardrails`: the built-in guardrails, and those in `everywhere`, which check every agent.

    Raises ValueError for a name that is empty, built in or used twice.
    """

    def __init__(self, everywhere: Iterable[Guardrail] = ()) -> None:
        self.everywhere: Sequence[Guardrail] = tuple(everywhere)
        for number, own in enumerate(self.everywhere):
            taken = {*WITHOUT_OPTIONS, *WITH_OPTIONS, *(one.name for one in self.everywhere[:number])}
            if not own.name or own.name in taken:
                raise ValueError(
                    f"guardrail `{own.name}` is defined twice" if own.name else "a guardrail must have a name"
                )
        self._made = cached_texts(small=1_000, many=256, few=32)(self._make)

    @cached_property
    def _without_options(self) -> Mapping[str, Guardrail]:
        return {**WITHOUT_OPTIONS, **{own.name: own for own in self.everywhere}}

    def described(self) -> Sequence[GuardrailDescription]:
        built_in = [GuardrailDescription(name, DESCRIPTIONS[name]) for name in WITHOUT_OPTIONS]
        optional = [
            GuardrailDescription(name, DESCRIPTIONS[name], _schema_of(kind)) for name, kind in WITH_OPTIONS.items()
        ]
        own = [GuardrailDescription(one.name, _first_line(one), everywhere=True) for one in self.everywhere]
        return sorted([*built_in, *optional, *own], key=lambda one: one.name)

    def get(self, named: JSON) -> Guardrail | None:
        return self._made(dumps(named))

    def _make(self, text: str) -> Guardrail | None:
        named = parse_json(text.encode())
        if self._issues_of(named, ""):
            return None
        options = named if isinstance(named, dict) else {"name": named}
        name = as_text(options["name"])
        return self._without_options.get(name) or WITH_OPTIONS[name].make(options)

    def issues(self, named: Sequence[JSON], path: str) -> list[Issue]:
        if len(named) > MAX_GUARDRAILS:
            return [Issue(path, f"has more than {MAX_GUARDRAILS} guardrails", "maxItems")]
        return [issue for index, one in enumerate(named) for issue in self._issues_of(one, f"{path}[{index}]")]

    def _issues_of(self, named: JSON, path: str) -> list[Issue]:
        options = named if isinstance(named, dict) else {"name": named}
        name = options.get("name")
        if not isinstance(name, str):
            return [Issue(path, "must be the name of a guardrail, or an object with its `name`", "type")]
        kind = WITH_OPTIONS.get(name)
        if kind is None and name not in self._without_options:
            return [Issue(path, f"unknown guardrail `{name[:80]}`", "reference")]
        extra = options.keys() - {"name", *(kind.options if kind else ())}
        unknown = [Issue(f"{path}.{key}", f"is not an option of `{name}`", "unknown") for key in sorted(extra)]
        return unknown + (kind.issues(options, path) if kind else [])


def _schema_of(kind: _GuardrailKind) -> dict[str, JSON]:
    """The JSON Schema of the options of a guardrail."""
    properties = dict(kind.options)
    return {
        "type": "object", "properties": properties, "required": sorted(properties), "additionalProperties": False,
    }  # fmt: skip


def _first_line(guardrail: Guardrail) -> str:
    """What a guardrail of the embedding program says about itself: the first line of its class's docstring."""
    return (type(guardrail).__doc__ or "").strip().partition("\n")[0]
