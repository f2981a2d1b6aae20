"""Tools of an OpenAPI document in runs: requests, credentials, results, refusals (OpenAPI, Style Values)."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG
from wire_stub import Answer, Line, WireStub, hangs_up

import wfcore
from wfcore import Flow, Settings, tools
from wfcore.core import Core

pytestmark = pytest.mark.anyio

QUERY = [
    {"name": "tags", "in": "query", "schema": {"type": "array"}},
    {"name": "flat", "in": "query", "explode": False, "schema": {"type": "array"}},
    {"name": "piped", "in": "query", "style": "pipeDelimited", "schema": {"type": "array"}},
    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
    {"name": "more", "in": "query", "schema": {"type": "object"}},
    {"name": "single", "in": "query", "explode": False, "schema": {"type": "object"}},
    {"name": "is", "in": "query", "schema": {"type": "boolean"}},
    {"name": "X-Trace", "in": "header", "schema": {}},
]


def document(server: str, **scheme: Any) -> dict[str, Any]:
    path = {"name": "id", "in": "path", "required": True, "schema": {}}
    body = {"content": {"application/json": {"schema": {"type": "object", "required": ["sum"]}}}, "required": True}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Order Desk!"},
        "servers": [{"url": server}],
        "paths": {
            "/orders/{id}": {
                "get": {"operationId": "get", "parameters": [path, *QUERY], "responses": {}},
                "post": {"operationId": "refund", "parameters": [path], "requestBody": body, "responses": {}},
            }
        },
        **({"components": {"securitySchemes": {"it": scheme}}, "security": [{"it": []}]} if scheme else {}),
    }


def says(status: int, value: Any) -> Answer:
    async def answer(line: Line) -> None:
        await line.begin(status, content_type="application/json")
        await line.send(json.dumps(value).encode())
        await line.end()

    return answer


@asynccontextmanager
async def served(tmp_path: Path, *answers: Answer, **options: Any) -> AsyncIterator[tuple[WireStub, Core, Any]]:
    """A server, and a core with the tools of its document."""
    async with WireStub(answers) as server:
        file = tmp_path / "desk.json"
        file.write_text(json.dumps(document(server.base_url, **options.pop("scheme", {}))))
        found = tools.from_openapi(file, **options)
        settings = Settings(http_allow=["127.0.0.1"], grace=0)
        async with wfcore.open("sqlite://", tools=found, settings=settings, secrets=bytes(32)) as core:
            org = await core.directory.create_organization("Acme")
            yield server, core, core.principal(org.uuid, "me", role="admin")


async def act(core: Core, me: Any, tool: str, **params: Any) -> Any:
    """The output of one call; `wfcore.RunFailed` if it fails."""
    run = await core.runs.act(me, action={"toolId": tool, "params": params})
    return await core.runs.result(run, timeout=HANG)


async def test_a_request_has_every_parameter_in_its_place(tmp_path: Path) -> None:
    """Path, query in each style, header; the key of the effect; the value of the response."""
    async with served(tmp_path, says(200, {"sum": 7})) as (server, core, me):
        params = {"id": "a/b", "tags": ["x", "y z"], "flat": [1, 2], "piped": ["p", "q"], "filter": {"a": 1},
                  "more": {"b": "&"}, "single": {"c": 3}, "is": True, "X-Trace": 5}  # fmt: skip
        assert await act(core, me, "order-desk.get", **params) == {"sum": 7}
    (call,) = server.calls
    query = "tags=x&tags=y%20z&flat=1%2C2&piped=p&piped=q&filter%5Ba%5D=1&b=%26&single=c%2C3&is=true"
    assert call.path.replace("piped=p%7Cq", "piped=p&piped=q") == f"/v1/orders/a%2Fb?{query}"
    assert call.headers["x-trace"] == "5"
    assert call.headers["accept"] == "application/json"
    assert call.headers["idempotency-key"]
    assert call.raw == b""


async def test_a_body_and_the_rules_of_repetition(tmp_path: Path) -> None:
    """The body is JSON, checked by its schema. A POST is not repeated after a crash unless the program says so."""
    async with served(tmp_path, says(201, None), prefix="") as (server, core, me):
        assert await act(core, me, "refund", id=7, body={"sum": 1}) is None
        with pytest.raises(wfcore.Invalid):
            await act(core, me, "refund", id=7, body={})
        catalog = core.ports.tools
        assert [(each.id, each.idempotent) for each in catalog.all() if not each.id.startswith("core.")] == [
            ("get", True),
            ("refund", False),
        ]
    (call,) = server.calls
    assert (call.body, call.headers["content-type"]) == ({"sum": 1}, "application/json")
    (refund,) = tools.from_openapi(tmp_path / "desk.json", ["refund"], idempotent=["refund"])
    assert refund.idempotent


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        (says(404, {"why": "no order"}), 'GET /orders/{id}: status 404: {"why": "no order"}', False),
        (says(503, "busy"), 'GET /orders/{id}: status 503: "busy"', True),
        (hangs_up, "", True),
    ],
)
async def test_a_refusal_of_the_service(tmp_path: Path, answer: Answer, message: str, retryable: bool) -> None:
    """It fails the call with status and body; only what can pass by itself is tried again, under the same key."""
    async with served(tmp_path, answer, says(200, 1)) as (server, core, me):
        flow = Flow("Get")
        flow.action("order-desk.get", {"id": 1}, retry={"maxAttempts": 2, "initialIntervalSeconds": 0})
        made = await core.workflows.create(me, name="Get", structure=flow.structure())
        await core.workflows.deploy(me, made.id)
        run = await core.runs.start(me, workflow=made.id)
        if retryable:
            assert await core.runs.result(run, timeout=HANG) == 1
            assert len({call.headers["idempotency-key"] for call in server.calls}) == 1
        else:
            with pytest.raises(wfcore.RunFailed) as failed:
                await core.runs.result(run, timeout=HANG)
            error: Any = failed.value.error
            assert message.replace(": ", ":") in error["message"].replace(": ", ":")


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_a_path_cannot_be_left(tmp_path: Path, value: str) -> None:
    """A path parameter cannot lead to another operation."""
    async with served(tmp_path, says(200, 1)) as (server, core, me):
        with pytest.raises(wfcore.RunFailed, match="cannot stand in a path"):
            await act(core, me, "order-desk.get", id=value)
    assert server.calls == []


async def test_a_private_address_is_refused(tmp_path: Path) -> None:
    """Unless the settings of the core allow it: the guard of the core decides, in tools too."""
    async with WireStub([says(200, 1)]) as server:
        file = tmp_path / "desk.json"
        file.write_text(json.dumps(document(server.base_url)))
        async with wfcore.open("sqlite://", tools=tools.from_openapi(file)) as core:
            me = core.principal((await core.directory.create_organization("Acme")).uuid, "me")
            with pytest.raises(wfcore.RunFailed, match="is not public"):
                await act(core, me, "order-desk.get", id=1)
    assert server.calls == []


@pytest.mark.parametrize(
    ("scheme", "config", "where", "value"),
    [
        ({"type": "http", "scheme": "bearer"}, {}, "authorization", "Bearer k-1"),
        ({"type": "http", "scheme": "basic"}, {}, "authorization", "Basic ay0x"),
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, {}, "x-key", "k-1"),
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, {"header": "X-Own"}, "x-own", "k-1"),
        ({"type": "apiKey", "in": "query", "name": "key"}, {}, None, "key=k-1"),
        ({}, {}, "authorization", "Bearer k-1"),
    ],
)
async def test_credentials(tmp_path: Path, scheme: Any, config: Any, where: str | None, value: str) -> None:
    """The key of the organization's connection, as the security scheme of the document says."""
    async with served(tmp_path, says(200, 1), provider="desk", scheme=scheme) as (server, core, me):
        body = {"name": "Desk", "provider": "desk", "kind": "api_key", "config": {"apiKey": "k-1", **config}}
        await core.connections.create(me, body)
        assert await act(core, me, "order-desk.get", id=1) == 1
    (call,) = server.calls
    assert value in (call.path if where is None else call.headers[where])


