"""The route of interface rows of kind `mcp`: a protocol server whose one tool is the deployed workflow.

It implements the Model Context Protocol over streamable HTTP, without sessions: GET and DELETE, which need sessions,
are not allowed. Errors before a message is read use the error envelope, errors of the message use JSON-RPC.
"""

from collections.abc import Iterator
from http import HTTPStatus
from types import ModuleType
from typing import Annotated, Literal, NotRequired, TypedDict

from anyio import to_thread
from msgspec import Meta
from starlette.responses import Response

from wfcore.adapters.http.core.origins import check_origin
from wfcore.adapters.http.core.request_parsing import NotAcceptable, accepts, check_json_type
from wfcore.adapters.http.core.route import Call, Route
from wfcore.domain.json.codec import JsonObject
from wfcore.extras import needs_extra
from wfcore.runtime.channels.workflow_tools import WorkflowTools
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.ports import Ports

PATH = "/interfaces/mcp/{interfaceId}"

MessageId = Annotated[int, Meta(ge=1 - 2**53, le=2**53 - 1)] | str


class McpMessage(TypedDict):
    """A request of JSON-RPC 2.0 or, without an `id`, a notification."""

    jsonrpc: Literal["2.0"]
    id: NotRequired[MessageId]
    method: str
    params: NotRequired[JsonObject]


class McpError(TypedDict):
    code: int
    message: str
    data: NotRequired[JsonObject | str]


class McpReply(TypedDict):
    """The reply to a request: its `result`, or the `error` of the protocol."""

    jsonrpc: Literal["2.0"]
    id: MessageId | None
    result: NotRequired[JsonObject]
    error: NotRequired[McpError]


class McpRoutes:
    """The one route."""

    def __init__(self, tools: WorkflowTools, ports: Ports) -> None:
        self._tools = tools
        self._ids = ports.ids
        self._hosts = ports.settings.hosts
        self._exchange: ModuleType | None = None

    def table(self) -> Iterator[Route]:
        yield Route(
            "mcp.exchange", "POST", PATH, self.exchange,
            "Send a message to the protocol server of an interface", scopes_of(self._tools.call), McpReply,
            raw_body_shape=McpMessage, streams=True,
            events=McpMessage | McpReply, empty_statuses=(HTTPStatus.ACCEPTED,), error_shape=McpReply,
        )  # fmt: skip

    async def exchange(self, call: Call) -> Response:
        check_origin(call.headers, self._hosts)
        check_json_type(call.headers)
        if not accepts(call.headers, "application/json"):
            raise NotAcceptable("`Accept` must allow `application/json` and should allow `text/event-stream`")
        endpoint = await self._tools.endpoint(call.me, call.path["interfaceId"])
        if self._exchange is None:
            self._exchange = await to_thread.run_sync(_load_exchange)
        response: Response = await self._exchange.respond(self._tools, self._ids, endpoint, call)
        return response


def _load_exchange() -> ModuleType:
    """The module that needs the SDK, imported at the first use: in a thread, since it takes about a second."""
    with needs_extra("mcp", "the MCP server of an interface"):
        from wfcore.adapters.http.mcp import exchange

    return exchange
