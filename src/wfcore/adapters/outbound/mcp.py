"""Tools of MCP servers over streamable HTTP (Model Context Protocol, 2026-07-28 and before). Needs the extra `mcp`.

A server is foreign and can be hostile: each request goes through the guard, size and time are bounded, its listing is
validated, and its own requests (sampling, elicitation, roots) are refused. Each list and each call uses a separate
session, so that nothing is shared between two customers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final, TypeVar, cast

import httpx2

from wfcore.adapters.outbound.client import LOGGERS as HTTP_LOGGERS
from wfcore.adapters.outbound.client import MOST_BYTES, GuardedTransport, muted_logs
from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused, check_url
from wfcore.adapters.outbound.mcp_listing import LONGEST_MESSAGE, MOST_TOOLS, ListingFilter, listing_of, strict
from wfcore.adapters.outbound.tool import checked_headers
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra
from wfcore.ports.providers import ConnectionRequired, ToolFailed
from wfcore.ports.tool_servers import CALL_KEY, ToolListing

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, InputRequiredResult
    from mcp.types import Tool as Listed
    from pydantic import TypeAdapter

SECONDS: Final = 60.0
"""Seconds for a whole list or call, the handshake included."""
SECONDS_TO_LEAVE: Final = 1.0
"""Seconds to end the session after the result."""
MOST_PAGES: Final = 20
NOT_MCP: Final = "the response is not that of an MCP server"

LOGGERS: Final = (
    *HTTP_LOGGERS,
    "client",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Loggers that log messages of a server, which can repeat the credentials: they are muted during sessions here."""

T = TypeVar("T")


