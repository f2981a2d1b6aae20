"""Types of Python as JSON: the JSON Schema of a type, and the conversion of a JSON value to it.

msgspec converts the types that it knows. attrs classes and dataclasses are made by their constructor, so that
converters and validators are applied; models of pydantic validate themselves.
"""

import dataclasses
import datetime
import inspect
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec

from wfcore.adapters.tools.constraints import Constrained, constrained
from wfcore.domain.kernel.json_type import JSON

_AT = " - at `$"
"""What msgspec writes before the path of an invalid value."""
_AT_KEY = " - at `key` in `$"
"""The same for a key of an object."""
_SUPPORTED = (
    "use a JSON type, an enum, a date or time, `Decimal`, `UUID`, `bytes`, a dataclass, an attrs class, a msgspec "
    "struct, a pydantic model, a `TypedDict`, or lists, mappings and unions of these"
)
_COMPARED = (Decimal, datetime.date, datetime.time, datetime.timedelta)
"""Types whose bounds msgspec cannot check."""


class NoSchema(TypeError):
    """A type that JSON cannot express. `path` leads to it from the parameter; `why` says what is wrong."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"`{path}` has no JSON Schema: {why}")
        self.path = path
        self.why = why


class InvalidValue(ValueError):
    """A value that does not fit its type, at a path such as `.lines[0].sku` below the value."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{message}{_AT}{path}`" if path else message)
        self.message = message
        self.path = path

    @classmethod
    def of(cls, error: ValueError) -> "InvalidValue":
        """An error of msgspec. Each conversion within another one has added its path at the end."""
        message, *paths = str(error).replace(_AT_KEY, f" in a key{_AT}").split(_AT)
        return cls(message[:1].lower() + message[1:], "".join(path.rstrip("`") for path in reversed(paths)))


# What msgspec cannot convert by itself: it passes such a type, with the value, to a hook.


class _Opaque(type):
    """A type that msgspec does not look into. Every value that the hook returns is an instance."""

    custom: "_Custom"

    def __instancecheck__(cls, value: object) -> bool:
        return True


def _opaque(custom: "_Custom") -> Any:
    return _Opaque("Opaque", (), {"custom": custom})


@attrs.frozen
class _Field:
    """A parameter of a constructor. `key` is its name in JSON."""

    name: str
    key: str
    type: Any
    required: bool
    default: Any = inspect.Parameter.empty


@attrs.frozen
class _Record:
    """An attrs class or a dataclass. `output`: its fields as they are stored, not as they are given."""

    cls: type
    output: bool

    @cached_property
    def fields(self) -> tuple[_Field, ...]:
        """As `_fields`. Kept here and not by class: a product can define its classes anew each time it opens wfcore."""
        return _fields(self.cls, self.output)

    def convert(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise InvalidValue(f"expected `object`, got `{_json_name(value)}`")
        arguments = {}
        for field in self.fields:
            if field.key in value:
                arguments[field.name] = _converted_field(field, value[field.key])
            elif field.required:
                raise InvalidValue(f"object missing required field `{field.key}`")
        try:
            return self.cls(**arguments)
        except Exception as error:
            raise InvalidValue(f"not a valid {self.cls.__name__}: {_text_of(error)}") from error

    def schema(self, schemas: "Schemas", path: str) -> dict[str, JSON]:
        return {
            "title": self.cls.__name__,
            "type": "object",
            "properties": {field.key: schemas.of_field(field, f"{path}.{field.key}") for field in self.fields},
            "required": [field.key for field in self.fields if field.required],
        }


@attrs.frozen
class _Model:
    """A model of pydantic."""

    cls: Any
    output: bool

    def convert(self, value: Any) -> Any:
        try:
            return self.cls.model_validate(value)
        except ValueError as error:
            problems: Any = error
            first: dict[str, Any] = problems.errors()[0] if hasattr(problems, "errors") else {"msg": str(error)}
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.get("loc", ()))
            message = str(first["msg"])
            raise InvalidValue(message[:1].lower() + message[1:], path) from error

    def schema(self, schemas: "Schemas", path: str) -> dict[str, JSON]:
        mode = "serialization" if self.output else "validation"
        try:
            found: dict[str, JSON] = self.cls.model_json_schema(mode=mode, ref_template="#/$defs/{model}")
        except Exception as error:  # (of pydantic, which is not imported here)
            raise NoSchema(path, str(error).partition("\n")[0]) from error
        definitions = found.pop("$defs", {})
        schemas.add(path, definitions if isinstance(definitions, dict) else {})
        return found


