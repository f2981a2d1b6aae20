"""The shapes of requests and responses (interface, Resources and Endpoints), one declaration each.

`codec.check` and the OpenAPI document use the same shape. It is a TypedDict: a checked body stays the plain dict of
the request. Requests refuse unknown keys; responses may get more keys.

Domain modules check triggers, structures, selections and access configurations, whose rules a schema cannot express.
Requests hold them as objects (`TriggerJson`, ...) with a reference to the full schema.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Required, TypedDict, is_typeddict

import attrs
from msgspec import Meta

from wfcore.domain.channels.interfaces import config_shape
from wfcore.domain.evaluations.cases import EvaluationCase
from wfcore.domain.graph.declared import value_classes
from wfcore.domain.graph.node_types import NODE_TYPES
from wfcore.domain.graph.shapes import AgentSelection, SelectionJson, StructureJson, WorkflowStructure
from wfcore.domain.json.codec import (
    VISIBLE,
    JsonObject,
    Positive,
    Seconds,
    Time,
    closed,
    component_name,
    schema_ref,
    schemas_of,
)
from wfcore.domain.json.values import (
    IGNORED,
    UNSET,
    Holds,
    UnsetType,
    creation,
    is_open,
    is_value,
    open_creation,
    value,
    wire,
)
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.ids import SLUG_FORM, SLUG_LENGTH
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import TOKEN_SCOPES, ManageDenial, Visibility
from wfcore.domain.resources.content import BudgetDto, ToolSetting
from wfcore.domain.resources.lifecycle import StatusName
from wfcore.domain.triggers.schedule import Overlap

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=VISIBLE)]
Slug = Annotated[str, Meta(min_length=1, max_length=SLUG_LENGTH, pattern=SLUG_FORM, examples=["refunds"])]
TokenScope = Annotated[str, Meta(extra_json_schema={"enum": list(TOKEN_SCOPES)})]
WorkflowType = Annotated[Literal["task", "workflow"], Meta(description="`task` is deprecated: `workflow`")]

_ERRORS: Final = (WfcoreError, *WfcoreError.__subclasses__())
ErrorCode = Annotated[str, Meta(extra_json_schema={"enum": sorted({kind.code for kind in _ERRORS})})]
ErrorStatus = Annotated[str, Meta(extra_json_schema={"enum": sorted({kind.status for kind in _ERRORS})})]

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


@creation
class ScheduleDto:
    frequency: Literal["hourly", "daily", "weekly", "monthly", "custom"]
    timezone: str
    time_of_day: Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$", examples=["09:30"])] | UnsetType = (
        attrs.field(default=UNSET, metadata=wire("time_of_day"))
    )
    weekdays: list[Weekday] | UnsetType = UNSET
    day_of_month: Annotated[int, Meta(ge=1, le=31)] | UnsetType = attrs.field(
        default=UNSET, metadata=wire("day_of_month")
    )
    cron_expressions: list[str] | UnsetType = attrs.field(default=UNSET, metadata=wire("cron_expressions"))
    cron_description: Annotated[str, Meta(description="Carried verbatim, for people")] | UnsetType = attrs.field(
        default=UNSET, metadata=wire("cron_description")
    )


@open_creation
class ScheduleTrigger:
    trigger_type: Literal["schedule"] = attrs.field(metadata=wire("trigger_type"))
    schedule: ScheduleDto
    overlap: (
        Annotated[
            Overlap,
            Meta(description="While a run of an earlier time is active: `skip` the time, by default, or `allow` it"),
        ]
        | UnsetType
    ) = UNSET


class OtherTrigger(TypedDict):
    """Only a `schedule` trigger has its payload validated (interface, Trigger)."""

    trigger_type: Literal["webhook", "api", "chatapp", "manual"]


@creation
class RunModelSettings:
    context_window: Positive | UnsetType = UNSET


class GroupPermission(TypedDict):
    use: bool
    manage: bool


class SharedUserDto(TypedDict, total=False):
    email: Required[str]
    addedAt: str
    addedBy: str
    userId: str


@creation
class SharedUserBody:
    email: str
    added_at: str | UnsetType = UNSET
    added_by: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET


_GUARDRAIL: Final[dict[str, JSON]] = {"anyOf": [{"type": "string"}, {"type": "object", "required": ["name"]}]}
GuardrailJson = Annotated[Any, Meta(extra_json_schema=_GUARDRAIL)]


@creation
class AccessConfigBody:
    """A client may write back what it read; the server keeps its own `addedAt`, `addedBy` and owner."""

    visibility: Visibility
    group_permissions: dict[str, GroupPermission] | UnsetType = UNSET
    shared_with: list[SharedUserBody] | UnsetType = UNSET
    owner_user_id: str | None = None
    owner_email: str | None = None
    guardrails: list[GuardrailJson] | UnsetType = UNSET


def _trigger_shape(trigger: Mapping[str, JSON], body: Mapping[str, JSON]) -> type | None:
    """The other kinds are opaque (interface, Trigger)."""
    return ScheduleTrigger if trigger.get("trigger_type") == "schedule" else None


TriggerJson = Annotated[
    JsonObject, Meta(extra_json_schema={"$ref": "#/components/schemas/Trigger"}), Holds(_trigger_shape)
]
AccessJson = Annotated[
    JsonObject, Meta(extra_json_schema=schema_ref(AccessConfigBody)), Holds(lambda *_: AccessConfigBody)
]


IgnoredOrganization = Annotated[Any, Meta(description="Ignored: the organization is that of the credential")]


@value
class Body:
    """`organizationId` is accepted and ignored: the principal's organization is used (interface, Authentication)."""

    organization_id: IgnoredOrganization | UnsetType = attrs.field(default=UNSET, metadata=IGNORED)


