"""Typed values of JSON objects: one attrs class declares the shape, the check and the conversion.

A class that `value` decorates is the only declaration of an object of the wire:

- its fields, with the constraints of their annotations, are what `codec.check` checks and the OpenAPI document shows;
- `parse` checks a tree, reports every fault with its path, and structures the tree with cattrs;
- `to_json` gives the object back, equal to what was parsed.

A field's name on the wire is its name in camel case, or the one that `wire` gives. A field whose default is `UNSET` may
be absent; `UNSET` then says that it was, which is not the same as null.
"""

from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from msgspec import UNSET, UnsetType

from wfcore.domain.kernel.json_type import JSON

__all__ = [
    "IGNORED",
    "UNSET",
    "Holds",
    "UnsetType",
    "changed",
    "creation",
    "given",
    "is_open",
    "is_value",
    "open_creation",
    "open_value",
    "shape_of",
    "structure",
    "to_json",
    "value",
    "wire",
    "wire_name",
    "without_ignored",
    "without_nulls",
]

T = TypeVar("T")

Object = Mapping[str, JSON]
"""An object with any keys, which stays the tree that it is."""

_WIRE = "wfcore.wire"
_IGNORED = "wfcore.ignored"

IGNORED: Final[Mapping[str, bool]] = {_IGNORED: True}
"""The `metadata` of a field that a body may have with any value. It is not part of the request."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def value(cls: type[T]) -> type[T]:
    """A frozen attrs class whose fields are given by keyword."""
    return attrs.frozen(kw_only=True)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def creation(cls: type[T]) -> type[T]:
    """A value that creates something, or a part of one: null for an optional field is the same as absent."""
    made = value(cls)
    made.__null_is_absent__ = True  # type: ignore[attr-defined]
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def open_value(cls: type[T]) -> type[T]:
    """A value of an object that can have other keys. They are not part of the value: their owner keeps the tree."""
    made = value(cls)
    made.__is_open__ = True  # type: ignore[attr-defined]
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def open_creation(cls: type[T]) -> type[T]:
    """A `creation` of an object that can have other keys, as in `open_value`; their nulls stay."""
    made = open_value(cls)
    made.__null_is_absent__ = True  # type: ignore[attr-defined]
    return made


class Holds(NamedTuple):
    """In the annotation of an object that stays a tree: the class that says which nulls in it mean absence.

    `shape` gets the object and the one around it; None leaves the object as it is.
    """

    shape: Callable[[Mapping[str, JSON], Mapping[str, JSON]], type | None]


def is_open(cls: type) -> bool:
    """Whether the object can have other keys."""
    return bool(vars(cls).get("__is_open__", False))


def without_nulls(cls: type, tree: Mapping[str, JSON], *, of_all: bool = False) -> Mapping[str, JSON]:
    """The tree without the nulls that mean absence: those of the optional fields of a `creation`, in its parts too.

    With `of_all`, those of every class of values, as for an object that is stored verbatim. A tree that has none is
    returned as it is.
    """
    optional, parts = _nullable_names(cls, of_all), _parts(cls, of_all)
    if not (optional and None in tree.values()) and parts.keys().isdisjoint(tree):
        return tree
    return {
        name: parts[name](item, tree) if name in parts else item
        for name, item in tree.items()
        if item is not None or name not in optional
    }


def without_ignored(cls: type, tree: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The tree without the fields that are accepted and `IGNORED`."""
    ignored = _ignored_names(cls)
    if ignored.isdisjoint(tree):
        return tree
    return {name: item for name, item in tree.items() if name not in ignored}


@cache
def _ignored_names(cls: type) -> frozenset[str]:
    return frozenset(wire_name(field) for field in attrs.fields(cls) if _IGNORED in field.metadata)


@cache
def _nullable_names(cls: type, of_all: bool) -> frozenset[str]:
    """The optional fields of a `creation`. `Any` and `X | None`, without `UnsetType`, have a null of their own."""
    if not of_all and not _null_is_absent(cls):
        return frozenset()
    hints = get_type_hints(cls)
    optional = [field for field in attrs.fields(cls) if field.default is not attrs.NOTHING]
    return frozenset(wire_name(field) for field in optional if not _has_null(hints[field.name]))


