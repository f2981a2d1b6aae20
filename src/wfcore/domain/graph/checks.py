"""Checks of JSON values, which combine into the checks of a graph (interface, WorkflowStructure).

A `Check` takes one JSON value and returns its issues, with paths relative to that value: "" is the value itself.
Small checks combine into larger ones (`record`, `list_of`, `every`, `then`): a check reads like the shape that it
describes. No check raises, for any value; an empty sequence means no issues.
"""

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Protocol, TypeGuard

import attrs

from wfcore.domain.expressions.expression import Expression, ExpressionError, compile_expression
from wfcore.domain.expressions.templates import expressions, split
from wfcore.domain.json.schema import schema_issues
from wfcore.domain.kernel.errors import Issue, join_path, usable
from wfcore.domain.kernel.ids import is_uuid, normalize_email, parse_id
from wfcore.domain.kernel.json_readers import as_number, as_text
from wfcore.domain.kernel.json_type import JSON

MAX_ISSUES = 1_000


class ReferenceCatalog(Protocol):
    """The tools and skills that a graph may refer to, as its deployer sees them."""

    def tool(self, tool_id: str, /) -> bool: ...
    def skill(self, agent_id: int, /) -> bool: ...


@attrs.frozen
class ListedCatalog:
    """A catalog of fixed ids."""

    tools: Container[str] = frozenset()
    skills: Container[int] = frozenset()

    def tool(self, tool_id: str, /) -> bool:
        return tool_id in self.tools

    def skill(self, agent_id: int, /) -> bool:
        return agent_id in self.skills


class CompleteCatalog:
    """A catalog that contains every tool and skill: for graphs that are checked away from their installation."""

    def tool(self, tool_id: str, /) -> bool:
        return True

    def skill(self, agent_id: int, /) -> bool:
        return True


@attrs.frozen
class Known:
    """Everything that a value in a graph may refer to: the ids of the graph's nodes, and the catalog."""

    nodes: Container[str] = frozenset()
    catalog: ReferenceCatalog = ListedCatalog()


Check = Callable[[JSON, Known], Sequence[Issue]]
"""A check of one JSON value; the paths of its issues are relative to the value."""

KINDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


# Small checks.


def found(rule: str, message: str, path: str = "") -> list[Issue]:
    return [Issue(path, message, rule)]


def wrong_type(expected: str, value: JSON) -> list[Issue]:
    return found("type", f"must be {expected}, not {KINDS.get(type(value), 'null')}")


def of_type(kind: type) -> Check:
    def check(value: JSON, known: Known) -> Sequence[Issue]:
        return () if isinstance(value, kind) else wrong_type(KINDS[kind], value)

    return check


string, boolean, free_object = of_type(str), of_type(bool), of_type(dict)


def must(holds: Callable[[JSON, Known], object], rule: str, message: str, path: str = "") -> Check:
    """A predicate as a check; `{}` in the message is replaced by the value, a string or a small number."""

    def check(value: JSON, known: Known) -> Sequence[Issue]:
        if holds(value, known):
            return ()
        return found(rule, message.format(clip(str(value))) if "{}" in message else message, path)

    return check


def text(most: int | None = None) -> Check:
    """A string of 1 to `most` characters."""

    def check(value: JSON, known: Known) -> Sequence[Issue]:
        if not isinstance(value, str):
            return wrong_type("a string", value)
        if not value:
            return found("minLength", "must not be empty")
        if most is not None and len(value) > most:
            return found("maxLength", f"must have at most {most} characters")
        return ()

    return check


def one_of(values: Iterable[str]) -> Check:
    choices = [str(value) for value in values]
    names = ", ".join(f"`{choice}`" for choice in choices)
    return then(string, must(lambda value, _: value in choices, "enum", f"`{{}}` is not one of {names}"))


