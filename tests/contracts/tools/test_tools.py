"""The contract of tool catalogs for the catalog of functions."""

from datetime import datetime

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.tool import http_tool
from wfcore.adapters.tools.catalog import ToolRegistry
from wfcore.ports.providers import ToolCall, Tools
from wfcore.testing.contracts.tools import ToolsContract


async def send_invoice(order: int, when: datetime, call: ToolCall, note: str = "") -> str:
    """Send the invoice of an order."""
    return call.key


def add(a: int, b: int = 1) -> int:
    return a + b


class TestCatalog(ToolsContract):
    def open_tools(self) -> Tools:
        return ToolRegistry([send_invoice, add])


class TestEmptyCatalog(ToolsContract):
    def open_tools(self) -> Tools:
        return ToolRegistry()


class TestCatalogWithTheHttpTool(ToolsContract):
    def open_tools(self) -> Tools:
        return ToolRegistry([add], [http_tool(AddressGuard())])
