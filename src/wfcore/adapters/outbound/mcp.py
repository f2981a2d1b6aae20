"""Tools of MCP servers over streamable HTTP (Model Context Protocol, 2026-07-28 and before). Needs the extra `mcp`.

A server is somebody else's and may be hostile: each request goes through the guard, size and time are bounded, what it
lists is checked before anybody sees it, and it gets no answer to what it asks (sampling, elicitation, roots). Each list
and each call is a session of its own, so nothing is kept between two customers.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2

from wfcore.adapters.outbound.client import MOST_BYTES, GuardedTransport
from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused, check_url
from wfcore.adapters.outbound.tool import checked_headers
from wfcore.domain.json.codec import dumps, fingerprint
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Invalid, Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra
from wfcore.ports.providers import ConnectionRequired, ToolFailed
from wfcore.ports.tool_servers import CALL_KEY, ServedTool, ToolListing

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

SECONDS: Final = 60.0
"""For all of a list or call, the handshake included."""
SECONDS_TO_LEAVE: Final = 1.0
"""To end the session, once there is a result."""
MOST_PAGES: Final = 20
MOST_TOOLS: Final = 500
LONGEST_DESCRIPTION: Final = 4_000
LONGEST_WORDS: Final = 500
"""Characters of a server's own words in an error."""

LOGGERS: Final = (
    "client",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpx2",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""They write down what a server says, which may repeat the credentials: of sessions here they hear nothing."""

_unheard: Final = ContextVar("_unheard", default=False)
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)

T = TypeVar("T")


class McpTools:
    """The tools of the server at `url`. `headers` go along with each request; no error and no `repr` shows them.

    `ToolFailed` for an address that may not be called, a server that cannot be reached, takes more than `seconds`, says
    more than `most_bytes` or no MCP; `ConnectionRequired` when it refuses the credentials (401, 403). ImportError
    without the extra. `changed` is called when the server says, while it is asked, that its tools changed.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        guard: AddressGuard,
        *,
        seconds: float = SECONDS,
        most_bytes: int = MOST_BYTES,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._mcp = _sdk()
        self._url = url
        self._headers = checked_headers(headers)
        self._guard = guard
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._changed = changed

    def __repr__(self) -> str:
        return "McpTools()"

    async def list(self) -> ToolListing:
        """What the server offers now, all pages of it. A name that is listed twice is left out: it means two things."""
        return _listing(*await self._within(_all_pages))

    async def call(self, name: str, arguments: Mapping[str, JSON], key: str = "") -> JSON:
        """The result: its structured content if it has some, else its text, else its blocks as a list.

        `key` is told in `_meta`, for a server that knows to call once. `ToolFailed`, for good, when the tool says that
        it failed, or asks for more than arguments.
        """
        told = dict(arguments)
        result = await self._within(lambda client: self._called(client, name, told, key))
        if result.is_error:
            raise ToolFailed(self._hidden(_text(result) or "the tool failed and does not say why"), retryable=False)
        return _value(result)

    async def _called(self, client: "Client", name: str, arguments: dict[str, JSON], key: str) -> "CallToolResult":
        """Not by the SDK's own call: it checks the result against a schema of the server's, whose patterns may cost."""
        types = self._mcp.types
        meta = {CALL_KEY: key} if key else None
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta))
        try:
            return await client.session.send_request(request, types.CallToolResult)
        except self._mcp.MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
        await _all_pages(client)  # where the server wants arguments in headers, its listing says which
        return await client.session.send_request(request, types.CallToolResult)

    async def _within(self, use: Callable[["Client"], Awaitable[T]]) -> T:
        """What `use` gives, in a session of its own. Once it is there, nothing takes it away."""
        transport = _Transport(self._guard, self._most_bytes)
        done: list[T] = []
        unheard = _unheard.set(True)
        try:
            check_url(self._url)
            async with asyncio.timeout(self._seconds) as limit, self._session(transport) as client:
                done.append(await use(client))
                limit.reschedule(asyncio.get_running_loop().time() + SECONDS_TO_LEAVE)
        except Exception as error:  # noqa: BLE001  (the SDK raises groups of anything; what the wire showed comes first)
            if not done:
                raise self._failed(transport.problem or _first(error)) from None
        finally:
            _unheard.reset(unheard)
        return done[0]

    @asynccontextmanager
    async def _session(self, transport: "_Transport") -> AsyncIterator["Client"]:
        from mcp.client.streamable_http import streamable_http_client

        headers = {**self._headers, "accept-encoding": "identity", "user-agent": "wfcore"}
        async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=None) as http:
            stream = streamable_http_client(self._url, http_client=http, max_sse_event_size=self._most_bytes)
            me = self._mcp.types.Implementation(name="wfcore", version="1")
            client = self._mcp.Client(stream, cache=None, client_info=me, message_handler=self._hear)
            async with client as entered:
                yield entered

    async def _hear(self, message: object) -> None:
        if isinstance(message, self._mcp.types.ToolListChangedNotification):
            self._changed()

    def _failed(self, error: BaseException) -> ToolFailed:
        if isinstance(error, ToolFailed):
            return error
        if isinstance(error, AddressRefused):
            return ToolFailed(str(error), retryable=False)
        if isinstance(error, TimeoutError):
            return ToolFailed(f"the MCP server gave no answer within {self._seconds:g} seconds")
        if isinstance(error, self._mcp.MCPError):
            types = self._mcp.types
            retryable = error.code not in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST)
            return ToolFailed(f"the MCP server says: {self._hidden(error.message)}", retryable=retryable)
        if isinstance(error, httpx2.HTTPError | OSError):
            return ToolFailed("the MCP server cannot be reached")
        return ToolFailed("the answer is none of an MCP server", retryable=False)

    def _hidden(self, words: str) -> str:
        """A server's own words, without the headers that it may have repeated."""
        for value in sorted(self._headers.values(), key=len, reverse=True):
            for secret in (value, value.rpartition(" ")[2]):
                words = words.replace(secret, "***") if len(secret) > 3 else words
        return words.encode(errors="replace").decode()[:LONGEST_WORDS]


