"""The shapes of managing workflows and skills beyond their own fields: versions, ownership, access, interfaces."""

from typing import Annotated, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.domain.channels.interfaces import InterfaceKind
from wfcore.domain.json.codec import JsonObject, NonEmpty, Time
from wfcore.domain.resources.access import By

KindOfInterface = Annotated[str, Meta(extra_json_schema={"enum": list(InterfaceKind)})]
MemberId = Annotated[str, Meta(min_length=1, max_length=255)]


class RollbackBody(Body, TypedDict, total=False):
    variationId: Required[NonEmpty]


class TransferBody(Body, TypedDict, total=False):
    """Who is to become the owner: a member, by exactly one of the two."""

    userId: MemberId
    email: str


class CreateInterface(Body, TypedDict, total=False):
    kind: Required[KindOfInterface]
    config: JsonObject


class PatchInterface(Body, TypedDict, total=False):
    """A `config` takes the place of the former one as a whole."""

    config: JsonObject


class DeployedVariationDto(TypedDict):
    """A variation that was deployed, by its latest deployment."""

    id: str
    deployedAt: Time
    deployedBy: str
    createdAt: Time
    createdBy: str
    isActive: bool


class DeployedVariations(TypedDict):
    variations: list[DeployedVariationDto]
    nextPageToken: str | None


class NextRun(TypedDict):
    """A firing to come. `local` is in the schedule's zone; `note` tells what a change of the clocks does to it."""

    at: Time
    local: str
    note: str | None


class NextRuns(TypedDict):
    nextRuns: list[NextRun]


class MissedSlot(TypedDict):
    """A slot without a run: nobody was there in time, the run before went on, or the run could not start."""

    at: Time
    reason: Literal["late", "overlap", "refused"]


class SchedulePause(TypedDict):
    """Why nothing will fire. For one of the first three reasons it has switched itself off."""

    reason: Literal[
        "deployer_gone",
        "deployer_lost_access",
        "input_refused",
        "deleted",
        "not_deployed",
        "no_schedule",
        "disabled",
        "never_fires",
    ]
    message: str


class ScheduleState(TypedDict):
    """How a schedule goes. It fires at `nextAt`, or `paused` tells why not."""

    isEnabled: bool
    nextAt: Time | None
    paused: SchedulePause | None
    overlap: Literal["skip", "allow"]
    lastRunId: str | None
    missed: list[MissedSlot]


class WebhookSecret(TypedDict):
    """Where messages that start runs are sent, and the secret that signs them (Standard Webhooks)."""

    url: str
    secret: str


class WorkflowInterface(TypedDict):
    id: str
    kind: KindOfInterface
    config: JsonObject
    createdAt: Time
    url: str


class WorkflowInterfaces(TypedDict):
    interfaces: list[WorkflowInterface]
    nextPageToken: str | None


class Deleted(TypedDict):
    deleted: int


class AccessGrant(TypedDict):
    """One line of an access configuration: what `rule` gives to whom."""

    subjectType: Literal["group", "user", "email"]
    subject: str
    use: bool
    manage: bool
    rule: By


class AccessExplanationDto(TypedDict, total=False):
    """Every grant there is; of one member, what it may do and the grants that decided."""

    userId: str
    canUse: bool
    canManage: bool
    manageDenial: Literal["not_owner", "needs_group_manage"] | None
    grants: Required[list[AccessGrant]]


class SupervisionLinks(TypedDict):
    supervisionSubordinateIds: list[str]
    supervisionSubordinateDescriptions: dict[str, str]
