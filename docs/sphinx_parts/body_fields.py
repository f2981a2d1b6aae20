"""The fields of request bodies as Markdown: what each does, and the test that shows it, from `body_fields.toml`."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sphinx_parts.http_api import document, operations, value_of

PLACE = Path(__file__).with_suffix(".toml")

Entry = tuple[str, str]
"""What a field does, and the id of the test below `tests/`."""


@cache
def entries() -> Mapping[tuple[str, str], Entry]:
    """What the file says, by shape and field. ValueError for a field that has two entries."""
    found: dict[tuple[str, str], Entry] = {}
    for title, fields in tomllib.loads(PLACE.read_text()).items():
        for shape in title.split(", "):
            for field, (what, test) in fields.items():
                if (shape, field) in found:
                    raise ValueError(f"`{shape}.{field}` has two entries")
                found[shape, field] = what, test
    return found


def shapes() -> Mapping[str, tuple[str, ...]]:
    """The fields of each shape that a request body has, or a part of one."""
    found: dict[str, tuple[str, ...]] = {}
    bodies = [operation["requestBody"] for _, _, operation in operations() if "requestBody" in operation]
    todo = list(_references(bodies))
    while todo:
        name = todo.pop()
        if name not in found:
            schema = document()["components"]["schemas"][name]
            found[name] = tuple(schema.get("properties", ()))
            todo += _references(schema)
    return {name: found[name] for name in sorted(found) if found[name]}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for key, inner in value.items():
            if key not in ("examples", "example"):
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def entry_of(shape: str, field: str) -> Entry | None:
    """The entry of a field, or that for all shapes."""
    return entries().get((shape, field)) or entries().get(("*", field))


def markdown() -> str:
    """Every shape."""
    return "\n".join(_shape(name, fields) for name, fields in shapes().items())


def _shape(name: str, fields: tuple[str, ...]) -> str:
    rows = [_row(field, entry_of(name, field) or ("", "")) for field in fields]
    example = json.dumps(value_of(document()["components"]["schemas"][name]), indent=2, ensure_ascii=False)
    table = ["| Field | What it does | Shown by |", "|---|---|---|", *rows]
    return "\n".join([f"## {name}", "", *table, "", "```json", example, "```", ""])


def _row(field: str, entry: Entry) -> str:
    what, test = (text.replace("|", "\\|") for text in entry)
    return f"| `{field}` | {what} | `tests/{test}` |"
