"""Every field of a request body has an effect, or says that it is data; a test shows it (body_fields.toml)."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

from sphinx_parts import body_fields

TESTS = Path(__file__).parents[2]
SCHEMAS = body_fields.document()["components"]["schemas"]


@cache
def names_in(module: str) -> frozenset[str]:
    """The tests of a module, as in the ids of pytest."""
    place = TESTS / module
    return frozenset(_names(ast.parse(place.read_text()))) if place.is_file() else frozenset()


def _names(tree: ast.Module | ast.ClassDef, within: str = "") -> list[str]:
    found = list[str]()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found += _names(node, f"{within}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            found.append(within + node.name)
    return found


def test_every_field_has_an_entry() -> None:
    """What a body accepts and nothing says is a field that a client can only guess about."""
    missing = [
        f"{shape}.{field}" for shape, fields in body_fields.shapes().items() for field in fields
        if body_fields.entry_of(shape, field) is None
    ]  # fmt: skip
    assert missing == []
    assert len(body_fields.shapes()) > 80


def test_every_entry_has_a_field() -> None:
    """An entry whose field is gone, or whose shape no body has, is stale."""
    known = {(shape, field) for shape, fields in body_fields.shapes().items() for field in fields}
    known |= {("*", field) for _, field in known}
    assert sorted(set(body_fields.entries()) - known) == []


def test_every_test_exists() -> None:
    """By the id that pytest shows."""
    named = {test for _, test in body_fields.entries().values()}
    missing = [one for one in sorted(named) if one.partition("::")[2] not in names_in(one.partition("::")[0])]
    assert missing == []


def test_data_says_so_in_the_document() -> None:
    """What has no effect is described as carried, ignored, refused or accepted as read, where clients read it."""
    silent = list[str]()
    for shape, fields in body_fields.shapes().items():
        for field in fields:
            what, _ = body_fields.entry_of(shape, field) or ("", "")
            if what.startswith(("Data:", "Ignored", "Refused")) and not _description(
                SCHEMAS[shape]["properties"][field]
            ):
                silent.append(f"{shape}.{field}")
    assert silent == []


def _description(schema: dict[str, Any]) -> str:
    """The description of a field, or of the shape that it has."""
    schema = schema.get("anyOf", [schema])[0]
    schema = SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return str(schema.get("description", ""))


def test_the_page_shows_every_shape() -> None:
    """With a row for each field, and an example."""
    text = body_fields.markdown()
    for shape, fields in body_fields.shapes().items():
        part = text.split(f"\n## {shape}\n")[-1].split("\n## ")[0]
        assert part.count("\n| `") == len(fields)
        assert "```json" in part
