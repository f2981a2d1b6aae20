"""Servers behind connections: how long a listing holds, who asks for it, and what a real server of the SDK answers."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from mcp_stub import ADD, CANARY, Stub, http_response, serving
from real_mcp import office

from wfcore.adapters.outbound import mcp_servers
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp_servers import FRESH, LEAST_FRESH, MOST_FRESH, STALE, McpServers
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

ORG = "o"


@attrs.define
class Asking:
    """Servers under test, and the connection to one of them."""

    port: int
    clock: FakeClock = attrs.field(factory=FakeClock)
    servers: McpServers = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.servers = McpServers(AddressGuard.allowing([f"127.0.0.1:{self.port}"]), self.clock)

    def connection(self, **headers: str) -> ToolConnection:
        config = {"url": f"http://127.0.0.1:{self.port}/mcp", "headers": {"Authorization": CANARY, **headers}}
        return ToolConnection("c", "p", "mcp", config)

    async def names(self, org: str = ORG, *, anew: bool = False, **headers: str) -> list[str]:
        listing = await self.servers.listing(org, self.connection(**headers), refresh=anew)
        return [tool.name for tool in listing.tools]

    async def call(self, name: str = "add", **arguments: Any) -> Any:
        return await self.servers.call(ORG, self.connection(), name, arguments, "key-1")


def lists(stub: Stub) -> int:
    return stub.methods().count("tools/list")


@pytest.mark.parametrize(
    ("told", "holds"),
    [(None, FRESH), (0, LEAST_FRESH), (20_000, 20.0), (10**9, MOST_FRESH)],
    ids=["nothing", "not at all", "a while", "for ever"],
)
async def test_a_listing_holds_for_a_while(told: int | None, holds: float) -> None:
    """As long as the server says, within bounds; then it is asked again. `anew` always asks."""
    listed = {"tools": [ADD]} if told is None else {"tools": [ADD], "ttlMs": told, "cacheScope": "private"}
    async with serving(told is not None, tools_list=listed) as stub:
        asking = Asking(stub.port)
        for _ in range(3):
            assert await asking.names() == ["add"]
        asking.clock.advance(holds - 0.001)
        await asking.names()
        assert lists(stub) == 1
        asking.clock.advance(0.001)
        await asking.names()
        assert lists(stub) == 2
        await asking.names(anew=True)
        assert lists(stub) == 3


async def test_many_ask_once() -> None:
    """However many want a listing at once, the server is asked once; one who leaves takes it from nobody."""
    free = asyncio.Event()
    async with serving() as stub:
        usual = stub.serve

        async def slowly(*streams: Any) -> None:
            await free.wait()
            await usual(*streams)

        listener = await asyncio.start_server(slowly, "127.0.0.1", 0)
        async with listener:
            asking = Asking(listener.sockets[0].getsockname()[1])
            tasks = [asyncio.create_task(asking.names()) for _ in range(20)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            free.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [["add"]] * 19
        assert lists(stub) == 1


async def test_nothing_is_shared() -> None:
    """Another organization, and the same one with other credentials, ask for themselves."""
    async with serving() as stub:
        asking = Asking(stub.port)
        await asking.names()
        await asking.names("other")
        await asking.names(X="1")
        assert lists(stub) == 3


async def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing used least recently goes."""
    monkeypatch.setattr(mcp_servers, "MAX_LISTINGS", 2)
    async with serving() as stub:
        asking = Asking(stub.port)
        for org in ("a", "b", "a", "c", "a"):
            await asking.names(org)
        assert lists(stub) == 3
        await asking.names("b")
        assert lists(stub) == 4


async def test_a_silent_server_is_as_it_was() -> None:
    """While there is no answer the last listing serves, for an hour; never for who wants it anew."""
    async with serving() as stub:
        asking = Asking(stub.port)
        await asking.names()
        stub.replies = dict.fromkeys(["server/discover", "initialize"], http_response(503))
        asking.clock.advance(FRESH)
        assert await asking.names() == ["add"]
        with pytest.raises(ToolFailed):
            await asking.names(anew=True)
        asking.clock.advance(STALE - FRESH)
        with pytest.raises(ToolFailed):
            await asking.names()


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_refused_credentials_end_it(method: str) -> None:
    """Who is refused is shown nothing that was listed before: neither by the refusal of a list nor of a call."""
    async with serving() as stub:
        asking = Asking(stub.port)
        await asking.names()
        stub.replies = {method: http_response(401)}
        asking.clock.advance(FRESH if method == "tools/list" else 0)
        with pytest.raises(ConnectionRequired):
            await (asking.names() if method == "tools/list" else asking.call())
        before = lists(stub)
        stub.replies = {}
        await asking.names()
        assert lists(stub) == before + 1


@pytest.mark.parametrize("modern", [True, False])
async def test_a_server_tells_of_a_change(modern: bool) -> None:
    """Said in the course of a call, it makes the next listing a new one."""

    def told(body: Mapping[str, Any]) -> bytes:
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        result = {"content": [], **({"resultType": "complete"} if modern else {})}
        parts = [notice, {"jsonrpc": "2.0", "id": body["id"], "result": result}]
        return http_response(body=b"".join(b"data: %s\n\n" % json.dumps(part).encode() for part in parts),
                      kind="text/event-stream")  # fmt: skip

    async with serving(modern, tools_call=told) as stub:
        asking = Asking(stub.port)
        await asking.names()
        await asking.call(a=1)
        await asking.names()
        assert lists(stub) == 2


async def test_a_bomb_of_a_listing_is_refused() -> None:
    """More than a listing may have is read by nobody, and kept nowhere."""
    bomb = {"tools": [{**ADD, "name": f"t{number}", "description": "x" * 50_000} for number in range(40)]}
    async with serving(tools_list=bomb) as stub:
        with pytest.raises(ToolFailed, match="more than") as failed:
            await Asking(stub.port).names()
        assert not failed.value.retryable


async def test_closing_breaks_off() -> None:
    """A server that is silent holds nobody up who wants to end."""
    async with serving(server_discover=lambda _: None) as stub, asyncio.timeout(3):
        asking = Asking(stub.port)
        task = asyncio.create_task(asking.names())
        while not stub.received:  # noqa: ASYNC110  (the server tells in no other way)
            await asyncio.sleep(0)
        await asking.servers.close()
        with pytest.raises(asyncio.CancelledError):
            await task


# A server of the SDK


async def test_a_server_of_the_sdk() -> None:
    """Its tools are listed with their schemas and called; what fails says why; a cancelled call ends there too."""
    async with office() as server, asyncio.timeout(8):
        asking = Asking(server.port)
        listing = await asking.servers.listing(ORG, asking.connection())
        assert [tool.name for tool in listing.tools] == ["add", "fail", "hold"]
        assert listing.tools[0].description == "Adds."
        assert listing.tools[0].parameters["required"] == ["a", "b"]
        assert await asking.call(a=1, b=2) == {"result": 3}
        with pytest.raises(ToolFailed, match="it is Sunday") as failed:
            await asking.call("fail", why="it is Sunday")
        assert not failed.value.retryable
        task = asyncio.create_task(asking.call("hold"))
        await server.events["began"].wait()
        task.cancel()
        await server.events["cancelled"].wait()
        with pytest.raises(asyncio.CancelledError):
            await task
