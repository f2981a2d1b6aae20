"""The TypeScript client as text. `tests/typing/test_typescript_client.py` compiles it, and runs it on a server."""

import re
from typing import Any

import pytest

import wfcore
from wfcore.adapters.http.openapi.document import document
from wfcore.adapters.http.openapi.typescript import type_of, typescript
from wfcore.adapters.http.route_table import route_table


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (True, "unknown"),
        ({}, "unknown"),
        ({"$ref": "#/components/schemas/Run"}, "Run"),
        ({"const": "done"}, '"done"'),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"type": ["integer", "number", "null"]}, "number | null"),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/x/A"}, {"type": "string"}]}, "string | A"),
        ({"oneOf": [{"type": "object", "properties": {"a": {}}, "additionalProperties": True}, {"type": "null"}]},
         "({ a?: unknown } & { [key: string]: unknown }) | null"),
        ({"type": "array", "items": {"type": "boolean"}}, "Array<boolean>"),
        ({"type": "array"}, "Array<unknown>"),
        ({"type": "object"}, "{ [key: string]: unknown }"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{ [key: string]: number }"),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
        ({"type": "object", "properties": {"a-b": {"type": "string"}}, "required": ["a-b"],
          "additionalProperties": False}, '{ "a-b": string }'),
    ],
)  # fmt: skip
def test_types(schema: Any, shown: str) -> None:
    assert type_of(schema) == shown


@pytest.fixture
async def described() -> Any:
    async with wfcore.open("sqlite://", worker=False) as core:
        return document(route_table(core))


@pytest.mark.anyio
async def test_every_operation_has_a_method(described: Any) -> None:
    """But those that return pages or other texts; operations that can stream have two."""
    source = typescript(described)
    calls = re.findall(r"this\.(request|stream)\(\"([A-Z]+)\", `([^`]+)`", source)
    found = {(how, method, re.sub(r"\$\{encodeURIComponent\((\w+)\)\}", r"{\1}", path)) for how, method, path in calls}
    expected = set()
    for path, item in described["paths"].items():
        for method, operation in item.items():
            kinds = {kind for status, reply in operation["responses"].items() if status[0] in "23"
                     for kind in reply.get("content", {})}  # fmt: skip
            if not kinds or "application/json" in kinds:
                expected.add(("request", method.upper(), path))
            if "text/event-stream" in kinds:
                expected.add(("stream", method.upper(), path))
    assert found == expected
    assert len(found) > 190
    for name in described["components"]["schemas"]:
        assert f"\nexport type {name} = " in source


@pytest.mark.anyio
async def test_a_stream_of_a_run_has_its_events(described: Any) -> None:
    """Those of wfcore alone: the client names no profile of AG-UI."""
    streams = re.findall(r"(\w+Stream): .*AsyncGenerator<(.+)> =>", typescript(described))
    assert {events for name, events in streams if name in ("startStream", "eventsStream", "resumeStream")} == {"Event"}


@pytest.mark.anyio
async def test_comments_and_required_headers(described: Any) -> None:
    """A summary cannot end its comment; options with a required header have no default; a reply can be empty."""
    schema = {"description": "ends */ here", "type": "string"}
    header = {"name": "X-Key", "in": "header", "required": True, "schema": {"type": "string"}}
    operation = {"operationId": "a.b", "parameters": [header], "responses": {"204": {"description": "none"}}}
    small = {"components": {"schemas": {"A": schema}}, "paths": {"/a": {"summary": "skipped", "post": operation}}}
    source = typescript(small)
    assert "/** ends here */\nexport type A = string;" in source.replace("  ", " ")
    assert 'b: (options: { "X-Key": string; signal?: AbortSignal }): Promise<void> =>' in source
