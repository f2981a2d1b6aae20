"""Tools of MCP servers: listing and calling, in both versions of the protocol, and hostile servers."""

import asyncio
import gc
import json
import logging
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from mcp_stub import ADD, CANARY, Stub, http_response, serving
from waiting import HANG, cpu_limit

from wfcore.adapters.outbound import mcp
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp import MOST_PAGES, McpTools
from wfcore.adapters.outbound.mcp_listing import LONGEST_DESCRIPTION, LONGEST_MESSAGE, MOST_TOOLS
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ConnectionRequired, ToolFailed
from wfcore.ports.tool_servers import CALL_KEY, ToolListing

pytestmark = pytest.mark.anyio


def tools(stub: Stub, **options: Any) -> McpTools:
    guard = AddressGuard.allowing([f"127.0.0.1:{stub.port}"])
    given = {"seconds": HANG, **options}
    return McpTools(f"http://127.0.0.1:{stub.port}/mcp", {"Authorization": f"Bearer {CANARY}"}, guard, **given)


async def listing(*listed: Any) -> ToolListing:
    async with serving(tools_list={"tools": listed}) as stub:
        return await tools(stub).list()


async def failure(stub: Stub, **options: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as failed:
        await tools(stub, **options).call("add", {"a": 1})
    return failed.value


# Well-behaved servers


@pytest.mark.parametrize("modern", [True, False])
async def test_tools_are_listed_and_called(modern: bool) -> None:
    """In both versions each request has the headers, and the call its name, arguments and key."""
    async with serving(modern) as stub:
        (tool,) = (await tools(stub).list()).tools
        assert (tool.name, tool.description, tool.parameters) == ("add", "Adds.", ADD["inputSchema"])
        assert await tools(stub).call("add", {"a": 1}, "key-1") == "3"
    assert all(headers["authorization"] == f"Bearer {CANARY}" for headers, _ in stub.received)
    (called,) = [body for _, body in stub.received if body and body["method"] == "tools/call"]
    assert (called["params"]["name"], called["params"]["arguments"]) == ("add", {"a": 1})
    assert called["params"]["_meta"][CALL_KEY] == "key-1"


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": []}, ""),
        ({"content": [{"type": "text", "text": "3"}], "structuredContent": {"sum": 3}}, {"sum": 3}),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
            [{"type": "text", "text": "a"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
        ),
    ],
    ids=["texts", "nothing", "structured", "blocks"],
)
async def test_results_become_values(result: JSON, value: JSON) -> None:
    """Structured content is returned as it is, else texts joined, else the list of blocks."""
    async with serving(tools_call=result) as stub:
        assert await tools(stub).call("add", {"a": 1}) == value


async def test_a_failure_has_the_message_of_the_tool() -> None:
    """It is without retry: a model can correct its arguments, a repetition would fail again."""
    async with serving(tools_call={"isError": True, "content": [{"type": "text", "text": "a is odd"}]}) as stub:
        error = await failure(stub)
    assert (error.message, error.retryable) == ("a is odd", False)


async def test_pages_are_read_to_the_end() -> None:
    """Several pages are one listing, in the server's order."""

    def page(body: Mapping[str, Any]) -> JSON:
        number = int(body["params"].get("cursor", 0))
        return {"tools": [{**ADD, "name": f"t{number}"}], **({"nextCursor": str(number + 1)} if number < 3 else {})}

    async with serving(tools_list=page) as stub:
        assert [tool.name for tool in (await tools(stub).list()).tools] == ["t0", "t1", "t2", "t3"]


async def test_an_empty_cursor_ends_the_listing() -> None:
    """Some servers send `nextCursor` "" on the last page."""
    async with serving(tools_list={"tools": [ADD], "nextCursor": ""}) as stub:
        assert [tool.name for tool in (await tools(stub).list()).tools] == ["add"]
    assert stub.methods().count("tools/list") == 1


async def test_a_digest_changes_with_the_definition() -> None:
    """The digest does not depend on the order of keys; any change gives another digest."""
    turned = dict(reversed(ADD.items()))
    longer = {**ADD, "description": "x" * LONGEST_DESCRIPTION}
    others = [{**ADD, "description": "adds."}, {**ADD, "inputSchema": {"type": "object"}}]
    others += [longer, {**longer, "description": longer["description"] + "!"}]
    found = [(await listing(one)).tools[0].digest for one in (ADD, turned, *others)]
    assert found[0] == found[1]
    assert len(set(found)) == len(others) + 1


