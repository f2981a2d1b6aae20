"""External tool servers, reached by an organization's connections (interface, connections of kind `mcp`)."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ToolConnection

CALL_KEY: Final = "io.wfcore/idempotency-key"
"""The field of a call's `_meta` that carries its idempotency key (Model Context Protocol, `_meta`)."""


@attrs.frozen
class ServedTool:
    """A tool as its server lists it: untrusted text. `parameters` is a JSON Schema, checked and bounded.

    `digest` is that of the whole definition, including the part of the description that is cut off here.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    digest: str
    output_schema: Mapping[str, JSON] | None = None


@attrs.frozen
class ToolListing:
    """The usable tools in the server's order, and by name why others are left out.

    `fresh_for`: for how many seconds the listing stays valid according to the server; None when it does not state that.
    """

    tools: Sequence[ServedTool]
    left_out: Mapping[str, str]
    fresh_for: float | None = None


class ToolServers(Protocol):
    """Lists and calls the tools of servers. Both raise `ToolFailed`, and `ConnectionRequired` when the server refuses
    the credentials.

    Implementers: servers are untrusted, so size and time are bounded, and no error contains a secret of the
    connection. A cancelled call is cancelled at the server.
    """

    async def listing(self, org: str, connection: ToolConnection, *, refresh: bool = False) -> ToolListing:
        """The tools that the server offers; `refresh`: bypass the cache.

        Implementers: a listing can be cached for a short time, per connection and configuration, and is dropped when
        the server reports a change. Concurrent callers share one request to the server.
        """
        ...

    async def call(
        self, org: str, connection: ToolConnection, name: str, arguments: Mapping[str, JSON], key: str
    ) -> JSON:
        """The tool's result. `key` is the same for every attempt of the same call."""
        ...

    async def close(self) -> None:
        """Cancel what is in progress."""
        ...