class McpTools:
    """The tools of the server at `url`. Each request carries `headers`; errors and `repr` do not show them.

    Raises ToolFailed for a refused address, a server that cannot be reached, takes more than `seconds`, sends more than
    `most_bytes` or does not speak MCP; ConnectionRequired when it refuses the credentials (401, 403); ImportError
    without the extra. `changed` is called when the server reports, during a session, that its tools changed.
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
        self._mcp = sdk()
        self._url = url
        self._headers = checked_headers(headers)
        self._guard = guard
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._changed = changed

    def __repr__(self) -> str:
        return "McpTools()"

    async def list(self) -> ToolListing:
        """The current tools of the server, all pages. A name that is listed twice is left out, as it is ambiguous."""
        return await self._within(_all_pages)

    async def call(self, name: str, arguments: Mapping[str, JSON], key: str = "") -> JSON:
        """The result: its structured content if present, else its text, else its blocks as a list.

        `key` is sent in `_meta`, for a server that supports idempotent calls. Raises a ToolFailed without retry when
        the tool reports a failure or requires further input.
        """
        given = dict(arguments)
        result = await self._within(
            lambda client, listing_filter: self._called(client, listing_filter, name, given, key)
        )
        if result.is_error:
            raise ToolFailed(
                self._without_secrets(_text(result) or "the tool failed without a message"), retryable=False
            )
        return _value(result)

    async def _called(
        self, client: "Client", listing_filter: ListingFilter, name: str, arguments: dict[str, JSON], key: str
    ) -> "CallToolResult":
        """Avoids the SDK's own call, which validates results by the server's schema: its patterns can be slow."""
        types = self._mcp.types
        meta = {CALL_KEY: key} if key else None
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta))
        try:
            result = await client.session.send_request(request, _results())
        except self._mcp.MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            # the SDK reads from the listing which arguments the server requires in headers
            await _all_pages(client, listing_filter)
            result = await client.session.send_request(request, _results())
        if result.result_type == "complete":
            return cast("CallToolResult", result)
        needs_input = result.result_type == "input_required"
        raise ToolFailed(
            "the tool requires further input, which wfcore does not give" if needs_input else NOT_MCP, retryable=False
        )

    async def _within(self, use: Callable[["Client", ListingFilter], Awaitable[T]]) -> T:
        """The result of `use` in a separate session, or in a second one if the server ends the first one before.

        A server that does not know a session has not taken its request (MCP, Session Management).
        """
        end = asyncio.get_running_loop().time() + self._seconds
        try:
            return await self._in_session(use, end)
        except _SessionEnded:
            return await self._in_session(use, end)

    async def _in_session(self, use: Callable[["Client", ListingFilter], Awaitable[T]], end: float) -> T:
        """The result of `use` in a separate session. A failure after the result is ignored."""
        transport, left = _Transport(self._guard, self._most_bytes), end - asyncio.get_running_loop().time()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        session = asyncio.create_task(self._run_session(transport, use, result))
        session.add_done_callback(_retrieve)
        try:
            done, _ = await asyncio.wait((result, session), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            late = None if done else transport.problem or TimeoutError()  # when cancelled, the SDK can raise anything
            if result.done():
                await asyncio.wait((session,), timeout=SECONDS_TO_LEAVE)
        finally:
            session.cancel()  # the SDK can swallow this while it leaves the session: the wait for it is bounded
            await asyncio.wait((session,), timeout=SECONDS_TO_LEAVE)
            if not session.done():
                await transport.aclose()  # what is left of it fails at its next read
        error = session.exception() if session.done() and not session.cancelled() else None
        if result.done():
            return result.result()
        raise self._failed(late or transport.problem or _first(error or TimeoutError())) from None

    async def _run_session(
        self, transport: "_Transport", use: Callable[["Client", ListingFilter], Awaitable[T]], result: asyncio.Future[T]
    ) -> None:
        check_url(self._url)
        with muted_logs(LOGGERS):
            async with self._session(transport) as client:
                result.set_result(await use(client, transport.listing_filter))

    @asynccontextmanager
    async def _session(self, transport: "_Transport") -> AsyncIterator["Client"]:
        from mcp.client.streamable_http import streamable_http_client

        headers = {**self._headers, "accept-encoding": "identity", "user-agent": "wfcore"}
        async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=None) as http:
            stream = streamable_http_client(self._url, http_client=http, max_sse_event_size=self._most_bytes)
            me = self._mcp.types.Implementation(name="wfcore", version="1")
            filtered = transport.listing_filter.over(stream)
            client = self._mcp.Client(filtered, cache=None, client_info=me, message_handler=self._receive)
            async with client as entered:
                transport.listing_filter.version = entered.session.protocol_version or ""
                yield entered

    async def _receive(self, message: object) -> None:
        if isinstance(message, self._mcp.types.ToolListChangedNotification):
            self._changed()

    def _failed(self, error: BaseException) -> ToolFailed:
        if isinstance(error, ToolFailed):
            return error
        if isinstance(error, AddressRefused):
            return ToolFailed(str(error), retryable=False)
        if isinstance(error, TimeoutError):
            return ToolFailed(f"the MCP server did not respond within {self._seconds:g} seconds")
        if isinstance(error, self._mcp.MCPError):
            types = self._mcp.types
            if error.code == types.PARSE_ERROR:  # the SDK quotes parts of the response, which can be parts of a secret
                return ToolFailed(NOT_MCP)
            retryable = error.code not in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST)
            return ToolFailed(f"the MCP server reported: {self._without_secrets(error.message)}", retryable=retryable)
        if isinstance(error, httpx2.HTTPError | OSError):
            return ToolFailed("the MCP server cannot be reached")
        if isinstance(error, RuntimeError) and "protocol version" in str(error):  # of the SDK's handshake
            return ToolFailed("the MCP server uses a version of the protocol that is not supported", retryable=False)
        return ToolFailed(NOT_MCP, retryable=False)

    def _without_secrets(self, message: str) -> str:
        """A server's own message, without header values that it repeats. The SDK changes the case of some messages."""
        for value in sorted(self._headers.values(), key=len, reverse=True):
            for secret in (value, value.rpartition(" ")[2]):
                message = _without(message, secret) if len(secret) > 3 else message
        return message.encode(errors="replace").decode()[:LONGEST_MESSAGE]


