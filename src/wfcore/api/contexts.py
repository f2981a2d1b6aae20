"""The shapes of an organization's context items, and of composed contexts, on the wire."""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, ModelSettingsDto, Name
from wfcore.api.runs import Key, RunConfig
from wfcore.domain.json.codec import JsonObject, Time

Content = Annotated[str, Meta(max_length=100_000, pattern=r"\S", description="Not blank")]


class PatchContextItem(Body, TypedDict, total=False):
    """What is present is changed."""

    title: Name
    content: Content


class CreateContextItem(Body, TypedDict, total=False):
    title: Required[Name]
    content: Required[Content]


class ContextItemDto(TypedDict):
    id: str
    title: str
    content: str
    createdAt: Time
    updatedAt: Time


class AssistantContext(Body, TypedDict, total=False):
    """What the run would say. Without a `message` nobody has told the agent anything yet."""

    message: str
    sessionId: Key
    fileThreadId: Key
    config: RunConfig


class SkillContext(AssistantContext, total=False):
    """`view` chooses the variation; `instructions` are added to the skill's, as those of a node are."""

    view: Literal["active", "draft"]
    instructions: str


class ContextMessage(TypedDict):
    """A message as the model gets it; what is attached to it stands by its keys."""

    type: Literal["human", "ai", "tool", "system"]
    content: str
    toolCalls: NotRequired[list[JsonObject]]
    toolCallId: NotRequired[str]
    attachments: NotRequired[JsonObject]


class ContextTool(TypedDict):
    """What the model is told of a tool: `name`, `description` and `parameters`; and what the name stands for."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    toolId: str
    kind: Literal["tool", "skill", "workflow"]
    description: str
    parameters: Any
    requiresApproval: bool
    digest: str
    resourceId: NotRequired[int]
    connection: NotRequired[str]


class ContextSegment(TypedDict):
    """One part of a context: where it is from, about how many tokens it takes, and why it is in."""

    source: str
    ref: str | None
    tokens: int
    why: str


class ContextLeftOut(TypedDict):
    """What the agent is not told or offered, and why not."""

    source: str
    ref: str | None
    why: str


class ComposedContext(TypedDict):
    """What a run would send to its model."""

    messages: list[ContextMessage]
    model: str
    settings: ModelSettingsDto
    tools: list[ContextTool]
    segments: list[ContextSegment]
    leftOut: list[ContextLeftOut]
    tokenEstimate: int
    contextWindow: int
    digest: str