async def test_arguments_can_be_required_in_headers() -> None:
    """If a server refuses a call for a missing header, the header is sent after its listing was read."""
    wanted = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    refused = http_response(
        400, json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "m"}}).encode()
    )
    async with serving(tools_list={"tools": [{**ADD, "inputSchema": wanted}]}) as stub:

        def asked(_: JSON) -> Any:
            return stub.usual("tools/call") if "mcp-param-a" in stub.received[-1][0] else refused

        stub.replies = {**stub.replies, "tools/call": asked}
        assert await tools(stub).call("add", {"a": "x"}) == "3"
    assert stub.methods().count("tools/call") == 2


# Hostile servers


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ({**ADD, "name": "a b"}, "name"),
        ({**ADD, "name": "x" * 129}, "name"),
        ({**ADD, "name": "add\n"}, "name"),
        ({**ADD, "name": "🏴"}, "name"),
        ({**ADD, "inputSchema": {"type": "object", "properties": {"a": {"type": "objekt"}}}}, "schema"),
        ({**ADD, "inputSchema": {"type": "object", "$ref": "http://127.0.0.1/"}}, "schema"),
        ({**ADD, "inputSchema": {"type": "object", "title": "x" * 70_000}}, "schema"),
        ({**ADD, "inputSchema": {"type": "object", "title": "\0"}}, "JSON"),
        ({"name": "add"}, "`inputSchema` is missing in its definition"),
        ({**ADD, "inputSchema": None}, "`inputSchema` of its definition is not valid"),
        ({**ADD, "inputSchema": {"type": "array"}}, "`inputSchema.type` of its definition"),
        ({"inputSchema": {"type": "object"}}, "`name` is missing"),
        ({**ADD, "description": 5}, "`description` of its definition"),
        ({**ADD, "annotations": {"readOnlyHint": []}}, "`annotations.readOnlyHint` of its definition"),
        ({**ADD, "execution": 5}, "`execution` of its definition"),
        ("add", "not an object"),
        (None, "not an object"),
        ({**ADD, "inputSchema": {"type": "object", "properties": {"a": {"x-mcp-header": "A"}}}}, "x-mcp-header"),
    ],
    ids=[
        "space", "long", "line", "flag", "type", "reference", "size", "nul", "no schema", "null", "array", "no name",
        "description", "annotations", "execution", "text", "nothing", "header",
    ],
)  # fmt: skip
async def test_tools_that_cannot_be_used_are_left_out(listed: Any, why: str) -> None:
    """One invalid definition is reported with its reason, and does not affect other tools."""
    found = await listing({**ADD, "name": "good"}, listed)
    assert [tool.name for tool in found.tools] == ["good"]
    ((name, reason),) = found.left_out.items()
    assert len(name) <= 128
    assert why in reason
    assert len(reason) <= LONGEST_MESSAGE


async def test_tools_of_one_name_are_left_out() -> None:
    """Neither of two tools of one name is listed: an approval of one must not apply to the other."""
    for other in ({**ADD, "description": "Deletes."}, {"name": "add"}):
        found = await listing(ADD, {**ADD, "name": "good"}, other)
        assert [tool.name for tool in found.tools] == ["good"]
        assert "two tools" in found.left_out["add"]


async def test_descriptions_are_cut() -> None:
    """The description of a tool for the model is bounded."""
    (tool,) = (await listing({**ADD, "description": "x" * 100_000})).tools
    assert tool.description == "x" * LONGEST_DESCRIPTION


async def test_endless_listings_are_refused() -> None:
    """Endless pages, and pages with too many tools, are refused without retry."""
    endless = {"tools": [], "nextCursor": "again"}
    full = {"tools": [{**ADD, "name": f"t{number}"} for number in range(MOST_TOOLS + 1)]}
    invalid = {"tools": [{"name": "t"}] * MOST_TOOLS, "nextCursor": "again"}
    for pages, asked in ((endless, MOST_PAGES), (full, 1), (invalid, 2)):
        async with serving(tools_list=pages) as stub:
            with pytest.raises(ToolFailed, match="more than") as failed:
                await tools(stub).list()
        assert not failed.value.retryable
        assert stub.methods().count("tools/list") == asked


BIG = b'{"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "' + b"x" * 300_000


