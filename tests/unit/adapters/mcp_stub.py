"""A server of MCP tools on this machine, whose responses tests can replace."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

from wfcore.domain.kernel.json_type import JSON

CANARY = "canary-0123456789"
ADD = {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "required": ["a"]}}
Reply = Callable[[Mapping[str, Any]], bytes | None]


def http_response(status: int = 200, body: bytes = b"", kind: str = "application/json", **headers: str) -> bytes:
    rows = {"content-type": kind, "content-length": str(len(body)), "connection": "close"}
    rows |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in rows.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body


@attrs.define
class Stub:
    """An MCP server, of the protocol of 2026 or before; `replies` replace its results for a method, raw or as JSON."""

    replies: Mapping[str, Any] = attrs.field(factory=dict)
    modern: bool = True
    port: int = 0
    received: list[tuple[dict[str, str], Any]] = attrs.field(factory=list)

    def methods(self) -> list[str]:
        return [(body or {}).get("method", "") for _, body in self.received]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, *rows = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
            sent = await reader.readexactly(int(headers.get("content-length", 0)))
            body = json.loads(sent) if sent else None
            self.received.append((headers, body))
            sent_back = self.respond(body)
            if sent_back is None:
                await reader.read()
            writer.write(sent_back or b"")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def respond(self, body: Any) -> bytes | None:
        method = (body or {}).get("method", "")
        reply = self.replies.get(method, self.usual(method))
        reply = reply(body) if callable(reply) else reply
        if reply is None or isinstance(reply, bytes):
            return reply
        if "id" not in (body or {}):
            return http_response(405 if body is None else 202)
        part = reply if "error" in reply else {"result": {**(self.era if "content" in reply else self.listed), **reply}}
        return http_response(body=json.dumps({"jsonrpc": "2.0", "id": body["id"], **part}).encode())

    @property
    def era(self) -> dict[str, JSON]:
        return {"resultType": "complete"} if self.modern else {}

    @property
    def listed(self) -> dict[str, JSON]:
        return {**self.era, "ttlMs": 0, "cacheScope": "private"} if self.modern else {}

    def usual(self, method: str) -> Any:
        return {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            if self.modern
            else {"error": {"code": -32601, "message": "no such method"}},
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stub", "version": "1"},
            },
            "tools/list": {"tools": [ADD]},
            "tools/call": {"content": [{"type": "text", "text": "3"}]},
        }.get(method, {})


@asynccontextmanager
async def serving(modern: bool = True, **replies: Any) -> AsyncIterator[Stub]:
    stub = Stub({name.replace("_", "/"): reply for name, reply in replies.items()}, modern)
    listener = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    stub.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield stub
