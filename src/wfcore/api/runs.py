"""The shapes of runs: starting, resuming, chatting, single actions, and responses (interface, Resume a run)."""

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, ErrorBody, RunModelSettings
from wfcore.domain.agents.end_users import UserContext
from wfcore.domain.json.codec import NOT_DOTS, JsonObject, NonEmpty, Positive, RunId, Time
from wfcore.domain.json.values import UNSET, UnsetType, creation, value
from wfcore.domain.resources.content import BudgetDto, ToolSetting
from wfcore.domain.run.events import EventFields, ModelUsage, OpenInterruptFields, RunTarget
from wfcore.domain.run.state import RunStatusName, StarterKind

KEPT: Final = "a resume ignores it, because an execution keeps its own"
Key = Annotated[
    str,
    Meta(min_length=1, max_length=255, description=f"Opaque token of the client: it only selects the thread; {KEPT}"),
]
ThreadId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=NOT_DOTS,
        description=f"Neither `.` nor `..`, which no path can hold: it only selects the thread; {KEPT}",
    ),
]
VersionName = Literal["published", "draft"]
Version = Annotated[VersionName, Meta(description=f"The variation of a new execution; {KEPT}")]
OF_A_RESUME: Final = "Of a resume: refused in a start"

FileName = Annotated[str, Meta(max_length=255)]

Decision = Literal["approve", "deny", "connected", "cancelled"]
Screen = Literal["home", "agent_settings", "agent", "context_chat"]
Channel = Literal["api", "svc_api", "mcp", "chatapp", "chatapp_dm", "teamchat", "other"]
Origin = Literal[Screen, Channel]


CARRIED: Final = "Carried verbatim, without an effect: expressions read it"
CarriedFlag = Annotated[bool, Meta(description=CARRIED)]
DebugFlag = Annotated[
    bool, Meta(description="Adds `debug` events to the stream, for callers who can manage the target; else ignored")
]
Carried = Annotated[JsonObject, Meta(description=CARRIED)]
CarriedName = Annotated[str, Meta(max_length=255, description=CARRIED)]
CarriedSize = Annotated[float, Meta(ge=0, description=CARRIED)]
IgnoredSize = Annotated[float, Meta(ge=0, description="Ignored: the server counts the bytes")]


@creation
class Image:
    """`data` in base64, or an upload by its `storageKey` or `uploadId`."""

    data: str | UnsetType = UNSET
    mime_type: FileName | UnsetType = UNSET
    name: CarriedName | UnsetType = UNSET
    storage_key: str | UnsetType = UNSET
    upload_id: str | UnsetType = UNSET


@creation
class Document:
    """`parsedContent`, or an upload of text by its `rawContentStorageKey` or `uploadId`; or both.

    The model gets `summary` if the whole does not fit. The server counts the bytes itself.
    """

    file_name: FileName | UnsetType = UNSET
    parsed_content: str | UnsetType = UNSET
    upload_id: str | UnsetType = UNSET
    mime_type: CarriedName | UnsetType = UNSET
    storage_file_name: CarriedName | UnsetType = UNSET
    raw_content_storage_key: str | UnsetType = UNSET
    summary: Annotated[str, Meta(max_length=10_000)] | UnsetType = UNSET
    original_size: CarriedSize | UnsetType = UNSET
    size_bytes: IgnoredSize | UnsetType = UNSET


@creation
class AttachmentsDto:
    images: list[Image] | UnsetType = UNSET
    documents: list[Document] | UnsetType = UNSET


class UploadDto(TypedDict):
    """Stored content: `uploadId` and `storageKey` are the same key, which depends on the bytes."""

    uploadId: str
    storageKey: str
    mimeType: str
    sizeBytes: int


