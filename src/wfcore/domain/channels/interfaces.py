"""The interfaces of workflows and skills, by which people and programs call them (interface, functional areas)."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from wfcore.domain.channels.team_chat_config import TeamChatConfig, is_slack, team_chat_issues
from wfcore.domain.json.values import UNSET, UnsetType, creation
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_readers import as_object, as_text, as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import Kind

MAX_ANCESTORS: Final = 20
"""The most sites that may show a chat page in a frame."""

MAX_TEXT: Final = 10_000
"""The most characters of the title and of the description of a tool."""


@creation
class ChatAppConfig:
    """The keys of a chat page's `config` that wfcore uses."""

    frame_ancestors: list[str] | UnsetType = UNSET


@creation
class McpToolConfig:
    """The keys of a tool's `config` that wfcore uses."""

    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET


_ORIGIN = re.compile(r"https?://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?", re.ASCII)


class InterfaceKind(StrEnum):
    """The kinds: a chat page, a tool of an MCP server, a team chat."""

    CHATAPP = "chatapp"
    MCP = "mcp"
    TEAMCHAT = "teamchat"


@attrs.frozen
class Interface:
    """One interface of a workflow or, with `target`, of a skill. `config` is kept verbatim; that of a skill's interface
    is content of the skill. `sealed` is the signing secret, if the kind has one.
    """

    id: str
    resource_id: int
    kind: InterfaceKind
    config: Mapping[str, JSON]
    created_at: datetime
    sealed: str | None = attrs.field(default=None, repr=False)
    target: Kind = Kind.WORKFLOW

    @property
    def is_slack(self) -> bool:
        """Whether it is a team chat with the APIs of Slack."""
        return self.kind is InterfaceKind.TEAMCHAT and is_slack(self.config)

    @property
    def path(self) -> str:
        """The URL path of its endpoint, below the root of the server."""
        return f"/interfaces/{self.kind}/{self.id}{'/slack' if self.is_slack else ''}"

    def to_wire(self, root: str = "") -> dict[str, JSON]:
        """The interface on the wire; `root` is the path prefix under which the server is mounted."""
        return {
            "id": self.id,
            "kind": self.kind.value,
            "config": dict(self.config),
            "createdAt": iso(self.created_at),
            "url": root + self.path,
        }


CONFIGS: Final[Mapping[str, type]] = {
    InterfaceKind.CHATAPP: ChatAppConfig,
    InterfaceKind.MCP: McpToolConfig,
    InterfaceKind.TEAMCHAT: TeamChatConfig,
}


def config_shape(config: Mapping[str, JSON], interface: Mapping[str, JSON]) -> type | None:
    """For `Holds`: whose nulls mean absence in the `config` of an interface on the wire; others are the client's."""
    return CONFIGS.get(str(interface.get("kind")))


def config_issues(kind: InterfaceKind, config: Mapping[str, JSON]) -> list[Issue]:
    """The issues of the keys of `config` that its endpoint uses. Other keys belong to the client; a team chat has
    none.
    """
    if kind is InterfaceKind.CHATAPP and "frameAncestors" in config:
        return _ancestor_issues(config["frameAncestors"])
    if kind is InterfaceKind.TEAMCHAT:
        return team_chat_issues(config)
    if kind is InterfaceKind.MCP:
        named = [(name, config[name]) for name in ("title", "description") if name in config]
        return [issue for name, given in named for issue in _text_issues(name, given)]
    return []


def _text_issues(name: str, given: JSON) -> list[Issue]:
    if not isinstance(given, str):
        return [Issue(f"config.{name}", "must be a string", "type")]
    if len(given) > MAX_TEXT:
        return [Issue(f"config.{name}", f"must have at most {MAX_TEXT} characters", "maxLength")]
    return []


def entry_issues(entries: Sequence[Mapping[str, JSON]]) -> list[Issue]:
    """The issues of a skill's `interfaces`, whose shape is checked: one entry of a kind, with a valid `config`."""
    issues, seen = list[Issue](), set[JSON]()
    for position, entry in enumerate(entries):
        place, kind = f"interfaces[{position}]", as_text(entry["kind"])
        if kind in seen:
            issues.append(Issue(f"{place}.kind", f"must not be repeated: another entry has `{kind}`", "unique"))
        seen.add(kind)
        found = config_issues(InterfaceKind(kind), as_object(entry.get("config") or {}))
        issues += [Issue(f"{place}.{issue.path}", issue.message, issue.rule) for issue in found]
    return issues


def entry_of(entries: Sequence[Mapping[str, JSON]], kind: InterfaceKind) -> Mapping[str, JSON] | None:
    """The entry of this kind among a skill's `interfaces`."""
    return next((entry for entry in entries if entry.get("kind") == kind), None)


def _ancestor_issues(given: JSON) -> list[Issue]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return [Issue("config.frameAncestors", "must be a list of strings", "type")]
    if len(given) > MAX_ANCESTORS:
        return [Issue("config.frameAncestors", f"must have at most {MAX_ANCESTORS} items", "maxItems")]
    return [
        Issue(f"config.frameAncestors[{i}]", "must be an origin such as `https://app.example.org`", "pattern")
        for i, one in enumerate(given)
        if not _ORIGIN.fullmatch(one)
    ]


def frame_ancestors(config: Mapping[str, JSON]) -> Sequence[str]:
    """The sites that may show the chat page in a frame, for `frame-ancestors` (CSP Level 3, 6.4.2); by default none."""
    return as_texts(config.get("frameAncestors") or ["'none'"])


def takes_message(schema: Mapping[str, JSON]) -> bool:
    """Whether a chat's message is also in the `input` of its run.

    It is, unless the start node's inputSchema has `properties` without `message`.
    """
    return "properties" not in schema or "message" in as_object(schema["properties"])


def chat_input(schema: Mapping[str, JSON], message: str) -> dict[str, JSON]:
    """The `input` of a run that a chat's message starts."""
    return {"message": message} if takes_message(schema) else {}