@creation
class CreateWorkflow(Body):
    name: Name
    type: WorkflowType
    slug: Slug | UnsetType = UNSET
    description: str | UnsetType = UNSET
    trigger: TriggerJson | UnsetType = UNSET
    agent_selection: SelectionJson | UnsetType = UNSET
    workflow_structure: StructureJson | UnsetType = UNSET
    access_config: AccessJson | UnsetType = UNSET


@value
class PatchWorkflow(Body):
    """Present fields are changed; null clears a field that may be null."""

    name: Name | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    trigger: TriggerJson | UnsetType | None = UNSET
    agent_selection: SelectionJson | UnsetType | None = UNSET
    workflow_structure: StructureJson | UnsetType | None = UNSET
    access_config: AccessJson | UnsetType = UNSET


@value
class ValidateBody(PatchWorkflow):
    type: WorkflowType | UnsetType = UNSET
    slug: Slug | UnsetType = UNSET


@value
class ToggleBody(Body):
    is_enabled: bool | UnsetType = UNSET


@value
class Supervision(Body):
    supervision_subordinate_ids: list[str] | UnsetType = UNSET
    supervision_subordinate_descriptions: dict[str, str] | UnsetType = UNSET


@creation
class SkillInterface:
    """An interface of the skill, one of a kind. `url` is the server's: it is ignored."""

    kind: Literal["chatapp", "mcp"]
    config: Annotated[JsonObject, Holds(config_shape)] | UnsetType = UNSET
    url: str | UnsetType = UNSET


@value
class SkillBody(Supervision):
    access_config: AccessJson | UnsetType = UNSET
    budget: BudgetDto | UnsetType = UNSET
    expected_output: str | UnsetType = UNSET
    instructions: list[str] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    toolset: dict[str, ToolSetting] | UnsetType = UNSET
    connection_set: list[JsonObject] | UnsetType = UNSET
    context_selections: list[JsonObject] | UnsetType = UNSET
    evaluations: list[EvaluationCase] | UnsetType = UNSET
    interfaces: list[SkillInterface] | UnsetType = UNSET


@creation
class CreateSkill(SkillBody):
    name: Name
    slug: Slug | UnsetType = UNSET
    description: str | UnsetType = UNSET


@value
class PatchSkill(SkillBody):
    name: Name | UnsetType = UNSET
    description: str | UnsetType | None = UNSET


@value
class ValidateSkill(PatchSkill):
    slug: Slug | UnsetType = UNSET


@value
class DeploySkill(Body):
    force: Annotated[bool, Meta(description="Deploy although required evaluations have not passed")] | UnsetType = UNSET


@creation
class CreateToken(Body):
    name: Name
    scopes: list[TokenScope]
    expires_in_seconds: Seconds | UnsetType = UNSET


class PatchWorkflowFields(TypedDict, total=False):
    """`PatchWorkflow` as keyword arguments; `structure` and `access` are short names."""

    organization_id: str
    name: str
    description: str | None
    trigger: JsonObject | None
    agent_selection: JsonObject | None
    workflow_structure: Mapping[str, Any] | None
    structure: Mapping[str, Any] | None
    access_config: JsonObject
    access: JsonObject


class CreateWorkflowFields(PatchWorkflowFields, total=False):
    """`CreateWorkflow` as keyword arguments."""

    type: WorkflowType
    slug: str


