"""The SDK's server with the one tool of an interface, for one request. Needs the extra `mcp`.

The SDK checks requests and shapes replies for the protocol version. A failed run is a result with `is_error`, for the
model to read; protocol errors are errors of the client. Outputs of runs are resources. A client that can show forms
gets the approvals that its user can decide as questions (MCP, Elicitation).
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

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
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from wfcore.adapters.http.core.route import Call
from wfcore.adapters.http.mcp.messages import has_handshake
from wfcore.domain.json.codec import text_of
from wfcore.domain.kernel.errors import Conflict, Invalid, Malformed, NotFound, Unavailable
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.state import RunStatus
from wfcore.runtime.channels.endpoints import Endpoint
from wfcore.runtime.channels.workflow_tools import (
    CallEnd,
    Question,
    Reply,
    WorkflowTool,
    WorkflowTools,
    end_of,
    faults_of_fields,
)
from wfcore.runtime.common.run_views import Turn

Context = ServerRequestContext[dict[str, Any], Any]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Reports the number of steps, the total if known, and the last step in words."""
Elicit = Callable[[str, Question], Awaitable[Reply | None]]
"""Sends a question to the client on the stream of a call of this run; None when the decision came from elsewhere."""

VERSION: Final = "1.0.0"
OUTPUT: Final = "wfcore://runs/{}/output"
"""The URI of the output of a run."""
RUN_ID: Final = "io.wfcore/run-id"
"""The key in the `_meta` of a result that holds the run id."""

CANCELLED: Final = RunStatus.cancelled
_ARGUMENT: Final = re.compile(r"^input\.")

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
    elicit: Elicit | None = None
    """None for a client that does not show forms, and for one that gets questions in the result of a call."""

    def server(self) -> Server[dict[str, Any]]:
        workflow = self.endpoint.target
        server: Server[dict[str, Any]] = Server(
            workflow.slug,
            version=VERSION,
            title=workflow.name,
            instructions=workflow.description,
            cache_hints={"tools/list": CacheHint(scope="private")},
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        server.middleware.clear()  # the application logs and traces requests itself
        return server

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        tool = await self._tool()
        return ListToolsResult(tools=[] if tool is None else [_described(tool)])

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        arguments = params.arguments or {}
        self._check(await self._tool(), params.name, arguments)
        if params.request_state is not None:
            return await self._continued(params.request_state, params.input_responses or {})
        turn = self.tools.call(self.call.me, self.endpoint.row.id, arguments, key=self.key)
        try:
            await turn
        except (Malformed, Invalid, Conflict) as error:
            return CallToolResult(content=[TextContent(text=faults_of_fields(error, _ARGUMENT))], is_error=True)
        self.on_begin()
        end = end_of(await self._terminal_event(turn))
        if not has_handshake(self.call.headers) and _shows_forms(context):
            return await self._questions(end)
        return _result(await self._elicited(end))

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

    # Approvals: since 2026-07-28 questions are the result, and the client calls again with the answers

    async def _questions(self, end: CallEnd, problem: str = "") -> CallToolResult | InputRequiredResult:
        questions = await self.tools.questions(self.call.me, end, problem)
        if not questions:
            return _result(end)
        forms = {question.interrupt_id: ElicitRequest(params=form_params(question)) for question in questions}
        return InputRequiredResult(input_requests={**forms}, request_state=end.run_id)

    async def _continued(self, run_id: str, responses: Mapping[str, Any]) -> CallToolResult | InputRequiredResult:
        """The rest of a call whose client got questions."""
        replies = {
            name: Reply(response.action, response.content)
            for name, response in responses.items()
            if isinstance(response, ElicitResult)
        }
        try:
            problem = await self.tools.reply(self.call.me, self.endpoint.row.id, run_id, replies)
            turn = self.tools.follow(self.call.me, self.endpoint.row.id, run_id)
            await turn
        except NotFound:
            raise MCPError(INVALID_PARAMS, "unknown `requestState`") from None
        self.on_begin()
        end = end_of(await self._terminal_event(turn))
        left_open = {name for name, reply in replies.items() if reply.action == "cancel"}
        if left_open & {one["interruptId"] for one in end.interrupts}:
            return _result(end)
        return await self._questions(end, problem)

    # Approvals: before, questions are requests on the stream of the call

    async def _elicited(self, end: CallEnd) -> CallEnd:
        """The outcome after the client has answered; the given one when there is no question or no decision."""
        problem, refused = "", set[str]()
        while self.elicit is not None:
            questions = await self.tools.questions(self.call.me, end, problem)
            question = next((one for one in questions if one.interrupt_id not in refused), None)
            if question is None:
                break
            reply = await self.elicit(end.run_id, question)
            if reply is not None and reply.action == "cancel":
                refused.add(question.interrupt_id)
                continue
            row_id, replies = self.endpoint.row.id, {} if reply is None else {question.interrupt_id: reply}
            if reply is None and (await self.tools.latest(self.call.me, row_id, end.run_id)).status is CANCELLED:
                return CallEnd(end.run_id, CANCELLED, problem="the run was cancelled")
            problem = await self.tools.reply(self.call.me, row_id, end.run_id, replies)
            end = end_of(await self._terminal_event(self.tools.follow(self.call.me, row_id, end.run_id)))
        return end

    # Outputs

    async def _list_resources(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        rows = await self.tools.outputs(self.call.me, self.endpoint.row.id)
        return ListResourcesResult(
            resources=[Resource(name=f"output of {row.id}", uri=_output_of(row.id)) for row in rows]
        )

    async def _list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        described = "The output of a run, by the run id in the result of its call"
        template = ResourceTemplate(name="run-output", uri_template=OUTPUT.format("{runId}"), description=described)
        return ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        try:
            output = await self.tools.output(self.call.me, self.endpoint.row.id, _run_of(params.uri))
        except NotFound:
            raise MCPError(INVALID_PARAMS, f"there is no resource `{params.uri[:200]}`") from None
        except Conflict as error:
            raise MCPError(INVALID_PARAMS, error.message) from None
        media_type = "text/plain" if isinstance(output, str) else "application/json"
        contents = TextResourceContents(uri=params.uri, mime_type=media_type, text=text_of(output))
        return ReadResourceResult(contents=[contents])

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
    hints = ToolAnnotations(title=tool.title, read_only_hint=tool.is_read_only, open_world_hint=tool.is_open_world)
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.parameters),
        annotations=hints,
    )


def form_params(question: Question) -> ElicitRequestFormParams:
    """The question as the parameters of `elicitation/create`."""
    return ElicitRequestFormParams(message=question.message, requested_schema=dict(question.form))


def _shows_forms(context: Context) -> bool:
    """Whether the client of a self-contained request shows forms."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _output_of(run_id: str) -> str:
    return OUTPUT.format(quote(run_id, safe=""))


def _run_of(uri: str) -> str:
    """The run id in the URI of an output; "" for any other URI."""
    before, after = OUTPUT.split("{}")
    is_output = uri.startswith(before) and uri.endswith(after)
    return unquote(uri.removeprefix(before).removesuffix(after)) if is_output else ""


def _result(end: CallEnd) -> CallToolResult:
    """The result of a call. That of a parked run has a link to the output, which it will have later."""
    content: list[ContentBlock] = [TextContent(text=end.text)]
    if end.status is RunStatus.interrupted:
        content.append(ResourceLink(name="output", uri=_output_of(end.run_id)))
    return CallToolResult(
        content=content,
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
