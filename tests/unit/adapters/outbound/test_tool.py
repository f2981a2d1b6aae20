"""`core.http`: its arguments as a request, and the response as a value."""

import json
from typing import Any

import pytest
from loopback import ReceivedRequest, answer, redirect, serving

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.tool import http_tool
from wfcore.domain.agents.connections import RESERVED_HEADERS
from wfcore.domain.json.schema import compile_schema
from wfcore.ports.providers import ToolCall, ToolFailed

pytestmark = pytest.mark.anyio

CALL = ToolCall("r-1:pay:1", 2, "org", "r-1", "u-1")
LOOPBACK = AddressGuard.allowing(["127.0.0.1"])


async def run(url: str, call: ToolCall = CALL, **params: Any) -> Any:
    found: Any = http_tool(LOOPBACK).run({"url": url, **params}, call)
    return await found


async def received(call: ToolCall = CALL, **params: Any) -> ReceivedRequest:
    """The request that these arguments become."""
    async with serving(answer()) as server:
        await run(f"{server.url}/x", call, **params)
    return server.received[0]


async def body_of(body: bytes, kind: str | None = None, **headers: Any) -> Any:
    """What this answer's body becomes."""
    async with serving(answer(200, body, **({"content_type": kind} if kind else {}), **headers)) as server:
        return (await run(server.url))["body"]


