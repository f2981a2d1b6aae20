"""A real MCP server of the official SDK, over sockets on this machine, with a door that a test can shut."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from starlette.types import Receive, Scope, Send


class Office:
    """Tools that remember how they were called. Who comes without the `token` gets 401, if there is one."""

    def __init__(self, token: str = "") -> None:
        self.mcp = MCPServer("office", log_level="CRITICAL")
        self.token = token
        self.port = 0
        self.requests = 0
        self.calls: list[tuple[str, Any]] = []
        self.events: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.silent = False
        for tool in (self.add, self.fail, self.hold):
            self.mcp.add_tool(tool)
        self._app = self.mcp.streamable_http_app()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def redefine(self, description: str) -> None:
        """From now on `add` is described otherwise."""
        self.mcp.remove_tool("add")
        self.mcp.add_tool(self.add, description=description)

    def described(self, text: str) -> None:
        """From now on this text describes `add` and its argument, and the pattern of an argument of a tool `odd`."""

        async def add(a: Annotated[int, Field(description=text, title=text)], b: int) -> int:
            return a + b

        async def odd(a: Annotated[str, Field(json_schema_extra={"pattern": f"({text}"})]) -> str:
            return a

        self.mcp.remove_tool("add")
        self.mcp.add_tool(add, description=text)
        self.mcp.add_tool(odd)

    def named(self, text: str) -> None:
        """From now on this text is a part of the name of one further tool, and a value of an argument of another."""

        async def choose(a: Annotated[str, Field(json_schema_extra={"enum": ["x", text]})]) -> str:
            return a

        self.mcp.add_tool(choose, name=f"get_{text}")
        self.mcp.add_tool(choose)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.requests += 1
            if self.silent:
                await self.events["spoken"].wait()
            if self.token and dict(scope["headers"]).get(b"x-token") != self.token.encode():
                await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body"})
                return
        await self._app(scope, receive, send)

    async def add(self, a: int, b: int) -> int:
        """Adds."""
        self.calls.append(("add", (a, b)))
        return a + b

    async def fail(self, why: str) -> str:
        raise ToolError(why)

    async def hold(self) -> None:
        self.calls.append(("hold", None))
        self.events["began"].set()
        try:
            await self.events["let go"].wait()
        except asyncio.CancelledError:
            self.events["cancelled"].set()
            raise


@asynccontextmanager
async def office(token: str = "") -> AsyncIterator[Office]:
    """A server on a free port, until the block ends."""
    made = Office(token)
    config = uvicorn.Config(made, "127.0.0.1", 0, log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  (uvicorn tells in no other way)
        await asyncio.sleep(0.005)
    made.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.events["spoken"].set()
        server.should_exit = True
        await task
