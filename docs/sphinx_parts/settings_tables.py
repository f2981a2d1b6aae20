"""The settings of an operator as Markdown: each key with its variable, type and default."""

import inspect
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from wfcore.settings import installation
from wfcore.settings.installation import Configuration


def example() -> str:
    """A file of settings with every table, which the settings themselves describe."""
    text = inspect.cleandoc(installation.__doc__ or "")
    lines = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    return "\n".join(lines)


def tables() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Each table, by its name, with its shape."""
    yield "", Configuration
    yield from _below("", Configuration)


def _below(path: str, shape: type[msgspec.Struct]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    for name, hint in _fields(shape).items():
        for inner in _structs(hint):
            key = f"{path}.{name}".strip(".")
            yield key, inner
            yield from _below(key, inner)


def _fields(shape: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(shape, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(shape)}


def _structs(hint: Any) -> list[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [found for inner in get_args(hint) for found in _structs(inner)]


def markdown() -> str:
    """Every table with its keys."""
    return "\n".join(_table(name, shape) for name, shape in tables())


def _table(name: str, shape: type[msgspec.Struct]) -> str:
    shown = f"{name}.NAME" if name == "models" else name
    rows = ["| Key | Variable | Type | Default |", "|---|---|---|---|"]
    hints = _fields(shape)
    for field in msgspec.structs.fields(shape):
        hint = hints[field.encode_name]
        if not _structs(hint) and field.encode_name not in {"options", "source"}:
            rows.append(_row(shown, field, hint))
    title = f"## [{shown}]" if shown else "## Top level"
    return "\n".join([title, "", *rows, "", "```toml", _sample(name, hints), "```", ""])


def _row(table: str, field: Any, hint: Any) -> str:
    key = field.encode_name
    variable = "_".join(("WFCORE", *table.upper().split("."), key.upper())).replace("__", "_").rstrip("_")
    value = "" if field.default in (None, msgspec.NODEFAULT, []) else f"`{_toml(field.default)}`"
    return f"| `{key}` | `{variable}` | {kind(hint)} | {value} |"


def kind(hint: Any) -> str:
    """A type in words, with the least and greatest number."""
    if get_origin(hint) is Annotated:
        inner, *metas = get_args(hint)
        bounds = [text for meta in metas for text in _bounds(meta)]
        return f"{kind(inner)}{f' ({chr(44).join(bounds)})' if bounds else ''}".replace(",", ", ")
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(kind(inner) for inner in get_args(hint) if inner is not type(None))
    if get_origin(hint) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) in (list, tuple):
        return f"list of {kind(get_args(hint)[0])}s"
    if get_origin(hint) is dict:
        return "table of texts"
    return {str: "text", int: "number", float: "number", bool: "boolean"}.get(hint, getattr(hint, "__name__", "any"))


def _bounds(meta: Any) -> Iterator[str]:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    for name, text in words.items():
        if (value := getattr(meta, name, None)) is not None:
            yield f"{text} {value:g}"


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sample(name: str, hints: dict[str, Any]) -> str:
    """The lines of the example for this table."""
    lines = example().splitlines()
    headings = [number for number, line in enumerate(lines) if line.startswith("[")]
    if not name:
        return "\n".join(lines[: headings[0]])
    wanted = {f"[{name}]", f"[{name}.fast]"}
    for number in headings:
        if lines[number].split("#")[0].strip() in wanted:
            end = next((later for later in headings if later > number), len(lines))
            return "\n".join(lines[number:end])
    lines = [f"{key} = {_valid(kind(hint))}" for key, hint in hints.items()]
    return "\n".join([f"[{name}]", *lines])


def _valid(words: str) -> str:
    """A value of a type in words."""
    return next((value for word, value in (("number", "30"), ("boolean", "true")) if word in words), '"..."')
