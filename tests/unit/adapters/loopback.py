"""A local server with configured responses, byte for byte, and public addresses that lead to it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpcore2
import pytest


@attrs.frozen
class ReceivedRequest:
    """A request as it came in; header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


@attrs.define
class Server:
    """Answers the first request with the first of `answers` and so on, the last for ever. None says nothing.

    The connection is closed after an answer, unless that says `keep-alive`.
    """

    answers: Sequence[bytes | None]
    port: int = 0
    received: list[ReceivedRequest] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while b"keep-alive" in await self.reply(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rows = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
        self.received.append(
            ReceivedRequest(line, headers, await reader.readexactly(int(headers.get("content-length", 0))))
        )
        answer = self.answers[min(len(self.received), len(self.answers)) - 1]
        writer.write(answer or b"")
        await writer.drain()
        return await reader.read() if answer is None else answer


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[Server]:
    server = Server(answers)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**20)
    server.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield server


def answer(status: int = 200, body: bytes = b"", **headers: Any) -> bytes:
    """A whole answer; `_` in a header's name stands for `-`."""
    all_headers = {"content_length": len(body), "connection": "close"} | headers
    rows = [f"{name.replace('_', '-')}: {value}" for name, value in all_headers.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status} Whatever", *rows, "", ""]).encode() + body


def redirect(location: str, status: int = 302) -> bytes:
    return answer(status, location=location)


class World:
    """Names with public addresses, and where connections to them really go. `made` are those that were tried."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.places: dict[str, Server] = {}
        self.made: list[tuple[str, int]] = []
        self.asked: list[str] = []
        connect = httpcore2.AnyIOBackend.connect_tcp

        async def connected(backend: Any, host: str, port: int, *more: Any) -> httpcore2.AsyncNetworkStream:
            self.made.append((host, port))
            if host not in self.places:
                raise httpcore2.ConnectError("nobody there")
            return await connect(backend, "127.0.0.1", self.places[host].port, *more)

        patch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connected)

    def put(self, name: str, *answers: str) -> None:
        """What the name resolves to: the first time, the second, and so on, the last for ever."""
        self.names[name] = [addresses.split() for addresses in answers]

    async def resolve(self, name: str, port: int) -> list[str]:
        self.asked.append(name)
        found = self.names.get(name)
        if found is None:
            raise OSError(name)
        return found[min(self.asked.count(name), len(found)) - 1]
