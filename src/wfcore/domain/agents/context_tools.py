"""The tools that an agent may call: their names for the model, and the digests of their definitions."""

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final, Literal

import attrs
import msgspec

from wfcore.domain.agents.context_text import size_tokens
from wfcore.domain.kernel.json_type import JSON

MAX_TOOLS: Final = 128
"""The most tools of one agent: the largest number that every provider accepts."""

_LONGEST: Final = 64
_SUFFIX: Final = 8
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)

_encode: Final = msgspec.json.Encoder(order="sorted").encode

MESSAGE_SCHEMA: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "The message to it; it knows nothing else"}},
    "required": ["message"],
    "additionalProperties": False,
}
"""The JSON Schema of the arguments of a subordinate: a message."""


@attrs.frozen
class OfferedTool:
    """A tool that a model may call: one of the catalog, a skill (`skill:7`) or a workflow (`workflow:3`).

    The id of a catalog tool never has a colon. The name for the model is made of `hint`. `connection` is the provider
    of a required connection. `why` is the reason why the tool is offered. `variation_id` is what a call of a skill or
    workflow would run.
    """

    tool_id: str
    hint: str
    description: str
    parameters: Mapping[str, JSON]
    kind: Literal["tool", "skill", "workflow"] = "tool"
    resource_id: int | None = None
    requires_approval: bool = False
    connection: str | None = None
    why: str = ""
    variation_id: str | None = None

    def wire_and_tokens(self, name: str) -> tuple[dict[str, JSON], int]:
        """The tool in a context, and the estimate of its tokens.

        `digest` is the digest of the definition, by which a change is detected; `title` a readable name.
        """
        text = self._definition()
        wire: dict[str, JSON] = {
            "name": name,
            "toolId": self.tool_id,
            "kind": self.kind,
            "description": self.description,
            "parameters": self.parameters,
            "requiresApproval": self.requires_approval,
            "digest": _digest(text),
        }
        if self.kind == "tool" and self.hint != self.tool_id:
            wire["title"] = self.hint
        if self.resource_id is not None:
            wire["resourceId"] = self.resource_id
        if self.variation_id is not None:
            wire["variationId"] = self.variation_id
        if self.connection is not None:
            wire["connection"] = self.connection
        return wire, size_tokens(len(text) + len(name))

    def digest(self) -> str:
        """SHA-256 of the JSON text of the definition, with sorted keys."""
        return _digest(self._definition())

    def _definition(self) -> bytes:
        return _encode([self.kind, self.tool_id, self.description, self.parameters])


def _digest(definition: bytes) -> str:
    return "sha256:" + sha256(definition).hexdigest()


def skill_id(number: int) -> str:
    """The tool id of a skill."""
    return f"skill:{number}"


def workflow_id(number: int) -> str:
    """The tool id of a workflow."""
    return f"workflow:{number}"


def wire_names(offers: Iterable[OfferedTool]) -> dict[str, str]:
    """The unique name of each tool for the model, by tool id: `^[A-Za-z0-9_-]{1,64}$`.

    Other characters become `_`; a name that is taken gets a part of a hash as suffix. Names without a change come
    first, then the order of tool ids, so the order of `offers` does not matter.
    """
    wanted = sorted((plain != offer.hint, offer.tool_id, plain) for offer in offers for plain in [_plain(offer.hint)])
    taken = dict[str, str]()
    for _, tool_id, plain in wanted:
        taken[_free_name(tool_id, plain, taken)] = tool_id
    return {tool_id: name for name, tool_id in taken.items()}


def _plain(hint: str) -> str:
    return _NOT_IN_A_NAME.sub("_", hint)[:_LONGEST] or "_"


def _free_name(tool_id: str, plain: str, taken: Collection[str]) -> str:
    name, number = plain, 0
    while name in taken:
        suffix = sha256(f"{number}:{tool_id}".encode()).hexdigest()[:_SUFFIX]
        name = f"{plain[: _LONGEST - _SUFFIX - 1]}_{suffix}"
        number += 1
    return name
