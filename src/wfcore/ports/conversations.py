"""ConversationRepository: what users and agents said to each other, by thread (interface, Conversation).

Their rows are written by the journal: the message records of an append, in the same transaction as its entries.

A thread id is data that clients choose, never identity. So a conversation is what the runs of one user said in one
thread: messages go to the conversation of who started the execution, whatever the thread is called, and only a user's
own runs make a workflow or skill take part in it. Whoever names a thread of somebody else writes nothing into that
one's conversation, and is told nothing of it that could not be seen before. What is said within a frame (by a
subordinate, or in a workflow that was called) is no turn of the conversation and takes no part in it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.records import MessageRecord


@attrs.frozen
class Conversation:
    """What one user and the agents said in one thread. Obtained from the store, never made up: it carries the tenant.

    `skills` took part, by id. Times are epoch milliseconds, of the first and of the latest message.
    """

    org: str
    key: int
    thread_id: str
    user_id: str
    created_at: int
    updated_at: int
    skills: tuple[int, ...] = ()


@attrs.frozen
class MessageSize:
    """A message without its text. `length` is that of the text and of the tool calls as JSON, in bytes of UTF-8;
    `attached` are the tokens of its attachments as estimated.
    """

    seq: int
    type: str
    length: int
    skill_id: int | None
    attached: int = 0


@attrs.frozen
class Message:
    """One message as it was recorded. `seq` grows with every message of a store."""

    seq: int
    type: str
    id: str
    content: str
    tool_calls: tuple[JSON, ...]
    tool_call_id: str | None
    skill_id: int | None
    at: int
    attachments: Mapping[str, JSON] | None = None

    def to_wire(self) -> dict[str, JSON]:
        """Interface, Message. `toolCallId` is there when it answers a tool call."""
        answered = {} if self.tool_call_id is None else {"toolCallId": self.tool_call_id}
        attached = {} if self.attachments is None else {"attachments": self.attachments}
        calls = list(self.tool_calls)
        return {"type": self.type, "content": self.content, "id": self.id, "toolCalls": calls, **answered, **attached}


class ConversationRepository(Protocol):
    """Reading what the journal wrote, and forgetting it."""

    async def own(self, org: str, thread_id: str, user_id: str) -> Conversation | None:
        """The conversation of this user in this thread: the one that a run of the user carries on."""
        ...

    async def visible(self, principal: Principal, thread_id: str, *, skill_id: int | None = None) -> list[Conversation]:
        """Those of this thread that the principal may see, latest first; with `skill_id`, if that skill took part.

        Visible are its own, and those in which a workflow or skill took part whose grants let it use them.
        """
        ...

    async def page(
        self, principal: Principal, *, limit: int, before: tuple[int, int] | None = None, skill_id: int | None = None
    ) -> list[list[Conversation]]:
        """Threads, latest first, each as what `visible` gives of it.

        `before` is the place of a thread, (`updated_at`, `key`) of its first conversation: those behind it.
        """
        ...

    async def heads(
        self, conversations: Sequence[Conversation], *, limit: int, before: int | None = None
    ) -> list[MessageSize]:
        """The newest messages of these together, newest first, with a `seq` less than `before`.

        The cost grows with `limit`, not with the length of a conversation.
        """
        ...

    async def messages(self, conversations: Sequence[Conversation], *, after: int, up_to: int) -> list[Message]:
        """The messages of these together with `after` < `seq` <= `up_to`, oldest first."""
        ...

    async def remove(self, conversation: Conversation) -> bool:
        """Forget the conversation and all its messages; False when it is gone already."""
        ...


def said(records: Sequence[object]) -> list[MessageRecord]:
    """The records that are turns of the conversation."""
    return [record for record in records if isinstance(record, MessageRecord) and not record.path]


def length_of(record: MessageRecord) -> int:
    """What `MessageSize.length` says."""
    calls = json.dumps(list(record.tool_calls), ensure_ascii=False, separators=(",", ":")) if record.tool_calls else ""
    return len(record.content.encode()) + len(calls.encode())
