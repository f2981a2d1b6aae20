"""The MCP servers that an organization's connections name.

The listing of a server is cached for a short time in this process, and dropped when the server reports a change in any
session. While a server does not respond, its last listing is used, and it is asked again each time.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.json.nesting import extent
from wfcore.domain.kernel.json_readers import as_object, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.recent import Recent
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.ports.system import Clock
from wfcore.ports.tool_servers import ToolListing

if TYPE_CHECKING:
    from wfcore.adapters.outbound.mcp import McpTools

SECONDS_TO_LIST: Final = 10.0
MOST_BYTES_OF_LISTING: Final = 2**20
FRESH: Final = 60.0
"""Seconds for which a listing is fresh when its server does not specify a time."""
LEAST_FRESH, MOST_FRESH = 5.0, 300.0
"""The bounds of the time that a server specifies, in seconds."""
STALE: Final = 3_600.0
"""Seconds for which a listing is used while its server does not respond."""
MOST_BYTES_CACHED: Final = 32 * 2**20
"""Bytes of the cached listings in memory, those used last."""

Key = tuple[str, str, str]
"""Organization, connection, and the fingerprint of its configuration: other credentials make another server."""


@attrs.frozen
class _CachedListing:
    listing: ToolListing
    made_at: int

    def is_fresh(self, now: int) -> bool:
        given = self.listing.fresh_for
        seconds = FRESH if given is None else min(max(given, LEAST_FRESH), MOST_FRESH)
        return now - self.made_at < seconds * 1000

    def is_usable(self, now: int) -> bool:
        return now - self.made_at < STALE * 1000


class McpServers:
    """Implements the port `ToolServers` for all organizations, through one guard."""

    def __init__(self, guard: AddressGuard, clock: Clock) -> None:
        self._guard = guard
        self._clock = clock
        self._cache = Recent[Key, _CachedListing](MOST_BYTES_CACHED)
        self._in_flight: dict[Key, asyncio.Task[ToolListing]] = {}
        self._tasks: set[asyncio.Task[ToolListing]] = set()
        self._tools: type[McpTools] | None = None

    async def listing(self, org: str, connection: ToolConnection, *, refresh: bool = False) -> ToolListing:
        key = _key(org, connection)
        cached = self._cache.get(key)
        if cached is not None and not refresh and cached.is_fresh(self._clock.monotonic()):
            return cached.listing
        try:
            return await asyncio.shield(self._requested(key, connection))
        except ToolFailed as error:
            cached = self._cache.get(key)
            if refresh or not error.retryable or cached is None or not cached.is_usable(self._clock.monotonic()):
                raise
            return cached.listing

    async def call(
        self, org: str, connection: ToolConnection, name: str, arguments: Mapping[str, JSON], key: str
    ) -> JSON:
        server = _key(org, connection)
        try:
            tools = await self._server(server, connection)
            return await tools.call(name, arguments, key)
        except ConnectionRequired:
            self._forget(server)
            raise

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Parts

    def _requested(self, key: Key, connection: ToolConnection) -> asyncio.Task[ToolListing]:
        """The request in flight, or a new one. It continues when its caller is cancelled."""
        task = self._in_flight.get(key)
        if task is None:
            task = self._in_flight[key] = asyncio.get_running_loop().create_task(self._list(key, connection))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._store_result(key, done))
        return task

    async def _list(self, key: Key, connection: ToolConnection) -> ToolListing:
        server = await self._server(key, connection, seconds=SECONDS_TO_LIST, most_bytes=MOST_BYTES_OF_LISTING)
        return await server.list()

    def _store_result(self, key: Key, task: asyncio.Task[ToolListing]) -> None:
        self._tasks.discard(task)
        is_current = self._in_flight.get(key) is task
        if is_current:
            del self._in_flight[key]
        if task.cancelled() or task.exception() is not None or not is_current:
            return
        listing = task.result()
        self._cache.put(key, _CachedListing(listing, self._clock.monotonic()), bytes_of(listing))

    async def _server(self, key: Key, connection: ToolConnection, **bounds: Any) -> "McpTools":
        url, given = as_text(connection.config["url"]), as_object(connection.config.get("headers") or {})
        headers = {name: as_text(value) for name, value in given.items()}
        try:
            if self._tools is None:
                self._tools = await asyncio.to_thread(_mcp_tools)
        except MissingExtra as error:
            raise ToolFailed(str(error), retryable=False) from None
        return self._tools(url, headers, self._guard, changed=lambda: self._forget(key), **bounds)

    def _forget(self, key: Key) -> None:
        """Drop the listing. A request in flight can predate the change: its result is returned, but not cached."""
        self._cache.drop(key)
        self._in_flight.pop(key, None)


def bytes_of(listing: ToolListing) -> int:
    """What a listing takes in memory, roughly."""
    parts = [(tool.name, tool.description, tool.parameters, tool.output_schema) for tool in listing.tools]
    return extent([dict(listing.left_out), *(list(part) for part in parts)]).bytes


def _mcp_tools() -> "type[McpTools]":
    """The import of the SDK takes more than a second of CPU. Raises MissingExtra."""
    with needs_extra("mcp", "a tool of an MCP server"):
        from wfcore.adapters.outbound.client import tls
        from wfcore.adapters.outbound.mcp import McpTools, sdk

    sdk(), tls()
    return McpTools


def _key(org: str, connection: ToolConnection) -> Key:
    return org, connection.id, fingerprint(dict(connection.config))