@pytest.mark.parametrize(
    ("reply", "retryable"),
    [
        (http_response(500), True),
        (http_response(body=b"<html>"), True),
        (http_response(body=b"[" * 100_000), True),
        (http_response(body=b"hello", kind="text/html"), False),
        (http_response(202), False),
        (http_response(307, location="http://169.254.169.254/"), False),
        (http_response(200, b"x", content_encoding="gzip"), False),
        (http_response(body=BIG), False),
        (http_response(body=b"data: " + BIG, kind="text/event-stream"), False),
        (http_response(body=b"data: {}\n\n", kind="text/event-stream"), True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: application/json\r\n\r\n{", True),
        (b"no HTTP\r\n\r\n", True),
        (b"", True),
        ({"content": 5}, False),
        ({"content": [{"type": "strange"}]}, False),
        ({"content": [], "structuredContent": {"a": "\0"}}, False),
        ({"resultType": "strange", "content": []}, False),
        ({"error": {"code": -32602, "message": "no such tool"}}, False),
        ({"error": {"code": -32603, "message": "busy"}}, True),
    ],
)
async def test_any_odd_response_is_a_tool_failure(reply: Any, retryable: bool) -> None:
    """It is a `ToolFailed` of bounded length that says whether a retry can succeed."""
    async with serving(tools_call=reply) as stub, asyncio.timeout(HANG):
        error = await failure(stub, most_bytes=200_000)
    assert len(error.message) <= LONGEST_MESSAGE + 100
    assert error.retryable is retryable
    assert stub.methods().count("tools/call") == 1


@pytest.mark.parametrize("content", [{}, {"content": []}])
async def test_a_tool_that_requires_input(content: Mapping[str, JSON]) -> None:
    """It is a failure without retry, not an empty result."""
    async with serving(tools_call={**content, "resultType": "input_required", "requestState": "s"}) as stub:
        error = await failure(stub)
    assert (error.message, error.retryable) == ("the tool requires further input, which wfcore does not give", False)


@pytest.mark.parametrize("version", ["2030-01-01", "2026-07-28"])
async def test_a_version_that_is_not_supported(version: str) -> None:
    """The message says so. The version without a handshake cannot be negotiated by a handshake."""
    answer = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "stub", "version": "1"}}
    async with serving(False, initialize=answer) as stub:
        error = await failure(stub)
    assert (error.message, error.retryable) == (
        "the MCP server uses a version of the protocol that is not supported", False,
    )  # fmt: skip


GONE = {
    "text": http_response(404, b"gone", kind="text/plain"),
    "error": http_response(404, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no session"}}'),
}


@pytest.mark.parametrize("ends", [1, 2], ids=["once", "always"])
@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
async def test_a_session_that_the_server_ends(gone: bytes, ends: int) -> None:
    """A call that the server has not taken is made once more, in a new session."""
    started = iter(["s1", "s2", "s3"])

    def began(body: Mapping[str, Any]) -> bytes:
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": stub.usual("initialize")}
        return http_response(body=json.dumps(answer).encode(), mcp_session_id=next(started))

    def asked(_: JSON) -> Any:
        return gone if stub.methods().count("tools/call") <= ends else stub.usual("tools/call")

    async with serving(False, initialize=began, tools_call=asked) as stub:
        if ends == 1:
            assert await tools(stub).call("add", {"a": 1}) == "3"
        else:
            assert (await failure(stub)).message == "the MCP server ended the session"
    called = [headers["mcp-session-id"] for headers, body in stub.received if body and body["method"] == "tools/call"]
    assert called == ["s1", "s2"]


async def test_another_message_of_an_ended_session() -> None:
    """A 404 of a notification is not one of the call: a call that the server has taken is not made again."""

    def began(body: Mapping[str, Any]) -> bytes:
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": stub.usual("initialize")}
        return http_response(body=json.dumps(answer).encode(), mcp_session_id="s1")

    failed = {"error": {"code": -32603, "message": "busy"}}
    async with serving(False, initialize=began, tools_call=failed, notifications_initialized=GONE["text"]) as stub:
        assert "busy" in (await failure(stub)).message
    assert stub.methods().count("tools/call") == 1


@pytest.mark.parametrize("method", ["server/discover", "tools/call"])
async def test_silence_is_a_timeout(method: str) -> None:
    """A server that sends nothing causes a timeout, and can be called again."""
    async with serving(**{method.replace("/", "_"): lambda _: None}) as stub, asyncio.timeout(HANG):
        error = await failure(stub, seconds=0.2)
    assert error.retryable
    assert "0.2 seconds" in error.message


async def test_a_timeout_that_ends_the_session_with_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK makes of its cancellation is not what the server has done."""

    async def run_session(*_: object) -> None:
        try:
            await asyncio.sleep(HANG)
        except asyncio.CancelledError:
            raise RuntimeError("the session is not initialized") from None

    monkeypatch.setattr(McpTools, "_run_session", run_session)
    async with serving() as stub:
        error = await failure(stub, seconds=0.01)
    assert (error.retryable, str(error)) == (True, "the MCP server did not respond within 0.01 seconds")


async def test_the_end_of_a_session_does_not_affect_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of the old version that does not end the session is left; the result is returned."""
    monkeypatch.setattr(mcp, "SECONDS_TO_LEAVE", 0.5)
    usual = Stub(modern=False).usual("initialize")
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "result": usual}).encode()
    async with serving(False, initialize=http_response(body=body, mcp_session_id="s")) as stub:
        stub.replies = {**stub.replies, "": lambda body: None if body is None else http_response(202)}
        assert await tools(stub).call("add", {"a": 1}) == "3"


