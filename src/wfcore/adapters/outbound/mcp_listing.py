"""The tools that an MCP server lists: which of them can be used, and why others cannot. Needs the extra `mcp`."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from wfcore.domain.json.codec import dumps, fingerprint
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Invalid, Malformed
from wfcore.domain.kernel.json_readers import as_object, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ToolFailed
from wfcore.ports.tool_servers import ServedTool, ToolListing

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, Transport, TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp.types import Tool as Listed

MOST_TOOLS: Final = 500
LONGEST_NAME: Final = 128
LONGEST_DESCRIPTION: Final = 4_000
LONGEST_MESSAGE: Final = 500
"""Characters of a server's own message in an error."""

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)


class ListingFilter:
    """What one session receives, without the tools for which the SDK would refuse or change the whole listing.

    `left_out` has their names and the reasons. `version` is the negotiated version, "" before.
    """

    def __init__(self) -> None:
        self.version = ""
        self.left_out: list[tuple[str, str]] = []

    @asynccontextmanager
    async def over(self, transport: "Transport") -> "AsyncIterator[TransportStreams]":
        """The transport with what it receives filtered."""
        async with transport as (read, write):
            yield _FilteredStream(read, self._filter), write

    def _filter(self, item: "SessionMessage | Exception") -> "SessionMessage | Exception":
        result = getattr(getattr(item, "message", None), "result", None)
        listed = result.get("tools") if isinstance(result, dict) else None
        # validation of an unlimited number of tools would block the process
        if self.version and isinstance(result, dict) and isinstance(listed, list) and len(listed) <= MOST_TOOLS:
            result["tools"] = [tool for tool in listed if self._is_valid(result, tool)]
        return item

    def _is_valid(self, result: Mapping[str, Any], tool: Any) -> bool:
        reason = self._problem(result, tool)
        if reason:
            name = tool.get("name") if isinstance(tool, dict) else None
            self.left_out.append((name if isinstance(name, str) else "", reason[:LONGEST_MESSAGE]))
        return not reason

    def _problem(self, result: Mapping[str, Any], tool: Any) -> str:
        """Why the SDK would not take this tool of the result; "" if it would."""
        from mcp.shared.inbound import find_invalid_x_mcp_header
        from mcp.types import Tool
        from mcp_types.methods import validate_server_result
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS
        from pydantic import ValidationError

        try:
            validate_server_result("tools/list", self.version, {**result, "tools": [tool]})
        except ValidationError as error:
            # any other problem is one of the whole listing
            of_tool = [one for one in error.errors(include_input=False) if one["loc"][:2] == ("tools", 0)]
            return _invalid(of_tool[0]["type"], of_tool[0]["loc"][2:]) if of_tool else ""
        try:
            Tool.model_validate(tool, by_name=False)
        except ValidationError as error:
            (first, *_) = error.errors(include_input=False)
            return _invalid(first["type"], first["loc"])
        header = find_invalid_x_mcp_header(tool["inputSchema"]) if self.version in MODERN_PROTOCOL_VERSIONS else None
        return f"the schema of its arguments is not valid: {header}" if header else ""


def _invalid(kind: str, place: tuple[int | str, ...]) -> str:
    """The reason for a definition with a problem of this kind at this place."""
    where = ".".join(map(str, place))[:LONGEST_NAME]
    if not where:
        return "its definition is not an object"
    return (
        f"`{where}` is missing in its definition" if kind == "missing" else f"`{where}` of its definition is not valid"
    )


class _FilteredStream:
    """A read stream, each item of which passes through `change`."""

    def __init__(
        self,
        stream: "ReadStream[SessionMessage | Exception]",
        change: "Callable[[SessionMessage | Exception], SessionMessage | Exception]",
    ) -> None:
        self._stream = stream
        self._change = change

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        return self._change(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        return self._change(await anext(self._stream))

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)


def listing_of(
    found: Sequence["Listed"], fresh_for: float | None, invalid: Sequence[tuple[str, str]] = ()
) -> ToolListing:
    """The usable tools. `invalid`: names of further ones that were listed, and why they cannot be used."""
    times = Counter([tool.name for tool in found] + [name for name, _ in invalid])
    tools: dict[str, ServedTool] = {}
    left_out = {_shown(name): reason for name, reason in invalid}
    for tool in found:
        name = _shown(tool.name)
        if times[tool.name] > 1:
            left_out[name] = "the server lists two tools of this name"
            continue
        try:
            tools[name] = _tool(tool)
        except ToolFailed as error:
            left_out[name] = error.message
    return ToolListing(tuple(tools.values()), left_out, fresh_for)


def _shown(name: str) -> str:
    return name.encode(errors="replace").decode()[:LONGEST_NAME]


def _tool(tool: "Listed") -> ServedTool:
    """The tool, if it can be called and shown to a model. Raises ToolFailed with the reason otherwise."""
    if not _NAME.fullmatch(tool.name):
        raise ToolFailed("the name is not valid: use 1 to 128 letters, digits, `_`, `.`, `/` and `-`")
    parameters = as_object(strict(tool.input_schema))
    try:
        compile_schema(parameters)
    except (Invalid, Malformed) as error:
        raise ToolFailed(f"the schema of its arguments is not valid: {error}"[:LONGEST_MESSAGE]) from None
    description = as_text(strict(tool.description or ""))
    definition: dict[str, JSON] = {"name": tool.name, "description": description, "inputSchema": parameters}
    digest = f"sha256:{fingerprint(definition)}"
    return ServedTool(tool.name, description[:LONGEST_DESCRIPTION], parameters, digest, _output_schema(tool))


def _output_schema(tool: "Listed") -> Mapping[str, JSON] | None:
    """The schema of the tool's results, for readers of the catalog only: an invalid one counts as missing."""
    if tool.output_schema is None:
        return None
    try:
        schema = as_object(strict(tool.output_schema))
        compile_schema(schema)
    except (ToolFailed, Invalid, Malformed):
        return None
    return schema


def strict(value: Any) -> JSON:
    """The value, checked for storage: servers send NaN, NUL and unpaired surrogates."""
    try:
        return parse_json(dumps(value).encode())
    except (Malformed, ValueError) as error:
        raise ToolFailed(f"the MCP server's response is not valid JSON: {error}", retryable=False) from None
