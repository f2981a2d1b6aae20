"""The messages of users and agents, by thread (interface, Conversation).

An append writes them (`Append.messages`), in the same transaction as its entries.

A thread id is data that clients choose; it does not identify anybody. A conversation therefore consists of the
messages of one user's runs in one thread. Messages go to the conversation of the user who started the execution, and
only that user's own runs add participants to it. A user who names another user's thread writes nothing into that
conversation and learns nothing new of it. Messages within a frame (of a subordinate, or of a called workflow) are not
part of the conversation.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal


@attrs.frozen
class Conversation:
    """The conversation of one user in one thread. Only the store creates one, because it carries the tenant.

    `skills` are the ids of the participants. Times are epoch milliseconds, of the first and of the latest message.
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
    """A message without its text. `length` is the size of the text and of the tool calls as JSON, in bytes of UTF-8;
    `attached` is the estimated number of tokens of its attachments.
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
        """Interface, Message. Only the result of a tool call has `toolCallId`."""
        result_of = {} if self.tool_call_id is None else {"toolCallId": self.tool_call_id}
        attached = {} if self.attachments is None else {"attachments": self.attachments}
        calls = list(self.tool_calls)
        return {"type": self.type, "content": self.content, "id": self.id, "toolCalls": calls, **result_of, **attached}


class ConversationRepository(Protocol):
    """Reads and deletes what the journal wrote."""

    async def own(self, org: str, thread_id: str, user_id: str) -> Conversation | None:
        """The conversation of this user in this thread, which the user's runs continue."""
        ...

    async def visible(self, principal: Principal, thread_id: str, *, skill_id: int | None = None) -> list[Conversation]:
        """The conversations of this thread that the principal can see, latest first.

        These are its own, and those with a participant (workflow or skill) that it can use. With `skill_id`: only
        those in which that skill participated.
        """
        ...

    async def page(
        self, principal: Principal, *, limit: int, before: tuple[int, int] | None = None, skill_id: int | None = None
    ) -> list[list[Conversation]]:
        """Threads, latest first, each as the conversations that `visible` returns of it.

        `before` is (`updated_at`, `key`) of a thread's first conversation: only older threads are returned.
        """
        ...

    async def message_sizes(
        self, conversations: Sequence[Conversation], *, limit: int, before: int | None = None
    ) -> list[MessageSize]:
        """The sizes of the newest messages of these conversations together, newest first, `seq` less than `before`.

        The cost grows with `limit`, not with the length of a conversation.
        """
        ...

    async def messages(self, conversations: Sequence[Conversation], *, after: int, up_to: int) -> list[Message]:
        """The messages of these conversations together with `after` < `seq` <= `up_to`, oldest first."""
        ...

    async def remove(self, conversation: Conversation, *, newest: int | None = None) -> bool:
        """Delete the conversation and all its messages; False when it does not exist any more.

        With `newest`: only while no message has a greater `seq`, else False.
        """
        ...
