"""Open streams end when their caller loses the right to read them (interface, Events and Reading)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import attrs
import httpx
import pytest
from clients import APPROVAL, POLL, Json, World, chain, deployed, holding, let_go, serving
from starlette.requests import HTTPConnection
from waiting import HANG

from wfcore.adapters.http import app
from wfcore.adapters.http.connections import ConnectionLimits, uvicorn_options
from wfcore.adapters.http.core.sse import DELETED
from wfcore.adapters.http.core.stream_guard import ENDED
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.kernel.ids import parse_token
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.runtime.runs import open_streams

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks are frequent, so that no test waits for seconds."""
    monkeypatch.setattr(open_streams, "INTERVAL", 0.02)


@attrs.frozen
class Scene:
    """A workflow that `eve` can use only by a group, and a `boss` who manages it."""

    world: World
    boss: httpx.AsyncClient
    eve: httpx.AsyncClient
    group: str
    number: int

    @property
    def token(self) -> str:
        found = parse_token(self.eve.headers["Authorization"].removeprefix("Bearer "))
        assert found
        return found.prefix

    @property
    def start(self) -> Json:
        return {"workflowId": self.number, "input": {}}


async def scene(world: World, *nodes: Json) -> Scene:
    group = (await world.core.directory.create_group(world.org, "Readers")).id
    boss = await world.user("boss", role="owner")
    eve = await world.user("eve", groups=[group])
    access = {
        "visibility": "shared",
        "groupPermissions": {group: {"use": True, "manage": False}, world.org: {"use": False, "manage": True}},
    }
    number = await deployed(boss, chain(*nodes, holding(world.org)), accessConfig=access)
    return Scene(world, boss, eve, group, number)


async def ok(answer: Awaitable[httpx.Response]) -> None:
    response = await answer
    assert response.is_success, response.text


async def revoke(scene: Scene) -> None:
    await ok(scene.eve.delete(f"/api/v1/tokens/{scene.token}"))


async def remove_member(scene: Scene) -> None:
    await ok(scene.boss.delete("/api/v1/members/eve"))


async def leave_group(scene: Scene) -> None:
    await ok(scene.boss.patch("/api/v1/members/eve", json={"groups": []}))


async def delete_group(scene: Scene) -> None:
    await ok(scene.boss.delete(f"/api/v1/groups/{scene.group}"))


async def withdraw_use(scene: Scene) -> None:
    access = {"visibility": "shared", "groupPermissions": {scene.world.org: {"use": False, "manage": True}}}
    await ok(scene.boss.patch(f"/api/v1/workflows/{scene.number}", json={"accessConfig": access}))


async def delete_workflow(scene: Scene) -> None:
    await ok(scene.boss.delete(f"/api/v1/workflows/{scene.number}"))


LOSSES = [revoke, remove_member, leave_group, delete_group, withdraw_use, delete_workflow]
Loss = Callable[[Scene], Awaitable[None]]


async def read_after(stream: httpx.Response, change: Awaitable[object]) -> bytes:
    """What the stream sends until its end, with this change after its first chunk."""
    async with asyncio.timeout(HANG):
        chunks = stream.aiter_raw()
        first = await anext(chunks)
        await change
        return b"".join([first, *[chunk async for chunk in chunks]])


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_stream_ends_after_the_loss(real_world: World, lose: Loss) -> None:
    """A comment is its last line, and the run goes on."""
    it = await scene(real_world)
    async with it.eve.stream("POST", "/agent/v1/runs", json=it.start | {"runId": "r"}) as stream:
        rest = await read_after(stream, lose(it))
    assert rest.endswith(ENDED)
    assert b'"kind":"done"' not in rest
    row = await real_world.core.ports.journal.find_run(real_world.org, "r")
    assert row is not None
    assert row.status.under_way
    let_go(real_world.org)


async def test_the_stream_of_a_run_that_is_deleted_ends(real_world: World) -> None:
    """An erasure of who started it deletes a run that is under way: other readers are told by a comment."""
    it = await scene(real_world)
    await it.eve.post("/agent/v1/runs", json=it.start | {"runId": "r"}, headers=POLL)
    row = await real_world.core.ports.journal.find_run(real_world.org, "r")
    assert row is not None
    deletion = real_world.core.ports.storage.maintenance.remove_execution(real_world.org, row.execution.id)
    async with it.eve.stream("GET", "/agent/v1/runs/r/events") as stream:
        assert (await read_after(stream, deletion)).endswith(DELETED)
    let_go(real_world.org)


async def test_the_connection_closes_with_the_stream(real_world: World) -> None:
    """Under `wfcore serve`, the client that lost its right sees the end of the connection, and not only of the body."""
    it = await scene(real_world)
    await it.eve.post("/agent/v1/runs", json=it.start | {"runId": "r"}, headers=POLL)
    async with serving(app(real_world.core), **uvicorn_options(ConnectionLimits(), [])) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        token = it.eve.headers["Authorization"]
        writer.write(f"GET /agent/v1/runs/r/events HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n".encode())
        async with asyncio.timeout(HANG):
            await reader.readuntil(b"run_started")
            await revoke(it)
            rest = await reader.read()
        writer.close()
    assert ENDED in rest
    assert rest.endswith(b"\r\n0\r\n\r\n")
    let_go(real_world.org)