async def test_refused_credentials_ask_for_a_connection(tmp_path: Path) -> None:
    """A 401 opens a `connect` interrupt, as does a missing connection."""
    async with served(tmp_path, says(401, {}), provider="desk") as (server, core, me):
        for calls in (0, 1):
            run = await core.runs.act(me, action={"toolId": "order-desk.get", "params": {"id": 1}})
            events = [event async for event in await core.runs.follow(me, run.id)]
            assert [event.data["type"] for event in events if event.kind == "interrupt"] == ["connect"]
            assert len(server.calls) == calls
            body = {"name": "Desk", "provider": "desk", "kind": "api_key", "config": {"apiKey": "k-1"}}
            await core.connections.create(me, body)


async def test_a_document_at_a_url(tmp_path: Path) -> None:
    """JSON or YAML; a relative server is relative to the URL. What cannot be read is an OSError."""
    text = json.dumps(document("/v2"))

    async def answer(line: Line) -> None:
        await line.begin(200, content_type="application/json")
        await line.send(text.encode())
        await line.end()

    async with WireStub([answer, says(404, "no")]) as server:
        url = f"{server.base_url}/openapi.json"
        found = await asyncio.to_thread(tools.from_openapi, url, ["get"])
        assert found[0].run.server == server.base_url.replace("/v1", "/v2")  # type: ignore[attr-defined]
        with pytest.raises(OSError, match="cannot be read"):
            await asyncio.to_thread(tools.from_openapi, url)
    file = tmp_path / "desk.yaml"
    file.write_text(
        "openapi: 3.1.0\ninfo: {title: Desk}\npaths:\n  /ping:\n    get: {operationId: ping, responses: {}}\n"
    )
    (ping,) = tools.from_openapi(file, server="https://desk.example.org")
    assert (ping.id, ping.parameters["properties"]) == ("desk.ping", {})
    with pytest.raises(ValueError, match="no absolute server URL: use `server=`"):
        tools.from_openapi(file)


def names(found: Sequence[Any]) -> list[str]:
    return [each.id for each in found]


async def test_a_flow_takes_them(tmp_path: Path) -> None:
    """They are tools as any other, with the names of their parameters checked."""
    file = tmp_path / "desk.json"
    file.write_text(json.dumps(document("https://desk.example.org")))
    get, refund = tools.from_openapi(file, prefix="desk")
    assert names([get, refund]) == ["desk.get", "desk.refund"]
    flow = Flow("Refunds")
    found = flow.action(get, {"id": flow.input.order})
    flow.action(refund, {"id": flow.input.order}, body={"sum": found.output.sum})
    with pytest.raises(wfcore.Invalid, match="parameter `body` is required"):
        flow.action(refund, {"id": 1})
