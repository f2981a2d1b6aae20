"""Malformed and hostile requests: bodies, paths, methods and headers (interface, Errors)."""

import asyncio
import gzip
import json
import logging
from typing import Any

import anyio
import httpx
import pytest
from clients import APPROVAL, MALFORMED, World, assert_envelope, chain, deployed, flow
from starlette.types import Message

from wfcore.adapters.http import app
from wfcore.domain.kernel.errors import Unavailable
from wfcore.extras import MissingExtra
from wfcore.ports.sealing import NoSecretKey

pytestmark = pytest.mark.anyio

BODIES = {
    "empty": b"",
    "blank": b"  ",
    "garbage": b"<xml/>",
    "trailing": b"{} {}",
    "not an object": b"[]",
    "a number": b"7",
    "null": b"null",
    "NaN": b'{"name": NaN, "type": "workflow"}',
    "infinity": b'{"name": "a", "type": "workflow", "x": 1e400}',
    "repeated key": b'{"name": "a", "name": "b", "type": "workflow"}',
    "not UTF-8": b'{"name": "\xff", "type": "workflow"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"name": "a", "type": "workflow"}',
    "lone surrogate": b'{"name": "\\ud800", "type": "workflow"}',
    "NUL": b'{"name": "a\\u0000", "type": "workflow"}',
    "deep": b'{"name":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "huge integer": b'{"name": "a", "type": "workflow", "description": 1' + b"0" * 5_000 + b"}",
    "a number of the wrong type": b'{"name": true, "type": "workflow"}',
    "name missing": b'{"type": "workflow"}',
}
NEEDS_BODY = [
    ("POST", "/api/v1/workflows"),
    ("PATCH", "/api/v1/workflows/1"),
    ("POST", "/api/v1/workflows/validate"),
    ("POST", "/api/v1/skills"),
    ("POST", "/agent/v1/runs"),
    ("POST", "/agent/runs"),
]
NEEDS_NONE = ["deploy", "restore", "discard-draft", "toggle", "validate"]


class TestBodies:
    """Bodies, before a use case is called."""

    @pytest.mark.parametrize("name", BODIES)
    async def test_a_malformed_body_is_400_with_its_issues(self, either: World, name: str) -> None:
        """No body gets a 500, and every issue is named."""
        ada = await either.user()
        answer = await ada.post("/api/v1/workflows", content=BODIES[name])
        assert assert_envelope(answer, *MALFORMED)["info"]["errors"]
        assert (await ada.get("/api/v1/workflows")).json()["workflows"] == []

    @pytest.mark.parametrize(("method", "path"), NEEDS_BODY)
    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"'])
    async def test_a_required_body_cannot_be_empty(self, world: World, method: str, path: str, body: bytes) -> None:
        """A required body must be an object and not empty."""
        ada = await world.user()
        assert_envelope(await ada.request(method, path, content=body), *MALFORMED)

    @pytest.mark.parametrize("path", NEEDS_NONE)
    async def test_an_optional_body_can_be_empty(self, world: World, path: str) -> None:
        """Where every field is optional, so is the body; a given body must be an object with known keys."""
        ada = await world.user()
        await deployed(ada, chain(APPROVAL))
        one = f"/api/v1/workflows/1/{path}"
        empty = await ada.post(one)
        assert empty.status_code == (422 if path == "toggle" else 200)
        assert (await ada.post(one, json={"organizationId": "x"})).status_code == empty.status_code
        assert_envelope(await ada.post(one, json=[]), *MALFORMED)
        assert_envelope(await ada.post(one, json={"surprise": 1}), 422, "VALIDATION", "INVALID_ARGUMENT")

    @pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/json",
                                            "application/jsonx", "application/+json", "json", ""])  # fmt: skip
    async def test_another_media_type_is_malformed(self, world: World, media_type: str) -> None:
        """Only JSON is read, and the error says so."""
        ada = await world.user()
        answer = await ada.post("/api/v1/workflows", content=b"{}", headers={"Content-Type": media_type})
        (issue,) = assert_envelope(answer, *MALFORMED)["info"]["errors"]
        assert (issue["path"], issue["rule"]) == ("Content-Type", "header")

    @pytest.mark.parametrize("path", ["/api/v1/workflows", "/agent/v1/uploads"])
    @pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "identity, deflate"])
    async def test_a_compressed_body_is_refused(self, world: World, path: str, coding: str) -> None:
        """The error names the header, not what its bytes lack as JSON or as an image."""
        ada = await world.user()
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        answer = await ada.post(path, content=gzip.compress(json.dumps(flow()).encode()), headers=headers)
        (issue,) = assert_envelope(answer, *MALFORMED)["info"]["errors"]
        assert (issue["path"], issue["rule"]) == ("Content-Encoding", "header")

    @pytest.mark.parametrize("headers", [[("Idempotency-Key", "a b")], [("Idempotency-Key", "a")] * 2,
                                         [("Last-Event-ID", "x")], [("If-Match", "a")] * 2])  # fmt: skip
    async def test_an_invalid_header_has_the_rule_header(self, world: World, headers: list[tuple[str, str]]) -> None:
        """An invalid or repeated header is a 400 under the name of the header, with the rule `header`."""
        ada, name = await world.user(), headers[0][0]
        if name == "If-Match":
            answer = await ada.patch("/api/v1/workflows/1", json={"name": "x"}, headers=headers)
        else:
            answer = await ada.post("/agent/v1/runs", json={"workflowId": 1}, headers=headers)
        (issue,) = assert_envelope(answer, *MALFORMED)["info"]["errors"]
        assert (issue["path"], issue["rule"]) == (name, "header")

    @pytest.mark.parametrize("media_type", [None, "application/json; charset=utf-8", "Application/JSON",
                                            "application/merge-patch+json"])  # fmt: skip
    async def test_every_json_media_type_is_read(self, world: World, media_type: str | None) -> None:
        """A missing type means JSON, and structured suffixes are accepted."""
        ada = await world.user()
        headers = {} if media_type is None else {"Content-Type": media_type}
        answer = await ada.post("/api/v1/workflows", content=json.dumps(flow()), headers=headers)
        assert answer.status_code == 201

    async def test_a_body_on_a_read_or_delete_is_ignored(self, either: World) -> None:
        """A body of GET and DELETE is ignored."""
        ada = await either.user()
        await ada.post("/api/v1/workflows", json=flow())
        for method in ("GET", "DELETE"):
            assert (await ada.request(method, "/api/v1/workflows/1", content=b"\xff{")).status_code == 200

    async def test_a_body_that_is_too_large_is_413(self, either: World) -> None:
        """Eleven MiB are too large, with and without a declared length; the connection still works."""
        ada = await either.user()
        big = b'{"name": "' + b"x" * (11 * 2**20) + b'"}'

        async def untold() -> Any:
            for start in range(0, len(big), 2**20):
                yield big[start : start + 2**20]

        for content in (big, untold()):
            answer = await ada.post("/api/v1/workflows", content=content)
            assert_envelope(answer, 413, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert (await ada.get("/api/v1/workflows")).status_code == 200

    async def test_a_slow_body_is_408(self, world: World) -> None:
        """A body that does not arrive in time closes the connection."""
        application = app(world.core, receive_timeout=0.01)
        ada = await world.user()

        async def never() -> Any:
            yield b"{"
            await anyio.sleep_forever()

        slow = httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://wfcore", headers=ada.headers
        )
        async with slow:
            answer = await slow.post("/api/v1/workflows", content=never())
        assert_envelope(answer, 408, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert answer.headers["Connection"] == "close"

    async def test_an_aborted_request_gets_no_response(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        """An aborted request gets no response and calls no use case; the access log has it as 499."""
        caplog.set_level("INFO", "wfcore.access")
        ada = await world.user()
        sent: list[Message] = []
        parts = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

        async def receive() -> Message:
            return next(parts)

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"authorization", ada.headers["Authorization"].encode())]
        scope = {"type": "http", "method": "POST", "path": "/api/v1/workflows", "query_string": b"", "headers": headers}
        await app(world.core)(scope, receive, send)
        assert sent == []
        assert [record.message for record in caplog.records] == ["POST /api/v1/workflows 499"]


