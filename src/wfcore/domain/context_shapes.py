"""The shapes of an organization's context items on the wire."""

from typing import Annotated, Required, TypedDict

from msgspec import Meta

from wfcore.domain.codec import Time
from wfcore.domain.shapes import Body, Name

Content = Annotated[str, Meta(max_length=100_000, pattern=r"\S", description="Not blank")]


class PatchContextItem(Body, TypedDict, total=False):
    """What is present is changed."""

    title: Name
    content: Content


class CreateContextItem(Body, TypedDict, total=False):
    title: Required[Name]
    content: Required[Content]


class ContextItem(TypedDict):
    id: str
    title: str
    content: str
    createdAt: Time
    updatedAt: Time
