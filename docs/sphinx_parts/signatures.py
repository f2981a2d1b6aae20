"""Signatures and fields of the code, written for readers: short types, and the keywords behind `**fields`."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import attrs
import msgspec

_QUALIFIED = re.compile(r"('[^']*')|~|\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
_CLASS = re.compile(r"<(?:class|enum) '([^']+)'>")
_OPAQUE = re.compile(r"<[^<>]*>")


def short(annotation: Any) -> str:
    """A type without the names of modules, such as `Mapping[str, Any] | None`."""
    if annotation is inspect.Parameter.empty:
        return ""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    if get_origin(annotation) is not None and str(get_origin(annotation)) == "typing.Annotated":
        return short(get_args(annotation)[0])
    text = annotation if isinstance(annotation, str) else str(annotation)
    text = _QUALIFIED.sub(lambda found: found[1] or "", _CLASS.sub(lambda found: found[1], text))
    text = text.replace("NoneType", "None")
    return _OPAQUE.sub("Any", text).strip("'")


def default(value: Any) -> str:
    """The text of a default; `...` for one that has no short text."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str | int | float | bool | bytes | type(None)):
        return repr(value)
    return repr(value) if repr(value) in {"()", "[]", "{}"} else "..."


def arguments(function: Any) -> tuple[str, type | None]:
    """The parameters of a function as text, and the TypedDict of its further keywords if there is one."""
    signature = _signature(function)
    parts, fields, starred = list[str](), None, False
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            inner = [each for each in get_args(parameter.annotation) if is_typeddict(each)]
            fields = inner[0] if inner else None
            parts.append(f"**{parameter.name}" + ("" if fields else _typed(parameter)))
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
            parts.append(f"*{parameter.name}{_typed(parameter)}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        value = "" if parameter.default is parameter.empty else f" = {default(parameter.default)}"
        parts.append(f"{parameter.name}{_typed(parameter)}{value}")
    returned = short(signature.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {returned}" if returned else ""), fields


def _typed(parameter: inspect.Parameter) -> str:
    text = short(parameter.annotation)
    return f": {text}" if text else ""


def _signature(function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, TypeError):
        return inspect.signature(function)


def fields_of(shape: Any) -> Iterator[tuple[str, str, str]]:
    """Name, type and default of each field of an attrs, msgspec or data class, or of a TypedDict."""
    hints = _hints(shape)
    if is_typeddict(shape):
        for name, hint in hints.items():
            yield name, short(hint), "" if name in shape.__required_keys__ else "optional"
        return
    for name, value in _defaults(shape).items():
        if not name.startswith("_"):
            yield name, short(hints.get(name, Any)), value


def _hints(shape: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(shape)
    except (NameError, TypeError):
        return getattr(shape, "__annotations__", {})


def _defaults(shape: Any) -> dict[str, str]:
    if attrs.has(shape):
        return {
            field.name: "required" if field.default is attrs.NOTHING else default(field.default)
            for field in attrs.fields(shape)
            if field.init
        }
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return {field.encode_name: _struct_default(field) for field in msgspec.structs.fields(shape)}
    if dataclasses.is_dataclass(shape):
        return {
            field.name: "required" if field.default is dataclasses.MISSING else default(field.default)
            for field in dataclasses.fields(shape)
        }
    return {}


def _struct_default(field: Any) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return default(value)