class TestPaths:
    """Paths, methods and ids."""

    @pytest.mark.parametrize("path", ["/", "/nope", "/api/v1", "/api/v1/workflows/", "//api/v1/workflows",
                                      "/api/v1/workflows/1/nope", "/agent/v1/runs//events", "/api/v1/%FF",
                                      "/api/v1/workflows%2F1", "/API/v1/workflows", "/api/v1/workflows/%2E%2E/skills",
                                      "/agent/v2/runs", "/%00"])  # fmt: skip
    async def test_an_unknown_path_is_404(self, either: World, path: str) -> None:
        """An unknown path is 404 with the envelope, with and without a credential."""
        for client in (await either.client(), await either.user()):
            request = client.build_request("GET", "/")
            request.url = request.url.copy_with(raw_path=path.encode())
            assert_envelope(await client.send(request), 404, "NOT_FOUND", "NOT_FOUND")

    @pytest.mark.parametrize("number", ["0", "01", "-1", "+1", "1.0", "1%0A", "%201", "x", "1e3", "%D9%A1", "9" * 30,
                                        "9" * 5_000, "%00", "999"])  # fmt: skip
    async def test_an_id_that_is_not_a_number_is_unknown(self, world: World, number: str) -> None:
        """Every unknown id gets the same response, with any method and body."""
        ada = await world.user()
        await ada.post("/api/v1/workflows", json=flow())
        for method, path, body in (
            ("GET", "", None), ("PATCH", "", {"name": "x"}), ("PATCH", "", {"name": 7}), ("DELETE", "", None),
            ("POST", "/deploy", {}), ("POST", "/toggle", {}), ("GET", "?view=draft", None),
        ):  # fmt: skip
            headers = {"X-Request-Id": "same"}
            tried = await ada.request(method, f"/api/v1/workflows/{number}{path}", json=body, headers=headers)
            never = await ada.request(method, f"/api/v1/workflows/12345{path}", json=body, headers=headers)
            assert (tried.status_code, tried.content) == (never.status_code, never.content)
            assert tried.status_code == (400 if body == {"name": 7} else 404)

    async def test_another_method_is_405(self, either: World) -> None:
        """A method that the path does not have is 405 with `Allow`, before authentication."""
        nobody = await either.client()
        for method, path, allowed in (
            ("PUT", "/api/v1/workflows", "GET, HEAD, POST"),
            ("OPTIONS", "/api/v1/workflows/1", "DELETE, GET, HEAD, PATCH"),
            ("GET", "/api/v1/workflows/1/deploy", "POST"),
            ("BREW", "/agent/v1/runs", "GET, HEAD, POST"),
            ("POST", "/healthz", "GET, HEAD"),
        ):
            answer = await nobody.request(method, path)
            assert_envelope(answer, 405, "BAD_REQUEST", "INVALID_ARGUMENT")
            assert answer.headers["Allow"] == allowed

    async def test_head_is_get_without_a_body(self, either: World) -> None:
        """HEAD has the headers of GET and no body, on streams too."""
        ada = await either.user()
        number = await deployed(ada, chain(APPROVAL))
        run = await ada.post(
            "/agent/v1/runs", json={"workflowId": number, "input": {}}, headers={"Idempotency-Key": "r"}
        )
        assert run.status_code == 200
        for path in (f"/api/v1/workflows/{number}", "/api/v1/workflows", "/agent/v1/runs/r/events", "/healthz"):
            got, head = await ada.get(path), await ada.head(path)
            assert head.content == b""
            assert (head.status_code, head.headers["Content-Type"]) == (200, got.headers["Content-Type"])
            assert head.headers.get("ETag") == got.headers.get("ETag")


