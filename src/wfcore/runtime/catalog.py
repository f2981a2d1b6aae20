"""The catalog of tools that workflows and skills can use."""

import attrs

from wfcore.domain.access import Principal
from wfcore.domain.errors import JSON
from wfcore.ports.providers import Tool
from wfcore.runtime.context import Ports, needs


@attrs.frozen
class ToolView:
    tool: Tool

    @property
    def id(self) -> str:
        return self.tool.id

    def to_wire(self) -> dict[str, JSON]:
        tool = self.tool
        return {
            "id": tool.id,
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "builtIn": tool.id.startswith("core."),
        }


class ToolCatalog:
    """The tools of this installation: built in, and those of the embedding program."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("workflows:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[ToolView]:
        """By id, ascending."""
        found = [tool for tool in self._ports.tools.all() if tool.id > after]
        return [ToolView(tool) for tool in found[:limit]]
