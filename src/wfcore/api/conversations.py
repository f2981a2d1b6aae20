"""The shapes of conversations on the wire (interface, ConversationDto)."""

from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.domain.json.codec import Time


class MessageCall(TypedDict):
    """A tool that the model asked for; `args` is an object where the model kept to the form."""

    id: str
    name: str
    args: Any


class AttachedImage(TypedDict):
    mimeType: str
    storageKey: str
    tokens: int


class AttachedDocument(TypedDict, total=False):
    """`summary` where it was told in the place of the whole."""

    name: str
    storageKey: str
    summary: str
    tokens: Required[int]


class MessageAttachments(TypedDict):
    """What a message was sent with, by key, and about how many tokens each takes."""

    images: list[AttachedImage]
    documents: list[AttachedDocument]


class ConversationMessage(TypedDict, total=False):
    """`toolCallId` says which call a `tool` message answers. `attachments` are with a `human` one that had some."""

    type: Required[Literal["human", "ai", "tool", "system"]]
    content: Required[str]
    id: Required[str]
    toolCalls: Required[list[MessageCall]]
    toolCallId: str
    attachments: MessageAttachments


class ConversationDto(TypedDict, total=False):
    """What was said in a thread, as far as the caller may see it. `messages` are the newest, in order: all, if few.

    `nextPageToken` leads to the older ones; a list leaves it out.
    """

    threadId: Required[str]
    skillId: Required[Annotated[int, Meta(ge=0, description="0: no skill that the caller can use took part")]]
    messages: Required[list[ConversationMessage]]
    createdAt: Required[Time]
    updatedAt: Required[Time]
    nextPageToken: str | None