def _has_null(hint: Any) -> bool:
    return hint is Any or (NoneType in get_args(hint) and UnsetType not in get_args(hint))


Drop = Callable[[Any, Mapping[str, JSON]], JSON]
"""What drops the nulls of an item of the object that is the second argument."""


@cache
def _parts(cls: type, of_all: bool) -> Mapping[str, Drop]:
    """By the names of the fields that hold a `creation`: what drops the nulls there, whatever the field has."""
    hints = get_type_hints(cls, include_extras=True)
    found = {wire_name(field): _part(hints[field.name], of_all) for field in attrs.fields(cls)}
    return {name: drop for name, drop in found.items() if drop is not None}


def _part(hint: Any, of_all: bool) -> Drop | None:
    if is_value(hint):
        has_any = _nullable_names(hint, of_all) or _parts(hint, of_all)
        return _drop_of(lambda item, around: hint, of_all) if has_any else None
    if holds := next((one for one in get_args(hint) if isinstance(one, Holds)), None):
        return _drop_of(holds.shape, of_all)
    inner = next(filter(None, (_part(one, of_all) for one in get_args(hint))), None)
    if inner is None or get_origin(hint) in (Annotated, Union, UnionType):
        return inner
    if get_origin(hint) is list:
        return lambda item, around: [inner(each, around) for each in item] if isinstance(item, list) else item
    return lambda item, around: (
        {key: inner(each, around) for key, each in item.items()} if isinstance(item, Mapping) else item
    )


def _drop_of(shape: Callable[[Mapping[str, JSON], Mapping[str, JSON]], type | None], of_all: bool) -> Drop:
    def drop(item: Any, around: Mapping[str, JSON]) -> JSON:
        cls = shape(item, around) if isinstance(item, Mapping) else None
        return item if cls is None else without_nulls(cls, item, of_all=of_all)

    return drop


def _null_is_absent(cls: type) -> bool:
    return bool(vars(cls).get("__null_is_absent__", False))


def wire(name: str) -> dict[str, str]:
    """The `metadata` of a field whose name on the wire is not its name in camel case."""
    return {_WIRE: name}


def wire_name(field: "attrs.Attribute[Any]") -> str:
    """The name of a field on the wire."""
    given: str | None = field.metadata.get(_WIRE)
    if given is not None:
        return given
    head, *rest = field.name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@cache
def wire_names(cls: type) -> Mapping[str, str]:
    """The names of the fields of a value on the wire, by their own."""
    return {field.name: wire_name(field) for field in attrs.fields(cls)}


def is_value(cls: Any) -> bool:
    """Whether this is a class of values."""
    return isinstance(cls, type) and hasattr(cls, "__attrs_attrs__")


@cache
def shape_of(cls: type) -> type:
    """The TypedDict of the wire that a class declares: what msgspec makes a JSON Schema of.

    `cls` is a class of values, or a TypedDict, in which classes of values are replaced; any other class is returned.
    """
    if not is_value(cls) and not is_typeddict(cls):
        return cls
    hints = get_type_hints(cls, include_extras=True)
    if is_value(cls):
        fields = [(wire_name(field), hints[field.name], field.default is attrs.NOTHING) for field in attrs.fields(cls)]
        if _null_is_absent(cls):
            fields = [(name, hint if required else hint | None, required) for name, hint, required in fields]
    else:
        fields = [(name, _bare(hint), name in cls.__required_keys__) for name, hint in hints.items()]  # type: ignore[attr-defined]
    keys = {name: _shaped(hint, required=required) for name, hint, required in fields}
    make: Callable[..., type] = TypedDict  # type: ignore[assignment]  # mypy knows only literal names and fields
    shape = make(cls.__name__, keys, total=False)
    shape.__doc__ = cls.__doc__
    shape.__module__ = cls.__module__
    return shape


