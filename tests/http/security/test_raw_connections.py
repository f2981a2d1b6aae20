"""Connections of `wfcore serve`, over raw sockets: strict HTTP/1.1, deadlines, and the number of connections."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import attrs
import pytest
from clients import World, serving
from starlette.types import Receive, Scope, Send
from waiting import HANG

from wfcore.adapters.http import app
from wfcore.adapters.http.connections import ConnectionLimits, default_connections, uvicorn_options
from wfcore.settings.server import ServerSettings

pytestmark = pytest.mark.anyio

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LIMITS = ConnectionLimits(max_connections=50)
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b'{"status":"ok"}'
POST = b"POST /api/v1/me HTTP/1.1\r\nHost: x\r\n"
METADATA = b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nConnection: close\r\n"

REFUSED = {
    "both lengths": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, the other order": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF at the end of the request line": b"GET /healthz HTTP/1.1\nHost: x\r\n\r\n",
    "bare LF at the end of a header": b"GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
    "bare LF at the end of the head": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\n",
    "only bare LF": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "an empty line with bare LF": b"\n" + GET,
    "bare CR": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n",
    "obs-fold with a blank": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "obs-fold with a tab": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n\tc\r\n\r\n",
    "a blank before the colon": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a chunk size that is not hexadecimal": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@asynccontextmanager
async def server(world: World, proxies: tuple[str, ...] = (), **limits: Any) -> AsyncIterator[int]:
    options = uvicorn_options(attrs.evolve(LIMITS, **limits), list(proxies))
    async with serving(app(world.core, failed_authentications_per_minute=3), **options) as port:
        yield port


@asynccontextmanager
async def used_connection(world: World, header_seconds: float) -> AsyncIterator[Streams]:
    """A connection that had a request; then `header_seconds` begin to count, however slow its first head was."""
    options = uvicorn_options(attrs.evolve(LIMITS, header_seconds=HANG), [])
    async with serving(app(world.core), **options) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        assert b"200 OK" in await reader.readuntil(OK)
        options["http"].limits = attrs.evolve(LIMITS, header_seconds=header_seconds)
        yield reader, writer
        writer.close()


async def sent(port: int, *parts: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)
    found = await asyncio.wait_for(reader.read(), HANG)
    writer.close()
    return found


def error_of(response: bytes, status: int) -> dict[str, Any]:
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), response
    assert b"connection: close" in head.lower()
    error: dict[str, Any] = json.loads(body)["error"]
    assert b"x-request-id: %s\r\n" % error["requestId"].encode() in head + b"\r\n"
    assert head.partition(b"\r\n")[0].endswith(HTTPStatus(status).phrase.encode())
    return error


@pytest.mark.parametrize("name", REFUSED)
async def test_an_ambiguous_request_is_refused_and_the_connection_closed(world: World, name: str) -> None:
    """400 with the envelope; nothing after it is read as a request."""
    async with server(world) as port:
        response = await sent(port, REFUSED[name] + GET)
    error = error_of(response, 400)
    assert (error["code"], error["info"]["errors"][0]["rule"]) == ("BAD_REQUEST", "http")
    assert response.count(b"HTTP/1.1 ") == 1


async def test_it_is_refused_in_any_pieces(world: World) -> None:
    """The bytes of an ambiguous head can arrive one by one."""
    raw = REFUSED["obs-fold with a blank"]
    async with server(world) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for at in range(len(raw)):
            writer.write(raw[at : at + 1])
            await asyncio.sleep(0.001)
        error_of(await asyncio.wait_for(reader.read(), HANG), 400)
        writer.close()


async def test_trailers_are_as_strict_as_heads(world: World) -> None:
    """A trailer with a bare LF ends no body, and the request after it is not served."""
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\n"
    async with server(world) as port:
        response = await sent(port, chunked + GET)
    assert b"200 OK" not in response


async def test_valid_requests_share_a_connection(world: World) -> None:
    """Pipelined requests, one with chunks and trailers, are answered in their order."""
    chunks = b"2\r\n{}\r\n0\r\nA: b\r\n\r\n"
    chunked = POST.replace(b"/api/v1/me", b"/healthz") + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    last = GET.replace(b"Host: x", b"Host: x\r\nConnection: close")
    async with server(world) as port:
        response = await sent(port, GET + chunked + last)
    assert re.findall(rb"HTTP/1.1 (\d+)", response) == [b"200", b"405", b"200"]


async def test_a_request_can_name_the_whole_address(world: World) -> None:
    """The form of a request to a proxy is the same request (RFC 9112, 3.2.2)."""
    head = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with server(world) as port:
        for target in (b"http://x/healthz", b"HTTP://x:80/healthz?"):
            assert (await sent(port, b"GET " + target + head)).endswith(OK)
        assert b" 404 " in await sent(port, b"GET http://x" + head)


async def test_a_head_that_is_too_long_is_431(world: World) -> None:
    """A head has a limit of bytes."""
    async with server(world) as port:
        error_of(await sent(port, b"GET / HTTP/1.1\r\nA: " + b"x" * 200_000), 431)


@pytest.mark.parametrize("half", [b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
async def test_half_a_head_times_out(world: World, half: bytes) -> None:
    """408 after `header_seconds`, and on a connection that was used before."""
    async with server(world, header_seconds=0.05) as port:
        error_of(await sent(port, half), 408)
    async with used_connection(world, 0.05) as (reader, writer):
        writer.write(half)
        error_of(await reader.read(), 408)


async def test_a_head_that_drips_times_out(world: World) -> None:
    """Each byte does not start the deadline again."""
    async with server(world, header_seconds=0.2) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        response = asyncio.create_task(reader.read())
        writer.write(b"GET / HTTP/1.1\r\nA: ")
        while not response.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        error_of(response.result(), 408)
        writer.close()


async def test_a_connection_stays_open_between_requests(world: World) -> None:
    """The deadline of a head begins with the head: an idle connection has the time of keep-alive."""
    async with used_connection(world, 0) as (reader, writer):
        for _ in range(2):
            await asyncio.sleep(0.01)
            writer.write(GET)
            assert b"200 OK" in await reader.readuntil(OK)
    async with server(world, keep_alive_seconds=0.05) as port:
        assert b"200 OK" in await sent(port, GET)


def test_the_defaults_of_connections() -> None:
    """Keep-alive is longer than that of proxies, and files remain for the store."""
    assert (ConnectionLimits().keep_alive_seconds, ConnectionLimits().header_seconds) == (75, 10)
    assert 1 <= default_connections() <= 10_000
    limits = ServerSettings(max_connections=5).limits()
    assert (limits.max_connections, limits.read_seconds) == (5, 60.0)


async def test_connections_beyond_the_limit_are_refused(world: World) -> None:
    """503 with the envelope and a closed connection; when one ends, the next is served."""
    async with server(world, max_connections=2) as port:
        open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in open_ones:
            writer.write(GET)
            await reader.readuntil(OK)
        assert error_of(await sent(port), 503)["message"] == "too many connections"
        for _, writer in open_ones:
            writer.close()
            await writer.wait_closed()
        last = GET.replace(b"Host: x", b"Host: x\r\nConnection: close")
        while b"200 OK" not in (response := await sent(port, last)):
            error_of(response, 503)  # the server has not seen that they ended


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    """One that leaves its response unread for too long holds neither its connection nor the bytes of the response."""
    gone = asyncio.Event()

    async def large(_: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(2**25), "more_body": True})
        await send({"type": "http.response.body", "body": b"the end"})  # waits until the client has read, or is gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    options = uvicorn_options(attrs.evolve(LIMITS, read_seconds=0.05), [])
    async with serving(large, lifespan="off", **options) as port, asyncio.timeout(HANG):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(GET)
            await gone.wait()


async def test_a_response_that_breaks_ends_its_connection_without_a_second_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The application has logged why, such as that PostgreSQL has gone away: the server logs nothing about it."""

    async def breaking(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with serving(breaking, **uvicorn_options(LIMITS, [])) as port:
        assert (await sent(port, GET)).endswith(b"half\r\n")
    assert [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")] == []


async def status_of(port: int, token: str, forwarded: str = "") -> bytes:
    headers = f"Host: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
    headers += f"X-Forwarded-For: {forwarded}\r\n" if forwarded else ""
    return await sent(port, f"GET /api/v1/me HTTP/1.1\r\n{headers}\r\n".encode())


async def test_failed_authentications_are_limited_by_address(world: World) -> None:
    """429 with `Retry-After` after three; who forges `X-Forwarded-For` is not another address."""
    async with server(world) as port:
        for number in range(3):
            assert b" 401 " in await status_of(port, "wrong", f"192.0.2.{number}")
        refused = await status_of(port, "wrong", "192.0.2.9")
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: " in refused.lower()


async def test_a_trusted_proxy_names_the_address(world: World) -> None:
    """From a trusted proxy each `X-Forwarded-For` is an address of its own; so is the scheme of links."""
    async with server(world, ("127.0.0.0/8",)) as port:
        for number in range(6):
            assert b" 401 " in await status_of(port, "wrong", f"192.0.2.{number}")
        ask = METADATA + b"Host: flows.example.org\r\n"
        assert b'"https://flows.example.org' in await sent(port, ask + b"X-Forwarded-Proto: https\r\n\r\n")
    async with server(world) as port:
        assert b'"http://flows.example.org' in await sent(port, ask + b"X-Forwarded-Proto: https\r\n\r\n")


async def test_links_have_the_public_url(world: World) -> None:
    """`public_url` replaces the host of the request."""
    async with serving(app(world.core, public_url="https://flows.example.org")) as port:
        ask = METADATA + b"Host: evil.example\r\n\r\n"
        response = await sent(port, ask)
    assert b"https://flows.example.org" in response
    assert b"evil" not in response