async def failure(url: str, **params: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as failed:
        await run(url, **params)
    return failed.value


class TestRequest:
    async def test_without_anything_it_is_a_get(self) -> None:
        """The least is a URL: a GET without a body, with the key of the effect."""
        found = await received()
        assert (found.line, found.body) == ("GET /x HTTP/1.1", b"")
        assert set(found.headers) == {"host", "accept", "accept-encoding", "user-agent", "idempotency-key"}
        assert found.headers["idempotency-key"] == CALL.key

    @pytest.mark.parametrize("body", [{"a": [1, None, "ü"]}, [], {}, 0, False, 1.5])
    async def test_values_are_sent_as_json(self, body: Any) -> None:
        """An object, and any value that is neither text nor null, is sent as JSON."""
        found = await received(method="POST", body=body)
        assert json.loads(found.body) == body
        assert found.headers["content-type"] == "application/json"

    async def test_text_is_sent_as_it_is(self) -> None:
        """A string is sent in UTF-8, as plain text unless the caller sets the type; null sends no body."""
        found = await received(method="PUT", body="ü=1")
        assert (found.body, found.headers["content-type"]) == ("ü=1".encode(), "text/plain; charset=utf-8")
        kind = "application/x-www-form-urlencoded"
        found = await received(method="PUT", body="a=1", headers={"Content-Type": kind})
        assert found.headers["content-type"] == kind
        assert (await received(method="DELETE", body=None)).body == b""

    async def test_headers_are_sent(self) -> None:
        """Names in any case, values in UTF-8; the caller's headers replace the defaults."""
        given = {"X-Name": " Zoë ", "ACCEPT": "text/csv", "Idempotency-Key": "mine", "User-Agent": "shop/1"}
        found = (await received(headers=given)).headers
        assert found["x-name"].encode("latin-1").decode() == "Zoë"
        assert (found["accept"], found["idempotency-key"], found["user-agent"]) == ("text/csv", "mine", "shop/1")

    @pytest.mark.parametrize("key", ["r:ü:1", "r:a b:1", "r:\r\nX: y:1", "r:%C3%BC:1"])
    async def test_any_key_can_be_sent(self, key: str) -> None:
        """Characters that a header does not allow are percent-encoded, so that keys stay distinct."""
        sent = (await received(ToolCall(key, 1, "org", "r", "u"))).headers
        assert "x" not in sent
        assert sent["idempotency-key"].isascii()
        assert sent["idempotency-key"] != key

    @pytest.mark.parametrize("name", [*sorted(RESERVED_HEADERS), "Host", "TRANSFER-ENCODING", "Content-Length"])
    async def test_headers_of_the_connection_are_refused(self, name: str) -> None:
        """Host, hop-by-hop headers and those that frame the message are refused before anything is sent."""
        failed = await failure("http://127.0.0.1:1/", headers={name: "x"})
        assert (failed.message, failed.retryable) == (f"the header `{name}` cannot be set by a workflow", False)

    @pytest.mark.parametrize(
        "headers",
        [
            {"": "x"}, {"a b": "x"}, {"a:": "x"}, {"a\r\nb": "x"}, {"ü": "x"}, {"a\x00": "x"}, {":path": "x"},
            {"x": "a\r\nHost: b"}, {"x": "a\nb"}, {"x": "a\rb"}, {"x": "a\x00"}, {"x": "\x7f"}, {"x": "\ud800"},
            {"x": "y" * 20_000}, {"x": "1", "X": "2"},
        ],
    )  # fmt: skip
    async def test_no_header_contains_another(self, headers: dict[str, str]) -> None:
        """Names are tokens, values have no control characters, and names are unique."""
        assert not (await failure("http://127.0.0.1:1/", headers=headers)).retryable

    def test_the_schema_of_the_arguments(self) -> None:
        """The schema accepts four arguments, methods in upper case, and headers that are text."""
        schema = compile_schema(http_tool(LOOPBACK).parameters)
        good = {"url": "http://a.example", "method": "PATCH", "headers": {"a": "b"}, "body": None}
        assert schema.check(good, "params") == []
        for bad in ({"url": None}, {"method": "get"}, {"method": "CONNECT"}, {"headers": {"a": 1}}, {"timeout": 1}):
            assert schema.check(good | bad, "params") != []
        assert schema.check({}, "params") != []


class TestResponse:
    @pytest.mark.parametrize("status", [200, 201, 301, 400, 404, 429, 500, 503])
    async def test_every_status_is_an_answer(self, status: int) -> None:
        """Whatever the status, there are status, headers and body."""
        async with serving(answer(status, b"x", content_type="text/plain", X_More="y")) as server:
            found = await run(server.url)
        assert (found["status"], found["body"], found["headers"]["x-more"]) == (status, "x", "y")
        assert set(found) == {"status", "headers", "body"}

    @pytest.mark.parametrize(
        "kind", ["application/json", "application/json; charset=utf-8", "APPLICATION/problem+JSON", "text/json"]
    )
    async def test_json_becomes_its_value(self, kind: str) -> None:
        """By the content type, with or without a byte order mark."""
        assert await body_of(b'{"a": [1, "\xc3\xbc", null]}', kind) == {"a": [1, "ü", None]}
        assert await body_of(b"\xef\xbb\xbf[]", kind) == []

    @pytest.mark.parametrize(
        "body", [b"{", b"NaN", b'{"a": 1, "a": 2}', b'"\\ud800"', b"[" * 70 + b"]" * 70, b'"\\u0000"', b"1" * 30]
    )
    async def test_json_that_is_not_strict_is_text(self, body: bytes) -> None:
        """Ambiguous JSON is returned as the received text."""
        assert await body_of(body, "application/json") == body.decode()

    @pytest.mark.parametrize(
        ("body", "kind", "text"),
        [
            (b"\xc3\xbc", "text/plain", "ü"),
            (b"\xfc", "text/plain; charset=ISO-8859-1", "ü"),
            (b"\xfc", "text/plain; charset=latin1", "ü"),
            (b"\xff\xfea\x00", 'text/csv; charset="utf-16"', "a"),
            (b"\xfc", "text/html", "\ufffd"),
            (b"a", "application/xml", "a"),
            (b"a", "image/svg+xml", "a"),
            (b"a", "application/x-www-form-urlencoded", "a"),
            (b"a", "application/vnd.shop; charset=utf-8", "a"),
            (b"+AGE-", "text/plain; charset=utf-7", "+AGE-"),
            (b"a", "text/plain; charset=punycode", "a"),
            (b"a", "text/plain; charset=zlib", "a"),
            (b"a", "text/plain; charset=no-such", "a"),
            (b"a", "text/plain; charset=a\x01b", "a"),
            (b"a", "text/plain; charset=\u00fc", "a"),
            (b"a", "text/plain; charset*=punycode''utf-7", "a"),
            (b"a\x00b", None, "a\x00b"),
        ],
    )
    async def test_text_becomes_a_string(self, body: bytes, kind: str | None, text: str) -> None:
        """In its charset if that is supported, else in UTF-8; invalid bytes are replaced."""
        assert await body_of(body, kind) == text

    async def test_a_long_content_type_is_read_in_part(self) -> None:
        """Its first 1,000 characters: parameters of many thousands would hold the event loop for seconds."""
        assert await body_of(b"\xfc", f'text/plain; a="{";" * 900}"; charset=latin1') == "ü"
        assert await body_of(b"\xfc", f'text/plain; a="{";" * 1_000}"; charset=latin1') == "\ufffd"

    @pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf", None])
    async def test_other_content_becomes_base64(self, kind: str | None) -> None:
        """By the content type; without one, content that is not UTF-8."""
        assert await body_of(b"\xff\x00", kind) == {"base64": "/wA="}

    async def test_content_in_an_unknown_encoding_becomes_base64(self) -> None:
        """Content that was not decompressed is not text, whatever its type."""
        assert await body_of(b"{}", "application/json", content_encoding="br") == {"base64": "e30="}

    @pytest.mark.parametrize("kind", ["application/json", "text/plain", "image/png", None])
    async def test_no_content_is_null(self, kind: str | None) -> None:
        """An empty body is null, for any type."""
        assert await body_of(b"", kind) is None


class TestFailure:
    async def test_what_may_help_and_what_cannot(self) -> None:
        """No connection and a cut body may be tried again; what is refused or too large may not."""
        async with serving(answer(content_length=5) + b"abc") as server:
            assert (await failure(server.url)).retryable
        assert (await failure("http://127.0.0.1:1/")).retryable
        async with serving(redirect("http://10.0.0.1/")) as server:
            assert not (await failure(server.url)).retryable
        async with serving(answer(body=bytes(6 * 2**20))) as server:
            assert not (await failure(server.url)).retryable
        for url in ("http://10.0.0.1/", "file:///etc/passwd", "nonsense"):
            assert not (await failure(url)).retryable

    async def test_no_failure_shows_a_secret(self) -> None:
        """The message contains neither query nor header values nor body."""
        secret = {"headers": {"Authorization": "canary"}, "body": {"a": "canary"}, "method": "POST"}
        for url in (
            "http://127.0.0.1:1/?t=canary",
            "http://10.0.0.1/?t=canary",
            "http://canary@127.0.0.1/",
            "x?canary",
        ):
            assert "canary" not in (await failure(url, **secret)).message
        assert "canary" not in (await failure("http://127.0.0.1:1/", headers={"a": "canary\r\n"})).message