def is_number(value: JSON) -> TypeGuard[int | float]:
    """Whether this is a finite JSON number; a boolean is not."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def number(least: float = -math.inf, *, most: float, above: float = -math.inf) -> Check:
    def check(value: JSON, known: Known) -> Sequence[Issue]:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return wrong_type("a number", value)
        if above < value and least <= value <= most:
            return ()
        minimum = f"more than {above}" if above > least else f"at least {least}"
        return found("range", f"must be {minimum} and at most {most}")

    return check


def integer(least: int, most: int = 2**53 - 1) -> Check:
    """A whole number, such as 3 or 3.0; the default bound is the largest that JSON readers keep exactly (RFC 7493)."""
    whole = must(lambda value, _: as_number(value) % 1 == 0, "integer", "must be an integer")
    return then(number(least, most=most), whole)


# Checks made of checks.


def every(*checks: Check) -> Check:
    """The issues of all the checks."""

    return lambda value, known: [issue for check in checks for issue in check(value, known)]


def then(*checks: Check) -> Check:
    """The issues of the first check that has any: a check only gets values that passed the ones before it."""

    return lambda value, known: next((issues for check in checks if (issues := check(value, known))), ())


def record(fields: Mapping[str, Check], required: Sequence[str] = (), *, extra: bool = False) -> Check:
    """An object with these fields; other keys are issues, unless `extra` keeps them verbatim."""

    def check(value: JSON, known: Known) -> Sequence[Issue]:
        if not isinstance(value, dict):
            return wrong_type("an object", value)
        issues = [Issue(key, "is required", "required") for key in required if key not in value]
        for key, item in value.items():
            field = fields.get(key)
            if field is not None:
                if inner := field(item, known):
                    issues += prefixed(key, inner)
            elif not extra:
                issues.append(Issue(key, f"`{clip(key)}` is an unknown key{usable(fields)}", "unknown"))
            if len(issues) > MAX_ISSUES:
                break
        return issues

    return check


def list_of(item: Check, least: int = 0, most: int | None = None) -> Check:
    """An array of `least` to `most` items; the items of an array that is too long are not checked."""

    def check(value: JSON, known: Known) -> Sequence[Issue]:
        if not isinstance(value, list):
            return wrong_type("an array", value)
        if len(value) < least:
            return found("minItems", f"must have at least {least}")
        if most is not None and len(value) > most:
            return found("maxItems", f"must have at most {most}, not {len(value)}")
        issues: list[Issue] = []
        for index, one in enumerate(value):
            if inner := item(one, known):
                issues += prefixed(f"[{index}]", inner)
                if len(issues) > MAX_ISSUES:
                    break
        return issues

    return check


def unique(key: str) -> Check:
    """No two objects of an array have the same value of `key`; items that are not objects are ignored."""

    def check(value: JSON, known: Known) -> Sequence[Issue]:
        seen: set[JSON] = set()
        issues: list[Issue] = []
        for index, item in enumerate(value if isinstance(value, list) else ()):
            name = item.get(key) if isinstance(item, dict) else None
            if not (isinstance(name, str) or is_number(name)):
                continue
            if name in seen:
                what = f"`{clip(name)}`" if isinstance(name, str) else "the number"
                issues.append(Issue(f"[{index}].{key}", f"{what} is already used", "unique"))
            seen.add(name)
        return issues

    return check


def prefixed(parent: str, issues: Sequence[Issue]) -> list[Issue]:
    """The issues with `parent` before their paths."""
    return [Issue(join_path(parent, one.path), one.message, one.rule, one.severity) for one in issues]


def clip(value: str, most: int = 100) -> str:
    return value if len(value) <= most else value[:most] + "..."


# Checks of what a value refers to.


def expression(value: JSON, known: Known) -> Sequence[Issue]:
    """A string that is an expression, without `{{ }}`, which compiles and reads only nodes that exist."""
    try:
        compiled = compile_expression(as_text(value))
    except ExpressionError as error:
        return found("expression", str(error))
    return unresolved(compiled.references, known)


def template(value: JSON, known: Known) -> Sequence[Issue]:
    """A value whose strings may hold expressions, under the same rules as `expression`, each at its own path."""
    issues: dict[Issue, None] = {}  # an unknown node that a string names twice is one issue
    for where, one in expressions(value, ""):
        if isinstance(one, ExpressionError):
            issues[Issue(where, one.message, "expression")] = None
        elif missing := unresolved(one.references, known):
            issues |= dict.fromkeys(prefixed(where, missing))
    return list(issues)


def unresolved(references: Collection[str], known: Known) -> Sequence[Issue]:
    return [
        Issue("", f"reads the unknown node `{clip(name)}`", "reference")
        for name in sorted(references)
        if name not in known.nodes
    ]


def node_id(value: JSON, known: Known) -> Sequence[Issue]:
    if not isinstance(value, str):
        return wrong_type("a string", value)
    return () if value in known.nodes else found("reference", f"unknown node `{clip(value)}`")


def schema(value: JSON, known: Known) -> Sequence[Issue]:
    return schema_issues(value, "")


def subordinate_of(tool_id: str) -> int | None:
    """The id of the skill in the tool id of a subordinate (`skill:7`); None for another tool."""
    kind, _, number = tool_id.partition(":")
    return parse_id(number) if kind == "skill" else None


def workflow_of(params: JSON) -> int | None:
    """The id of the workflow that the `params` of `core.workflow` name: a number, or a template that reads nothing.

    None for an id that is only known when the call is made, and for any other value.
    """
    number = params.get("workflowId") if isinstance(params, Mapping) else None
    if isinstance(number, str):
        number = _constant(number)
    return int(number) if is_number(number) and number % 1 == 0 and number >= 1 else None


def _constant(text: str) -> JSON:
    """The value of a template that is one expression without variables; None for another one."""
    match split(text):
        case [Expression() as only]:
            try:
                return compile_expression(only.source, ()).evaluate({})
            except ExpressionError:
                return None
    return None


def _is_agent_tool(tool_id: str, catalog: ReferenceCatalog) -> bool:
    number = subordinate_of(tool_id)
    return catalog.tool(tool_id) if number is None else catalog.skill(number)


known_tool = must(lambda name, known: known.catalog.tool(as_text(name)), "reference", "unknown tool `{}`")
agent_tool = must(lambda name, known: _is_agent_tool(as_text(name), known.catalog), "reference", "unknown tool `{}`")
known_skill = must(lambda key, known: known.catalog.skill(int(as_number(key))), "reference", "unknown skill `{}`")
email = then(
    string, must(lambda value, _: normalize_email(as_text(value)), "email", "`{}` is not a valid e-mail address")
)
uuid = then(string, must(lambda value, _: is_uuid(as_text(value)), "uuid", "`{}` is not a UUID in lower case"))