def _without(text: str, secret: str) -> str:
    """The text with `***` in place of the secret in any case, in linear time, as a pattern would not be."""
    lowered, wanted = text.lower(), secret.lower()
    if len(lowered) != len(text):  # a few characters have a longer lower case
        text = lowered
    kept, end = list[str](), 0
    while (found := lowered.find(wanted, end)) >= 0:
        kept += (text[end:found], "***")
        end = found + len(wanted)
    return "".join((*kept, text[end:]))


def sdk() -> ModuleType:
    """The SDK. Raises MissingExtra."""
    with needs_extra("mcp", "a tool of an MCP server"):
        import mcp
        import mcp.client.streamable_http

    return mcp


@cache
def _results() -> "TypeAdapter[CallToolResult | InputRequiredResult]":
    """The results that a server can send to a call."""
    from mcp.types import CallToolResult, InputRequiredResult
    from pydantic import Field, TypeAdapter

    # a CallToolResult has `content`, and without a tag it is one
    return TypeAdapter(Annotated[CallToolResult | InputRequiredResult, Field(union_mode="left_to_right")])


def _retrieve(session: "asyncio.Task[None]") -> None:
    """Mark the error of a session as known: else asyncio logs it when its caller was cancelled or waits no more."""
    if not session.cancelled():
        session.exception()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# The wire


class _SessionEnded(ToolFailed):
    """The server does not know the session any more."""


class _Transport(GuardedTransport):
    """Guarded connections for one session. It bounds what is received, and keeps errors that the SDK hides."""

    def __init__(self, guard: AddressGuard, most_bytes: int) -> None:
        super().__init__(guard)
        self.problem: Exception | None = None
        self.listing_filter = ListingFilter()
        self._most_bytes = most_bytes
        self._received = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except (AddressRefused, httpx2.HTTPError) as error:
            raise self._keep_first(error) from None
        if response.status_code in (401, 403):
            self._keep_first(ConnectionRequired("the MCP server refused the credentials"))
        elif response.status_code == 404 and _is_of_session(request):
            self._keep_first(_SessionEnded("the MCP server ended the session"))
        elif response.headers.get("content-encoding", "identity") != "identity":
            raise self._keep_first(AddressRefused("the MCP server compresses its responses, which was not requested"))
        self.count(sum(len(name) + len(value) for name, value in response.headers.raw))
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Counted(response.stream, self)
        return response

    def count(self, size: int) -> None:
        self._received += size
        if self._received > self._most_bytes:
            raise self._keep_first(AddressRefused(f"the MCP server sent more than {self._most_bytes} bytes"))

    def _keep_first(self, problem: Exception) -> httpx2.ConnectError:
        """Keep the first problem, which is the one that is reported."""
        self.problem = self.problem or problem
        return httpx2.ConnectError("no connection")


def _is_of_session(request: httpx2.Request) -> bool:
    """Whether it lists or calls tools in a session. The response to another message says nothing about a call."""
    return "mcp-session-id" in request.headers and b'"method":"tools/' in request.read()


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


async def _all_pages(client: "Client", listing_filter: ListingFilter) -> ToolListing:
    """The listing. It is valid for the least number of seconds of a page, None without one."""
    tools: list[Listed] = []
    lifetimes: list[float] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        lifetimes += [page.ttl_ms / 1000] if "ttl_ms" in page.model_fields_set else []
        cursor = page.next_cursor
        if len(tools) + len(listing_filter.left_out) > MOST_TOOLS:
            raise ToolFailed(f"the MCP server lists more than {MOST_TOOLS} tools", retryable=False)
        if not cursor:  # some servers send "" on the last page
            return listing_of(tools, min(lifetimes, default=None), listing_filter.left_out)
    raise ToolFailed(f"the MCP server lists its tools on more than {MOST_PAGES} pages", retryable=False)


# Results


def _value(result: "CallToolResult") -> JSON:
    if result.structured_content is not None:
        return strict(result.structured_content)
    if all(block.type == "text" for block in result.content):
        return strict(_text(result))
    return strict([block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content])


def _text(result: "CallToolResult") -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
