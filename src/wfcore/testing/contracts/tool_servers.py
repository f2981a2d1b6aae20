"""What everything that reaches servers of tools has to keep, as a suite to inherit.

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
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.ports.tool_servers import ToolServers

ORG: Final = "00000000-0000-7000-8000-000000000001"
CANARY: Final = "canary-4f1c09"
"""What every connection's headers hold; the server repeats it in what it says of a failure."""
SUM: Final = {"a": 1, "b": 2}


@attrs.frozen
class Outlet:
    """What is tried, and where it leads.

    `good` is the connection to a server with three tools: `add` gives the sum of the integers `a` and `b` within a JSON
    value, `fail` fails with the text `why`, `hold` never ends. `refused` is one to a server that does not take its
    credentials, `nobody` to a place where there is none.
    """

    servers: ToolServers
    good: ToolConnection
    refused: ToolConnection
    nobody: ToolConnection

    async def call(self, name: str = "add", where: ToolConnection | None = None, /, **arguments: object) -> object:
        return await self.servers.call(ORG, where or self.good, name, arguments, "key-1")


class ToolServersContract:
    """Inherit, name the class `Test...`, and write `open_servers`."""

    @abstractmethod
    def open_servers(self) -> AbstractAsyncContextManager[Outlet]:
        """Servers, open for as long as the block lasts."""

    @pytest.fixture
    async def outlet(self) -> AsyncIterator[Outlet]:
        async with self.open_servers() as outlet:
            yield outlet
            await outlet.servers.close()

    async def test_what_is_listed_can_be_used(self, outlet: Outlet) -> None:
        """Each tool once, with a schema that can be compiled."""
        listing = await outlet.servers.listing(ORG, outlet.good)
        names = [tool.name for tool in listing.tools]
        assert sorted(names) == ["add", "fail", "hold"]
        for tool in listing.tools:
            assert schema_issues(tool.parameters, tool.name) == []

    async def test_a_listing_stands(self, outlet: Outlet) -> None:
        """Asked again, or by many at once, or anew: what has not changed has the same digests."""
        first = await outlet.servers.listing(ORG, outlet.good)
        again = [outlet.servers.listing(ORG, outlet.good, refresh=anew) for anew in (False, True, True)]
        for listing in await asyncio.gather(*again):
            assert [tool.digest for tool in listing.tools] == [tool.digest for tool in first.tools]
        assert len({tool.digest for tool in first.tools}) == len(first.tools)

    async def test_a_call_gives_a_value(self, outlet: Outlet) -> None:
        """The result is JSON, with or without a listing before."""
        assert "3" in dumps(await outlet.call(**SUM))

    async def test_a_failure_says_why(self, outlet: Outlet) -> None:
        """In the tool's own words, for good, and without the secrets of the connection."""
        with pytest.raises(ToolFailed, match="it is Sunday") as failed:
            await outlet.call("fail", why=f"it is Sunday, {CANARY}")
        assert not failed.value.retryable
        assert not isinstance(failed.value, ConnectionRequired)
        assert CANARY not in failed.value.message

    async def test_an_unknown_tool_fails(self, outlet: Outlet) -> None:
        """A call of what is not there has failed."""
        with pytest.raises(ToolFailed):
            await outlet.call("nothing")

    async def test_refused_credentials(self, outlet: Outlet) -> None:
        """A list and a call alike ask for a connection."""
        with pytest.raises(ConnectionRequired):
            await outlet.servers.listing(ORG, outlet.refused)
        with pytest.raises(ConnectionRequired):
            await outlet.call("add", outlet.refused, **SUM)

    async def test_nobody_there(self, outlet: Outlet) -> None:
        """A list and a call alike may be tried again; no connection is asked for."""
        for attempt in (outlet.servers.listing(ORG, outlet.nobody), outlet.call("add", outlet.nobody, **SUM)):
            with pytest.raises(ToolFailed) as failed:
                await attempt
            assert failed.value.retryable
            assert not isinstance(failed.value, ConnectionRequired)

    async def test_a_call_can_be_cancelled(self, outlet: Outlet) -> None:
        """Who waits for it is let go."""
        task = asyncio.create_task(outlet.call("hold"))
        await outlet.call(**SUM)
        task.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await task

    async def test_it_is_closed_once_or_twice(self, outlet: Outlet) -> None:
        """There is no harm in it."""
        await outlet.servers.close()
        await outlet.servers.close()
