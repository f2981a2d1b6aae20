"""The contract of tool servers for MCP, with a real server of the SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from real_mcp import office

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp_servers import McpServers
from wfcore.ports.providers import ToolConnection
from wfcore.testing.contracts.tool_servers import CANARY, Outlet, ToolServersContract
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


class TestMcpServers(ToolServersContract):
    @asynccontextmanager
    async def open_servers(self) -> AsyncIterator[Outlet]:
        async with office(CANARY) as good, office("another") as bad:
            places = (good.url, bad.url, "http://127.0.0.1:1/mcp")
            guard = AddressGuard.allowing(["127.0.0.1"])
            yield Outlet(
                McpServers(guard, FakeClock()),
                *(ToolConnection(url, "p", "mcp", {"url": url, "headers": {"X-Token": CANARY}}) for url in places),
            )
