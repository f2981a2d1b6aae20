"""wfcore: workflows and agents for your own Python product.

    async with wfcore.open("sqlite:///app.db", tools=[send_invoice]) as core:
        flow = await core.workflows.create(me, name="Refunds", structure=graph)

Everything is loaded when it is first used: importing wfcore costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wfcore import http, rules, tools
    from wfcore.adapters.tools.functions import tool
    from wfcore.adapters.tools.injection import Provide, RunContext
    from wfcore.bootstrap import open  # noqa: A004
    from wfcore.core import Core
    from wfcore.domain.kernel.errors import (
        Conflict,
        Forbidden,
        Invalid,
        Malformed,
        NotFound,
        RateLimited,
        TooLarge,
        Unauthenticated,
        Unavailable,
        WfcoreError,
    )
    from wfcore.domain.resources.access import Principal
    from wfcore.flows import Flow
    from wfcore.ports.providers import ConnectionRequired, ModelProvider, Tool, ToolCall, ToolConnection, ToolFailed
    from wfcore.rules import simulate
    from wfcore.runtime.common.handlers import HookEvent
    from wfcore.runtime.common.installation import Dispatch, Secrets, Settings
    from wfcore.runtime.common.ports import Overrides
    from wfcore.runtime.common.run_views import RunCancelled, RunFailed
    from wfcore.synchronous import SyncCore, open_sync

    __version__: str

__all__ = [
    "Conflict",
    "ConnectionRequired",
    "Core",
    "Dispatch",
    "Flow",
    "Forbidden",
    "HookEvent",
    "Invalid",
    "Malformed",
    "ModelProvider",
    "NotFound",
    "Overrides",
    "Principal",
    "Provide",
    "RateLimited",
    "RunCancelled",
    "RunContext",
    "RunFailed",
    "Secrets",
    "Settings",
    "SyncCore",
    "TooLarge",
    "Tool",
    "ToolCall",
    "ToolConnection",
    "ToolFailed",
    "Unauthenticated",
    "Unavailable",
    "WfcoreError",
    "http",
    "open",
    "open_sync",
    "rules",
    "simulate",
    "tool",
    "tools",
]

_WHERE = {
    "Conflict": "wfcore.domain.kernel.errors",
    "ConnectionRequired": "wfcore.ports.providers",
    "Core": "wfcore.core",
    "Dispatch": "wfcore.runtime.common.installation",
    "Flow": "wfcore.flows",
    "Forbidden": "wfcore.domain.kernel.errors",
    "HookEvent": "wfcore.runtime.common.handlers",
    "Invalid": "wfcore.domain.kernel.errors",
    "Malformed": "wfcore.domain.kernel.errors",
    "ModelProvider": "wfcore.ports.providers",
    "NotFound": "wfcore.domain.kernel.errors",
    "Overrides": "wfcore.runtime.common.ports",
    "Principal": "wfcore.domain.resources.access",
    "Provide": "wfcore.adapters.tools.injection",
    "RateLimited": "wfcore.domain.kernel.errors",
    "RunCancelled": "wfcore.runtime.common.run_views",
    "RunContext": "wfcore.adapters.tools.injection",
    "RunFailed": "wfcore.runtime.common.run_views",
    "Secrets": "wfcore.runtime.common.installation",
    "Settings": "wfcore.runtime.common.installation",
    "SyncCore": "wfcore.synchronous",
    "TooLarge": "wfcore.domain.kernel.errors",
    "Tool": "wfcore.ports.providers",
    "ToolCall": "wfcore.ports.providers",
    "ToolConnection": "wfcore.ports.providers",
    "ToolFailed": "wfcore.ports.providers",
    "Unauthenticated": "wfcore.domain.kernel.errors",
    "Unavailable": "wfcore.domain.kernel.errors",
    "WfcoreError": "wfcore.domain.kernel.errors",
    "open": "wfcore.bootstrap",
    "open_sync": "wfcore.synchronous",
    "simulate": "wfcore.rules",
    "tool": "wfcore.adapters.tools.functions",
}


_MODULES = ("http", "rules", "tools")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"wfcore.{name}")
    if name in _WHERE:
        with import_module("wfcore.imports").without_collections():
            return getattr(import_module(_WHERE[name]), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("wfcore")
    raise AttributeError(f"module `wfcore` has no attribute `{name}`")


def __dir__() -> list[str]:
    return __all__
