"""The shapes of conversations on the wire (interface, ConversationDto)."""

from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.domain.json.codec import Time


class MessageCall(TypedDict):
    """A tool call of the model; `args` is an object, or the text of the model if it is not valid JSON."""

    id: str
    name: str
    args: Any


class AttachedImage(TypedDict):
    mimeType: str
    storageKey: str
    tokens: int


class AttachedDocument(TypedDict, total=False):
    """`summary` if the message has it instead of the text."""

    name: str
    storageKey: str
    summary: str
    tokens: Required[int]


class MessageAttachments(TypedDict):
    """The attachments of a message, by key, each with an estimate of its tokens."""

    images: list[AttachedImage]
    documents: list[AttachedDocument]


class ConversationMessage(TypedDict, total=False):
    """`toolCallId` is the call of a `tool` message. `attachments` are those of a `human` message."""

    type: Required[Literal["human", "ai", "tool", "system"]]
    content: Required[str]
    id: Required[str]
    toolCalls: Required[list[MessageCall]]
    toolCallId: str
    attachments: MessageAttachments


class ConversationDto(TypedDict, total=False):
    """The messages of a thread that the caller may see; `messages` are the newest ones, in order.

    `nextPageToken` leads to older ones; items of a list do not have it.
    """

    threadId: Required[str]
    skillId: Required[Annotated[int, Meta(ge=0, description="0: no skill that the caller can use took part")]]
    messages: Required[list[ConversationMessage]]
    createdAt: Required[Time]
    updatedAt: Required[Time]
    nextPageToken: str | None
