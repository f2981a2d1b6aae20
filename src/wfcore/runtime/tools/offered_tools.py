"""The tools that agents are offered: those of the catalog and of the organization's servers."""

from collections.abc import Iterable, Mapping
from typing import Final

from wfcore.domain.agents.context import LeftOut
from wfcore.domain.agents.context_tools import OfferedTool
from wfcore.domain.run.effects import WORKFLOW
from wfcore.ports.providers import ConnectionRequired, Tool, ToolFailed, Tools
from wfcore.runtime.tools.mcp_tools import ToolLookup, connection_of, is_served, name_of

WHY: Final = "enabled in the toolset"


def offer_of(tool: Tool) -> OfferedTool:
    """The offer of a tool. The name of a server's tool begins with that of its connection."""
    served = is_served(tool.id)
    hint, connection = (tool.name, connection_of(tool.id)) if served else (tool.id, tool.provider)
    return OfferedTool(tool.id, hint, tool.description or tool.name, tool.parameters, connection=connection, why=WHY)


def offers_of(
    catalog: Tools, found: ToolLookup, tool_ids: Iterable[str]
) -> tuple[list[OfferedTool], Mapping[str, LeftOut]]:
    """The tools among these that agents can call, by id, and why others are left out.

    Only nodes of workflows can call a workflow. A tool whose connection does not work is offered by its id alone: a
    call then opens a `connect` interrupt.
    """
    offers, left_out = list[OfferedTool](), dict[str, LeftOut]()
    for tool_id in sorted(tool_ids):
        tool = found.get(tool_id) if is_served(tool_id) else catalog.get(tool_id)
        if isinstance(tool, Tool) and tool_id != WORKFLOW:
            offers.append(offer_of(tool))
        elif isinstance(tool, ConnectionRequired):
            offers.append(_unconnected_offer(tool_id))
        elif isinstance(tool, ToolFailed):
            left_out[tool_id] = LeftOut("tools", tool_id, tool.message)
    return offers, left_out


def _unconnected_offer(tool_id: str) -> OfferedTool:
    description = "What it does and takes is known once its service is connected: a call asks for that."
    hint, connection = f"mcp_{name_of(tool_id)}", connection_of(tool_id)
    return OfferedTool(tool_id, hint, description, {"type": "object"}, connection=connection, why=WHY)
