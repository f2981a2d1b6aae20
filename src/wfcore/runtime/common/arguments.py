"""The types of the arguments of use cases: one of another type is refused by its name, before it is used.

Without this, a UUID in place of a string would find nothing, match everything, or fail in a database driver.
"""

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Final, Literal, ParamSpec, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
from msgspec import Struct

from wfcore.domain.json.parsing import MAX_INTEGER, SURROGATE
from wfcore.domain.kernel.errors import Issue, refuse, usable
from wfcore.runtime.common.loop_slice import check_home

P = ParamSpec("P")
R = TypeVar("R")

SCALARS: Final = frozenset({str, int, float, bytes, bool, datetime, NoneType})
"""The types that are checked, with records such as `RunView`, functions and tuples of these types; any other argument
is a body or a value of its own.
"""
FUNCTION: Final[Any] = Callable


@attrs.frozen
class Expected:
    """What an argument can be: one of `types`, a list of `item`, or a tuple of `parts`. A `limit` is not negative.

    `exact` are the types of which nearly every value needs no further look.
    """

    types: frozenset[type]
    item: type | None = None
    parts: tuple[type, ...] = ()
    is_limit: bool = False
    exact: frozenset[type] = attrs.field(init=False)

    @exact.default
    def _exact_of_types(self) -> frozenset[type]:
        return self.types - {datetime, int} if self.is_limit else self.types - {datetime}

    def allows(self, value: Any) -> bool:
        """Whether a value is allowed; False also if that needs a further look."""
        kind = type(value)
        if kind is str:
            return str in self.exact and value.isascii()
        return kind in self.exact and (kind is not int or -MAX_INTEGER <= value <= MAX_INTEGER)

    def fault(self, value: object) -> str | None:
        """What is wrong with a value, if anything is."""
        if self.item is not None and _is_list(value):
            wrong = next((each for each in value if not _is(each, self.item)), self)
            if wrong is not self:
                return f"must have items of type `{self.item.__name__}`, not {_shown(wrong)}"
            return next(filter(None, map(_unstorable, value)), None)
        if self._is_tuple_of_parts(value):
            return next(filter(None, (Expected(frozenset({type(each)})).fault(each) for each in value)), None)
        if not any(_is(value, each) for each in self.types):
            return f"must be {self._description()}, not {_shown(value)}"
        if isinstance(value, datetime) and value.tzinfo is None:
            return "must have a time zone, as `datetime.now(UTC)` has"
        if self.is_limit and isinstance(value, int) and value < 0:
            return "must not be negative"
        return _unstorable(value)

    def _is_tuple_of_parts(self, value: object) -> TypeGuard[tuple[object, ...]]:
        return (
            isinstance(value, tuple)
            and len(value) == len(self.parts) > 0
            and all(_is(each, kind) for each, kind in zip(value, self.parts, strict=True))
        )

    def _description(self) -> str:
        names = sorted(each.__name__ for each in self.types - {NoneType, FUNCTION})
        kinds = [f"of type `{name}`" for name in names]
        if FUNCTION in self.types:
            kinds.append("a function")
        if self.parts:
            kinds.append(f"a tuple of {' and '.join(f'`{each.__name__}`' for each in self.parts)}")
        if self.item is not None:
            kinds.append(f"a list of `{self.item.__name__}`")
        return " or ".join([*kinds, *(["None"] if NoneType in self.types else [])])


