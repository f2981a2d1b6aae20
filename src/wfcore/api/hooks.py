"""The shapes of hooks and of their deliveries on the wire."""

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from wfcore.api.connections import Url
from wfcore.api.resources import Body
from wfcore.domain.channels.hooks import DeliveryState, HookEvent
from wfcore.domain.json.codec import Time
from wfcore.domain.json.values import UNSET, UnsetType, creation, value

Events = Annotated[list[HookEvent], Meta(min_length=1, max_length=20, description="Each at most once")]
WorkflowId = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Secret = Annotated[str, Meta(description="Signs every message (Standard Webhooks); shown only here")]


@value
class HookFilter:
    """`workflowId`: only events of this workflow; null: of all that the hook's maker may use."""

    workflow_id: WorkflowId | UnsetType | None = UNSET


@value
class PatchHook(Body):
    """Present fields are changed. `filter: null` removes the filter."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    filter: HookFilter | UnsetType | None = UNSET
    is_enabled: bool | UnsetType = UNSET


@creation
class CreateHook(Body):
    url: Url
    events: Events
    filter: HookFilter | UnsetType = UNSET
    is_enabled: bool | UnsetType = UNSET


class PatchHookFields(TypedDict, total=False):
    """`PatchHook` as keyword arguments."""

    organization_id: str
    url: str
    events: list[HookEvent]
    filter: HookFilter | None
    is_enabled: bool


class CreateHookFields(TypedDict, total=False):
    """`CreateHook` as keyword arguments."""

    organization_id: str
    url: str
    events: list[HookEvent]
    filter: HookFilter
    is_enabled: bool


class HookFilterRecord(TypedDict):
    """`workflowId` null: events of all workflows that the maker may use."""

    workflowId: int | None


class HookDto(TypedDict):
    id: str
    url: str
    events: list[HookEvent]
    filter: HookFilterRecord
    isEnabled: bool
    createdBy: Annotated[str, Meta(description="Whose access the hook has: who made or last changed it")]


class NewHookDto(HookDto):
    secret: NotRequired[Secret]


class AttemptDto(TypedDict):
    at: Time
    status: Annotated[int | None, Meta(description="The HTTP status of the response; null: none arrived")]
    error: str | None
    ms: int


class DeliveryDto(TypedDict):
    id: str
    event: HookEvent
    webhookId: str
    status: DeliveryState
    attempts: list[AttemptDto]
    nextAttemptAt: Time | None
    createdAt: Time
