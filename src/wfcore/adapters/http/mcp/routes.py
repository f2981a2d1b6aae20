"""The route of interface rows of kind `mcp`: a protocol server whose one tool is the deployed workflow.

It speaks the Model Context Protocol over streamable HTTP, without sessions: what only sessions have (GET, DELETE) is
not allowed. What is wrong before a message is read is told in the envelope, what is wrong with it as JSON-RPC has it.
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
from wfcore.domain.kernel.errors import Unavailable
from wfcore.runtime.channels.workflow_tools import WorkflowTools
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.ports import Ports

PLACE = "/interfaces/mcp/{interfaceId}"

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
        self._most = ports.settings.max_request_bytes
        self._hosts = ports.settings.hosts
        self._speaker: ModuleType | None = None

    def table(self) -> Iterator[Route]:
        yield Route(
            "mcp.exchange", "POST", PLACE, self.exchange,
            "A message to the protocol server of an interface", scopes_of(self._tools.call), McpReply,
            reads=McpMessage, most_bytes=self._most, streams=True, bare=(HTTPStatus.ACCEPTED,), faults=McpReply,
        )  # fmt: skip

    async def exchange(self, call: Call) -> Response:
        check_origin(call.headers, self._hosts)
        check_json_type(call.headers)
        if not accepts(call.headers, "application/json"):
            raise NotAcceptable("`Accept` has to allow `application/json`, and should `text/event-stream`")
        surface = await self._tools.surface(call.me, call.path["interfaceId"])
        if self._speaker is None:
            self._speaker = await to_thread.run_sync(_loaded)
        response: Response = await self._speaker.respond(self._tools, self._ids, surface, call)
        return response


def _loaded() -> ModuleType:
    """What speaks the protocol. To load it takes a second: when it is first spoken, and beside the other requests."""
    try:
        from wfcore.adapters.http.mcp import exchange as mcp_exchange
    except ModuleNotFoundError:
        raise Unavailable("protocol servers need more packages: install `wfcore[mcp]`") from None
    return mcp_exchange