async def test_a_start_reads_its_target_once(real_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream knows that the target is there; the stream of another request looks."""
    monkeypatch.setattr(open_streams, "INTERVAL", HANG)
    it, looked, find = await scene(real_world), list[int](), SqlStorage.find_resource

    async def counted(self: SqlStorage, org: str, kind: Kind, id: int) -> Resource | None:
        looked.append(id)
        return await find(self, org, kind, id)

    monkeypatch.setattr(SqlStorage, "find_resource", counted)
    async with it.eve.stream("POST", "/agent/v1/runs", json=it.start | {"runId": "r"}) as stream:
        await anext(stream.aiter_raw())
        assert looked == [it.number]
        async with it.eve.stream("GET", "/agent/v1/runs/r/events") as following:
            await anext(following.aiter_raw())
        assert looked == [it.number] * 3
    let_go(real_world.org)


async def test_streams_of_those_who_keep_their_right_continue(real_world: World) -> None:
    """Checks of other streams, and changes that take nothing away, end no stream."""
    it = await scene(real_world)
    await it.eve.post("/agent/v1/runs", json=it.start | {"runId": "r"}, headers=POLL)
    other = await real_world.user("other", groups=[it.group])
    async with other.stream("GET", "/agent/v1/runs/r/events") as kept:
        async with it.eve.stream("GET", "/agent/v1/runs/r/events") as lost:
            assert (await read_after(lost, revoke(it))).endswith(ENDED)

        async def release() -> None:
            let_go(real_world.org)

        rest = await read_after(kept, release())
    assert b'"kind":"done"' in rest
    assert ENDED not in rest


async def join(it: Scene) -> Any:
    await it.eve.post("/agent/v1/runs", json=it.start | {"runId": "r"}, headers=POLL)
    return it.eve.stream("POST", "/agent/v1/runs", json=it.start | {"runId": "r"})


async def follow(it: Scene) -> Any:
    await it.eve.post("/agent/v1/runs", json=it.start | {"runId": "r"}, headers=POLL)
    return it.eve.stream("GET", "/agent/v1/runs/r/events")


async def chat_page(it: Scene) -> Any:
    return it.eve.stream("POST", "/agent/v1/runs", json=it.start | {"origin": "chatapp", "sessionId": "s"})


async def mcp_call(it: Scene) -> Any:
    made = await it.boss.post(f"/api/v1/workflows/{it.number}/interfaces", json={"kind": "mcp"})
    assert made.status_code == 201, made.text
    name = (await it.boss.get(f"/api/v1/workflows/{it.number}")).json()["slug"]
    params = {"name": name, "arguments": {}, "_meta": {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    return it.eve.stream("POST", made.json()["url"], json=message, headers=accept)


@pytest.mark.parametrize("begin", [join, follow, chat_page, mcp_call])
async def test_every_kind_of_stream_ends(real_world: World, begin: Callable[[Scene], Awaitable[Any]]) -> None:
    """Joined runs, events, chat pages and calls of MCP tools: a revoked token ends each."""
    it = await scene(real_world)
    async with await begin(it) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream"), await stream.aread()
        assert (await read_after(stream, revoke(it))).endswith(ENDED)
    let_go(real_world.org)


async def test_the_stream_of_a_resume_ends(real_world: World) -> None:
    """The stream of the turn that a decision began ends like that of a start."""
    it = await scene(real_world, APPROVAL)
    await it.eve.post("/agent/v1/runs", json=it.start | {"runId": "r"})
    async with it.eve.stream("POST", "/agent/v1/runs/r/resume", json={"decision": "approve"}) as stream:
        assert (await read_after(stream, leave_group(it))).endswith(ENDED)
    let_go(real_world.org)


@attrs.define
class Product:
    """An embedding product: every request has the principal that the test sets."""

    principal: Principal

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        return self.principal


@asynccontextmanager
async def embedded(world: World, principal: Principal) -> AsyncIterator[httpx.AsyncClient]:
    product = Product(principal)
    async with serving(app(world.core, authenticate=product.authenticate)) as port:
        url, headers = f"http://127.0.0.1:{port}", {"Sec-Fetch-Site": "same-origin"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=HANG, trust_env=False) as client:
            yield client


async def none() -> None:
    """No change: time passes."""


async def test_a_principal_that_expires_ends_its_stream(real_world: World) -> None:
    """With a product's own `authenticate`, `Principal.expires_at` ends the stream."""
    it = await scene(real_world)
    soon = real_world.core.ports.now() + timedelta(seconds=0.3)
    visitor = real_world.core.principal(real_world.org, "visitor", groups=[it.group])
    async with (
        embedded(real_world, attrs.evolve(visitor, expires_at=soon)) as client,
        client.stream("POST", "/agent/v1/runs", json=it.start) as stream,
    ):
        assert (await read_after(stream, none())).endswith(ENDED)
    let_go(real_world.org)


@pytest.mark.parametrize("lose", [remove_member, leave_group, delete_group])
async def test_the_directory_ends_streams_of_a_products_users(real_world: World, lose: Loss) -> None:
    """A member of the directory that is removed, or loses a group, loses its streams, whoever authenticates it."""
    it = await scene(real_world)
    eve = real_world.core.principal(real_world.org, "eve", groups=[it.group])
    async with (
        embedded(real_world, eve) as client,
        client.stream("POST", "/agent/v1/runs", json=it.start) as stream,
    ):
        assert (await read_after(stream, lose(it))).endswith(ENDED)
    let_go(real_world.org)


async def test_users_that_only_the_product_knows_keep_their_streams(real_world: World) -> None:
    """A user without a member row is not a former member."""
    it = await scene(real_world)
    visitor = real_world.core.principal(real_world.org, "visitor", groups=[it.group])
    async with (
        embedded(real_world, visitor) as client,
        client.stream("POST", "/agent/v1/runs", json=it.start) as stream,
    ):

        async def checked() -> None:
            async with it.eve.stream("POST", "/agent/v1/runs", json=it.start) as lost:
                await read_after(lost, remove_member(it))
            let_go(real_world.org)

        rest = await read_after(stream, checked())
    assert ENDED not in rest
    assert b'"kind":"done"' in rest
