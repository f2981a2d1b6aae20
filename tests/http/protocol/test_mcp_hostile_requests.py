"""Malformed and hostile messages to an MCP server (JSON-RPC 2.0; MCP, Transports, Protocol Version Header)."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from clients import (
    POLL,
    Connect,
    Json,
    World,
    assert_envelope,
    chain,
    counting,
    deployed,
    frames,
    holding,
    let_go,
    new_world,
    node,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.http.mcp import server as mcp_server
from wfcore.core import Core
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

NEW = "2026-07-28"
PREFIX = "io.modelcontextprotocol"
ENVELOPE = {f"{PREFIX}/protocolVersion": NEW, f"{PREFIX}/clientCapabilities": {}}
BOTH = {"Accept": "application/json, text/event-stream"}
LIST: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CALL: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "refunds"}}
CANARY = "canary-4711"

PARSE, REQUEST, METHOD, PARAMS, MISMATCH, VERSION = -32700, -32600, -32601, -32602, -32020, -32022

NO_MESSAGE: list[tuple[bytes, int]] = [
    (b"", PARSE),
    (b"{", PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', PARSE),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"\\u0000"}', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 200 + b"1" + b"}" * 201, PARSE),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}', PARSE),
    (b"null", REQUEST),
    (b"[]", REQUEST),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', REQUEST),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', REQUEST),
    (b'{"id":1,"method":"ping"}', REQUEST),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', REQUEST),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', REQUEST),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', REQUEST),
    (b'{"jsonrpc":"2.0","method":7}', REQUEST),
]


def modern(message: Json, **params: Any) -> tuple[Json, dict[str, str]]:
    """The message in the form since 2026-07-28, and its headers."""
    held = {**message.get("params", {}), **params, "_meta": ENVELOPE}
    named = {"Mcp-Name": held["name"]} if "name" in held else {}
    return {**message, "params": held}, {**BOTH, "Mcp-Protocol-Version": NEW, "Mcp-Method": message["method"], **named}


async def reached(world: World, structure: Json | None = None) -> tuple[httpx.AsyncClient, str]:
    """A member, and the path of an interface."""
    ada = await world.user()
    plain = chain(node("show", "action", toolId="core.transform", params={"value": "{{ input }}"}))
    number = await deployed(ada, structure or plain)
    row = await ada.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "mcp"})
    return ada, httpx.URL(row.json()["url"]).path


async def leaving(application: ASGIApp, path: str, headers: dict[str, str], body: Json) -> None:
    """Send this and disconnect once the stream has begun. Returns when the server has ended it."""
    begun, sent = asyncio.Event(), iter([{"type": "http.request", "body": json.dumps(body).encode()}])

    async def receive() -> Message:
        for message in sent:
            return message
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        begun.set()

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": raw}
    await application(scope, receive, send)


@pytest.fixture
async def place(world: World) -> tuple[httpx.AsyncClient, str]:
    """One interface for all examples of a test."""
    return await reached(world)


def fault(answer: httpx.Response, status: int, code: int, id: Any = None) -> Json:
    """The response is an error of JSON-RPC; its `error` is returned."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    reply = answer.json()
    assert reply.keys() == {"jsonrpc", "id", "error"}
    assert (reply["jsonrpc"], reply["id"], reply["error"]["code"]) == ("2.0", id, code)
    return dict(reply["error"])


