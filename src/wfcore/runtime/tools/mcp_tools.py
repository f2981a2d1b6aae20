"""Tools of the servers behind an organization's connections: `mcp.<connection id>.<tool name>`.

Every member of the organization can use them, like its connections. Definitions of tools are looked up at their
servers when they are needed, and stored only in contexts.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

from wfcore.domain.agents.connections import Connection, ConnectionKind
from wfcore.domain.agents.secret_masks import SecretMask
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import SERVED
from wfcore.ports.faults import InternalFault
from wfcore.ports.providers import Tool, ToolCall, ToolFailed
from wfcore.ports.tool_servers import ServedTool, ToolListing
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connection_use import PAGE, ConnectionUse, ConnectionUser, NoConnection, OpenedConnection

MOST_SERVERS: Final = 50
"""The most servers of one organization's catalog, and of the tools of one agent or graph."""

LONGEST_PREFIX: Final = 30
"""The most characters of a connection's name in the names of its tools, which show the tools' origin."""

SHORTEST_IN_LISTING: Final = 8
"""The length from which a secret is masked in the texts of a listing: a shorter one can be a word of a description."""

SHORTEST_IN_DEFINITION: Final = 16
"""The length from which a secret is searched in names and schemas: a shorter one can be a value of another header, such
as a region, that is also one of an argument.
"""

TEXTS: Final = frozenset({"description", "title"})
"""The keywords of a JSON Schema whose text says what an argument is, without an effect on it."""

ToolLookup = Mapping[str, Tool | ToolFailed]
"""Tools by id, or why one is missing. `ConnectionRequired`: unknown until the connection works."""


class NoSuchTool(ToolFailed):
    """The server does not have this tool, or the tool cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


def is_served(tool_id: str) -> bool:
    return tool_id.startswith(SERVED)


def served_id(connection_id: str, name: str) -> str:
    return f"{SERVED}{connection_id}.{name}"


def connection_of(tool_id: str) -> str:
    return tool_id.removeprefix(SERVED).partition(".")[0]


def name_of(tool_id: str) -> str:
    return tool_id.removeprefix(SERVED).partition(".")[2]


@attrs.frozen
class ListedServer:
    """A connection, and the tools that its server lists."""

    opened: OpenedConnection
    listing: ToolListing

    def tool(self, tool_id: str) -> ServedTool:
        name = name_of(tool_id)
        for served in self.listing.tools:
            if served.name == name:
                return served
        why = self.listing.left_out.get(name)
        message = f"the server of `{self.opened.row.name}` has no tool `{name[:80]}`"
        raise NoSuchTool(f"{message} that can be used: {why}" if why else message)


@contextmanager
def _own_faults() -> Iterator[None]:
    """Any other exception is the adapter's own fault: its text can quote a secret, so that only the log gets it."""
    try:
        yield
    except (ToolFailed, TimeoutError):
        raise
    except Exception as error:
        raise InternalFault from error


