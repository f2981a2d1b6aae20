"""The built-in tools `core.remember` and `core.recall`: an agent's access to the memories of its skill."""

from collections.abc import Mapping
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from wfcore.domain.agents.memories import text_hash
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.json_readers import as_object, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.faults import own_work
from wfcore.ports.providers import Memory, MemoryBackend, Tool, ToolCall, ToolFailed
from wfcore.ports.system import Clock

MAX_CHARACTERS: Final = 10_000
"""Characters of a memory that an agent writes."""
MAX_RECALLED: Final = 10
"""Memories in one result of `core.recall`."""

REMEMBER: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "memory": {
            "type": "string",
            "pattern": r"\S",
            "maxLength": MAX_CHARACTERS,
            "description": "One fact, in words",
        },
        "metadata": {"type": "object", "maxProperties": 50},
    },
    "required": ["memory"],
    "additionalProperties": False,
}
RECALL: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {"query": {"type": "string", "maxLength": 2_000, "description": "Words to look for"}},
    "required": ["query"],
    "additionalProperties": False,
}


def memory_tools(memories: MemoryBackend, clock: Clock) -> list[Tool]:
    """Both tools, for agents with a skill.

    A new memory belongs to the end user of the run, else to the user who started it, and its metadata names the run and
    the message; a repeated call writes it once. A search finds the memories of that user, and those without a user.
    """

    async def remember(params: Mapping[str, JSON], call: ToolCall) -> JSON:
        skill, name = _skill(call), str(uuid5(NAMESPACE_URL, f"{call.org}/{call.key}"))
        text, now = as_text(params["memory"]), clock.now()
        metadata = {**as_object(params.get("metadata", {})), "runId": call.run_id, "messageId": call.message_id}
        memory = Memory(name, text, text_hash(text), metadata, now, now, call.end_user_id or call.user_id)
        with own_work():
            if await memories.get(call.org, skill, name) is None:
                await memories.add(call.org, skill, memory)
        return {"id": name}

    async def recall(params: Mapping[str, JSON], call: ToolCall) -> JSON:
        skill, query = _skill(call), as_text(params["query"])
        with own_work():
            user_id = call.end_user_id or call.user_id
            found = await memories.search(call.org, skill, query, limit=MAX_RECALLED, user_id=user_id, shared=True)
        return {"memories": [_to_wire(memory) for memory in found]}

    about = "of the user you talk with, for later conversations"
    return [
        Tool("core.remember", remember, "Remember", f"Keeps a fact {about}.", REMEMBER, is_async=True, idempotent=True),
        Tool("core.recall", recall, "Recall", "Finds what was remembered.", RECALL, is_async=True, idempotent=True),
    ]


def _skill(call: ToolCall) -> int:
    if call.skill_id is None:
        raise ToolFailed("only an agent with a skill has memories", retryable=False)
    return call.skill_id


def _to_wire(memory: Memory) -> dict[str, JSON]:
    made = iso_ms(memory.created_at)
    return {"id": memory.id, "memory": memory.memory, "metadata": memory.metadata, "createdAt": made}
