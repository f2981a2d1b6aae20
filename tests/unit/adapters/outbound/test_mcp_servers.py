"""Servers of connections: how long a listing is fresh, when it is requested, and a real server of the SDK."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from mcp_stub import ADD, CANARY, Stub, http_response, serving
from real_mcp import office
from waiting import HANG

from wfcore.adapters.outbound import mcp_servers
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp_servers import FRESH, LEAST_FRESH, MOST_FRESH, STALE, McpServers
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _listing_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine lists longer than servers may."""
    monkeypatch.setattr(mcp_servers, "SECONDS_TO_LIST", HANG)


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
    ("ttl", "holds"),
    [(None, FRESH), (0, LEAST_FRESH), (20_000, 20.0), (10**9, MOST_FRESH)],
    ids=["nothing", "not at all", "a while", "for ever"],
)
async def test_a_listing_is_fresh_for_a_time(ttl: int | None, holds: float) -> None:
    """The server's time applies, within bounds; then the listing is requested again. `refresh` always requests it."""
    listed = {"tools": [ADD]} if ttl is None else {"tools": [ADD], "ttlMs": ttl, "cacheScope": "private"}
    async with serving(ttl is not None, tools_list=listed) as stub:
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


async def test_concurrent_callers_share_one_request() -> None:
    """Any number of callers shares one request; a cancelled one does not affect the others."""
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


async def test_organizations_and_credentials_share_nothing() -> None:
    """Another organization, or the same one with other credentials, makes its own request."""
    async with serving() as stub:
        asking = Asking(stub.port)
        await asking.names()
        await asking.names("other")
        await asking.names(X="1")
        assert lists(stub) == 3


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the size of the listings: servers of customers decide about it. Those used last are kept."""
    async with serving() as stub:
        asking = Asking(stub.port)
        size = mcp_servers.bytes_of(await asking.servers.listing(ORG, asking.connection()))
        monkeypatch.setattr(mcp_servers, "MOST_BYTES_CACHED", 2 * size)
        asking = Asking(stub.port)
        for org in ("a", "b", "a", "c", "a"):
            await asking.names(org)
        assert lists(stub) == 1 + 3
        await asking.names("b")
        assert lists(stub) == 1 + 4


async def test_a_failing_server_keeps_its_listing() -> None:
    """Without a response the last listing is used for an hour; never with `refresh`."""
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
async def test_refused_credentials_drop_the_listing(method: str) -> None:
    """After a refusal, of a list or a call, no earlier listing is returned."""
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
async def test_a_reported_change_drops_the_listing(modern: bool) -> None:
    """A change that the server reports during a call makes the next listing a new request."""

    def with_notification(body: Mapping[str, Any]) -> bytes:
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        result = {"content": [], **({"resultType": "complete"} if modern else {})}
        parts = [notice, {"jsonrpc": "2.0", "id": body["id"], "result": result}]
        return http_response(body=b"".join(b"data: %s\n\n" % json.dumps(part).encode() for part in parts),
                      kind="text/event-stream")  # fmt: skip

    async with serving(modern, tools_call=with_notification) as stub:
        asking = Asking(stub.port)
        await asking.names()
        await asking.call(a=1)
        await asking.names()
        assert lists(stub) == 2


async def test_a_huge_listing_is_refused() -> None:
    """A listing above the bound is neither read nor cached."""
    bomb = {"tools": [{**ADD, "name": f"t{number}", "description": "x" * 50_000} for number in range(40)]}
    async with serving(tools_list=bomb) as stub:
        with pytest.raises(ToolFailed, match="more than") as failed:
            await Asking(stub.port).names()
        assert not failed.value.retryable


async def test_closing_cancels_requests() -> None:
    """A server that does not respond does not delay the end."""
    async with serving(server_discover=lambda _: None) as stub, asyncio.timeout(HANG):
        asking = Asking(stub.port)
        task = asyncio.create_task(asking.names())
        while not stub.received:  # noqa: ASYNC110  (the server has no other signal)
            await asyncio.sleep(0)
        await asking.servers.close()
        with pytest.raises(asyncio.CancelledError):
            await task


# A server of the SDK


async def test_a_server_of_the_sdk() -> None:
    """Its tools are listed with their schemas and called; a failure has its reason; a cancelled call is cancelled
    there.
    """
    async with office() as server, asyncio.timeout(HANG):
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
