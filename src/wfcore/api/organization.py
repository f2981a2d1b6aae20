"""The shapes of members, groups, tokens, delegations, policies, the audit and the catalog of tools.

`CreateToken` is in `resources`.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import attrs
from msgspec import Meta

from wfcore.api.resources import Body, Name, TokenScope
from wfcore.domain.json.codec import JsonObject, Positive, Time
from wfcore.domain.json.values import UNSET, UnsetType, creation, value, wire
from wfcore.domain.kernel.errors import Severity

UserId = Annotated[str, Meta(min_length=1, max_length=255, description="As the identity provider names the user")]
RoleName = Literal["owner", "admin", "member"]
GroupIds = Annotated[list[str], Meta(max_length=1_000, description="UUIDs; the implicit group is left out")]


@value
class PatchMember(Body):
    """Present fields are changed."""

    email: str | UnsetType | None = UNSET
    name: Name | UnsetType | None = UNSET
    role: RoleName | UnsetType = UNSET
    groups: GroupIds | UnsetType = UNSET


@creation
class CreateMember(PatchMember):
    user_id: UserId


@value
class EraseMember(Body):
    """`transfer_to` becomes the owner of what the member owns; without it, private resources are erased."""

    transfer_to: UserId | UnsetType = UNSET


class EraseMemberFields(TypedDict, total=False):
    """`EraseMember` as keyword arguments."""

    transfer_to: str


class ProgressDto(TypedDict):
    done: int
    total: int


class ErasureDto(TypedDict):
    id: str
    status: Literal["running", "done"]
    progress: ProgressDto


class PatchMemberFields(TypedDict, total=False):
    """`PatchMember` as keyword arguments."""

    organization_id: str
    email: str | None
    name: str | None
    role: RoleName
    groups: list[str]


class CreateMemberFields(PatchMemberFields, total=False):
    """`CreateMember` as keyword arguments."""

    user_id: str


class GroupFields(TypedDict, total=False):
    """`CreateGroup` and `PatchGroup` as keyword arguments."""

    organization_id: str
    name: str


class MemberDto(TypedDict):
    userId: str
    email: str | None
    name: str | None
    role: RoleName
    groups: list[str]


@creation
class CreateGroup(Body):
    name: Name


@value
class PatchGroup(Body):
    name: Name | UnsetType = UNSET


class GroupDto(TypedDict):
    id: str
    name: str


class TokenDto(TypedDict):
    """A personal access token without its secret."""

    id: str
    name: str
    userId: str
    scopes: list[TokenScope]
    createdAt: Time
    expiresAt: Time | None
    revokedAt: Time | None


class NewToken(TokenDto):
    """The response to the creation, which is the only one with the token."""

    token: str


class AuditResource(TypedDict):
    type: str
    id: str


class AuditEntry(TypedDict):
    """Who did what to which resource, when and from where. `userId` is null for the operator."""

    at: Time
    userId: str | None
    action: Annotated[str, Meta(examples=["workflow.deploy", "member.create", "run.resume"])]
    resource: AuditResource
    details: JsonObject
    requestId: str | None
    remoteAddress: str | None


class ListedAuditEntry(AuditEntry):
    """`userName` and `resourceName` are to be shown beside the ids: the current names of members, and of workflows and
    skills that the caller can see, for a run that of its workflow or skill (`details.target`), and the names that other
    records had at that time. Null for what has none, and for what is gone.
    """

    userName: str | None
    resourceName: str | None


class AuditPage(TypedDict):
    audit: list[ListedAuditEntry]
    nextPageToken: str | None


class ToolDto(TypedDict):
    """A tool of the catalog; `parameters` is the JSON Schema of its arguments, `outputSchema` that of its result (null
    where it is not known). `group` is what a catalog lists it under, such as the name of its server.

    With a `provider` it needs the organization's connection to that service. With a `connectionId` it belongs to the
    MCP server of that connection.
    """

    id: str
    name: str
    description: str
    parameters: Any
    outputSchema: Any
    group: str | None
    builtIn: bool
    idempotent: bool
    provider: str | None
    connectionId: str | None


class ToolServer(TypedDict):
    """An MCP server: `problem` is the reason why its tools are missing, `leftOut` has the reasons for single tools."""

    connectionId: str
    name: str
    problem: str | None
    leftOut: dict[str, str]


class ToolPage(TypedDict):
    tools: list[ToolDto]
    nextPageToken: str | None
    servers: list[ToolServer]


From = Annotated[str, Meta(min_length=1, max_length=255, description="Whose decisions; default: the caller")]
Until = Annotated[str, Meta(description="RFC 3339; until when it holds; null: without end")]
WorkflowIds = Annotated[list[Positive], Meta(min_length=1, max_length=1_000, description="null: all runs")]


@value
class PatchDelegation(Body):
    """Present fields are changed; null removes `until` or `workflowIds`."""

    to: UserId | UnsetType = UNSET
    until: Until | UnsetType | None = UNSET
    workflow_ids: WorkflowIds | UnsetType | None = UNSET


@creation
class CreateDelegation(Body):
    """`to` decides for `from`."""

    to: UserId
    from_user: From | UnsetType = attrs.field(default=UNSET, metadata=wire("from"))
    until: Until | UnsetType = UNSET
    workflow_ids: WorkflowIds | UnsetType = UNSET


class PatchDelegationFields(TypedDict, total=False):
    """`PatchDelegation` as keyword arguments."""

    organization_id: str
    to: str
    until: str | None
    workflow_ids: list[int] | None


class CreateDelegationFields(TypedDict, total=False):
    """`CreateDelegation` as keyword arguments."""

    organization_id: str
    to: str
    from_user: str
    until: str
    workflow_ids: list[int]


DelegationDto = TypedDict(
    "DelegationDto",
    {"id": str, "from": str, "to": str, "until": Time | None, "workflowIds": list[int] | None},
)


# Policies

Glob = Annotated[
    str, Meta(min_length=1, max_length=255, description="The id of a tool; `*` stands for any characters, `?` for one")
]
IsTrue = Annotated[bool, Meta(extra_json_schema={"const": True})]
GroupId = Annotated[str, Meta(max_length=36, description="The UUID of a group")]


@creation
class PolicyWhen:
    """What the policy is about: exactly one key. `external`: `core.http` and tools of MCP servers."""

    tool: Glob | UnsetType = UNSET
    agent: IsTrue | UnsetType = UNSET
    external: IsTrue | UnsetType = UNSET


@creation
class RequiredApproval:
    """`groups`: every approver is of one of them, none is named by e-mail; absent: anybody can approve."""

    groups: Annotated[list[GroupId], Meta(min_length=1, max_length=20)] | UnsetType = UNSET
    required_approvals: Annotated[int, Meta(ge=1, le=100, description="At least so many; default 1")] | UnsetType = (
        UNSET
    )


@creation
class PolicyRequire:
    """What it requires: exactly one key. `notTogether`: no agent has a tool of each of the two globs."""

    approval: RequiredApproval | UnsetType = UNSET
    timeout: IsTrue | UnsetType = UNSET
    retry: IsTrue | UnsetType = UNSET
    not_together: Annotated[list[Glob], Meta(min_length=2, max_length=2)] | UnsetType = UNSET


PolicySeverity = Annotated[
    Severity, Meta(description="`error` (default) prevents a deployment, `warning` is only shown")
]


@creation
class CreatePolicy(Body):
    name: Name
    when: PolicyWhen
    require: PolicyRequire
    severity: PolicySeverity | UnsetType = UNSET


@value
class PatchPolicy(Body):
    """Present fields are changed; `when` and `require` as a whole."""

    name: Name | UnsetType = UNSET
    when: PolicyWhen | UnsetType = UNSET
    require: PolicyRequire | UnsetType = UNSET
    severity: PolicySeverity | UnsetType = UNSET


class CreatePolicyFields(TypedDict, total=False):
    """`CreatePolicy` as keyword arguments."""

    organization_id: str
    name: str
    when: PolicyWhen | dict[str, object]
    require: PolicyRequire | dict[str, object]
    severity: Severity


class PatchPolicyFields(CreatePolicyFields, total=False):
    """`PatchPolicy` as keyword arguments."""


class WhenDto(TypedDict):
    tool: NotRequired[str]
    agent: NotRequired[bool]
    external: NotRequired[bool]


class PolicyApprovalDto(TypedDict):
    groups: NotRequired[list[str]]
    requiredApprovals: NotRequired[int]


class RequireDto(TypedDict):
    approval: NotRequired[PolicyApprovalDto]
    timeout: NotRequired[bool]
    retry: NotRequired[bool]
    notTogether: NotRequired[list[str]]


class PolicyDto(TypedDict):
    """A policy: nodes that `when` selects must keep `require`."""

    id: str
    name: str
    when: WhenDto
    require: RequireDto
    severity: Severity