class TestMessages:
    """Invalid and unknown messages."""

    @pytest.mark.parametrize("headers", [{}, {"Mcp-Protocol-Version": NEW}])
    async def test_an_invalid_message_is_refused(self, world: World, headers: dict[str, str]) -> None:
        """400 with a JSON-RPC error without an id: not JSON, several messages, a response, a wrong type."""
        ada, path = await reached(world)
        for body, code in NO_MESSAGE:
            answer = await ada.post(path, content=body, headers={"Content-Type": "application/json", **headers})
            fault(answer, 400, code)

    async def test_an_unknown_method_is_not_found(self, world: World) -> None:
        """Since 2026-07-28 with its own status; before, in a 200."""
        ada, path = await reached(world)
        for method in ("resources/subscribe", "prompts/get", "no/such", "logging/setLevel", "subscriptions/listen"):
            unknown = {"jsonrpc": "2.0", "id": "a", "method": method, "params": {}}
            found = await ada.post(path, json=unknown)
            assert found.json()["error"]["code"] in (METHOD, PARAMS)
            assert found.status_code == 200
            body, headers = modern(unknown)
            found = await ada.post(path, json=body, headers=headers)
            assert (found.status_code, found.json()["error"]["code"]) in ((404, METHOD), (400, PARAMS))
        body, headers = modern({"jsonrpc": "2.0", "id": "a", "method": "no/such"})
        fault(await ada.post(path, json=body, headers=headers), 404, METHOD, "a")

    @pytest.mark.parametrize(
        ("method", "params", "path"),
        [
            ("tools/call", None, "params"),
            ("tools/call", {}, "params.name"),
            ("tools/call", {"name": 7}, "params.name"),
            ("tools/call", {"name": "refunds", "arguments": []}, "params.arguments"),
            ("tools/call", {"name": "refunds", "requestState": 7}, "params.requestState"),
            ("tools/call", {"name": "refunds", "inputResponses": {"a": {"action": "no"}}}, "params.inputResponses.a"),
            ("resources/read", {"uri": None}, "params.uri"),
            ("initialize", {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}, "params.protocolVersion"),
        ],
    )
    async def test_invalid_parameters_are_named(self, world: World, method: str, params: Any, path: str) -> None:
        """By their paths in the request, in the message and in the data of the error."""
        ada, place = await reached(world)
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
        error = fault(await ada.post(place, json=sent), 200, PARAMS, 1)
        assert [issue["path"] for issue in error["data"]["errors"]] == [path]
        assert error["message"].startswith(f"`{path}`: ")

    async def test_headers_and_body_must_agree(self, world: World) -> None:
        """Since 2026-07-28 version, method and name are in both; a difference or a repetition is refused."""
        ada, path = await reached(world)
        body, headers = modern(CALL)
        assert (await ada.post(path, json=body, headers=headers)).status_code == 200
        for name, value in (
            ("Mcp-Method", "tools/list"),
            ("Mcp-Name", "other"),
            ("Mcp-Protocol-Version", "2027-01-01"),
        ):
            fault(await ada.post(path, json=body, headers={**headers, name: value}), 400, MISMATCH, 1)
            twice = [*headers.items(), (name, headers[name])]
            fault(await ada.post(path, json=body, headers=twice), 400, MISMATCH)
        fault(await ada.post(path, json=LIST, headers=headers), 400, PARAMS, 1)

    async def test_an_unknown_version_gets_the_known_ones(self, world: World) -> None:
        """The error lists the known versions, for a notification too."""
        ada, path = await reached(world)
        body, headers = modern(LIST)
        body["params"]["_meta"] = {**ENVELOPE, f"{PREFIX}/protocolVersion": "2099-01-01"}
        headers["Mcp-Protocol-Version"] = "2099-01-01"
        error = fault(await ada.post(path, json=body, headers=headers), 400, VERSION, 1)
        assert error["data"] == {"supported": [NEW], "requested": "2099-01-01"}
        noted = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        fault(await ada.post(path, json=noted, headers={"Mcp-Protocol-Version": "2099-01-01"}), 400, VERSION)

    async def test_headers_repeat_arguments(self, world: World) -> None:
        """A header that repeats an argument by the schema must have its value."""
        structure = chain(node("show", "action", toolId="core.transform", params={"value": "{{ input }}"}))
        schema = {"type": "object", "properties": {"n": {"type": "string", "x-mcp-header": "Number"}}}
        structure["nodes"][0]["data"] = {"inputSchema": schema}
        ada, path = await reached(world, structure)
        body, headers = modern(CALL, arguments={"n": "7"})
        fault(await ada.post(path, json=body, headers=headers), 400, MISMATCH, 1)
        answer = await ada.post(path, json=body, headers={**headers, "Mcp-Param-Number": "7"})
        assert '"structuredContent":{"n":"7"}' in answer.text

    @pytest.mark.parametrize("method", ["initialized", "cancelled", "roots/list_changed", "unknown"])
    async def test_a_notification_is_accepted_without_a_body(self, world: World, method: str) -> None:
        """202 without a body, also for one that cancels an unknown call."""
        ada, path = await reached(world)
        for params in ({}, {"requestId": 9}, {"requestId": True}, {"requestId": [1]}):
            noted = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
            for headers in ({}, {"Mcp-Session-Id": "s"}, {"Mcp-Protocol-Version": NEW}):
                answer = await ada.post(path, json=noted, headers=headers)
                assert (answer.status_code, answer.content) == (202, b"")

    @settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.fixed_dictionaries(
            {"jsonrpc": st.just("2.0")},
            optional={
                "id": st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
                "method": st.sampled_from(["initialize", "tools/list", "tools/call", "ping", "server/discover", "x"]),
                "params": st.recursive(
                    st.none() | st.integers(0, 3) | st.text(max_size=3),
                    lambda inner: (
                        st.lists(inner, max_size=2)
                        | st.dictionaries(
                            st.sampled_from(["name", "arguments", "_meta", "cursor", "protocolVersion", *ENVELOPE]),
                            inner,
                        )
                    ),
                    max_leaves=6,
                ),
            },
        ),
        st.sampled_from([None, NEW, "2025-06-18", "2024-11-05", "x"]),
        st.booleans(),
    )
    async def test_no_message_breaks_the_server(
        self, place: tuple[httpx.AsyncClient, str], message: Json, version: str | None, mirrored: bool
    ) -> None:
        """Every message gets a protocol reply with a status below 500."""
        ada, path = place
        headers = {"Accept": BOTH["Accept"], **({} if version is None else {"Mcp-Protocol-Version": version})}
        if mirrored and isinstance(message.get("method"), str):
            headers["Mcp-Method"] = message["method"]
        answer = await ada.post(path, content=json.dumps(message).encode(), headers=headers)
        assert answer.status_code in (200, 202, 400, 404)
        if answer.status_code != 202:
            assert answer.json()["jsonrpc"] == "2.0"


