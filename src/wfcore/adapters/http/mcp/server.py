"""The SDK's server with the one tool of an interface row, for one request. Needs the extra `mcp`.

The SDK checks requests and shapes replies for the protocol version. A failed run is a result with `is_error`, for the
model to read; protocol errors are errors of the client.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from wfcore.adapters.http.core.route import Call
from wfcore.adapters.http.mcp.messages import has_handshake
from wfcore.domain.kernel.errors import Conflict, Invalid, Malformed, Unavailable, WfcoreError
from wfcore.domain.kernel.json_readers import as_objects
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.state import RunStatus
from wfcore.runtime.channels.endpoints import Endpoint
from wfcore.runtime.channels.workflow_tools import CallEnd, WorkflowTool, WorkflowTools, end_of
from wfcore.runtime.common.run_views import Turn

Context = ServerRequestContext[dict[str, Any], Any]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Reports the number of steps, the total if known, and the last step in words."""

VERSION: Final = "1.0.0"
RUN_ID: Final = "io.wfcore/run-id"
"""The key in the `_meta` of a result that holds the run id."""

STEPS: Final[Mapping[EventKind, str]] = {
    EventKind.node_started: "started",
    EventKind.node_finished: "finished",
    EventKind.node_failed: "failed",
    EventKind.node_retrying: "will be tried again",
    EventKind.node_skipped: "skipped",
    EventKind.tool_call: "calls a tool",
    EventKind.interrupt: "waits for a decision",
}
"""The events that are reported as progress, and the text for their node."""


@attrs.frozen
class Served:
    """The one tool, for one request. `on_begin` is called when its run has begun, `progress` at its steps."""

    tools: WorkflowTools
    call: Call
    endpoint: Endpoint
    key: str
    on_begin: Callable[[], None]
    progress: Progress

    def server(self) -> Server[dict[str, Any]]:
        workflow = self.endpoint.workflow
        server: Server[dict[str, Any]] = Server(
            workflow.slug,
            version=VERSION,
            title=workflow.name,
            instructions=workflow.description,
            cache_hints={"tools/list": CacheHint(scope="private")},
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        server.middleware.clear()  # the application logs and traces requests itself
        return server

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        tool = await self._tool()
        return ListToolsResult(tools=[] if tool is None else [_described(tool)])

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        self._check(await self._tool(), params.name, arguments)
        turn = self.tools.call(self.call.me, self.endpoint.row.id, arguments, key=self.key)
        try:
            await turn
        except (Malformed, Invalid, Conflict) as error:
            return CallToolResult(content=[TextContent(text=_explanation(error))], is_error=True)
        self.on_begin()
        return _result(end_of(await self._terminal_event(turn)))

    async def _tool(self) -> WorkflowTool | None:
        return await self.tools.tool(self.call.me, self.endpoint.row.id)

    def _check(self, tool: WorkflowTool | None, name: str, arguments: Mapping[str, JSON]) -> None:
        """Raise MCPError for an unknown tool, or for headers that differ from the arguments (2026-07-28)."""
        if tool is None or tool.name != name:
            raise MCPError(INVALID_PARAMS, f"unknown tool `{name[:80]}`: see `tools/list`")
        if has_handshake(self.call.headers):
            return
        if (error := validate_mcp_param_headers(tool.parameters, arguments, self.call.headers)) is not None:
            raise MCPError(error.code, error.message)

    async def _terminal_event(self, turn: Turn) -> Event:
        """The terminal event of the run; the events before it are reported as progress."""
        steps = 0
        async for event in turn:
            if event.terminal:
                return event
            if event.kind in STEPS:
                steps += 1
                await self.progress(steps, None, f"{event.data.get('nodeId') or 'the run'} {STEPS[event.kind]}")
        raise Unavailable("the run continues, but its event stream was interrupted")


def _described(tool: WorkflowTool) -> Tool:
    schema = dict(tool.parameters)
    return Tool(name=tool.name, title=tool.title, description=tool.description, input_schema=schema)


def _explanation(error: WfcoreError) -> str:
    """Every issue of the arguments, for the model to correct."""
    issues = as_objects(error.info.get("errors") or ())
    return "\n".join(f"`{issue['path']}`: {issue['message']}" for issue in issues) or error.message


def _result(end: CallEnd) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=end.text)],
        structured_content=_structured(end),
        is_error=end.failed,
        _meta={RUN_ID: end.run_id},
    )


def _structured(end: CallEnd) -> dict[str, JSON] | None:
    """The structured content: an object, as versions before 2026-07-28 require. Other outputs become its `result`."""
    if end.failed:
        return None
    if end.status is RunStatus.done:
        return end.output if isinstance(end.output, dict) else {"result": end.output}
    return {"runId": end.run_id, "status": str(end.status), "interrupts": [dict(one) for one in end.interrupts]}
