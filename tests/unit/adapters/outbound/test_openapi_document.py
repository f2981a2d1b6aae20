"""What tools read from an OpenAPI document, and what they refuse in it."""

import copy
import re
from typing import Any

import pytest

from wfcore.adapters.outbound.openapi_document import OpenApiDocument, OpenApiOperation
from wfcore.domain.json.schema import compile_schema

ORDERS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "servers": [{"url": "https://{region}.example.org/{base}", "variables": {"region": {"default": "eu"}}}],
    "security": [{"key": []}],
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "get order",
                "summary": "One order.",
                "parameters": [
                    {"name": "id", "in": "query", "schema": {"type": "boolean"}, "description": "By number"},
                    {"name": "body", "in": "header", "schema": {"type": "string"}},
                    {"name": "Accept", "in": "header", "required": True, "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                ],
                "responses": {
                    "404": {"description": "no"},
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                },
                "security": [],
            },
            "put": {
                "description": "Replace it.",
                "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
                "requestBody": {"$ref": "#/components/requestBodies/Order"},
                "responses": {"204": {}},
            },
            "patch": {"operationId": "patch", "requestBody": {"content": {"text/csv": {}}}, "responses": {}},
        },
        "/orders": {
            "post": {
                "operationId": "add",
                "requestBody": {"content": {"application/vnd.x+json; charset=utf-8": {"schema": {"type": "array"}}}},
                "responses": {"201": {"content": {"*/*": {"schema": True}}}},
            }
        },
    },
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "requestBodies": {
            "Order": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
            }
        },
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["sum"],
                "properties": {
                    "sum": {"type": "number", "exclusiveMinimum": 0},
                    "nullable": {"type": "string", "enum": ["a", "b"]},
                    "parent": {"$ref": "#/components/schemas/Order"},
                    "lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line~1x"}},
                },
            },
            "Line/x": {"type": "object"},
        },
    },
}


def operation(name: str, tree: dict[str, Any] = ORDERS) -> OpenApiOperation:
    (found,) = OpenApiDocument(tree).operations([name])
    return found


def changed(*path: str, **values: Any) -> dict[str, Any]:
    """The document with other values at a path."""
    tree = copy.deepcopy(ORDERS)
    place: Any = tree
    for name in path:
        place = place[name]
    place.update(values)
    return tree


def test_the_operations() -> None:
    """Each has an id, by its method and path where it has none, and tells whether it can be repeated."""
    found = OpenApiDocument(ORDERS).operations()
    assert [(each.id, each.method, each.idempotent) for each in found] == [
        ("get_order", "get", True),
        ("put_orders_id", "put", True),
        ("patch", "patch", False),
        ("add", "post", False),
    ]
    assert [each.summary for each in found] == ["One order.", "Replace it.", "PATCH /orders/{id}", "POST /orders"]
    document = OpenApiDocument(ORDERS)
    assert [each.id for each in document.operations(["POST /orders", "get_order"])] == ["add", "get_order"]
    assert (document.title, document.server) == ("Orders", "https://eu.example.org/{base}")
    assert OpenApiDocument({"openapi": "3.0.0"}).server is None


def test_parameters() -> None:
    """Names that are taken get their place; cookies and headers of HTTP itself are left out."""
    found = operation("get_order")
    assert [(each.name, each.key, each.place, each.required) for each in found.parameters] == [
        ("id", "id", "path", True),
        ("id", "query_id", "query", False),
        ("body", "header_body", "header", False),
    ]
    arguments: Any = found.arguments
    assert arguments["required"] == ["id"]
    assert arguments["properties"]["query_id"] == {"description": "By number", "type": "boolean"}
    assert (found.body, found.security) == (None, None)
    assert operation("put_orders_id").takes_key
    assert [each.key for each in operation("put_orders_id").parameters] == ["id"]


def test_schemas_and_their_references() -> None:
    """A schema that refers to itself; a name with a slash; a property that is named as a keyword."""
    found = operation("put_orders_id")
    assert found.security == {"type": "apiKey", "in": "header", "name": "X-Key"}
    schema = compile_schema(found.arguments)
    good = {"id": 1, "body": {"sum": 2, "nullable": "a", "parent": {"sum": 1}, "lines": [{}]}}
    assert schema.check(good, "p") == []
    wrong = {"id": 1, "body": {"sum": 2, "nullable": "c", "parent": {"sum": 0}, "lines": [1]}}
    assert {issue.path for issue in schema.check(wrong, "p")} == {
        "p.body.nullable",
        "p.body.parent.sum",
        "p.body.lines[0]",
    }
    result: Any = operation("get_order").result
    assert (result["$ref"], set(result["$defs"])) == ("#/$defs/Order", {"Order", "Line_7e_1x"})
    assert operation("put_orders_id").result is None
    assert operation("add").body is False
    assert operation("add").result == {}


def test_schemas_of_3_0() -> None:
    """`nullable` and exclusive bounds become those of JSON Schema 2020-12."""
    tree = changed(openapi="3.0.3")
    tree["components"]["schemas"]["Order"]["properties"] = {
        "sum": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "example": 1},
        "top": {"type": "number", "maximum": 9, "exclusiveMaximum": False},
        "note": {"type": "string", "nullable": True},
        "nullable": {"type": "boolean"},
    }
    schema = compile_schema(operation("put_orders_id", tree).arguments)
    assert schema.check({"id": 1, "body": {"sum": 1, "top": 9, "note": None, "nullable": True}}, "p") == []
    wrong = {"id": 1, "body": {"sum": 0, "top": 10, "note": 1, "nullable": None}}
    paths = {issue.path for issue in schema.check(wrong, "p")}
    assert paths == {"p.body.sum", "p.body.top", "p.body.note", "p.body.nullable"}


GET = ("paths", "/orders/{id}", "get")


@pytest.mark.parametrize(
    ("tree", "name", "words"),
    [
        ([], "get_order", "not an OpenAPI document of version 3"),
        ({"swagger": "2.0"}, "get_order", "not an OpenAPI document of version 3"),
        (ORDERS, "nothing", "unknown operation `nothing`: use one of `get_order`, `put_orders_id`, `patch`, `add`"),
        (changed(*GET, parameters=[{"$ref": "other.yaml#/x"}]), "get_order", "only references within the document"),
        (changed(*GET, parameters=[{"$ref": "#/components/none"}]), "get_order", "`#/components/none` does not exist"),
        (changed("components", "parameters", Id={"$ref": "#/components/parameters/Id"}), "get_order",
         "GET /orders/{id}: a reference refers to itself"),
        (changed(*GET, parameters=[{"name": "s", "in": "cookie", "required": True}]), "get_order",
         "GET /orders/{id}: parameter `s`: cookies and `content` are not supported"),
        (changed(*GET, requestBody={"required": True, "content": {"text/csv": {}}}), "get_order",
         "GET /orders/{id}: only JSON bodies are supported"),
    ],
)  # fmt: skip
def test_what_is_refused(tree: Any, name: str, words: str) -> None:
    """With the operation in which it stands."""
    with pytest.raises(ValueError, match=re.escape(words)):
        operation(name, tree)