class ToggleFields(TypedDict, total=False):
    """`ToggleBody` as keyword arguments."""

    organization_id: str
    is_enabled: bool


class SupervisionFields(TypedDict, total=False):
    """`Supervision` as keyword arguments."""

    organization_id: str
    supervision_subordinate_ids: list[str]
    supervision_subordinate_descriptions: dict[str, str]


class PatchSkillFields(SupervisionFields, total=False):
    """`PatchSkill` as keyword arguments; `access` is short for `access_config`."""

    name: str
    description: str | None
    access_config: JsonObject
    access: JsonObject
    budget: BudgetDto | JsonObject
    expected_output: str
    instructions: list[str]
    model: str
    toolset: Mapping[str, ToolSetting | JsonObject]
    connection_set: list[JsonObject]
    context_selections: list[JsonObject]
    evaluations: list[EvaluationCase] | list[JsonObject]
    interfaces: list[JsonObject]


class CreateSkillFields(PatchSkillFields, total=False):
    """`CreateSkill` as keyword arguments."""

    slug: str


class DeploySkillFields(TypedDict, total=False):
    """`DeploySkill` as keyword arguments."""

    organization_id: str
    force: bool


class CreateTokenFields(TypedDict, total=False):
    """`CreateToken` as keyword arguments."""

    organization_id: str
    name: str
    scopes: list[str]
    expires_in_seconds: int


class AccessConfigDto(TypedDict, total=False):
    visibility: Required[Visibility]
    groupPermissions: Required[dict[str, GroupPermission]]
    sharedWith: Required[list[SharedUserDto]]
    ownerUserId: str | None
    ownerEmail: str | None
    guardrails: list[Any]


class PendingOwnershipTransfer(TypedDict, total=False):
    pendingOwnerUserId: Required[str]
    pendingOwnerEmail: str | None
    requestedByUserId: Required[str]
    requestedAt: Required[Time]


class ResourceDto(TypedDict, total=False):
    id: Required[int]
    slug: Required[str]
    name: Required[str]
    description: str | None
    status: Required[StatusName]
    orgUuid: Required[str]
    activeVariationId: str | None
    draftVariationId: str | None
    hasUnpublishedChanges: Required[bool]
    accessConfig: Required[AccessConfigDto]
    pendingOwnershipTransfer: PendingOwnershipTransfer | None
    createdAt: Required[Time]
    updatedAt: Required[Time]
    deletedAt: Time | None
    canManage: Required[bool]
    canUse: Required[bool]
    manageDenial: Required[ManageDenial | None]


class VariationDto(TypedDict, total=False):
    trigger: TriggerJson | None
    workflowStructure: WorkflowStructure | None
    agentSelection: AgentSelection | None


class Workflow(ResourceDto, total=False):
    type: Required[WorkflowType]
    isEnabled: Required[bool]
    variation: VariationDto | None


class Scope(ResourceDto, total=False):
    variation: SkillBody | None


class ErrorBody(TypedDict, total=False):
    code: Required[ErrorCode]
    status: Required[ErrorStatus]
    message: Required[str]
    requestId: Required[str]
    info: JsonObject


class ErrorEnvelope(TypedDict):
    error: ErrorBody


_NODE_DATA: Final = tuple(declared.data for declared in NODE_TYPES.values())
_FREE: Final = (ScheduleTrigger, OtherTrigger, WorkflowStructure, AgentSelection)
_WITH_FREE_KEYS: Final = {*_FREE, *(cls for data in _NODE_DATA for cls in value_classes(data) if is_open(cls))}

_TRIGGER: Final[JSON] = {"anyOf": [schema_ref(ScheduleTrigger), schema_ref(OtherTrigger)]}


def schema_components(*others: type) -> dict[str, JSON]:
    """The schemas of the shapes in this module and of `others`, by name, for `components.schemas` of OpenAPI 3.1."""
    own = [shape for name, shape in globals().items() if _is_shape(shape) and not name.endswith("Fields")]
    shapes = [*own, *_NODE_DATA, *others]
    bodies = [shape for shape in shapes if issubclass(shape, Body)]
    free = {component_name(shape) for shape in _WITH_FREE_KEYS}
    sent = schemas_of([*bodies, AccessConfigBody, *_FREE, *_NODE_DATA]).keys() - free
    schemas = {name: closed(schema) if name in sent else schema for name, schema in schemas_of(shapes).items()}
    return {**schemas, "Trigger": _TRIGGER}


def _is_shape(shape: object) -> bool:
    return is_typeddict(shape) or is_value(shape)