@attrs.frozen
class _Bounded:
    """A type with constraints that msgspec cannot check."""

    cls: Any
    constraints: Constrained

    def convert(self, value: Any) -> Any:
        made = msgspec.convert(value, self.cls)
        if problem := self.constraints.problem_of(made):
            raise InvalidValue(problem)
        return made

    def schema(self, schemas: "Schemas", path: str) -> dict[str, JSON]:
        shape: dict[str, JSON] = {**msgspec.json.schema(self.cls), **self.constraints.documented()}
        return {**shape, "type": ["string", "number"]} if self.cls is Decimal else shape


@attrs.frozen
class _Choice:
    """A union that has a type which msgspec cannot convert: the first type that the value fits."""

    parts: tuple[Any, ...]

    def convert(self, value: Any) -> Any:
        failures = []
        for part in self.parts:
            try:
                return convert(value, part)
            except InvalidValue as error:
                failures.append(error)
        raise max(failures, key=lambda failure: len(failure.path))

    def schema(self, schemas: "Schemas", path: str) -> dict[str, JSON]:
        return {"anyOf": [schemas.of(part, path) for part in self.parts]}


_Custom = _Record | _Model | _Bounded | _Choice


def _converted_field(field: _Field, value: Any) -> Any:
    try:
        return convert(value, field.type)
    except InvalidValue as error:
        raise InvalidValue(error.message, f".{field.key}{error.path}") from error


def _json_name(value: JSON) -> str:
    names = {str: "str", bool: "bool", int: "int", float: "float", list: "array"}
    return names.get(type(value), "null")


def _text_of(error: Exception) -> str:
    """The text of an exception; its name where it has no text of its own."""
    return str(error) if isinstance(error, (TypeError, ValueError)) else f"{type(error).__name__}: {error}"


# The types that msgspec gets


def prepared(annotation: Any, *, output: bool = False) -> Any:
    """The annotation for `convert` and `Schemas`: `output` for a result, without it for a parameter."""
    origin, inner = get_origin(annotation), get_args(annotation)
    again = partial(prepared, output=output)
    if origin is Annotated:
        return _constrained(again(inner[0]), inner[0], annotation.__metadata__)
    if origin in (Union, UnionType):
        return _union(tuple(again(part) for part in inner))
    if isinstance(annotation, NewType):
        return again(annotation.__supertype__)
    if hasattr(annotation, "__value__"):  # `type X = ...`
        return again(annotation.__value__)
    if origin is not None and origin is not Literal and inner and not _is_class_of_fields(origin):
        parts = tuple(part if part is Ellipsis or isinstance(part, list) else again(part) for part in inner)
        return origin[parts]
    return _prepared_class(annotation, output=output)


def _union(parts: tuple[Any, ...]) -> Any:
    others = [part for part in parts if part is not NoneType]
    if len(others) > 1 and any(isinstance(part, _Opaque) for part in others):
        return _opaque(_Choice(parts))
    return Union[parts]  # noqa: UP007  (of a tuple)


def _prepared_class(annotation: Any, *, output: bool) -> Any:
    if annotation is object:
        return Any
    if annotation is Decimal and not output:
        return _opaque(_Bounded(Decimal, constrained(())))
    if not isinstance(annotation, type):
        return annotation
    if hasattr(annotation, "model_validate") and hasattr(annotation, "model_json_schema"):
        return _opaque(_Model(annotation, output))
    return _opaque(_Record(annotation, output)) if _is_class_of_fields(annotation) else annotation


def _is_class_of_fields(cls: Any) -> bool:
    return isinstance(cls, type) and (attrs.has(cls) or dataclasses.is_dataclass(cls))


def _constrained(made: Any, annotation: Any, metadata: tuple[Any, ...]) -> Any:
    rules = constrained(metadata)
    if isinstance(annotation, type) and issubclass(annotation, _COMPARED):
        return _opaque(_Bounded(annotation, rules))
    return Annotated[(made, rules.meta())] if not rules.is_empty else made


def _fields(cls: type, output: bool) -> tuple[_Field, ...]:
    """The fields of a record. Raises NoSchema for a parameter of its constructor that is not one of them."""
    hints = get_type_hints(cls, include_extras=True)
    if output:
        names = attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls)
        shown = [field.name for field in names if not field.name.startswith("_")]
        return tuple(_Field(name, name, prepared(hints[name], output=True), True) for name in shown)
    parameters = inspect.signature(cls).parameters
    fields = _attrs_fields(cls, hints) if attrs.has(cls) else _dataclass_fields(cls, hints)
    known = {field.name: field for field in fields}
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in known:
            raise NoSchema(f"{cls.__name__}.{name}", "the constructor needs what is not a field")
    return tuple(known[name] for name in parameters if name in known)


