"""MCP servers as an organization's connections name them: `wfcore.ports.tool_servers.ToolServers`.

What a server lists is kept for a short time, in this process alone, and forgotten when the server says in any session
that it changed. A server that does not answer is asked again, but as long as it is silent its last listing serves.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.ports.system import Clock
from wfcore.ports.tool_servers import ToolListing

if TYPE_CHECKING:
    from wfcore.adapters.outbound.mcp import McpTools

SECONDS_TO_LIST: Final = 10.0
MOST_BYTES_OF_LISTING: Final = 2**20
FRESH: Final = 60.0
"""Seconds for which a listing holds when its server does not say."""
LEAST_FRESH, MOST_FRESH = 5.0, 300.0
"""What a server says is taken between these."""
STALE: Final = 3_600.0
"""Seconds for which a listing serves while its server gives no answer."""
KEPT: Final = 128
"""Listings in memory, those used last."""

Key = tuple[str, str, str]
"""Organization, connection, and the digest of its configuration: with other credentials it is another server."""


@attrs.frozen
class _Kept:
    listing: ToolListing
    made_at: int

    def fresh(self, now: int) -> bool:
        told = self.listing.fresh_for
        seconds = FRESH if told is None else min(max(told, LEAST_FRESH), MOST_FRESH)
        return now - self.made_at < seconds * 1000

    def serves(self, now: int) -> bool:
        return now - self.made_at < STALE * 1000


class McpServers:
    """The servers of all organizations, reached through one guard."""

    def __init__(self, guard: AddressGuard, clock: Clock) -> None:
        self._guard = guard
        self._clock = clock
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._under_way: dict[Key, asyncio.Task[ToolListing]] = {}
        self._tasks: set[asyncio.Task[ToolListing]] = set()

    async def listing(self, org: str, connection: ToolConnection, *, refresh: bool = False) -> ToolListing:
        key = _key(org, connection)
        kept = self._kept.get(key)
        if kept is not None and not refresh and kept.fresh(self._clock.now()):
            self._kept.move_to_end(key)
            return kept.listing
        try:
            return await asyncio.shield(self._asked(key, connection))
        except ToolFailed as error:
            kept = self._kept.get(key)
            if refresh or not error.retryable or kept is None or not kept.serves(self._clock.now()):
                raise
            return kept.listing

    async def call(
        self, org: str, connection: ToolConnection, name: str, arguments: Mapping[str, JSON], key: str
    ) -> JSON:
        asked = _key(org, connection)
        try:
            return await self._server(asked, connection).call(name, arguments, key)
        except ConnectionRequired:
            self._forget(asked)
            raise

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Parts

    def _asked(self, key: Key, connection: ToolConnection) -> asyncio.Task[ToolListing]:
        """The question to the server that is under way, or a new one; it goes on when who asked has left."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.get_running_loop().create_task(self._list(key, connection))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._answered(key, done))
        return task

    async def _list(self, key: Key, connection: ToolConnection) -> ToolListing:
        server = self._server(key, connection, seconds=SECONDS_TO_LIST, most_bytes=MOST_BYTES_OF_LISTING)
        return await server.list()

    def _answered(self, key: Key, task: asyncio.Task[ToolListing]) -> None:
        self._tasks.discard(task)
        is_current = self._under_way.get(key) is task
        if is_current:
            del self._under_way[key]
        if task.cancelled() or task.exception() is not None or not is_current:
            return
        self._kept[key] = _Kept(task.result(), self._clock.now())
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _server(self, key: Key, connection: ToolConnection, **bounds: Any) -> "McpTools":
        url, headers = connection.config["url"], connection.config.get("headers") or {}
        try:
            with needs_extra("mcp", "a tool of an MCP server"):
                from wfcore.adapters.outbound.mcp import McpTools

            return McpTools(url, headers, self._guard, changed=lambda: self._forget(key), **bounds)
        except MissingExtra as error:
            raise ToolFailed(str(error), retryable=False) from None

    def _forget(self, key: Key) -> None:
        """What is kept holds no more, and what is under way may be of before: it answers, and is not kept."""
        self._kept.pop(key, None)
        self._under_way.pop(key, None)


def _key(org: str, connection: ToolConnection) -> Key:
    return org, connection.id, fingerprint(dict(connection.config))
