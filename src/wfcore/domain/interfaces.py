"""The rows that say by which doors a workflow can be reached (interface, functional areas: workflow interfaces)."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import attrs

from wfcore.domain.errors import JSON
from wfcore.domain.ids import iso


class InterfaceKind(StrEnum):
    """A chat page, a tool of a protocol server, a team chat."""

    CHATAPP = "chatapp"
    MCP = "mcp"
    TEAMCHAT = "teamchat"


@attrs.frozen
class Interface:
    """One row. `config` is kept verbatim."""

    id: str
    workflow_id: int
    kind: InterfaceKind
    config: Mapping[str, JSON]
    created_at: datetime

    @property
    def path(self) -> str:
        """Where its surface is reached, below the address of the server."""
        return f"/interfaces/{self.kind}/{self.id}"

    def to_wire(self, root: str = "") -> dict[str, JSON]:
        """The row as clients see it; `root` is the path prefix under which the server is mounted."""
        return {
            "id": self.id,
            "kind": self.kind.value,
            "config": dict(self.config),
            "createdAt": iso(self.created_at),
            "url": root + self.path,
        }