METADATA = 'resource_metadata="{}/.well-known/oauth-protected-resource"'


class TestCredentials:
    """Interface, Authentication 5; RFC 6750, 3."""

    async def test_no_credential_is_challenged(self, either: World) -> None:
        """A missing credential is 401 with a challenge that names the metadata and no error."""
        nobody = await either.client()
        for headers in ({}, {"Authorization": "Basic dTpw"}, {"Authorization": ""}):
            answer = await nobody.get("/api/v1/workflows", headers=headers)
            assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
            assert answer.headers["WWW-Authenticate"] == f"Bearer {METADATA.format(answer.url.copy_with(path=''))}"

    async def test_every_bad_token_gets_the_same_error(self, either: World) -> None:
        """Malformed, unknown, of another organization, with another secret: the same 401."""
        ada = await either.user()
        good = ada.headers["Authorization"].removeprefix("Bearer ")
        other = await either.core.directory.create_organization("Other")
        nobody = await either.client()
        bad = ["x", good[:-1], good + "x", good[:-1] + ("a" if good[-1] != "a" else "b"), good.upper(),
               good.replace(either.org, other.uuid), good.replace(either.org, "0" * 8 + either.org[8:])]  # fmt: skip
        messages = set()
        for token in bad:
            answer = await nobody.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
            messages.add(assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")["message"])
            place = METADATA.format(answer.url.copy_with(path=""))
            assert answer.headers["WWW-Authenticate"] == f'Bearer error="invalid_token", {place}'
        assert len(messages) == 1
        assert (await nobody.get("/api/v1/me", headers={"Authorization": f"bEARER  {good}"})).status_code == 200
        twice = await nobody.get("/api/v1/me", headers=[("Authorization", f"Bearer {good}")] * 2)
        assert twice.status_code == 401

    async def test_an_unauthenticated_body_is_not_read(self, world: World) -> None:
        """The credential and its scopes are checked before the body is read."""

        async def unread() -> Any:
            raise AssertionError("the body was read")
            yield b""

        for client, status in ((await world.client(), 401), (await world.user(scopes=["workflows:read"]), 403)):
            assert (await client.post("/api/v1/workflows", content=unread())).status_code == status


class TestRequestId:
    """Every response has an id, the client's own if it is safe to log."""

    @pytest.mark.parametrize("given", ["a", "A.b_c-1", "x" * 128])
    async def test_a_safe_id_is_kept(self, either: World, given: str) -> None:
        """The client's id is in the header and in the envelope."""
        nobody = await either.client()
        for path in ("/healthz", "/nope", "/api/v1/me"):
            assert (await nobody.get(path, headers={"X-Request-Id": given})).headers["X-Request-Id"] == given

    @pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a;b", "ü", "a\x7f"])
    async def test_any_other_is_replaced(self, world: World, given: str) -> None:
        """An id that could break a log line is replaced."""
        nobody = await world.client()
        answer = await nobody.get("/nope", headers={"X-Request-Id": given.encode("latin-1")})
        error = assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")
        assert error["requestId"] not in ("", given)


class TestFailures:
    """Internal errors disclose nothing."""

    async def test_a_bug_is_500_without_a_trace(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An unexpected exception is logged with the request's id; the response has no details."""
        ada = await world.user()

        async def broken(*args: object, **kwargs: object) -> None:
            raise RuntimeError("SELECT secret FROM tokens")

        monkeypatch.setattr(world.core.ports.storage, "check", broken)
        caplog.set_level(logging.ERROR)
        answer = await ada.get("/readyz", headers={"X-Request-Id": "r-1"})
        assert_envelope(answer, 500, "INTERNAL_ERROR", "INTERNAL")
        assert "SELECT" not in answer.text
        assert any(getattr(record, "request_id", "") == "r-1" and record.exc_info for record in caplog.records)

    async def test_an_outage_is_503_with_a_time_to_retry(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """A 503 of the store has `Retry-After`, as JSON and as a stream; what needs a missing extra or key does not."""
        ada = await world.user()
        lasting = (MissingExtra("postgres", "this"), NoSecretKey("no secret key is configured"))
        for error, seconds in ((Unavailable("gone"), "1"), *((each, None) for each in lasting)):

            async def broken(*args: object, refused: Exception = error, **kwargs: object) -> None:
                raise refused

            monkeypatch.setattr(world.core.runs, "start", broken)
            for accept in ("application/json", "text/event-stream"):
                answer = await ada.post("/agent/v1/runs", json={"workflowId": 1}, headers={"Accept": accept})
                assert (answer.status_code, answer.headers.get("Retry-After")) == (503, seconds)

    async def test_a_store_that_is_not_ready_is_503(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """`/readyz` is 503 without details; `/healthz` does not check the store."""
        nobody = await world.client()
        assert (await nobody.get("/readyz")).json() == {"status": "ready"}

        async def old() -> str:
            return "the schema at /var/lib is old"

        monkeypatch.setattr(world.core.ports.storage, "check", old)
        answer = await nobody.get("/readyz")
        assert assert_envelope(answer, 503, "INTERNAL_ERROR", "INTERNAL")["message"] == "not ready"
        assert (await nobody.get("/healthz")).json() == {"status": "ok"}


async def test_hostile_requests_do_not_stop_the_server(real_world: World) -> None:
    """Bytes that are not HTTP, or half a request, do not affect the next client."""
    nobody = await real_world.client()
    port = nobody.base_url.port
    for raw in (
        b"\x00\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/me HTTP/1.1\r\nHost: x\r\nContent-Le",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert (await nobody.get("/healthz")).status_code == 200
