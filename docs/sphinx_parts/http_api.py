"""The operations of the HTTP interface as Markdown, from the OpenAPI document, each with an example."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

import wfcore

VALUES = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}
NAMED = {"runId": "order-4711", "retriedBy": "order-4712", "interruptId": "ask", "userId": "ann", "skillId": 3}
"""Values of fields that have no example of their own, by type and by name."""


@cache
def document() -> Mapping[str, Any]:
    """The OpenAPI document of this release."""

    async def read() -> Any:
        async with wfcore.open("sqlite://", worker=False) as core:
            return openapi_of(core)

    from wfcore.adapters.http.openapi.document import document as made
    from wfcore.adapters.http.route_table import route_table

    def openapi_of(core: wfcore.Core) -> Any:
        return made(route for route in route_table(core) if route.successor is None)

    return asyncio.run(read())  # type: ignore[no-any-return]


def tags() -> list[str]:
    """The tags that have operations."""
    return list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations()))


def operations() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Method, path and operation."""
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def markdown(*wanted: str) -> str:
    """The operations with these tags. Raises ValueError for a tag without operations."""
    if unknown := set(wanted) - set(tags()):
        raise ValueError(f"no operation has the tags {sorted(unknown)}")
    names = {tag["name"]: tag["description"] for tag in document()["tags"]}
    parts = list[str]()
    for tag in wanted:
        parts.append(f"## {tag}\n\n{names[tag]}.\n")
        parts += [_operation(*found) for found in operations() if found[2]["tags"][0] == tag]
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [
        f"### {method} {path}",
        operation["description"],
        *_parameters(operation),
        _example(method, path, operation),
    ]
    return "\n\n".join(parts) + "\n"


def _parameters(operation: Mapping[str, Any]) -> list[str]:
    found = [each for each in operation.get("parameters", []) if each["in"] != "path"]
    if not found:
        return []
    rows = ["| Parameter | In | Type | |", "|---|---|---|---|"]
    for each in found:
        text = each.get("description", "").replace("|", "\\|")
        rows.append(f"| `{each['name']}` | {each['in']} | {_kind(each['schema'])} | {text} |")
    return ["\n".join(rows)]


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema.get("type", "any")
    return ", ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _example(method: str, path: str, operation: Mapping[str, Any]) -> str:
    lines = [f"{method} {path} HTTP/1.1"]
    if operation.get("security"):
        lines.append("Authorization: Bearer TOKEN")
    lines += [f"{each['name']}: {_value(each['schema'])}" for each in _required_headers(operation)]
    kind, schema = _content(operation.get("requestBody", {}))
    body = None if schema is None or kind != "application/json" else value_of(schema)
    if kind:
        lines.append(f"Content-Type: {kind}")
    request = "\n".join([*lines, "", *([_json(body)] if body is not None else [])]).rstrip()
    return f"```text\n{request}\n```\n\n{_response(operation)}"


def _required_headers(operation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in operation.get("parameters", []) if each["in"] == "header" and each.get("required")]


def _value(schema: Mapping[str, Any]) -> str:
    return str(value_of(schema))


def _response(operation: Mapping[str, Any]) -> str:
    status, response = next((s, r) for s, r in operation["responses"].items() if s[0] in "23")
    parts = [f"Response {status} {HTTPStatus(int(status)).phrase}"]
    kind, schema = _content(response)
    if kind == "application/json" and schema is not None:
        return f"{parts[0]}:\n\n```json\n{_json(value_of(schema))}\n```"
    return f"{parts[0]}{f' (`{kind}`)' if kind else ''}."


def _content(holder: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    content = holder.get("content", {})
    if not content:
        return "", None
    kind = "application/json" if "application/json" in content else next(iter(content))
    return kind, content[kind].get("schema", {})


def value_of(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """An example of a schema: its own, that of its component, or one made of its parts."""
    if "examples" in schema:
        return schema["examples"][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "$ref" in schema:
        return value_of(document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth + 1)
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("oneOf", "anyOf", "allOf"):
        if key in schema:
            return value_of(schema[key][0], depth + 1)
    return _made(schema, depth)


def _made(schema: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if depth > 6:
        return None
    if kind == "object":
        found = schema.get("properties", {})
        shown = [name for name in found if name in schema.get("required", found)]
        return {name: NAMED[name] if name in NAMED else value_of(found[name], depth + 1) for name in shown}
    if kind == "array":
        item = value_of(schema["items"], depth + 1) if "items" in schema else None
        return [] if item is None else [item]
    return VALUES.get(kind)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
