"""Shared by the tests of the HTTP adapter: organizations with users, graphs, and a reader of frames."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import attrs
import httpx
import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp
from waiting import HANG

from wfcore.adapters.http.core.request_parsing import prefers_json
from wfcore.core import Core
from wfcore.domain.resources.access import TOKEN_SCOPES

Json = dict[str, Any]
Connect = Callable[[], httpx.AsyncClient]

POLL = {"Accept": "application/json"}

MALFORMED = (400, "BAD_REQUEST", "INVALID_ARGUMENT")
FORBIDDEN = (403, "FORBIDDEN", "PERMISSION_DENIED")
CONFLICT = (409, "CONFLICT", "ALREADY_EXISTS")
LARGE = (413, "BAD_REQUEST", "INVALID_ARGUMENT")
INVALID = (422, "VALIDATION", "INVALID_ARGUMENT")

CODES = {400: "BAD_REQUEST", 404: "NOT_FOUND", 409: "CONFLICT", 422: "VALIDATION"}

performed: Counter[str] = Counter()
"""How often `count` was called, by its argument."""
held: dict[str, asyncio.Event] = {}
"""What `hold` waits for, by its argument."""


async def count(name: str) -> int:
    """Count the calls by name."""
    performed[name] += 1
    return performed[name]


async def hold(name: str) -> str:
    """Wait until the test calls `let_go`."""
    await held.setdefault(name, asyncio.Event()).wait()
    return name


def let_go(name: str) -> None:
    held.setdefault(name, asyncio.Event()).set()


def keyed(key: str, **more: str) -> dict[str, str]:
    return {"Idempotency-Key": key, **more}


def node(id: str, type: str, **data: Any) -> Json:
    return {"id": id, "type": type, "data": data}


def chain(*nodes: Json) -> Json:
    """A graph: the start node, then these nodes in a chain."""
    every = [node("start", "start"), *nodes]
    edges = [
        {"id": f"e{i}", "source": a["id"], "target": b["id"]}
        | ({"sourceHandle": "approved"} if a["type"] == "humanApproval" else {})
        for i, (a, b) in enumerate(pairwise(every))
    ]
    return {"nodes": every, "edges": edges}


def counting(name: str) -> Json:
    return node("count", "action", toolId="count", params={"name": name})


def holding(name: str) -> Json:
    return node("hold", "action", toolId="hold", params={"name": name})


APPROVAL = node("ask", "humanApproval", message="Go on?")


def flow(structure: Json | None = None, **more: Any) -> Json:
    """The body of a create."""
    body: Json = {"name": "Refunds", "type": "workflow", **more}
    return body if structure is None else body | {"workflowStructure": structure}


@attrs.define
class World:
    """One organization behind one server."""

    core: Core
    org: str
    connect: Connect
    closing: AsyncExitStack

    async def user(
        self,
        name: str = "ada",
        *,
        scopes: Collection[str] = TOKEN_SCOPES,
        groups: Collection[str] = (),
        org: str | None = None,
        role: str = "member",
    ) -> httpx.AsyncClient:
        """A client with a token of this member."""
        org = org or self.org
        await self.core.directory.add_member(org, name, f"{name}@x.org", groups=groups, role=role)
        token = await self.core.directory.create_token(org, name, scopes=scopes)
        return await self.client(token)

    async def client(self, token: str | None = None) -> httpx.AsyncClient:
        client = await self.closing.enter_async_context(self.connect())
        if token is not None:
            client.headers["Authorization"] = f"Bearer {token}"
        return client


async def deployed(client: httpx.AsyncClient, structure: Json, **more: Any) -> int:
    """The id of a new, deployed workflow."""
    made = await client.post("/api/v1/workflows", json=flow(structure, **more))
    assert made.status_code == 201, made.text
    answer = await client.post(f"/api/v1/workflows/{made.json()['id']}/deploy")
    assert answer.status_code == 200, answer.text
    return int(made.json()["id"])


def frames(text: str) -> list[tuple[int, Json]]:
    """The frames of an event stream as (id, data); comments are left out. Every frame has one id and one data line."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            first, second = lines
            assert first.startswith("id: ")
            assert second.startswith("data: ")
            found.append((int(first[4:]), json.loads(second[6:])))
    return found


async def pages(client: httpx.AsyncClient, path: str, rows: str, size: int) -> list[Json]:
    """The rows of all pages of this size."""
    found, params = list[Json](), {"pageSize": str(size)}
    while True:
        page = (await client.get(path, params=params)).json()
        assert len(page[rows]) <= size
        found += page[rows]
        if page["nextPageToken"] is None:
            return found
        params["pageToken"] = page["nextPageToken"]


STREAMED = {
    "POST": re.compile(r"/agent(/v1)?/runs$|/agent/v1/actions$|/chat$|/agent/v1/runs/[^/]+/resume$"),
    "GET": re.compile(r"/agent/v1/runs/[^/]+/events$|/api/v1/changes$"),
}
"""The paths whose refusals are events, unless JSON is preferred (interface, Events)."""


def would_stream(request: httpx.Request) -> bool:
    path = STREAMED.get(request.method)
    headers = Headers(raw=[(name.lower(), value) for name, value in request.headers.raw])
    return path is not None and path.search(request.url.path) is not None and not prefers_json(headers)


def refusal(response: httpx.Response) -> Json:
    """The only event of a stream that was refused."""
    assert response.headers["Content-Type"].startswith("text/event-stream")
    ((seq, data),) = frames(response.text)
    assert (seq, data["seq"], data["kind"]) == (0, 0, "error")
    return data


def error_of(response: httpx.Response) -> Json:
    """The error of a refusal: in the only event of a stream if the request would stream, else in the envelope."""
    if would_stream(response.request):
        found: Json = refusal(response)["error"]
        return found
    assert response.headers["Content-Type"] == "application/json"
    assert response.json().keys() == {"error"}
    error: Json = response.json()["error"]
    return error


def assert_envelope(response: httpx.Response, status: int, code: str, name: str) -> Json:
    """The response is the error envelope of the interface, Errors; its `error` is returned.

    Of a request that would stream, it is in the only event of a stream.
    """
    assert response.status_code == status, response.text
    error = error_of(response)
    assert error.keys() - {"info"} == {"code", "status", "message", "requestId"}
    assert (error["code"], error["status"]) == (code, name)
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    return error


@asynccontextmanager
async def serving(app: ASGIApp, **settings: Any) -> AsyncIterator[int]:
    """Run a real server on a free local port. Yields the port."""
    options = {"timeout_keep_alive": HANG, **settings}  # 5 s would end a connection that a late client uses
    config = uvicorn.Config(app, "127.0.0.1", 0, log_config=None, ws="none", timeout_graceful_shutdown=2, **options)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
        await asyncio.sleep(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def new_world(core: Core, connect: Connect, closing: AsyncExitStack) -> World:
    organization = await core.directory.create_organization("Refund office", id=str(uuid4()))
    return World(core, organization.uuid, connect, closing)
