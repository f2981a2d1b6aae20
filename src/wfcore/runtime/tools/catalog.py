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
from wfcore.runtime.tools.mcp_tools import ListedServer, ServedTools

SECONDS: Final = 3.0
"""For which the catalog waits for servers: whoever is slower is shown as such, and is there the next time."""


@attrs.frozen
class ToolView:
    """A tool. One of a server names the connection that leads there."""

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
            "builtIn": tool.id.startswith("core."),
            "idempotent": tool.idempotent,
            "provider": tool.provider if connection is None else connection.provider,
            "connectionId": None if connection is None else connection.id,
        }


@attrs.frozen
class ServerView:
    """A server: what of its tools cannot be used, by name, or why none of them can (`problem`)."""

    connection: Connection
    answer: ListedServer | ToolFailed

    def to_wire(self) -> dict[str, JSON]:
        answer = self.answer
        problem, left_out = (
            (None, answer.listing.left_out) if isinstance(answer, ListedServer) else (answer.message, {})
        )
        connection = self.connection
        return {"connectionId": connection.id, "name": connection.name, "problem": problem, "leftOut": left_out}


@attrs.frozen
class CatalogPage:
    """Some tools, by id, and all servers of the organization."""

    tools: Sequence[ToolView]
    servers: Sequence[ServerView]


class ToolCatalog:
    """The tools of this installation, built in and of the embedding program, and those of an organization's servers."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._served = ServedTools(ports)

    @needs("workflows:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[ToolView]:
        """By id, ascending."""
        return list((await self.listed(me, limit=limit, after=after)).tools)

    @needs("workflows:read")
    async def listed(self, me: Principal, *, limit: int = 25, after: str = "") -> CatalogPage:
        """The same with the servers that were asked, and what came of that. It never takes long."""
        answers = await self._served.servers(me.org_uuid, within=SECONDS)
        views = [ToolView(tool) for tool in self._ports.tools.all()]
        for connection, answer in answers:
            if isinstance(answer, ListedServer):
                views += [ToolView(tool, connection) for tool in self._served.all_of(me.org_uuid, answer)]
        found = sorted((view for view in views if view.id > after), key=lambda view: view.id)
        return CatalogPage(found[:limit], [ServerView(*one) for one in answers])
