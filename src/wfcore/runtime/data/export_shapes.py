"""The shapes of the lines of an export: one for each file `NAME.jsonl`."""

from typing import Any, Final, TypedDict

from wfcore.api.connections import ConnectionDto
from wfcore.api.contexts import ContextItemDto
from wfcore.api.conversations import ConversationMessage
from wfcore.api.hooks import HookDto
from wfcore.api.memories import MemoryDto
from wfcore.api.organization import AuditEntry, DelegationDto, GroupDto, MemberDto, PolicyDto, TokenDto
from wfcore.api.resources import AccessConfigDto
from wfcore.api.runs import RunRecord
from wfcore.domain.json.codec import JsonObject, Time
from wfcore.domain.resources.lifecycle import StatusName


class ExportedOrganization(TypedDict):
    id: str
    name: str
    createdAt: Time


class ExportedResource(TypedDict):
    """A workflow or skill with the content of its draft, or without one of its active variation."""

    id: int
    slug: str
    name: str
    description: str | None
    status: StatusName
    accessConfig: AccessConfigDto
    createdAt: Time
    updatedAt: Time
    deletedAt: Time | None
    content: JsonObject | None


class ExportedRun(RunRecord):
    """`input` and `attachments` are those of the execution, null for a run that continues one.

    `output`, `error`, `interrupts` and `usage` are empty if whoever exports cannot use the run's target.
    """

    input: Any
    attachments: JsonObject | None


class ExportedDecision(TypedDict):
    """What a user gave to a run when it was resumed. Without an interrupt it is a message."""

    runId: str
    userId: str | None
    at: Time
    interruptId: str | None
    decision: str | None
    data: Any
    message: Any
    onBehalfOf: str | None


class ExportedConversation(TypedDict):
    threadId: str
    userId: str
    createdAt: Time
    updatedAt: Time


class ExportedMessage(ConversationMessage, total=False):
    threadId: str
    userId: str
    at: Time


class ExportedMemory(MemoryDto):
    skillId: int
    userId: str | None


class ExportedUsage(TypedDict):
    """The usage of models on one day of UTC. `cost` is in the operator's currency."""

    day: str
    calls: int
    inputTokens: int
    outputTokens: int
    cost: float | None


class ExportedGrant(TypedDict):
    """The use of a connection that a user authorized; its tokens are not exported."""

    connectionId: str
    userId: str | None
    status: str


SHAPES: Final[dict[str, type]] = {
    "organization": ExportedOrganization,
    "members": MemberDto,
    "groups": GroupDto,
    "tokens": TokenDto,
    "workflows": ExportedResource,
    "skills": ExportedResource,
    "runs": ExportedRun,
    "decisions": ExportedDecision,
    "conversations": ExportedConversation,
    "messages": ExportedMessage,
    "memories": ExportedMemory,
    "usage": ExportedUsage,
    "delegations": DelegationDto,
    "connectionGrants": ExportedGrant,
    "connections": ConnectionDto,
    "hooks": HookDto,
    "policies": PolicyDto,
    "contextItems": ContextItemDto,
    "audit": AuditEntry,
}
"""The files of an export. That of a member has what is the member's own."""
