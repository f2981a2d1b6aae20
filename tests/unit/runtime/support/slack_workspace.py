"""A workspace of Slack for a bench: the requests that it sends, and the server of its Web API."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
from bench import Bench
from chatting import local_server
from slack_requests import MESSAGE, USER, form

from wfcore.domain.channels.slack import FORM, sign

TOKEN, SIGNING = "xoxb-canary-token", "canary-signing-secret-of-the-app"


@attrs.define
class Workspace:
    """The Web API. `users` are those of `users.info`, `posted` the bodies of the other methods, `refusal` an error."""

    url: str = ""
    users: dict[str, dict[str, Any]] = attrs.field(factory=lambda: {USER["id"]: USER})
    posted: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    refusal: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of a connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        found = self._response(head[0].split()[1], headers, content)
        raw = json.dumps(found).encode()
        length = f"content-type: application/json\r\ncontent-length: {len(raw)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode() + raw)
        await writer.drain()

    def _response(self, target: str, headers: dict[str, str], content: bytes) -> dict[str, Any]:
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return {"ok": False, "error": "invalid_auth"}
        if self.refusal:
            return {"ok": False, "error": self.refusal}
        parts = urlsplit(target)
        method = parts.path.rpartition("/")[2]
        if method == "users.info":
            user = self.users.get(parse_qs(parts.query)["user"][0])
            return {"ok": True, "user": user} if user else {"ok": False, "error": "user_not_found"}
        assert headers["content-type"] == "application/json; charset=utf-8"
        self.posted.append((method, json.loads(content)))
        return {"ok": True, "ts": "1503435956.000247"}

    def of(self, method: str) -> list[dict[str, Any]]:
        """The bodies that were posted to a method."""
        return [body for name, body in self.posted if name == method]


@asynccontextmanager
async def workspace() -> AsyncIterator[Workspace]:
    """A server on a port of its own."""
    made = Workspace()
    async with local_server(made.serve) as url:
        made.url = f"{url}/api"
        yield made


@attrs.define
class App:
    """One interface of the format `slack`, from the side of Slack."""

    bench: Bench
    workflow: int
    id: str
    connection: str

    async def send(self, body: Any = None, *, raw: bytes = b"", age: int = 0, secret: str = SIGNING) -> dict[str, Any]:
        """Send a request that is `age` seconds old; `raw` is the form of an interaction."""
        kind = FORM if raw else "application/json"
        raw, at = raw or json.dumps(body or MESSAGE).encode(), str(self.bench.clock.now() // 1000 - age)
        signed = {"x-slack-request-timestamp": at, "x-slack-signature": sign(secret, at, raw)}

        async def read() -> bytes:
            return raw

        return await self.bench.core.team_chats.receive_slack(self.id, {**signed, "content-type": kind}, read)

    async def press(self, payload: Any) -> dict[str, Any]:
        """Press a button."""
        return await self.send(raw=form(payload))


async def installed(bench: Bench, place: Workspace, structure: Any, **config: Any) -> App:
    """An app in this workspace, whose interface an admin has created."""
    boss = await bench.joined("boss", "owner")
    credentials = {"apiKey": TOKEN, "hosts": [place.url.removeprefix("http://").removesuffix("/api")]}
    body = {"name": "Slack", "provider": "slack", "kind": "api_key", "config": credentials}
    connection = (await bench.core.connections.create(boss, body)).id
    number = (await bench.core.workflows.create(boss, name="A flow", structure=structure)).id
    await bench.core.workflows.deploy(boss, number)
    given = {"format": "slack", "connectionId": connection, "signingSecret": SIGNING, "apiUrl": place.url, **config}
    row = await bench.core.workflows.interfaces.create(boss, number, kind="teamchat", config=given)
    return App(bench, number, row.id, connection)
