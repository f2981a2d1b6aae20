"""What a protocol server is sent by mistake and by malice (JSON-RPC 2.0; MCP, Transports, Protocol Version Header)."""

import asyncio
import json
import sys
from typing import Any

import httpx
import pytest
from clients import POLL, Json, World, assert_envelope, chain, counting, deployed, frames, holding, let_go, node
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.http.mcp import server as mcp_server
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
    """The message as it is sent since 2026-07-28, and its headers."""
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
    """Send this, and go away once the stream has begun; until the server is done with it."""
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
    """One for all examples of a test."""
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
    """What is no message, and what is an unknown one."""

    @pytest.mark.parametrize("headers", [{}, {"Mcp-Protocol-Version": NEW}])
    async def test_what_is_no_message_is_refused(self, world: World, headers: dict[str, str]) -> None:
        """400 and the error of JSON-RPC, of no request: no JSON, several messages, an answer, a wrong type."""
        ada, path = await reached(world)
        for body, code in NO_MESSAGE:
            answer = await ada.post(path, content=body, headers={"Content-Type": "application/json", **headers})
            fault(answer, 400, code)

    async def test_an_unknown_method_is_not_found(self, world: World) -> None:
        """Since 2026-07-28 with a status of its own; before, inside a 200."""
        ada, path = await reached(world)
        for method in ("resources/list", "prompts/get", "no/such", "logging/setLevel", "subscriptions/listen"):
            unknown = {"jsonrpc": "2.0", "id": "a", "method": method, "params": {}}
            found = await ada.post(path, json=unknown)
            assert found.json()["error"]["code"] in (METHOD, PARAMS)
            assert found.status_code == 200
            body, headers = modern(unknown)
            found = await ada.post(path, json=body, headers=headers)
            assert (found.status_code, found.json()["error"]["code"]) in ((404, METHOD), (400, PARAMS))
        body, headers = modern({"jsonrpc": "2.0", "id": "a", "method": "no/such"})
        fault(await ada.post(path, json=body, headers=headers), 404, METHOD, "a")

    async def test_headers_and_body_say_the_same(self, world: World) -> None:
        """Since 2026-07-28 version, method and name stand in both; where they differ, or twice, nothing is done."""
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

    async def test_an_unknown_version_is_told_the_known_ones(self, world: World) -> None:
        """So that a client can choose another; of a notification too."""
        ada, path = await reached(world)
        body, headers = modern(LIST)
        body["params"]["_meta"] = {**ENVELOPE, f"{PREFIX}/protocolVersion": "2099-01-01"}
        headers["Mcp-Protocol-Version"] = "2099-01-01"
        told = fault(await ada.post(path, json=body, headers=headers), 400, VERSION, 1)
        assert told["data"] == {"supported": [NEW], "requested": "2099-01-01"}
        noted = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        fault(await ada.post(path, json=noted, headers={"Mcp-Protocol-Version": "2099-01-01"}), 400, VERSION)

    async def test_headers_repeat_arguments(self, world: World) -> None:
        """Where the schema says that a header repeats an argument, it does."""
        structure = chain(node("show", "action", toolId="core.transform", params={"value": "{{ input }}"}))
        schema = {"type": "object", "properties": {"n": {"type": "string", "x-mcp-header": "Number"}}}
        structure["nodes"][0]["data"] = {"inputSchema": schema}
        ada, path = await reached(world, structure)
        body, headers = modern(CALL, arguments={"n": "7"})
        fault(await ada.post(path, json=body, headers=headers), 400, MISMATCH, 1)
        answer = await ada.post(path, json=body, headers={**headers, "Mcp-Param-Number": "7"})
        assert '"structuredContent":{"n":"7"}' in answer.text

    @pytest.mark.parametrize("method", ["initialized", "cancelled", "roots/list_changed", "unknown"])
    async def test_a_notification_is_taken_without_a_word(self, world: World, method: str) -> None:
        """202 and no body, whatever it says: one that cancels what is not there is no fault."""
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
        """Whatever is sent gets a reply of the protocol, and a status below 500."""
        ada, path = place
        headers = {"Accept": BOTH["Accept"], **({} if version is None else {"Mcp-Protocol-Version": version})}
        if mirrored and isinstance(message.get("method"), str):
            headers["Mcp-Method"] = message["method"]
        answer = await ada.post(path, content=json.dumps(message).encode(), headers=headers)
        assert answer.status_code in (200, 202, 400, 404)
        if answer.status_code != 202:
            assert answer.json()["jsonrpc"] == "2.0"