async def test_a_session_that_cannot_be_cancelled_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is returned although the end of the session swallows its cancellation. Its connections are closed."""
    monkeypatch.setattr(mcp, "SECONDS_TO_LEAVE", 0.05)
    usual, released, used = McpTools._session, asyncio.Event(), list[Any]()

    @asynccontextmanager
    async def stubborn(self: McpTools, transport: Any) -> AsyncIterator[Any]:
        async with usual(self, transport) as client:
            used.append(transport)
            yield client
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    monkeypatch.setattr(McpTools, "_session", stubborn)
    async with serving() as stub:
        assert await tools(stub).call("add", {"a": 1}) == "3"
        assert used[0]._pool.connections == []
    released.set()


async def test_a_session_that_fails_while_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK can raise when its session is cancelled. A caller that was cancelled gets only that, and the error is
    not reported to the event loop, which would log it.
    """
    begun, reports = asyncio.Event(), list[Any]()

    @asynccontextmanager
    async def failing(self: McpTools, transport: Any) -> AsyncIterator[Any]:
        try:
            begun.set()
            yield await asyncio.Event().wait()
        finally:
            raise RuntimeError(CANARY)

    monkeypatch.setattr(McpTools, "_session", failing)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    call = asyncio.create_task(McpTools("http://127.0.0.1:9", {}, AddressGuard()).list())
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    del call
    await asyncio.sleep(0)  # the event loop forgets the task
    gc.collect()
    assert reports == []


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_require_a_connection(status: int) -> None:
    """A refusal of the credentials, at any time, raises ConnectionRequired."""
    for methods in (["server_discover", "initialize"], ["tools_call"]):
        async with serving(**dict.fromkeys(methods, http_response(status))) as stub:
            assert isinstance(await failure(stub), ConnectionRequired)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/mcp", "http://localhost/mcp", "ftp://a.example", "http://a@b.example"]
)
async def test_the_guard_decides(url: str) -> None:
    """A URL that is not public, or not plain, is refused without retry."""
    with pytest.raises(ToolFailed) as failed:
        await McpTools(url, {}, AddressGuard()).list()
    assert not failed.value.retryable


async def test_a_closed_port() -> None:
    """A closed port can be called again."""
    async with serving() as stub:
        pass
    assert (await failure(stub)).retryable


async def test_the_credentials_are_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Even if a server repeats them, no error, traceback, log or `repr` shows them."""
    caplog.set_level(logging.DEBUG)
    words = f"x Bearer {CANARY} y {CANARY}"
    for reply in (
        {"isError": True, "content": [{"type": "text", "text": words}]},
        {"error": {"code": -32603, "message": words}},
        http_response(500, words.encode()),
        http_response(body=words.encode()),
        http_response(body=json.dumps({"jsonrpc": words}).encode()),
        http_response(body=f"data: {words}\n\n".encode(), kind="text/event-stream"),
    ):
        async with serving(tools_call=reply) as stub:
            error = await failure(stub)
            shown = "".join(traceback.format_exception(error)) + repr(error) + repr(tools(stub)) + error.message
            assert CANARY not in shown + caplog.text


async def test_no_part_of_the_credentials_is_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the ends of a value that the SDK shortens to quote it, nor a credential in lower case."""
    secret = "Sk-" + "0123456789" * 6 + "-End"
    monkeypatch.setattr(sys.modules[__name__], "CANARY", secret)
    for reply in (
        http_response(body=json.dumps(f"Bearer {secret}").encode()),
        http_response(body=b"x", kind=f"text/{secret}"),
    ):
        async with serving(tools_call=reply) as stub:
            error = await failure(stub)
            assert "0123456789" not in error.message


async def test_a_long_message_like_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The customer chooses both: neither holds the event loop."""
    monkeypatch.setattr(sys.modules[__name__], "CANARY", "A" * 8_000 + "B")
    text = "\u0130 " + "a" * 1_000_000
    async with serving(tools_call={"isError": True, "content": [{"type": "text", "text": text}]}) as stub:
        started = time.process_time()
        assert "aaaa" in (await failure(stub)).message
    assert time.process_time() - started < cpu_limit(3)


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"host": "a.example"}, {"A": "1", "a": "2"}])
def test_headers_are_checked(headers: dict[str, str]) -> None:
    """Invalid headers are refused when the object is created."""
    with pytest.raises(ToolFailed):
        McpTools("http://a.example", headers, AddressGuard())


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK, the error says what to install."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ImportError, match=r"wfcore\[mcp\]"):
        McpTools("http://a.example", {}, AddressGuard())
