"""The shapes of memories on the wire (interface, MemoryDto)."""

from typing import Annotated, Required, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.domain.json.codec import JsonObject, Positive, Time

Text = Annotated[str, Meta(pattern=r"\S", description="Not blank")]
Question = Annotated[str, Meta(max_length=2_000, description="Words to search for")]
EndUser = Annotated[str, Meta(min_length=1, max_length=255, description="Id of the end user it is about")]


class AboutUser(TypedDict, total=False):
    userId: EndUser


class CreateMemory(Body, AboutUser, total=False):
    memory: Required[Text]
    metadata: JsonObject


class PatchMemory(Body, total=False):
    """The fields in `updateMask` are changed; without a mask, the present fields."""

    memory: Text
    metadata: JsonObject


class SearchMemories(Body, AboutUser, total=False):
    """`limit` is 10 by default; more than 100 counts as 100."""

    query: Required[Question]
    limit: Positive


class MemoryDto(TypedDict):
    id: str
    memory: str
    hash: str
    metadata: JsonObject
    createdAt: Time
    updatedAt: Time


class FoundMemories(TypedDict):
    """The best match is first."""

    memories: list[MemoryDto]
