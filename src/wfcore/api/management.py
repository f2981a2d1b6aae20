"""The shapes of managing workflows and skills: versions, ownership, access, schedules, interfaces, evaluations."""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.domain.channels.interfaces import InterfaceKind, config_shape
from wfcore.domain.evaluations.cases import CheckKind
from wfcore.domain.json.codec import JsonObject, NonEmpty, Time
from wfcore.domain.json.values import UNSET, Holds, UnsetType, creation, value
from wfcore.domain.resources.access import By, ManageDenial
from wfcore.domain.triggers.schedule import Overlap

KindOfInterface = Annotated[str, Meta(extra_json_schema={"enum": list(InterfaceKind)})]
MemberId = Annotated[str, Meta(min_length=1, max_length=255)]


@value
class RollbackBody(Body):
    variation_id: NonEmpty


@value
class TransferBody(Body):
    """The new owner: a member, by exactly one of `userId` and `email`."""

    user_id: MemberId | UnsetType = UNSET
    email: str | UnsetType = UNSET


@creation
class CreateInterface(Body):
    kind: KindOfInterface
    config: Annotated[JsonObject, Holds(config_shape)] | UnsetType = UNSET


@value
class PatchInterface(Body):
    """A `config` replaces the former one as a whole."""

    config: JsonObject | UnsetType = UNSET


class RollbackFields(TypedDict, total=False):
    """`RollbackBody` as keyword arguments."""

    organization_id: str
    variation_id: str


class TransferFields(TypedDict, total=False):
    """`TransferBody` as keyword arguments."""

    organization_id: str
    user_id: str
    email: str


class PatchInterfaceFields(TypedDict, total=False):
    """`PatchInterface` as keyword arguments."""

    organization_id: str
    config: JsonObject


class CreateInterfaceFields(PatchInterfaceFields, total=False):
    """`CreateInterface` as keyword arguments."""

    kind: KindOfInterface


class DeployedVariationDto(TypedDict):
    """A variation that was deployed, with its latest deployment."""

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
    """A future firing. `local` is in the schedule's zone; `note` describes the effect of a clock change."""

    at: Time
    local: str
    note: str | None


class NextRuns(TypedDict):
    nextRuns: list[NextRun]


class MissedSlot(TypedDict):
    """A slot without a run: no server was up in time, the run before had not ended, or the run could not start."""

    at: Time
    reason: Literal["late", "overlap", "refused"]


class SchedulePause(TypedDict):
    """Why the schedule will not fire. For one of the first three reasons the server has disabled it."""

    reason: Literal[
        "deployer_gone",
        "deployer_lost_access",
        "input_refused",
        "unknown_timezone",
        "deleted",
        "not_deployed",
        "no_schedule",
        "disabled",
        "never_fires",
    ]
    message: str


class ScheduleState(TypedDict):
    """The state of a schedule. It fires at `nextAt`, or `paused` has the reason why not."""

    isEnabled: bool
    nextAt: Time | None
    paused: SchedulePause | None
    overlap: Overlap
    lastRunId: str | None
    missed: list[MissedSlot]


class ListedSchedule(ScheduleState):
    """An active workflow with a schedule, its state, and its next times, enabled or not."""

    id: int
    slug: str
    name: str
    canManage: bool
    nextRuns: list[NextRun]


class ListedSchedules(TypedDict):
    schedules: list[ListedSchedule]
    nextPageToken: str | None


class WebhookSecret(TypedDict):
    """The URL for messages that start runs, and the secret that signs them (Standard Webhooks)."""

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
    """One grant of an access configuration: the rights that `rule` gives to a subject."""

    subjectType: Literal["group", "user", "email"]
    subject: str
    use: bool
    manage: bool
    rule: By


class AccessExplanationDto(TypedDict, total=False):
    """Every grant; for one member, its rights and the grants that give them."""

    userId: str
    canUse: bool
    canManage: bool
    manageDenial: ManageDenial | None
    grants: Required[list[AccessGrant]]


class SupervisionLinks(TypedDict):
    supervisionSubordinateIds: list[str]
    supervisionSubordinateDescriptions: dict[str, str]


class EvaluationStarted(TypedDict):
    """`id` is the `evaluationId` of the results."""

    id: str


class CheckResultDto(TypedDict):
    """`message` says why the check has not passed; it is empty if the check has passed."""

    kind: CheckKind
    passed: bool
    message: str


class EvaluatedCall(TypedDict):
    """A call of a tool: `output` is that of the stub, or null; `error` says why the call was not made."""

    tool: str
    args: Any
    output: NotRequired[Any]
    error: NotRequired[JsonObject]


class EvaluationResultDto(TypedDict):
    """The newest result of a case of one variation. `passed` is null as long as the run has not ended.

    `cost` is null for models without a price; `error` is why the run did not end well.
    """

    caseId: str
    name: str | None
    required: bool
    variationId: str
    evaluationId: str
    runId: str
    passed: bool | None
    at: Time
    checks: list[CheckResultDto]
    output: Any
    toolCalls: list[EvaluatedCall]
    cost: float | None
    error: str | None


class CaseComparison(TypedDict):
    """Whether a case has passed, by the id of the variation; null where it has no result."""

    caseId: str
    name: str | None
    passed: dict[str, bool | None]


class EvaluationResultsDto(TypedDict):
    results: list[EvaluationResultDto]
    comparison: list[CaseComparison]
