"""The contract of clients of tool servers, as a suite to inherit.

An adapter's author writes one method:

    class TestMyServers(ToolServersContract):
        @asynccontextmanager
        async def open_servers(self) -> AsyncIterator[Outlet]:
            async with stand_in() as address:
                yield Outlet(MyServers(), *connections_to(address))

Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs
import pytest

from wfcore.domain.json.codec import dumps
from wfcore.domain.json.schema import schema_issues
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.ports.tool_servers import ToolServers
from wfcore.testing.on_asyncio import limited

ORG: Final = "00000000-0000-7000-8000-000000000001"
CANARY: Final = "canary-4f1c09"
"""A secret in the headers of every connection; the server repeats it in its error messages."""
SUM: Final = {"a": 1, "b": 2}


@attrs.frozen
class Outlet:
    """The client under test, with connections to servers.

    `good` is the connection to a server with three tools: `add` gives the sum of the integers `a` and `b` within a JSON
    value, `fail` fails with the text `why`, `hold` never ends. `refused` leads to a server that refuses the
    credentials, `nobody` to an address without a server.
    """

    servers: ToolServers
    good: ToolConnection
    refused: ToolConnection
    nobody: ToolConnection

    async def call(self, name: str = "add", where: ToolConnection | None = None, /, **arguments: JSON) -> JSON:
        return await self.servers.call(ORG, where or self.good, name, arguments, "key-1")


class ToolServersContract:
    """Inherit, name the class `Test...`, and write `open_servers`."""

    @abstractmethod
    def open_servers(self) -> AbstractAsyncContextManager[Outlet]:
        """The client, open for the duration of the block."""

    @pytest.fixture
    async def outlet(self) -> AsyncIterator[Outlet]:
        async with self.open_servers() as outlet:
            yield outlet
            await outlet.servers.close()

    async def test_listed_tools_are_usable(self, outlet: Outlet) -> None:
        """Each tool once, with a valid schema."""
        listing = await outlet.servers.listing(ORG, outlet.good)
        names = [tool.name for tool in listing.tools]
        assert sorted(names) == ["add", "fail", "hold"]
        for tool in listing.tools:
            assert schema_issues(tool.parameters, tool.name) == []

    async def test_a_listing_stands(self, outlet: Outlet) -> None:
        """Repeated, simultaneous and fresh listings of unchanged tools have the same digests."""
        first = await outlet.servers.listing(ORG, outlet.good)
        again = [outlet.servers.listing(ORG, outlet.good, refresh=anew) for anew in (False, True, True)]
        for listing in await asyncio.gather(*again):
            assert [tool.digest for tool in listing.tools] == [tool.digest for tool in first.tools]
        assert len({tool.digest for tool in first.tools}) == len(first.tools)

    async def test_a_call_gives_a_value(self, outlet: Outlet) -> None:
        """The result is JSON, with or without a listing before."""
        assert "3" in dumps(await outlet.call(**SUM))

    async def test_a_failure_says_why(self, outlet: Outlet) -> None:
        """With the message of the tool, permanently, and without the secrets of the connection."""
        with pytest.raises(ToolFailed, match="it is Sunday") as failed:
            await outlet.call("fail", why=f"it is Sunday, {CANARY}")
        assert not failed.value.retryable
        assert not isinstance(failed.value, ConnectionRequired)
        assert CANARY not in failed.value.message

    async def test_an_unknown_tool_fails(self, outlet: Outlet) -> None:
        """A call of an unknown tool fails."""
        with pytest.raises(ToolFailed):
            await outlet.call("nothing")

    async def test_refused_credentials(self, outlet: Outlet) -> None:
        """A list and a call both require a connection."""
        with pytest.raises(ConnectionRequired):
            await outlet.servers.listing(ORG, outlet.refused)
        with pytest.raises(ConnectionRequired):
            await outlet.call("add", outlet.refused, **SUM)

    async def test_nobody_there(self, outlet: Outlet) -> None:
        """A list and a call can both be retried; neither requires a connection."""
        for attempt in (outlet.servers.listing(ORG, outlet.nobody), outlet.call("add", outlet.nobody, **SUM)):
            with pytest.raises(ToolFailed) as failed:
                await attempt
            assert failed.value.retryable
            assert not isinstance(failed.value, ConnectionRequired)

    async def test_a_call_can_be_cancelled(self, outlet: Outlet) -> None:
        """The waiting caller returns at once."""
        task = asyncio.create_task(outlet.call("hold"))
        await outlet.call(**SUM)
        task.cancel()
        async with limited():
            with pytest.raises(asyncio.CancelledError):
                await task

    async def test_calls_at_once(self, outlet: Outlet) -> None:
        """Each gets its own result, also beside one that fails and one that never ends."""
        endless = asyncio.create_task(outlet.call("hold"))
        failing = asyncio.create_task(outlet.call("fail", why="no"))
        found = await asyncio.gather(*(outlet.call(a=number, b=100) for number in range(4)))
        assert [str(100 + number) in dumps(value) for number, value in enumerate(found)] == [True] * 4
        with pytest.raises(ToolFailed):
            await failing
        assert not endless.done()
        endless.cancel()

    async def test_it_is_closed_once_or_twice(self, outlet: Outlet) -> None:
        """A second close has no effect."""
        await outlet.servers.close()
        await outlet.servers.close()
