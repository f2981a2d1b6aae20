"""wfcore: workflows and agents for your own Python product.

    async with wfcore.open("sqlite:///app.db", tools=[send_invoice]) as core:
        flow = await core.workflows.create(me, name="Refunds", structure=graph)

Everything is loaded when it is first used: importing wfcore costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wfcore.adapters import http
    from wfcore.adapters.tools.catalog import tool
    from wfcore.bootstrap import Core, open  # noqa: A004
    from wfcore.domain.kernel.errors import WfcoreError
    from wfcore.domain.resources.access import Principal
    from wfcore.ports.providers import ConnectionRequired, ModelProvider, Tool, ToolCall, ToolConnection, ToolFailed
    from wfcore.runtime.common.installation import Settings

__all__ = [
    "ConnectionRequired",
    "Core",
    "ModelProvider",
    "Principal",
    "Settings",
    "Tool",
    "ToolCall",
    "ToolConnection",
    "ToolFailed",
    "WfcoreError",
    "http",
    "open",
    "tool",
]

_WHERE = {
    "ConnectionRequired": "wfcore.ports.providers",
    "Core": "wfcore.bootstrap",
    "ModelProvider": "wfcore.ports.providers",
    "Principal": "wfcore.domain.resources.access",
    "Settings": "wfcore.runtime.common.installation",
    "Tool": "wfcore.ports.providers",
    "ToolCall": "wfcore.ports.providers",
    "ToolConnection": "wfcore.ports.providers",
    "ToolFailed": "wfcore.ports.providers",
    "WfcoreError": "wfcore.domain.kernel.errors",
    "open": "wfcore.bootstrap",
    "tool": "wfcore.adapters.tools.catalog",
}


def __getattr__(name: str) -> Any:
    if name == "http":
        return import_module("wfcore.adapters.http")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module `wfcore` has no attribute `{name}`")


def __dir__() -> list[str]:
    return __all__
