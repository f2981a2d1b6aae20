"""The shapes of an organization's context items, and of composed contexts, on the wire."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, Name
from wfcore.api.runs import Key, RunConfig, ThreadId
from wfcore.domain.agents.end_users import UserContext
from wfcore.domain.graph.node_types import ModelSettingsDto
from wfcore.domain.json.codec import JsonObject, Time
from wfcore.domain.json.values import UNSET, UnsetType, creation, value

Content = Annotated[str, Meta(max_length=100_000, pattern=r"\S", description="Not blank")]


@value
class PatchContextItem(Body):
    """Present fields are changed."""

    title: Name | UnsetType = UNSET
    content: Content | UnsetType = UNSET


@creation
class CreateContextItem(Body):
    title: Name
    content: Content


class ContextItemFields(TypedDict, total=False):
    """`CreateContextItem` and `PatchContextItem` as keyword arguments."""

    organization_id: str
    title: str
    content: str


class ContextItemDto(TypedDict):
    id: str
    title: str
    content: str
    createdAt: Time
    updatedAt: Time


@value
class AssistantContext(Body):
    """The body of the run whose context is composed; `message` is optional."""

    message: str | UnsetType = UNSET
    session_id: Key | UnsetType = UNSET
    file_thread_id: ThreadId | UnsetType = UNSET
    config: RunConfig | UnsetType = UNSET
    user_context: UserContext | UnsetType = UNSET


@value
class SkillContext(AssistantContext):
    """`view` selects the variation; `instructions` are added to those of the skill, as for a node."""

    view: Literal["active", "draft"] | UnsetType = UNSET
    instructions: str | UnsetType = UNSET


class AssistantContextFields(TypedDict, total=False):
    """`AssistantContext` as keyword arguments."""

    organization_id: str
    message: str
    session_id: str
    file_thread_id: str
    config: RunConfig | JsonObject
    user_context: UserContext | JsonObject


class SkillContextFields(AssistantContextFields, total=False):
    """`SkillContext` as keyword arguments."""

    view: Literal["active", "draft"]
    instructions: str


class ContextMessage(TypedDict):
    """A message for the model; attachments are given by their keys."""

    type: Literal["human", "ai", "tool", "system"]
    content: str
    toolCalls: NotRequired[list[JsonObject]]
    toolCallId: NotRequired[str]
    attachments: NotRequired[JsonObject]


class ContextTool(TypedDict):
    """A tool: `name`, `description` and `parameters` for the model, and the tool that `name` stands for."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    toolId: str
    kind: Literal["tool", "skill", "workflow"]
    description: str
    parameters: Any
    requiresApproval: bool
    digest: str
    resourceId: NotRequired[int]
    variationId: NotRequired[Annotated[str, Meta(description="What a call of the workflow or skill would run")]]
    connection: NotRequired[str]
    title: NotRequired[Annotated[str, Meta(description="A readable name, if it is not `toolId`")]]


class ContextSegment(TypedDict):
    """One part of a context: its source, an estimate of its tokens, and why it is in the context."""

    source: str
    ref: str | None
    tokens: int
    why: str


class ContextLeftOut(TypedDict):
    """A possible part of a context that is not in it, and why."""

    source: str
    ref: str | None
    why: str


class ComposedContext(TypedDict):
    """The request that a run would send to its model."""

    messages: list[ContextMessage]
    model: str
    settings: ModelSettingsDto
    tools: list[ContextTool]
    segments: list[ContextSegment]
    leftOut: list[ContextLeftOut]
    tokenEstimate: int
    contextWindow: int
    digest: str
