"""The rows that say by which doors a workflow can be reached (interface, functional areas: workflow interfaces)."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import URL_RULE, is_url

MOST_ANCESTORS: Final = 20
"""Sites that may show a chat page in a frame."""

LONGEST_URL: Final = 2_048

_ORIGIN = re.compile(r"https?://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?", re.ASCII)


class InterfaceKind(StrEnum):
    """A chat page, a tool of a protocol server, a team chat."""

    CHATAPP = "chatapp"
    MCP = "mcp"
    TEAMCHAT = "teamchat"


@attrs.frozen
class Interface:
    """One row. `config` is kept verbatim; `sealed` is the secret that signs, where its surface has one."""

    id: str
    workflow_id: int
    kind: InterfaceKind
    config: Mapping[str, JSON]
    created_at: datetime
    sealed: str | None = attrs.field(default=None, repr=False)

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


def config_issues(kind: InterfaceKind, config: Mapping[str, JSON]) -> list[Issue]:
    """What is wrong with the keys of a `config` that its surface reads; others are the client's own."""
    if kind is InterfaceKind.CHATAPP and "frameAncestors" in config:
        return _ancestor_issues(config["frameAncestors"])
    if kind is InterfaceKind.TEAMCHAT and "postUrl" in config:
        return _post_issues(config["postUrl"])
    return []


def _post_issues(given: JSON) -> list[Issue]:
    if not isinstance(given, str):
        return [Issue("config.postUrl", "must be a string", "type")]
    if len(given) > LONGEST_URL:
        return [Issue("config.postUrl", f"must have at most {LONGEST_URL} characters", "maxLength")]
    return [] if is_url(given) else [Issue("config.postUrl", URL_RULE, "url")]


def _ancestor_issues(given: JSON) -> list[Issue]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return [Issue("config.frameAncestors", "must be a list of strings", "type")]
    if len(given) > MOST_ANCESTORS:
        return [Issue("config.frameAncestors", f"must have at most {MOST_ANCESTORS} items", "maxItems")]
    return [
        Issue(f"config.frameAncestors[{i}]", "must be an origin such as `https://app.example.org`", "pattern")
        for i, one in enumerate(given)
        if not _ORIGIN.fullmatch(one)
    ]


def frame_ancestors(config: Mapping[str, JSON]) -> Sequence[str]:
    """Who may show the chat page in a frame, as `frame-ancestors` says it (CSP Level 3, 6.4.2): nobody unless named."""
    return config.get("frameAncestors") or ["'none'"]


def takes_message(schema: Mapping[str, JSON]) -> bool:
    """Whether a chat's message stands in the `input` of its run too: unless the start node's inputSchema names its
    properties, and no `message` among them.
    """
    return "properties" not in schema or "message" in schema["properties"]


def chat_input(schema: Mapping[str, JSON], message: str) -> dict[str, JSON]:
    """The `input` of a run that a chat's message starts."""
    return {"message": message} if takes_message(schema) else {}
