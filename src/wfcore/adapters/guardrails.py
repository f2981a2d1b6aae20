"""The built-in guardrails, and the catalog of those of one installation.

`redact-emails` puts `[email]` for e-mail addresses, `redact-secrets` puts `[secret]` for what looks like a key, a token
or a password. `block-patterns` (`patterns`: RE2 patterns) blocks a text in which one is found, `json-schema` (`schema`)
one that is no JSON, or does not fit. All of them take time linear in the text, whatever customers write into options.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import attrs

from wfcore.domain.expressions.cel.library import compiled_pattern
from wfcore.domain.expressions.cel.values import ExpressionError
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.json.schema import Schema, compile_schema, schema_issues
from wfcore.domain.kernel.errors import Issue, Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.guardrails import Allowed, Blocked, Guardrail, Replaced, Verdict

MOST: Final = 20
"""Guardrails that one access configuration may name."""
MOST_PATTERNS: Final = 100

EMAIL: Final = r"[\pL\pN._%+'&=*!#$/?^{|}~-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+"

DIGITS: Final = (str.isdigit,)
SHUFFLED: Final = (str.isupper, str.islower, str.isdigit)

SECRETS: Final = (
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", ()),
    (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", ()),
    (r"://[^\s/:@]+:[^\s/@]+@", ()),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", ()),
    (r"\bAIza[\w-]{30,}", ()),
    (r"\b(?:sk|pk|rk|whsec|glpat|svc|gh[opsur]|github_pat|xox[aboprs])[_-][\w-]{16,}={0,2}", DIGITS),
    (r"(?i)\bbearer\s+[\w.~+/-]{16,}={0,2}", DIGITS),
    (r"(?i)\b(?:api[_-]?key|secret|token|password|passwd|pwd)[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{6,}", DIGITS),
    (r"[\w+]{32,}={0,2}", SHUFFLED),
)
"""What a secret looks like, and of which kinds it has to have a character, so as not to be a word."""


@attrs.frozen
class Redaction:
    """Puts a mark for whatever one of the patterns finds, if it has a character of each kind."""

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
    """Blocks a text in which one of the patterns is found."""

    name: str
    patterns: Sequence[str]

    def check(self, text: str) -> Verdict:
        for number, pattern in enumerate(self.patterns, 1):
            if compiled_pattern(pattern).search(text):
                return Blocked(f"pattern {number} of those that are not allowed is in the text")
        return Allowed()


@attrs.frozen
class SchemaBlock:
    """Blocks a text that is no JSON, or does not fit the schema."""

    name: str
    schema: Schema

    def check(self, text: str) -> Verdict:
        try:
            value = parse_json(text.encode(errors="replace"))
        except Malformed:
            return Blocked("the text is no JSON")
        issues = self.schema.check(value, "")
        return Blocked(f"the text does not fit its schema: rule `{issues[0].rule}`") if issues else Allowed()


PLAIN: Final[Mapping[str, Guardrail]] = {
    "redact-emails": Redaction("redact-emails", "[email]", [(EMAIL, ())]),
    "redact-secrets": Redaction("redact-secrets", "[secret]", SECRETS),
}
"""The built-in ones that have no options."""


def _block(options: Mapping[str, JSON]) -> Guardrail:
    return PatternBlock("block-patterns", tuple(options["patterns"]))


def _schema(options: Mapping[str, JSON]) -> Guardrail:
    return SchemaBlock("json-schema", compile_schema(options["schema"]))


def _pattern_issues(options: Mapping[str, JSON], path: str) -> list[Issue]:
    patterns = options.get("patterns")
    if not isinstance(patterns, list) or not 1 <= len(patterns) <= MOST_PATTERNS:
        return [Issue(f"{path}.patterns", f"must be an array of 1 to {MOST_PATTERNS} patterns", "patterns")]
    places = ((f"{path}.patterns[{index}]", pattern) for index, pattern in enumerate(patterns))
    return [Issue(place, why, "pattern") for place, pattern in places if (why := _wrong(pattern))]


def _wrong(pattern: JSON) -> str:
    """Why this is no pattern; "" when it is one."""
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


@attrs.frozen
class _Kind:
    """A guardrail with options: which, what is wrong with given ones, and how it is made of right ones."""

    options: frozenset[str]
    issues: Callable[[Mapping[str, JSON], str], list[Issue]]
    make: Callable[[Mapping[str, JSON]], Guardrail]


KINDS: Final[Mapping[str, _Kind]] = {
    "block-patterns": _Kind(frozenset({"patterns"}), _pattern_issues, _block),
    "json-schema": _Kind(frozenset({"schema"}), _schema_issues, _schema),
}


class GuardrailCatalog:
    """`wfcore.ports.guardrails.Guardrails` over the given ones, which check every agent, and the built-in ones.

    ValueError for a name that is empty, built in or given twice.
    """

    def __init__(self, everywhere: Iterable[Guardrail] = ()) -> None:
        self.everywhere: Sequence[Guardrail] = tuple(everywhere)
        for number, own in enumerate(self.everywhere):
            taken = {*PLAIN, *KINDS, *(one.name for one in self.everywhere[:number])}
            if not own.name or own.name in taken:
                raise ValueError(f"there are two guardrails `{own.name}`" if own.name else "a guardrail has no name")
        self._made = lru_cache(maxsize=256)(self._make)

    @cached_property
    def _plain(self) -> Mapping[str, Guardrail]:
        return {**PLAIN, **{own.name: own for own in self.everywhere}}

    def get(self, named: JSON) -> Guardrail | None:
        return self._made(dumps(named))

    def _make(self, text: str) -> Guardrail | None:
        named = parse_json(text.encode())
        if self._faults(named, ""):
            return None
        options = named if isinstance(named, dict) else {"name": named}
        return self._plain.get(options["name"]) or KINDS[options["name"]].make(options)

    def issues(self, named: Sequence[JSON], path: str) -> list[Issue]:
        if len(named) > MOST:
            return [Issue(path, f"has more than {MOST} guardrails", "maxItems")]
        return [issue for index, one in enumerate(named) for issue in self._faults(one, f"{path}[{index}]")]

    def _faults(self, named: JSON, path: str) -> list[Issue]:
        options = named if isinstance(named, dict) else {"name": named}
        name = options.get("name")
        if not isinstance(name, str):
            return [Issue(path, "must be the name of a guardrail, or an object with its `name`", "type")]
        kind = KINDS.get(name)
        if kind is None and name not in self._plain:
            return [Issue(path, f"there is no guardrail `{name[:80]}`", "reference")]
        extra = options.keys() - {"name", *(kind.options if kind else ())}
        unknown = [Issue(f"{path}.{key}", f"is no option of `{name}`", "unknown") for key in sorted(extra)]
        return unknown + (kind.issues(options, path) if kind else [])