def _attrs_fields(cls: Any, hints: Mapping[str, Any]) -> list[_Field]:
    found = []
    for field in attrs.fields(cls):
        if field.init:
            wanted = hints.get(field.name, Any) if field.converter is None else _given_type(field, hints)
            required = field.default is attrs.NOTHING
            default = inspect.Parameter.empty if required else field.default
            found.append(_Field(field.alias, field.alias, prepared(wanted), required, default))
    return found


def _given_type(field: "attrs.Attribute[Any]", hints: Mapping[str, Any]) -> Any:
    """The type that the converter of a field takes; Any where it does not say."""
    wanted = hints.get(field.name, Any)
    converter: Any = getattr(field.converter, "converter", field.converter)
    if converter in (list, tuple, set, frozenset, dict) or getattr(converter, "__objclass__", None) is wanted:
        return wanted
    if isinstance(converter, type):
        return Any
    try:
        taken = next(iter(inspect.signature(converter).parameters))
        return get_type_hints(converter, include_extras=True).get(taken, Any)
    except (StopIteration, TypeError, ValueError, NameError):
        return Any


def _dataclass_fields(cls: Any, hints: Mapping[str, Any]) -> list[_Field]:
    found = []
    for field in dataclasses.fields(cls):
        if field.init:
            required = field.default is field.default_factory is dataclasses.MISSING
            default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            found.append(_Field(field.name, field.name, prepared(hints[field.name]), required, default))
    return found


# Conversion and schemas


def convert(value: JSON, wanted: Any) -> Any:
    """`value` as a prepared type. Raises InvalidValue with the path of what does not fit."""
    try:
        return msgspec.convert(value, wanted, str_keys=True, dec_hook=_convert_custom)
    except InvalidValue:
        raise
    except ValueError as error:
        raise InvalidValue.of(error) from error


def _convert_custom(wanted: Any, value: Any) -> Any:
    return _custom_of(wanted).convert(value)


def _custom_of(wanted: Any) -> "_Custom":
    """Of an opaque type, or of a model in a type that msgspec looked into by itself."""
    if isinstance(wanted, _Opaque):
        return wanted.custom
    made = _prepared_class(wanted, output=False)
    if not isinstance(made, _Opaque):
        raise TypeError(f"type `{getattr(wanted, '__name__', wanted)}` is not supported: {_SUPPORTED}")
    return made.custom


class Schemas:
    """The schemas of prepared types; `definitions` has those to which they refer."""

    def __init__(self) -> None:
        self.definitions: dict[str, JSON] = {}
        self._names: dict[tuple[type, bool], str] = {}

    def of(self, wanted: Any, path: str) -> dict[str, JSON]:
        """The schema of a type. Raises NoSchema that names the path of a type without one."""
        hook = partial(self._of_custom, path)
        try:
            (shape,), more = msgspec.json.schema_components([wanted], schema_hook=hook, ref_template="#/$defs/{name}")
        except NoSchema:
            raise
        except (TypeError, ValueError, RuntimeError, NameError) as error:
            raise NoSchema(path, str(error).partition("\n")[0]) from error
        self.add(path, more)
        return shape

    def of_field(self, field: _Field, path: str) -> dict[str, JSON]:
        return {**self.of(field.type, path), **documented_default(field.default)}

    def add(self, path: str, more: Mapping[str, JSON]) -> None:
        """Add definitions. Raises NoSchema when another type has the name of one."""
        for name, shape in more.items():
            if self.definitions.setdefault(name, shape) != shape:
                raise NoSchema(path, f"two types are named `{name}`")

    def _of_custom(self, path: str, wanted: Any) -> dict[str, JSON]:
        try:
            custom = _custom_of(wanted)
        except TypeError as error:
            raise NoSchema(path, str(error)) from None
        if isinstance(custom, (_Bounded, _Choice)):
            return custom.schema(self, path)
        key = (custom.cls, custom.output)
        if key not in self._names:
            name = self._names[key] = self._free_name(custom.cls.__name__)
            self.definitions[name] = {}  # reserved: a type can refer to itself
            self.definitions[name] = custom.schema(self, path)
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _free_name(self, name: str) -> str:
        count = 1
        while (f"{name}_{count}" if count > 1 else name) in self.definitions:
            count += 1
        return f"{name}_{count}" if count > 1 else name


def documented_default(default: Any) -> dict[str, JSON]:
    """The default for a schema, if it can be written as JSON."""
    if default is inspect.Parameter.empty or isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return {}
    try:
        return {"default": msgspec.json.decode(msgspec.json.encode(default))}
    except (TypeError, ValueError, msgspec.MsgspecError):
        return {}