def _bare(hint: Any) -> Any:
    """The annotation of a TypedDict's key without `Required` or `NotRequired`."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _shaped(hint: Any, *, required: bool = False) -> Any:
    """The annotation with every class of values replaced by its TypedDict, and without `UnsetType`."""
    if required:
        return Required[_shaped(hint)]
    if is_value(hint) or is_typeddict(hint):
        return shape_of(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_shaped(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, (_shaped(each) for each in arguments if each is not UnsetType))
    if arguments and origin in (list, dict, tuple):
        return origin[tuple(_shaped(each) for each in arguments)]
    return hint


def changed(value: T, **fields: Any) -> T:
    """The value with other fields."""
    return attrs.evolve(value, **fields)  # type: ignore[misc]  # mypy does not see that `value` is attrs


def given(field: T | UnsetType) -> T | None:
    """The value of a field, or None if it is absent."""
    return None if field is UNSET else field


# --- conversion ---


def structure(cls: type[T], tree: Mapping[str, JSON]) -> T:
    """The value of a tree that `codec.check` found no fault in."""
    known: type = cls
    flat = _flat_fields(known)
    if tree.keys() <= flat.keys():  # most bodies: nothing in them needs the converter
        fields = dict[str, Any]()
        for name, item in tree.items():
            field, is_whole = flat[name]
            fields[field] = int(item) if is_whole else item  # type: ignore[arg-type]  # it was checked
        return cls(**fields)
    return _converter().structure(tree, cls)


def to_json(value: Any) -> dict[str, JSON]:
    """The object of a value: absent fields are left out, numbers and free objects are those that were parsed."""
    tree: dict[str, JSON] = _converter().unstructure(value)
    return tree


@cache
def _flat_fields(cls: type) -> Mapping[str, tuple[str, bool]]:
    """The fields that need no converter, by their names on the wire: name, and whether it is a whole number."""
    hints, names = get_type_hints(cls, include_extras=True), wire_names(cls)
    found = {name: _is_whole(hint) for name, hint in hints.items() if name in names}
    return {names[name]: (name, is_whole) for name, is_whole in found.items() if is_whole is not None}


def _is_whole(hint: Any) -> bool | None:
    """Whether the field is a whole number; None if there are values in it."""
    if _is_verbatim(hint):
        return False
    origin, arguments = get_origin(hint), [each for each in get_args(hint) if each is not UnsetType]
    if origin is Annotated or (origin in (Union, UnionType) and len(arguments) == 1):
        return _is_whole(arguments[0])
    return True if hint is int else False if origin is Literal else None


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=False, forbid_extra_keys=True)
    converter.register_structure_hook_func(_is_verbatim, lambda tree, _: tree)
    converter.register_unstructure_hook_func(_is_verbatim, lambda tree: tree)
    converter.register_structure_hook_func(lambda hint: hint is int, lambda number, _: int(number))
    converter.register_structure_hook_factory(_may_be_absent, lambda hint: _present_hook(converter, hint))
    converter.register_structure_hook_factory(attrs.has, lambda cls: _structure_hook(converter, cls))
    converter.register_unstructure_hook_factory(attrs.has, lambda cls: _unstructure_hook(converter, cls))
    return converter


_VERBATIM: Final = (str, float, bool, Any, NoneType, UnsetType, dict[str, Any], Object, list[str])


def _is_verbatim(hint: Any) -> bool:
    """What stays the tree it is: texts, numbers with a fraction, booleans, free objects, and anything."""
    if get_origin(hint) is Annotated:
        return _is_verbatim(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return all(map(_is_verbatim, get_args(hint)))
    return hint in _VERBATIM


def _may_be_absent(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType) and UnsetType in get_args(hint)


def _present_hook(converter: cattrs.Converter, hint: Any) -> Callable[[Any, Any], Any]:
    inner = reduce(or_, (each for each in get_args(hint) if each is not UnsetType))
    structured = converter.get_structure_hook(inner)
    return lambda tree, _: structured(tree, inner)


def _structure_hook(converter: cattrs.Converter, cls: type) -> Callable[[Any, Any], Any]:
    names = {field.name: override(rename=wire_name(field)) for field in attrs.fields(cls)}
    closed = not is_open(cls)
    return make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=closed, **names)  # type: ignore[arg-type]


def _unstructure_hook(converter: cattrs.Converter, cls: type) -> Callable[[Any], dict[str, Any]]:
    names = {
        field.name: override(rename=wire_name(field), omit_if_default=field.default is UNSET)
        for field in attrs.fields(cls)
    }
    return make_dict_unstructure_fn(cls, converter, **names)  # type: ignore[arg-type]