def _sdk() -> ModuleType:
    with needs_extra("mcp", "a tool of an MCP server"):
        import mcp

    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_heard)
    return mcp


def _is_heard(record: logging.LogRecord) -> bool:
    return not _unheard.get()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# The wire


class _Transport(GuardedTransport):
    """Connections of the guard for one session. It bounds what comes in, and remembers what the SDK would not tell."""

    def __init__(self, guard: AddressGuard, most_bytes: int) -> None:
        super().__init__(guard)
        self.problem: Exception | None = None
        self._most_bytes = most_bytes
        self._received = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except (AddressRefused, httpx2.HTTPError) as error:
            raise self._noted(error) from None
        if response.status_code in (401, 403):
            self._noted(ConnectionRequired("the MCP server refused the credentials"))
        elif response.headers.get("content-encoding", "identity") != "identity":
            raise self._noted(AddressRefused("the MCP server compresses its answers, though that was not asked for"))
        self.count(sum(len(name) + len(value) for name, value in response.headers.raw))
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Counted(response.stream, self)
        return response

    def count(self, size: int) -> None:
        self._received += size
        if self._received > self._most_bytes:
            raise self._noted(AddressRefused(f"the MCP server said more than {self._most_bytes} bytes"))

    def _noted(self, problem: Exception) -> httpx2.ConnectError:
        """What happened first is what is told."""
        self.problem = self.problem or problem
        return httpx2.ConnectError("no connection")


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, transport: _Transport) -> None:
        self._stream = stream
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._transport.count(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


# Listing


async def _all_pages(client: "Client") -> tuple[list["Listed"], float | None]:
    """The tools, and for how many seconds they hold: the least that a page says."""
    tools: list[Listed] = []
    told: list[float] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        told += [page.ttl_ms / 1000] if "ttl_ms" in page.model_fields_set else []
        cursor = page.next_cursor
        if len(tools) > MOST_TOOLS:
            raise ToolFailed(f"the MCP server lists more than {MOST_TOOLS} tools", retryable=False)
        if cursor is None:
            return tools, min(told, default=None)
    raise ToolFailed(f"the MCP server lists its tools on more than {MOST_PAGES} pages", retryable=False)


def _listing(found: Sequence["Listed"], fresh_for: float | None) -> ToolListing:
    names = [tool.name for tool in found]
    tools: dict[str, ServedTool] = {}
    left_out: dict[str, str] = {}
    for tool in found:
        shown = tool.name.encode(errors="replace").decode()[:128]
        if names.count(tool.name) > 1:
            left_out[shown] = "the server lists two tools of this name"
            continue
        try:
            tools[shown] = _tool(tool)
        except ToolFailed as error:
            left_out[shown] = error.message
    return ToolListing(tuple(tools.values()), left_out, fresh_for)


def _tool(tool: "Listed") -> ServedTool:
    """The tool, if it is one that can be called and told to a model; `ToolFailed` says why not."""
    if not _NAME.fullmatch(tool.name):
        raise ToolFailed("the name has other characters than letters, digits, `_`, `.`, `/` and `-`, or too many")
    parameters = _strict(tool.input_schema)
    try:
        compile_schema(parameters)
    except (Invalid, Malformed) as error:
        raise ToolFailed(f"the schema of its arguments cannot be used: {error}"[:LONGEST_WORDS]) from None
    description = _strict(tool.description or "")[:LONGEST_DESCRIPTION]
    told = {"name": tool.name, "description": _strict(tool.description or ""), "inputSchema": parameters}
    return ServedTool(tool.name, description, parameters, f"sha256:{fingerprint(told)}")


# Results


def _value(result: "CallToolResult") -> JSON:
    if result.structured_content is not None:
        return _strict(result.structured_content)
    if all(block.type == "text" for block in result.content):
        return _strict(_text(result))
    return _strict([block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content])


def _text(result: "CallToolResult") -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _strict(value: Any) -> JSON:
    """The value, once it is clear that it can be stored; servers send NaN, NUL and halves of characters."""
    try:
        return parse_json(dumps(value).encode())
    except (Malformed, ValueError) as error:
        raise ToolFailed(f"the MCP server's answer is no JSON that can be kept: {error}", retryable=False) from None
