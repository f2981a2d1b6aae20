"""The catalog of tools that workflows and skills can use."""

from collections.abc import Sequence
from typing import Final

import attrs

from wfcore.domain.agents.connections import Connection
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.providers import Tool, ToolFailed
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connection_use import ConnectionUser
from wfcore.runtime.tools.mcp_tools import ListedServer, ServedTools

SERVER_TIMEOUT: Final = 3.0
"""How long the catalog waits for servers. A slower one is listed with a problem; its tools appear the next time."""


@attrs.frozen
class ToolView:
    """A tool. A tool of a server has the connection to that server."""

    tool: Tool
    connection: Connection | None = None

    @property
    def id(self) -> str:
        return self.tool.id

    def to_wire(self) -> dict[str, JSON]:
        tool, connection = self.tool, self.connection
        return {
            "id": tool.id,
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "outputSchema": tool.output_schema,
            "group": tool.group or tool.id.rpartition(".")[0] or None,
            "builtIn": tool.id.startswith("core."),
            "idempotent": tool.idempotent,
            "provider": tool.provider if connection is None else connection.provider,
            "connectionId": None if connection is None else connection.id,
        }


@attrs.frozen
class ServerView:
    """A server: by name why some of its tools cannot be used, or why none of them can (`problem`)."""

    connection: Connection
    result: ListedServer | ToolFailed

    def to_wire(self) -> dict[str, JSON]:
        result = self.result
        problem, left_out = (
            (None, result.listing.left_out) if isinstance(result, ListedServer) else (result.message, {})
        )
        connection = self.connection
        return {"connectionId": connection.id, "name": connection.name, "problem": problem, "leftOut": left_out}


@attrs.frozen
class CatalogPage:
    """A page of tools, by id, and all servers of the organization."""

    tools: Sequence[ToolView]
    servers: Sequence[ServerView]


class ToolCatalog:
    """The tools of this installation (built-in ones and the embedding program's) and of an organization's servers."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._served = ServedTools(ports)

    @needs("workflows:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[ToolView]:
        """By id, ascending."""
        return list((await self.listed(me, limit=limit, after=after)).tools)

    @needs("workflows:read")
    async def listed(self, me: Principal, *, limit: int = 25, after: str = "") -> CatalogPage:
        """The same page with the queried servers and their problems. Takes at most SERVER_TIMEOUT seconds."""
        user = ConnectionUser.of(me)
        results = await self._served.servers(user, within=SERVER_TIMEOUT)
        views = [ToolView(tool) for tool in self._ports.tools.all()]
        for connection, result in results:
            if isinstance(result, ListedServer):
                views += [ToolView(tool, connection) for tool in self._served.all_of(user, result)]
        found = sorted((view for view in views if view.id > after), key=lambda view: view.id)
        return CatalogPage(found[:limit], [ServerView(*one) for one in results])
