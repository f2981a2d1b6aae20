"""The check of a declared value: `check_of` derives it from a class of values, so that one declaration serves both.

The annotations of a class (see `wfcore.domain.json.values`) say the type and bounds of each key. What a type cannot
say, such as a reference to a tool, is a `Rule` in the annotation.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
from msgspec import UNSET, Meta, UnsetType

from wfcore.domain.graph.checks import (
    Check,
    Known,
    boolean,
    every,
    free_object,
    integer,
    list_of,
    number,
    one_of,
    record,
    string,
    text,
    then,
    wrong_type,
)
from wfcore.domain.json.values import is_open, is_value, wire_name
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON

LARGEST_INTEGER = 2**53 - 1
"""The largest integer that JSON readers keep exactly (RFC 7493)."""


@attrs.frozen
class Rule:
    """A further check of a key, in its annotation: `then` runs it on what has the declared type, `every` always.

    `instead` replaces the check of the type.
    """

    check: Check
    how: Literal["then", "every", "instead"] = "then"


def check_of(hint: Any) -> Check:
    """The check of an annotation. Raises TypeError for a type that a graph does not use."""
    if get_origin(hint) is Annotated:
        base, *metadata = get_args(hint)
        return _with_rules(
            _plain_check(base, [one for one in metadata if isinstance(one, Meta)]),
            [one for one in metadata if isinstance(one, Rule)],
        )
    return _plain_check(hint, [])


def _with_rules(check: Check, rules: Iterable[Rule]) -> Check:
    for rule in rules:
        if rule.how == "instead":
            check = rule.check
        else:
            check = then(check, rule.check) if rule.how == "then" else every(check, rule.check)
    return check


def _plain_check(hint: Any, metas: Sequence[Meta]) -> Check:
    bounds = {name: bound for meta in metas for name in _BOUNDS if (bound := getattr(meta, name)) is not None}
    origin, arguments = get_origin(hint), get_args(hint)
    if is_value(hint):
        return _record_of(hint)
    if origin is Literal:
        return one_of(arguments)
    if origin is list:
        return list_of(check_of(arguments[0]), bounds.get("min_length", 0), bounds.get("max_length"))
    if origin in (Union, UnionType):
        return _choice_of([one for one in arguments if one is not UnsetType])
    if hint is int:
        return integer(bounds.get("ge", -LARGEST_INTEGER), bounds.get("le", LARGEST_INTEGER))
    if hint is float:
        return number(bounds.get("ge", -math.inf), most=bounds.get("le", math.inf), above=bounds.get("gt", -math.inf))
    if hint is str:
        return text(bounds.get("max_length")) if bounds.get("min_length") else string
    if hint in _FIXED:
        return _FIXED[hint]
    raise TypeError(f"no check for the annotation {hint!r}")


_BOUNDS = ("ge", "gt", "le", "min_length", "max_length")
_FIXED: Mapping[Any, Check] = {bool: boolean, dict[str, Any]: free_object, Any: every()}


def _record_of(cls: type) -> Check:
    hints = get_type_hints(cls, include_extras=True)
    fields = attrs.fields(cls)
    return record(
        {wire_name(field): check_of(hints[field.name]) for field in fields},
        tuple(wire_name(field) for field in fields if field.default is attrs.NOTHING),
        extra=is_open(cls),
    )


@cache
def strict_type(cls: type) -> type:
    """A msgspec struct that accepts what has the declared types and bounds, without the rules: a fast first check.

    An absent field is `UNSET`, which is false.
    """
    hints = get_type_hints(cls, include_extras=True)
    required = [(wire_name(one), _strict(hints[one.name])) for one in attrs.fields(cls) if one.default is attrs.NOTHING]
    optional = [
        (wire_name(one), _strict(hints[one.name]), UNSET)
        for one in attrs.fields(cls)
        if one.default is not attrs.NOTHING
    ]
    return msgspec.defstruct(cls.__name__, [*required, *optional], forbid_unknown_fields=not is_open(cls), gc=False)


def _strict(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_value(hint):
        return strict_type(hint)
    if origin is Annotated:
        return Annotated[(_strict(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, map(_strict, arguments))
    return list[_strict(arguments[0])] if origin is list else hint  # type: ignore[misc]


def value_classes(cls: type) -> set[type]:
    """The class of values and those of its fields, at any depth."""
    found, todo = set[type](), [cls]
    while todo:
        hint = todo.pop()
        if is_value(hint):
            found.add(hint)
            todo += get_type_hints(hint, include_extras=True).values()
        else:
            todo += get_args(hint)
    return found


_JSON_TYPES: Mapping[Any, tuple[type, ...]] = {str: (str,), list: (list,), bool: (bool,), NoneType: (NoneType,)}


def _choice_of(hints: Sequence[Any]) -> Check:
    """The check of the alternative that has the type of the value."""
    if len(hints) == 1:
        return check_of(hints[0])
    checks = [(_JSON_TYPES[get_origin(hint) or hint], check_of(hint)) for hint in hints]
    expected = " or ".join(map(_named, hints))

    def check(value: JSON, known: Known) -> Sequence[Issue]:
        for types, chosen in checks:
            if isinstance(value, types):
                return chosen(value, known)
        return wrong_type(expected, value)

    return check


def _named(hint: Any) -> str:
    names = {str: "a string", bool: "a boolean", NoneType: "null"}
    return "an array of strings" if hint == list[str] else names[hint]
