"""Servers of tools outside, reached by an organization's connections (interface, connections of kind `mcp`)."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ToolConnection

CALL_KEY: Final = "io.wfcore/idempotency-key"
"""Where the `_meta` of a call carries its key, for servers that know to call once (Model Context Protocol, `_meta`)."""


@attrs.frozen
class ServedTool:
    """A tool as its server lists it: somebody else's words. `parameters` is a JSON Schema, checked and bounded.

    `digest` changes when anything of the definition does, also what is cut off of the description here.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    digest: str


@attrs.frozen
class ToolListing:
    """The tools that can be used, as the server orders them, and why others cannot, by name.

    `fresh_for`: for how many seconds the server says that it holds; None when it does not say.
    """

    tools: Sequence[ServedTool]
    left_out: Mapping[str, str]
    fresh_for: float | None = None


class ToolServers(Protocol):
    """Lists and calls what servers offer. Both raise `ToolFailed`, `ConnectionRequired` when the server refuses the
    credentials.

    Implementers: a server is hostile until shown otherwise, so size and time are bounded, and no error repeats a
    secret of the connection. A cancelled call is cancelled at the server.
    """

    async def listing(self, org: str, connection: ToolConnection, *, anew: bool = False) -> ToolListing:
        """What the server offers; `anew`: what it offers now, not what it offered a moment ago.

        Implementers: a listing may be kept for a short time, never for another connection or configuration, and is
        forgotten once the server says that it changed. However many ask, the server is asked once at a time.
        """
        ...

    async def call(
        self, org: str, connection: ToolConnection, name: str, arguments: Mapping[str, JSON], key: str
    ) -> JSON:
        """The tool's result. `key` is the same for every attempt of the same call."""
        ...

    async def close(self) -> None:
        """Break off what is under way."""
        ...
