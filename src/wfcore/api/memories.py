"""The shapes of memories on the wire (interface, MemoryDto)."""

from typing import Annotated, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.domain.json.codec import JsonObject, Positive, Time
from wfcore.domain.json.values import UNSET, UnsetType, creation, value

Text = Annotated[str, Meta(max_length=100_000, pattern=r"\S", description="Not blank")]
Question = Annotated[str, Meta(max_length=2_000, description="Words to search for")]
Metadata = Annotated[JsonObject, Meta(description="Kept verbatim with the memory; at most 65,536 bytes as JSON")]
EndUser = Annotated[str, Meta(min_length=1, max_length=255, description="Id of the end user it is about")]


@value
class AboutUser(Body):
    user_id: EndUser | UnsetType = UNSET


@creation
class CreateMemory(AboutUser):
    memory: Text
    metadata: Metadata | UnsetType = UNSET


@value
class PatchMemory(Body):
    """The fields in `updateMask` are changed; without a mask, the present fields."""

    memory: Text | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


@value
class SearchMemories(AboutUser):
    """`limit` is 10 by default; more than 100 counts as 100."""

    query: Question
    limit: Positive | UnsetType = UNSET


class CreateMemoryFields(TypedDict, total=False):
    """`CreateMemory` as keyword arguments."""

    organization_id: str
    memory: str
    metadata: JsonObject
    user_id: str


class PatchMemoryFields(TypedDict, total=False):
    """`PatchMemory` as keyword arguments."""

    organization_id: str
    memory: str
    metadata: JsonObject


class SearchMemoriesFields(TypedDict, total=False):
    """`SearchMemories` as keyword arguments."""

    organization_id: str
    query: str
    limit: int
    user_id: str


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