class ServedTools:
    """Looks up tools of servers, and calls them."""

    def __init__(self, ports: Ports) -> None:
        self._storage = ports.storage
        self._servers = ports.tool_servers
        self._use = ConnectionUse(ports)

    async def server(self, user: ConnectionUser, connection_id: str, *, refresh: bool = False) -> ListedServer:
        """The server of a connection. `ToolFailed` when it cannot be reached or does not respond."""
        first = await self._use.of_id(user, connection_id, ConnectionKind.MCP)

        async def listed(opened: OpenedConnection) -> ListedServer:
            with _own_faults():
                listing = await self._servers.listing(user.org, opened.tool_connection, refresh=refresh)
            return ListedServer(opened, _masked(listing, opened))

        return await self._use.used(user, first, listed, is_listing=True)

    async def tool(self, user: ConnectionUser, tool_id: str, *, refresh: bool = False) -> Tool:
        """The tool of this id. `NoSuchTool` when its server has none; `ToolFailed` as of `server`."""
        server = await self.server(user, connection_of(tool_id), refresh=refresh)
        return self.tool_of(user, server, server.tool(tool_id))

    async def look_up(self, user: ConnectionUser, tool_ids: Iterable[str]) -> ToolLookup:
        """Look up the served tools among these ids. Queries up to MOST_SERVERS servers concurrently, each once."""
        wanted = [tool_id for tool_id in dict.fromkeys(tool_ids) if is_served(tool_id)]
        connections = list(dict.fromkeys(map(connection_of, wanted)))
        servers = await asyncio.gather(*(self._try_server(user, one) for one in connections[:MOST_SERVERS]))
        found, many = dict(zip(connections, servers, strict=False)), ToolFailed("these are tools of too many servers")
        return {tool_id: self._found(user, found.get(connection_of(tool_id), many), tool_id) for tool_id in wanted}

    def all_of(self, user: ConnectionUser, server: ListedServer) -> list[Tool]:
        return [self.tool_of(user, server, served) for served in server.listing.tools]

    def tool_of(self, user: ConnectionUser, server: ListedServer, served: ServedTool) -> Tool:
        """A server's tool as a `Tool`, not idempotent: the outcome of an interrupted call is unknown."""
        opened = server.opened

        async def run(params: Mapping[str, JSON], call: ToolCall) -> JSON:
            async def once(used: OpenedConnection) -> JSON:
                connection = used.tool_connection
                with _own_faults():
                    result = await self._servers.call(user.org, connection, served.name, params, call.key)
                return await used.masked(result)

            return await self._use.used(user, opened, once, passing=TimeoutError)

        tool_id = served_id(opened.row.id, served.name)
        name = f"{opened.row.name[:LONGEST_PREFIX]} {served.name}"
        return Tool(
            tool_id, run, name, served.description, served.parameters, blocking=False, is_async=True,
            output_schema=served.output_schema, group=opened.row.name,
        )  # fmt: skip

    async def servers(
        self, user: ConnectionUser, *, within: float
    ) -> list[tuple[Connection, ListedServer | ToolFailed]]:
        """The first MOST_SERVERS servers of the organization, by the ids of their connections.

        A server that does not respond `within` seconds counts as failed; its late response is cached.
        """
        rows = await self._connections(user.org)
        tasks = {row.id: asyncio.ensure_future(self._try_server(user, row.id)) for row in rows}
        try:
            done, _ = await asyncio.wait(tasks.values(), timeout=within) if tasks else (set(), set())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        late = ToolFailed(f"the MCP server did not respond within {within:g} seconds")
        return [(row, tasks[row.id].result() if tasks[row.id] in done else late) for row in rows]

    async def _connections(self, org: str) -> list[Connection]:
        found, after = list[Connection](), ""
        async with self._storage.reading(org) as work:
            while len(found) < MOST_SERVERS and (page := await work.connections.page(limit=PAGE, after=after)):
                found += [row for row in page if row.kind is ConnectionKind.MCP]
                after = page[-1].id
        return found[:MOST_SERVERS]

    async def _try_server(self, user: ConnectionUser, connection_id: str) -> ListedServer | ToolFailed:
        try:
            return await self.server(user, connection_id)
        except ToolFailed as error:
            return error

    def _found(self, user: ConnectionUser, server: ListedServer | ToolFailed, tool_id: str) -> Tool | ToolFailed:
        if isinstance(server, ToolFailed):
            return server
        try:
            return self.tool_of(user, server, server.tool(tool_id))
        except NoSuchTool as error:
            return error


def _masked(listing: ToolListing, opened: OpenedConnection) -> ToolListing:
    """The listing without secrets that its server repeats. They are replaced in texts only, as names and schemas must
    stay the same: a tool with one elsewhere is left out.
    """
    mask, whole = opened.mask(SHORTEST_IN_LISTING), opened.mask(SHORTEST_IN_DEFINITION)
    tools: list[ServedTool] = []
    left_out = {mask.text(name): mask.text(reason) for name, reason in listing.left_out.items()}
    for tool in listing.tools:
        shown = attrs.evolve(
            tool,
            description=mask.text(tool.description),
            parameters=as_object(_masked_texts(dict(tool.parameters), mask)),
            output_schema=tool.output_schema and as_object(_masked_texts(dict(tool.output_schema), mask)),
        )
        rest: JSON = [shown.name, dict(shown.parameters), dict(shown.output_schema or {})]
        if whole.value(rest) == rest:
            tools.append(shown)
        else:
            left_out[mask.text(shown.name)] = "its name or a schema contains a secret of the connection"
    return attrs.evolve(listing, tools=tools, left_out=left_out)


def _masked_texts(schema: JSON, mask: SecretMask) -> JSON:
    if isinstance(schema, list):
        return [_masked_texts(item, mask) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: mask.text(value) if name in TEXTS and isinstance(value, str) else _masked_texts(value, mask)
        for name, value in schema.items()
    }


def tool_exists(result: Tool | ToolFailed | None) -> bool | None:
    """Whether the looked up tool exists; None when that is unknown."""
    if isinstance(result, NoSuchTool | NoConnection):
        return False
    return True if isinstance(result, Tool) else None
