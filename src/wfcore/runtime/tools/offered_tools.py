"""Tools as agents are offered them: those of the catalog, and those of the organization's servers."""

from collections.abc import Iterable, Mapping
from typing import Final

from wfcore.domain.agents.context import LeftOut
from wfcore.domain.agents.context_tools import OfferedTool
from wfcore.domain.run.plan import WORKFLOW
from wfcore.ports.providers import ConnectionRequired, Tool, ToolFailed, Tools
from wfcore.runtime.tools.mcp_tools import LookedUp, connection_of, is_served, name_of

WHY: Final = "enabled in the toolset"


def offer_of(tool: Tool) -> OfferedTool:
    """The tool as it is offered. The name of a server's tool begins with that of its connection."""
    served = is_served(tool.id)
    hint, connection = (tool.name, connection_of(tool.id)) if served else (tool.id, tool.provider)
    return OfferedTool(tool.id, hint, tool.description or tool.name, tool.parameters, connection=connection, why=WHY)


def offers_of(
    catalog: Tools, found: LookedUp, tool_ids: Iterable[str]
) -> tuple[list[OfferedTool], Mapping[str, LeftOut]]:
    """Those of these tools that agents can call, by id, and why others cannot.

    A workflow is called by a workflow's own node alone. Where only a connection is missing the tool is offered by its
    bare id: a call then asks somebody to connect.
    """
    offers, left_out = list[OfferedTool](), dict[str, LeftOut]()
    for tool_id in sorted(tool_ids):
        tool = found.get(tool_id) if is_served(tool_id) else catalog.get(tool_id)
        if isinstance(tool, Tool) and tool_id != WORKFLOW:
            offers.append(offer_of(tool))
        elif isinstance(tool, ConnectionRequired):
            offers.append(_bare(tool_id))
        elif isinstance(tool, ToolFailed):
            left_out[tool_id] = LeftOut("tools", tool_id, tool.message)
    return offers, left_out


def _bare(tool_id: str) -> OfferedTool:
    told = "What it does and takes is known once its service is connected: a call asks for that."
    hint, connection = f"mcp_{name_of(tool_id)}", connection_of(tool_id)
    return OfferedTool(tool_id, hint, told, {"type": "object"}, connection=connection, why=WHY)
