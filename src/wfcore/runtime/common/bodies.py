"""Parsing of request bodies: the one place where the body of a use case becomes a value."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

import attrs

from wfcore.domain.json.codec import check, issues_and_null
from wfcore.domain.json.parsing import faults_of
from wfcore.domain.json.values import is_value, structure, to_json, wire_names, without_ignored, without_nulls
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.requests import key_issues

T = TypeVar("T")
Tree = Mapping[str, JSON]
Rule = Callable[[Tree], Iterable[Issue]]

NO_NAMES: Mapping[str, str] = {}


def parsed(
    cls: type[T],
    body: T | Tree | None,
    fields: Mapping[str, object],
    *rules: Rule,
    names: Mapping[str, str] = NO_NAMES,
    key: str | None = None,
) -> T:
    """The value of a body; see `checked`."""
    return structure(cls, checked(cls, body, fields, *rules, names=names, key=key))


def checked(
    cls: type[T],
    body: T | Tree | None,
    fields: Mapping[str, object],
    *rules: Rule,
    names: Mapping[str, str] = NO_NAMES,
    key: str | None = None,
) -> Tree:
    """The object of a body, which the caller gave as a value, as an object in wire names, or as keyword arguments.

    `fields` are the keyword arguments, in snake case; `names` has short forms of theirs. `rules` are the rules of the
    domain on the tree; each must accept an object of any shape. `key` is the Idempotency-Key. Null for an optional
    field of a `creation`, or of a part of the body that is one, is the same as absent: what was read can be created
    again, and equal requests have one fingerprint.
    Raises Malformed for what is not JSON; Malformed or Invalid with every fault of the key, the shape and the rules;
    TypeError for a body with fields.
    """
    tree = tree_of(cls, body, fields, names)
    if not (type(tree) is dict or isinstance(tree, Mapping)):  # a union is a new object for each call
        refuse([*key_issues(key), *map(_of_body, shape_issues(cls, tree))])
    issues, may_have_null = issues_and_null(tree)
    if issues:
        refuse(_of_whole_objects(issues, _misplaced(cls, body, fields, names)))
    tree = without_ignored(cls, tree)
    if may_have_null:
        tree = without_nulls(cls, tree)
    refuse([*key_issues(key), *shape_issues(cls, tree), *(issue for rule in rules for issue in rule(tree))])
    return tree


def _misplaced(cls: type, body: object, fields: Mapping[str, object], names: Mapping[str, str]) -> Iterator[Issue]:
    """An issue for each object that stands for what is none, such as the view of a workflow in place of its id."""
    if is_value(type(body)) and not isinstance(body, cls):
        yield Issue("", f"the body: must be of type `{cls.__name__}` or `dict`, not `{type(body).__name__}`", "type")
    for name, value in fields.items():
        path = names.get(name) or wire_names(cls).get(name, name)
        if is_value(type(value)) and (fault := _type_fault(cls, path, {})):
            takes_id = isinstance(number := getattr(value, "id", None), int | str) and not _type_fault(
                cls, path, number
            )
            message = fault.message.replace("not object", f"not `{type(value).__name__}`")
            yield attrs.evolve(fault, message=message + (": use its `id`" if takes_id else ""))


def _type_fault(cls: type, path: str, value: JSON) -> Issue | None:
    """The issue of a field that cannot have a value of this type."""
    return next((each for each in check(cls, {path: value}) if (each.path, each.rule) == (path, "type")), None)


def _of_whole_objects(issues: Iterable[Issue], misplaced: Iterable[Issue]) -> list[Issue]:
    """The issues with those of a misplaced object in place of those of its fields."""
    found = list(misplaced)
    parts = tuple(f"{each.path}." if each.path else "" for each in found)
    return [*found, *(each for each in issues if not each.path.startswith(parts))]


def _of_body(issue: Issue) -> Issue:
    """The issue of the whole body, whose message says so: it has no path."""
    return issue if issue.path else attrs.evolve(issue, message=f"the body: {issue.message}")


def shape_issues(cls: type, tree: Tree) -> list[Issue]:
    """The issues of the shape, or of a value that its check does not know: orjson takes a UUID for a string."""
    try:
        return check(cls, tree)
    except ValueError:
        if issues := faults_of(tree):
            return issues
        raise


def tree_of(cls: type, body: Any, fields: Mapping[str, object], names: Mapping[str, str] = NO_NAMES) -> Tree:
    """The body in wire names, unchecked."""
    if body is None:
        known = wire_names(cls)
        return {names.get(name) or known.get(name, name): _plain(value) for name, value in fields.items()}
    if fields:
        raise TypeError("pass a body or keyword arguments, not both")
    tree: Tree = to_json(body) if is_value(type(body)) else body
    return tree


def _plain(value: Any) -> JSON:
    """A keyword argument as JSON; it, and what it holds, may be values."""
    if type(value) is str or type(value) is int:  # nearly always
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if type(value) is dict or isinstance(value, Mapping):  # a dict is recognized much faster
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, str):  # of a subclass, such as that of a template engine: JSON has only texts
        return str.__str__(value)
    if isinstance(value, Enum):
        return _plain(value.value)
    tree: JSON = to_json(value) if is_value(type(value)) else value
    return tree