@creation
class RunConfig:
    """What a run may use; it can only narrow what the deployed variation allows."""

    model: NonEmpty | UnsetType = UNSET
    model_settings: RunModelSettings | UnsetType = UNSET
    budget: BudgetDto | UnsetType = UNSET
    context_selections: list[JsonObject] | UnsetType = UNSET
    connection_selections: list[JsonObject] | UnsetType = UNSET
    connection_set: list[JsonObject] | UnsetType = UNSET
    connection_all_mode_ids: list[str] | UnsetType = UNSET
    guardrails: list[str] | UnsetType = UNSET
    toolset: dict[str, ToolSetting] | UnsetType = UNSET
    strategies: Annotated[list[str], Meta(description="Not supported: refused")] | UnsetType = UNSET
    experimental_features: CarriedFlag | UnsetType = UNSET
    debug: DebugFlag | UnsetType = UNSET
    composer_file_offload: CarriedFlag | UnsetType = UNSET


@value
class InterruptDecision:
    interrupt_id: str
    decision: Decision
    data: Any = UNSET


@value
class TurnBody(Body):
    """The fields of the body of every turn."""

    session_id: Key | UnsetType = UNSET
    file_thread_id: ThreadId | UnsetType = UNSET
    config: RunConfig | UnsetType = UNSET
    attachments: AttachmentsDto | UnsetType = UNSET
    user_context: UserContext | UnsetType = UNSET
    run_id: RunId | UnsetType = UNSET
    stream_protocol_version: Literal[2] | UnsetType = UNSET
    experimental_features: CarriedFlag | UnsetType = UNSET
    debug: DebugFlag | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET


class TurnFields(TypedDict, total=False):
    """`TurnBody` as keyword arguments."""

    organization_id: str
    session_id: str
    file_thread_id: str
    config: RunConfig | JsonObject
    attachments: AttachmentsDto | JsonObject
    user_context: UserContext | JsonObject
    stream_protocol_version: Literal[2]
    experimental_features: bool
    debug: bool
    version: VersionName
    origin: Origin


class ChatFields(TurnFields, total=False):
    """`Chat` as keyword arguments."""

    message: str
    run_id: str


class ResumeRunFields(TurnFields, total=False):
    """`ResumeRun` as keyword arguments; the id of the new run is the `key`."""

    message: str
    decision: Decision
    interrupt_id: str
    data: Any
    decisions: list[InterruptDecision] | list[JsonObject]


class CreateRunFields(ResumeRunFields, total=False):
    """`CreateRun` as keyword arguments; `workflow` and `skill` are short for the ids."""

    workflow: int
    workflow_id: int
    skill: int
    skill_id: int
    assistant: bool
    input: JsonObject
    run_id: str


class RunActionFields(TypedDict, total=False):
    """`RunAction` as keyword arguments."""

    organization_id: str
    action: "Action | JsonObject"
    previous_outputs: JsonObject
    session_id: str
    file_thread_id: str
    timezone: str
    run_id: str
    origin: Literal["automation", "api", "other"]


@creation
class Chat(TurnBody):
    """A message to a skill or to the assistant, which starts a run."""

    message: NonEmpty


@creation
class ResumeRun(TurnBody):
    message: str | UnsetType = UNSET
    decision: Annotated[Decision, Meta(description=OF_A_RESUME)] | UnsetType = UNSET
    interrupt_id: Annotated[str, Meta(description=OF_A_RESUME)] | UnsetType = UNSET
    data: Annotated[Any, Meta(description=OF_A_RESUME)] | UnsetType = UNSET
    decisions: Annotated[list[InterruptDecision], Meta(min_length=1, description=OF_A_RESUME)] | UnsetType = UNSET


@creation
class CreateRun(ResumeRun):
    """The fields of a resume, and exactly one of `workflowId`, `skillId` and `assistant`."""

    workflow_id: Positive | UnsetType = UNSET
    skill_id: Positive | UnsetType = UNSET
    assistant: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET
    input: JsonObject | UnsetType = UNSET