def argument_check(
    use_case: Callable[..., object], skipped: int
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], None]:
    """A function that checks the arguments of one call against the annotations of a method.

    The first `skipped` parameters are not checked. It raises Malformed with the first argument of another type.
    """
    parameters = list(inspect.signature(use_case).parameters.values())[skipped:]
    named = _all_expected({each.name: each.annotation for each in parameters})
    placed = [(each.name, named.get(each.name)) for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for value, (name, expected) in zip(args[skipped:], placed, strict=False):
            if expected is not None and not expected.allows(value):
                _refuse(name, expected, value)
        _check_named(named, kwargs)

    return check


def filter_check(shape: type) -> Callable[[Mapping[str, Any]], None]:
    """A function that checks keyword arguments against a TypedDict: their types, and that it has their names.

    It raises Malformed, and Invalid for an unknown name: one that is misspelt would filter nothing.
    """
    annotations = get_type_hints(shape)
    named = _all_expected(annotations)

    def check(kwargs: Mapping[str, Any]) -> None:
        refuse(
            Issue(name, f"is not a known filter{usable(annotations)}", "unknown")
            for name in kwargs
            if name not in annotations
        )
        _check_named(named, kwargs)

    return check


def checks_arguments(use_case: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Check the arguments and the event loop of a method that takes no principal, as `needs` does for the others."""
    check = argument_check(use_case, 1)

    @wraps(use_case)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        check(args, kwargs)
        return later(*args, **kwargs)

    @wraps(use_case)
    async def later(*args: P.args, **kwargs: P.kwargs) -> R:
        check_home(args[0]._ports.loop)  # type: ignore[attr-defined]  # noqa: SLF001  (the object of the method)
        return await use_case(*args, **kwargs)

    return checked


def field_fault(value: object, place: str) -> tuple[str, str] | None:
    """The place of a field of an attrs class that has another type, and what is wrong with it; also of its parts."""
    for name, annotation in get_type_hints(type(value)).items():
        expected, found = _expected(annotation, is_limit=False), getattr(value, name)
        if expected is not None and not expected.allows(found) and (message := expected.fault(found)):
            return f"{place}.{name}", message
        if attrs.has(type(found)) and (fault := field_fault(found, f"{place}.{name}")):
            return fault
    return None


def _check_named(named: Mapping[str, Expected], kwargs: Mapping[str, Any]) -> None:
    for name, value in kwargs.items():
        expected = named.get(name)
        if expected is not None and not expected.allows(value):
            _refuse(name, expected, value)


def _refuse(name: str, expected: Expected, value: object) -> None:
    if message := expected.fault(value):
        refuse([Issue(name, message, "type")])


def _all_expected(annotations: Mapping[str, Any]) -> Mapping[str, Expected]:
    """What is checked, by name."""
    found = {name: _expected(annotation, name == "limit") for name, annotation in annotations.items()}
    return {name: expected for name, expected in found.items() if expected is not None}


def _expected(annotation: Any, is_limit: bool) -> Expected | None:
    """What an annotation allows; None for one that is not checked."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    types, item, parts = set[type](), None, ()
    for part in choices:
        if part in SCALARS or (isinstance(part, type) and (issubclass(part, Struct) or attrs.has(part))):
            types.add(part)
        elif get_origin(part) is FUNCTION:
            types.add(FUNCTION)
        elif get_origin(part) is Literal or (isinstance(part, type) and issubclass(part, StrEnum)):
            types.add(str)
        elif (found := _item(part)) is not None:
            item = found
        elif get_origin(part) is tuple:
            parts = get_args(part)
        else:
            return None
    return Expected(frozenset(types), item, parts, is_limit)


def _item(annotation: Any) -> type | None:
    """The type of the items of a list of any length; None for another annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin not in (Collection, Sequence) and not (origin is tuple and arguments[1:] == (...,)):
        return None
    found = get_origin(arguments[0]) or arguments[0]
    return found if found in SCALARS or found is tuple else None


def _is_list(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))


def _is(value: object, kind: type) -> bool:
    """Whether a value is of this type: a bool is not a number, and an integer can stand for a float."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _unstorable(value: object) -> str | None:
    """Why no database has a text or a number."""
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return f"must be from -{MAX_INTEGER} to {MAX_INTEGER}"
    if isinstance(value, str) and SURROGATE.search(value):
        return "must not have a lone surrogate"
    return None


def _shown(value: object) -> str:
    awaited = ": await it first" if inspect.isawaitable(value) else ""
    return "None" if value is None else f"`{type(value).__name__}`{awaited}"
