"""The extras of the distribution, and for each a small program that uses it."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    extra: {
        canonicalize_name(requirement.name)
        for requirement in map(Requirement, requirements)
        if requirement.name != "wfcore"
    }
    for extra, requirements in PROJECT["optional-dependencies"].items()
    if extra != "all"
}
GOAL = 25
"""The greatest number of distributions that `pip install wfcore` may install, `wfcore` included."""

TWENTY_LINES = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
RESULT = "{'refunded': 7}"
"""What that program prints last."""

_GUARD = "from wfcore.adapters.outbound.guard import AddressGuard; guard = AddressGuard.allowing([])"
USES = {
    "anthropic": "from wfcore.adapters.models.anthropic import AnthropicModel; AnthropicModel('m', api_key='k')",
    "cli": "from wfcore.cli.launch import main; sys.exit(main(['--version']))",
    "http": f"""
{_GUARD}
from wfcore.adapters.outbound.tool import http_tool
from wfcore.ports.providers import ToolCall
asyncio.run(http_tool(guard).run({{"url": "http://127.0.0.1:9/"}}, ToolCall("key", 1, "org", "run", "user")))""",
    "mcp": f"""
{_GUARD}
from wfcore.adapters.outbound.mcp_servers import McpServers
from wfcore.adapters.system import SystemClock
from wfcore.ports.providers import ToolConnection
servers = McpServers(guard, SystemClock())
connection = ToolConnection("c", "tools", "mcp", {{"url": "http://127.0.0.1:9/"}})
asyncio.run(servers.listing("org", connection))""",
    "mem0": """
from wfcore.adapters.mem0 import Mem0Memories
async def use():
    async with Mem0Memories("memories", embed=lambda text: [1.0, 0.0], dimensions=2):
        pass
asyncio.run(use())""",
    "metrics": "from wfcore.adapters.telemetry import Metrics",
    "nats": """
import wfcore
settings = wfcore.Settings(dispatch=wfcore.Dispatch("nats", ["nats://127.0.0.1:1"]))
async def use():
    async with wfcore.open("sqlite://", settings=settings, worker=False):
        pass
asyncio.run(use())""",
    "oauth": "from wfcore.adapters.oauth import AccessTokens",
    "openai": "from wfcore.adapters.models.openai import OpenAIModel; OpenAIModel('m', api_key='k')",
    "otel": "from wfcore.adapters.telemetry import Traces",
    "postgres": """
import wfcore
async def use():
    async with wfcore.open("postgresql://localhost:1/nothing"):
        pass
asyncio.run(use())""",
    "secrets": "from wfcore.adapters.sealing import Sealing; Sealing(lambda: [bytes(32)]).seal('text', 'place')",
    "server": "import wfcore; wfcore.http.app",
    "temporal": """
import wfcore
settings = wfcore.Settings(dispatch=wfcore.Dispatch("temporal", ["127.0.0.1:1"]))
async def use():
    async with wfcore.open("sqlite://", settings=settings, worker=False):
        pass
asyncio.run(use())""",
    "testing": "import wfcore.testing; wfcore.testing.StorageContract",
    "valkey": """
import wfcore
async def use():
    async with wfcore.open("sqlite://", settings=wfcore.Settings(limits_backend="valkey://127.0.0.1:1"), worker=False):
        pass
asyncio.run(use())""",
}
"""None reaches the network: requests go to an address that the guard refuses, and nothing listens there."""