async def test_a_uri_that_no_run_can_have(postgres_server: tuple[Core, Connect]) -> None:
    """It names an unknown resource, also on PostgreSQL, which does not take a NUL."""
    async with AsyncExitStack() as closing:
        ada, path = await reached(await new_world(*postgres_server, closing))
        for run in ("%00", "%ff", "a%20b", "", "x" * 300):
            uri = f"wfcore://runs/{run}/output"
            answer = await ada.post(path, json={**LIST, "method": "resources/read", "params": {"uri": uri}})
            assert "there is no resource" in fault(answer, 200, -32602, LIST["id"])["message"]


class TestTransport:
    """HTTP around a message (MCP, Transports)."""

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
    async def test_sessions_cannot_be_joined_or_ended(self, world: World, method: str) -> None:
        """405 with `Allow` for a client that opens a stream or ends a session."""
        ada, path = await reached(world)
        answer = await ada.request(method, path, headers={"Accept": "text/event-stream", "Mcp-Session-Id": "s"})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")

    async def test_the_response_has_an_accepted_media_type(self, world: World) -> None:
        """A stream once a run has begun, for a client that accepts one; else JSON; neither accepted: 406."""
        ada, path = await reached(world)
        for accept, kind in ((BOTH["Accept"], "text/event-stream"), ("application/json", "application/json")):
            answer = await ada.post(path, json=CALL, headers={"Accept": accept})
            assert answer.headers["Content-Type"].partition(";")[0] == kind
            assert '"structuredContent":{}' in answer.text
            assert (await ada.post(path, json=LIST, headers={"Accept": accept})).json()["result"]["tools"]
        for accept in ("text/event-stream", "text/html", "application/json;q=0"):
            answer = await ada.post(path, json=LIST, headers={"Accept": accept})
            assert_envelope(answer, 406, "BAD_REQUEST", "INVALID_ARGUMENT")

    async def test_a_stream_ends_with_the_reply(self, world: World) -> None:
        """The frames have no ids, since the stream cannot be joined again."""
        ada, path = await reached(world)
        body = {**CALL, "params": {"name": "refunds", "_meta": {"progressToken": "t"}}}
        text = (await ada.post(path, json=body, headers=BOTH)).text
        blocks = [block.split("\n") for block in text.split("\n\n") if block]
        assert {first for first, _ in blocks} == {"event: message"}
        received = [json.loads(second.removeprefix("data: ")) for _, second in blocks]
        assert {one["params"]["progressToken"] for one in received[:-1]} == {"t"}
        assert [one["params"]["progress"] for one in received[:-1]] == [1, 2, 3, 4]
        assert received[-1]["id"] == 1

    @pytest.mark.parametrize("key", [None, "", 5, ["k"]])
    async def test_an_invalid_key_is_refused(self, world: World, key: Any) -> None:
        """An invalid key calls nothing: its client relies on it."""
        ada, path = await reached(world, chain(counting(f"keyless {world.org} {key}")))
        meta = {"_meta": {"io.wfcore/idempotency-key": key}}
        fault(await ada.post(path, json={**CALL, "params": {**CALL["params"], **meta}}), 400, -32602, CALL["id"])
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []

    async def test_a_repeated_call_is_made_once(self, world: World) -> None:
        """By its id (`2` is not `"2"`) in its session; without a session, and since 2026-07-28, it is another call."""
        ada, path = await reached(world, chain(counting(f"twice {world.org}")))
        body, headers = modern(CALL)
        new = {**headers, "Accept": POLL["Accept"]}
        received = []
        for message, sent in (
            *[(CALL, {**POLL, "Mcp-Session-Id": "one"})] * 2,
            *[({**CALL, "id": number}, {**POLL, "Mcp-Session-Id": "one"}) for number in (2, "2")],
            (CALL, {**POLL, "Mcp-Session-Id": "two"}),
            *[(CALL, POLL)] * 2,
            *[(body, {**new, "Mcp-Session-Id": "one"})] * 2,
        ):
            received.append(
                (await ada.post(path, json=message, headers=sent)).json()["result"]["structuredContent"]["result"]
            )
        assert received == [1, 1, 2, 3, 4, 5, 6, 7, 8]

    @pytest.mark.parametrize(("new", "status"), [(True, "cancelled"), (False, "done")])
    async def test_a_client_that_disconnects(self, world: World, new: bool, status: str) -> None:
        """Since 2026-07-28 a disconnect cancels the call; before, the run continues."""
        name = f"mcp {world.org}"
        ada, path = await reached(world, chain(holding(name)))
        body, headers = modern(CALL) if new else (CALL, BOTH)
        await leaving(app(world.core), path, {**ada.headers, **headers}, body)
        let_go(name)
        (run,) = (await ada.get("/agent/v1/runs")).json()["runs"]
        text = (await ada.get(f"/agent/v1/runs/{run['runId']}/events", headers={"Accept": "text/event-stream"})).text
        assert frames(text)[-1][1]["kind"] == status

    async def test_other_media_types_and_origins_are_refused(self, world: World) -> None:
        """Another media type is 400. Another origin is 403, before the interface is looked up."""
        ada, path = await reached(world)
        refused = await ada.post(path, content=b"{}", headers={"Content-Type": "text/plain"})
        assert (
            assert_envelope(refused, 400, "BAD_REQUEST", "INVALID_ARGUMENT")["info"]["errors"][0]["path"]
            == "Content-Type"
        )
        for there in (path, "/interfaces/mcp/unknown"):
            refused = await ada.post(there, json=LIST, headers={"Origin": "http://evil.example"})
            assert assert_envelope(refused, 403, "FORBIDDEN", "PERMISSION_DENIED")["info"] == {"reason": "host"}

    async def test_bodies_and_rates_are_limited(self) -> None:
        """413 for a body that is too large, 429 for too many requests in a minute."""
        limits = Settings(max_request_bytes=2_000, requests_per_minute=6)
        async with wfcore.bootstrap.open("sqlite://", settings=limits) as core:
            org = (await core.directory.create_organization("o")).uuid
            await core.directory.add_member(org, "ada", "ada@x.org")
            token = await core.directory.create_token(org, "ada", scopes=["workflows:write", "workflows:invoke"])
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app(core)), base_url="http://wfcore")
            async with client as ada:
                ada.headers["Authorization"] = f"Bearer {token}"
                number = await deployed(ada, chain())
                row = await ada.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "mcp"})
                path = row.json()["url"]
                assert (await ada.post(path, json=LIST)).status_code == 200
                large = await ada.post(path, json={**LIST, "params": {"cursor": "x" * 2_000}})
                assert_envelope(large, 413, "BAD_REQUEST", "INVALID_ARGUMENT")
                await ada.post(path, json=LIST)
                assert_envelope(await ada.post(path, json=LIST), 429, "RATE_LIMITED", "RESOURCE_EXHAUSTED")

    async def test_internal_errors_disclose_nothing(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """During a stream: a protocol error without details; before it: a 500 with the envelope."""

        def broken(*given: Any) -> Any:
            raise RuntimeError(CANARY)

        ada, path = await reached(world)
        monkeypatch.setattr(mcp_server, "end_of", broken)
        answer = await ada.post(path, json=CALL, headers=BOTH)
        reply = json.loads(answer.text.rstrip().rpartition("data: ")[2])
        assert reply["error"] == {"code": -32603, "message": "internal error"}
        assert CANARY not in answer.text
        monkeypatch.setattr(mcp_server, "_described", broken)
        answer = await ada.post(path, json=LIST, headers=BOTH)
        assert_envelope(answer, 500, "INTERNAL_ERROR", "INTERNAL")
        assert CANARY not in answer.text

    async def test_the_missing_extra_is_named(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """503 on existing interfaces; other routes still work."""
        ada, path = await reached(world)
        for name in [name for name in sys.modules if name.partition(".")[0] == "mcp" or "http.mcp." in name]:
            if "mcp.routes" not in name:
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("wfcore.adapters.http.mcp.exchange", raising=False)
        monkeypatch.setitem(sys.modules, "mcp", None)
        transport = httpx.ASGITransport(app(world.core))
        async with httpx.AsyncClient(transport=transport, base_url="http://wfcore", headers=ada.headers) as client:
            error = assert_envelope(await client.post(path, json=LIST), 503, "INTERNAL_ERROR", "INTERNAL")
            assert "wfcore[mcp]" in error["message"]
            assert (await client.post("/interfaces/mcp/unknown", json=LIST)).status_code == 404
