"""Conversations in dicts."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import attrs

from wfcore.domain.projections.messages import MessageRow
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import Execution
from wfcore.ports.repositories.conversations import Conversation, Message, MessageSize

Usable = Callable[[str, Principal, str, int], bool]


@attrs.define(eq=False)
class _StoredConversation:
    """The current state of a conversation; `participants` are kinds and ids of workflows and skills."""

    row: Conversation
    participants: set[tuple[str, int]] = attrs.field(factory=set)
    messages: list[tuple[MessageSize, Message]] = attrs.field(factory=list)


class MemoryConversations:
    """Implements the port `ConversationRepository`. `usable` returns whether a principal can use a resource."""

    def __init__(self, usable: Usable) -> None:
        self._usable = usable
        self._conversations: dict[int, _StoredConversation] = {}
        self._threads: dict[tuple[str, str], dict[str, _StoredConversation]] = {}
        self._last_key = 0
        self._last_seq = 0

    def add(self, execution: Execution, rows: Sequence[MessageRow]) -> None:
        """Add messages to the conversation of the execution's user."""
        if not rows:
            return
        times = [row.at for row in rows]
        stored = self._get_or_create(execution, min(times))
        if execution.kind in ("workflow", "skill") and execution.resource_id is not None:
            stored.participants.add((execution.kind, execution.resource_id))
        stored.participants |= {("skill", row.skill_id) for row in rows if row.skill_id is not None}
        skills = tuple(sorted(number for kind, number in stored.participants if kind == "skill"))
        latest = max(stored.row.updated_at, *times)
        stored.row = attrs.evolve(stored.row, updated_at=latest, skills=skills)
        for row in rows:
            self._last_seq += 1
            stored.messages.append(_message(self._last_seq, row))

    async def own(self, org: str, thread_id: str, user_id: str) -> Conversation | None:
        stored = self._threads.get((org, thread_id), {}).get(user_id)
        return stored.row if stored else None

    async def visible(self, principal: Principal, thread_id: str, *, skill_id: int | None = None) -> list[Conversation]:
        return self._seen(principal, thread_id, skill_id)

    async def page(
        self, principal: Principal, *, limit: int, before: tuple[int, int] | None = None, skill_id: int | None = None
    ) -> list[list[Conversation]]:
        org = principal.org_uuid
        threads = [thread for tenant, thread in self._threads if tenant == org]
        found = [parts for thread in threads if (parts := self._seen(principal, thread, skill_id))]
        found.sort(key=lambda parts: _place(parts[0]), reverse=True)
        return [parts for parts in found if before is None or _place(parts[0]) < before][:limit]

    async def message_sizes(
        self, conversations: Sequence[Conversation], *, limit: int, before: int | None = None
    ) -> list[MessageSize]:
        heads = [head for stored in self._find(conversations) for head, _ in stored.messages]
        newest_first = sorted(heads, key=lambda head: head.seq, reverse=True)
        return [head for head in newest_first if before is None or head.seq < before][:limit]

    async def messages(self, conversations: Sequence[Conversation], *, after: int, up_to: int) -> list[Message]:
        found = [message for stored in self._find(conversations) for _, message in stored.messages]
        wanted = [message for message in found if after < message.seq <= up_to]
        return [deepcopy(message) for message in sorted(wanted, key=lambda message: message.seq)]

    async def remove(self, conversation: Conversation, *, newest: int | None = None) -> bool:
        messages = [head for stored in self._find([conversation]) for head, _ in stored.messages]
        if newest is not None and any(head.seq > newest for head in messages):
            return False
        return self.forget(conversation)

    def forget(self, conversation: Conversation) -> bool:
        """The same without a coroutine."""
        found = self._find([conversation])
        for stored in found:
            del self._conversations[stored.row.key]
            del self._threads[stored.row.org, stored.row.thread_id][stored.row.user_id]
        return bool(found)

    def _get_or_create(self, execution: Execution, at: int) -> _StoredConversation:
        org, thread_id, user_id = execution.ref.org, execution.thread_id, execution.user_id
        thread = self._threads.setdefault((org, thread_id), {})
        if user_id not in thread:
            self._last_key += 1
            made = _StoredConversation(Conversation(org, self._last_key, thread_id, user_id, at, at))
            thread[user_id] = self._conversations[self._last_key] = made
        return thread[user_id]

    def _seen(self, principal: Principal, thread_id: str, skill_id: int | None) -> list[Conversation]:
        thread = self._threads.get((principal.org_uuid, thread_id), {})
        rows = [stored.row for stored in thread.values() if self._may_see(principal, stored)]
        wanted = [row for row in rows if skill_id is None or skill_id in row.skills]
        return sorted(wanted, key=_place, reverse=True)

    def _may_see(self, principal: Principal, stored: _StoredConversation) -> bool:
        if stored.row.user_id == principal.user_id:
            return True
        return any(self._usable(principal.org_uuid, principal, kind, number) for kind, number in stored.participants)

    def _find(self, conversations: Sequence[Conversation]) -> list[_StoredConversation]:
        found = [self._conversations.get(one.key) for one in conversations]
        return [
            stored for stored, one in zip(found, conversations, strict=True) if stored and stored.row.org == one.org
        ]


def _place(row: Conversation) -> tuple[int, int]:
    return row.updated_at, row.key


def _message(seq: int, row: MessageRow) -> tuple[MessageSize, Message]:
    calls = tuple(deepcopy(list(row.tool_calls)))
    own = row.type, row.id, row.content, calls, row.tool_call_id, row.skill_id, row.at
    return MessageSize(seq, row.type, row.length, row.skill_id, row.attached), Message(
        seq, *own, deepcopy(row.attachments)
    )