@creation
class Action:
    """One call of a tool. Strings of `params` may hold `{{ expression }}` over `nodes.<id>.output`."""

    tool_id: NonEmpty
    tool_name: str | UnsetType = UNSET
    ai_description: str | UnsetType = UNSET
    runtime_scope: Carried | UnsetType = UNSET
    params: JsonObject | UnsetType = UNSET


@creation
class RunAction(Body):
    """A single step of a workflow. `previousOutputs` has the outputs of earlier steps by node id."""

    organization_id: Annotated[str, Meta(description="Must be the organization of the credential")] | UnsetType = UNSET
    action: Action
    previous_outputs: JsonObject | UnsetType = UNSET
    session_id: Key | UnsetType = UNSET
    file_thread_id: ThreadId | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    run_id: RunId | UnsetType = UNSET
    origin: Literal["automation", "api", "other"] | UnsetType = UNSET


class InterruptDto(OpenInterruptFields):
    """An open interrupt of a run.

    `connectUrl` is where the caller can authorize the connection that a connect interrupt needs, once within ten
    minutes; each read of the interrupt has a new one.
    """

    runId: str
    connectUrl: NotRequired[str]


class EventDto(EventFields):
    """One event of a stream. In the OpenAPI document it is the union of the events of all kinds."""

    kind: str


class RefusedEvent(TypedDict):
    """The one event of a stream that was refused. `runId` is the run that the request names, if any."""

    kind: Literal["error"]
    seq: Literal[0]
    at: Time
    error: ErrorBody
    runId: NotRequired[str]


class RunSums(TypedDict):
    """How many runs there are, and how many of each status."""

    total: int
    byStatus: dict[str, int]


class WorkflowRunSums(RunSums):
    workflowId: int


class HourRunSums(RunSums):
    """The runs that began in the hour that begins at `hour`. Hours without runs are left out."""

    hour: Time


class RunStatsDto(RunSums):
    """The runs that began in a period."""

    since: Time
    until: Time
    byWorkflow: list[WorkflowRunSums]
    byHour: list[HourRunSums]


class RunAccepted(TypedDict):
    runId: str
    status: RunStatusName


class SlackResponse(TypedDict, total=False):
    """What Slack gets: the text that it verifies an address with, or the run of a message; else nothing."""

    challenge: str
    runId: str
    status: RunStatusName


class StarterDto(TypedDict):
    """Who or what started a turn. `userId` is null for `system`: a deadline."""

    userId: str | None
    kind: StarterKind


class RequesterDto(StarterDto):
    """Who started the execution. `name` is null for somebody who is not a member."""

    name: str | None


class DeciderDto(TypedDict):
    """One decision. `onBehalfOf` is the user for whom a delegate decided."""

    userId: str
    email: str | None
    name: str | None
    decision: str
    at: Time
    onBehalfOf: str | None


class InboxItemDto(InterruptDto, total=False):
    """An interrupt of the inbox. `decidedBy` has the decisions so far; `decision` is null while it is open."""

    target: RunTarget
    threadId: str
    createdAt: Time
    onBehalfOf: Annotated[str | None, Meta(description="The user who has delegated this decision to the caller")]
    workflowName: str | None
    requestedBy: RequesterDto
    decidedBy: list[DeciderDto]
    status: Literal["open", "decided"]
    decision: str | None
    decidedAt: Time | None
    canDecide: Annotated[bool, Meta(description="Whether the caller can decide it now")]


class RunRecord(RunAccepted):
    """One turn. `startedBy` and `origin` are of this turn, `executionStartedBy` of the first turn of its execution."""

    target: RunTarget
    threadId: str | None
    parentRunId: str | None
    resumedBy: str | None
    retriedBy: str | None
    forkedFrom: str | None
    startedBy: StarterDto
    executionStartedBy: StarterDto
    origin: str
    version: VersionName | None
    variationId: str | None
    output: Any
    error: ErrorBody | None
    interrupts: list[InterruptDto]
    usage: ModelUsage | None
    createdAt: Time
    updatedAt: Time
    finishedAt: Time | None