class TestTransport:
    """HTTP around a message (MCP, Transports)."""

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
    async def test_there_is_no_session_to_join_or_end(self, world: World, method: str) -> None:
        """405 and what is allowed, to a client that asks for a stream or ends its session."""
        ada, path = await reached(world)
        answer = await ada.request(method, path, headers={"Accept": "text/event-stream", "Mcp-Session-Id": "s"})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")

    async def test_the_answer_is_of_a_kind_that_is_accepted(self, world: World) -> None:
        """A stream once a run has begun, for who takes one; JSON for everything else; neither: 406."""
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
        """Frames of messages without ids: nobody joins them again."""
        ada, path = await reached(world)
        asked = {**CALL, "params": {"name": "refunds", "_meta": {"progressToken": "t"}}}
        text = (await ada.post(path, json=asked, headers=BOTH)).text
        blocks = [block.split("\n") for block in text.split("\n\n") if block]
        assert {first for first, _ in blocks} == {"event: message"}
        told = [json.loads(second.removeprefix("data: ")) for _, second in blocks]
        assert {one["params"]["progressToken"] for one in told[:-1]} == {"t"}
        assert [one["params"]["progress"] for one in told[:-1]] == [1, 2, 3, 4]
        assert told[-1]["id"] == 1

    @pytest.mark.parametrize("key", [None, "", 5, ["k"]])
    async def test_a_key_that_is_none_is_refused(self, world: World, key: Any) -> None:
        """Nothing is called: whoever sent it would take the call to be made once."""
        ada, path = await reached(world, chain(counting(f"keyless {world.org} {key}")))
        meta = {"_meta": {"io.wfcore/idempotency-key": key}}
        fault(await ada.post(path, json={**CALL, "params": {**CALL["params"], **meta}}), 400, -32602, CALL["id"])
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []

    async def test_a_call_that_is_sent_twice_is_made_once(self, world: World) -> None:
        """By its number (`2` is not `"2"`) in its session; without one, and since 2026-07-28, it is another."""
        ada, path = await reached(world, chain(counting(f"twice {world.org}")))
        body, headers = modern(CALL)
        new = {**headers, "Accept": POLL["Accept"]}
        told = []
        for message, sent in (
            *[(CALL, {**POLL, "Mcp-Session-Id": "one"})] * 2,
            *[({**CALL, "id": number}, {**POLL, "Mcp-Session-Id": "one"}) for number in (2, "2")],
            (CALL, {**POLL, "Mcp-Session-Id": "two"}),
            *[(CALL, POLL)] * 2,
            *[(body, {**new, "Mcp-Session-Id": "one"})] * 2,
        ):
            told.append(
                (await ada.post(path, json=message, headers=sent)).json()["result"]["structuredContent"]["result"]
            )
        assert told == [1, 1, 2, 3, 4, 5, 6, 7, 8]

    @pytest.mark.parametrize(("new", "status"), [(True, "cancelled"), (False, "done")])
    async def test_a_reader_that_goes_away(self, world: World, new: bool, status: str) -> None:
        """Since 2026-07-28 that cancels the call; before, it meant nothing, and the run ends by itself."""
        name = f"mcp {world.org}"
        ada, path = await reached(world, chain(holding(name)))
        body, headers = modern(CALL) if new else (CALL, BOTH)
        await leaving(app(world.core), path, {**ada.headers, **headers}, body)
        let_go(name)
        (run,) = (await ada.get("/agent/v1/runs")).json()["runs"]
        told = (await ada.get(f"/agent/v1/runs/{run['runId']}/events", headers={"Accept": "text/event-stream"})).text
        assert frames(told)[-1][1]["kind"] == status

    async def test_bytes_that_are_no_message_are_not_read(self, world: World) -> None:
        """Another media type: 400. A page of somebody else: 403, before it is looked whether there is an interface."""
        ada, path = await reached(world)
        refused = await ada.post(path, content=b"{}", headers={"Content-Type": "text/plain"})
        assert (
            assert_envelope(refused, 400, "BAD_REQUEST", "INVALID_ARGUMENT")["info"]["errors"][0]["path"]
            == "Content-Type"
        )
        for there in (path, "/interfaces/mcp/unknown"):
            refused = await ada.post(there, json=LIST, headers={"Origin": "http://evil.example"})
            assert assert_envelope(refused, 403, "FORBIDDEN", "PERMISSION_DENIED")["info"] == {"reason": "host"}

    async def test_bodies_and_rates_are_bounded(self) -> None:
        """As everywhere: 413 for a body that is too large, 429 for too many requests in a minute."""
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

    async def test_what_breaks_inside_stays_inside(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """In the middle of a stream: an error of the protocol that says nothing; before it: the envelope of a 500."""

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

    async def test_without_the_extra_it_says_what_to_install(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """503 to who reaches an interface; the rest of the server goes on."""
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
