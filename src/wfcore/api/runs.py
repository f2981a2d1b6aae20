"""The shapes of runs: starting, resuming, chatting, single actions, and responses (interface, Resume a run)."""

from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, BudgetDto, ErrorBody, RunModelSettings, ToolSetting
from wfcore.domain.json.codec import JsonObject, NonEmpty, Positive, Time

Key = Annotated[str, Meta(min_length=1, max_length=255, description="Opaque token of the client")]
_NO_DOTS = r"^([.]{0,2}[!-\-/-~][!-~]*|[.]{3}[!-~]*)$"
RunId = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=_NO_DOTS, description="Visible ASCII, neither `.` nor `..`")
]

FileName = Annotated[str, Meta(max_length=255)]
Size = Annotated[float, Meta(ge=0)]

Decision = Literal["approve", "deny", "connected", "cancelled"]
Screen = Literal["home", "agent_settings", "agent", "context_chat"]
Channel = Literal["api", "svc_api", "mcp", "chatapp", "chatapp_dm", "teamchat", "other"]
Origin = Literal[Screen, Channel]
NodeEvent = Literal["node_started", "node_finished", "node_failed", "node_retrying", "node_skipped"]
TurnEvent = Literal["message_delta", "message", "message_replaced", "tool_call", "tool_result", "usage"]
RunEvent = Literal["run_started", "interrupt", "done", "error", "cancelled"]


class Image(TypedDict, total=False):
    """`data` in base64, or an upload by its `storageKey` or `uploadId`."""

    data: str
    mimeType: FileName
    name: FileName
    storageKey: str
    uploadId: str


class Document(TypedDict, total=False):
    """`parsedContent`, or an upload of text by its `rawContentStorageKey` or `uploadId`; or both.

    The model gets `summary` if the whole does not fit. The server counts the bytes itself.
    """

    fileName: FileName
    parsedContent: str
    uploadId: str
    mimeType: FileName
    storageFileName: FileName
    rawContentStorageKey: str
    summary: Annotated[str, Meta(max_length=10_000)]
    originalSize: Size
    sizeBytes: Size


class AttachmentsDto(TypedDict, total=False):
    images: list[Image]
    documents: list[Document]


class UploadDto(TypedDict):
    """Stored content: `uploadId` and `storageKey` are the same key, which depends on the bytes."""

    uploadId: str
    storageKey: str
    mimeType: str
    sizeBytes: int


class UserContext(TypedDict, total=False):
    email: str
    name: str
    timezone: str
    userId: str


class RunConfig(TypedDict, total=False):
    """What a run may use; it can only narrow what the deployed variation allows."""

    model: NonEmpty
    modelSettings: RunModelSettings
    budget: BudgetDto
    contextSelections: list[JsonObject]
    connectionSelections: list[JsonObject]
    connectionSet: list[JsonObject]
    connectionAllModeIds: list[str]
    guardrails: list[str]
    toolset: dict[str, ToolSetting]
    strategies: list[str]
    experimentalFeatures: bool
    debug: bool
    composerFileOffload: bool


class InterruptDecision(TypedDict, total=False):
    interruptId: Required[str]
    decision: Required[Decision]
    data: Any


class TurnBody(Body, TypedDict, total=False):
    """The fields of the body of every turn."""

    sessionId: Key
    fileThreadId: Key
    config: RunConfig
    attachments: AttachmentsDto
    userContext: UserContext
    runId: RunId
    streamProtocolVersion: Literal[2]
    experimentalFeatures: bool
    debug: bool
    version: Literal["published", "draft"]
    origin: Origin


class Chat(TurnBody, total=False):
    """A message to a skill or to the assistant, which starts a run."""

    message: Required[NonEmpty]


class ResumeRun(TurnBody, total=False):
    message: str
    decision: Decision
    interruptId: str
    data: Any
    decisions: Annotated[list[InterruptDecision], Meta(min_length=1)]


class CreateRun(ResumeRun, total=False):
    """The fields of a resume, and exactly one of `workflowId`, `skillId` and `assistant`."""

    workflowId: Positive
    skillId: Positive
    assistant: Annotated[bool, Meta(extra_json_schema={"const": True})]
    input: JsonObject


class Action(TypedDict, total=False):
    """One call of a tool. Strings of `params` may hold `{{ expression }}` over `nodes.<id>.output`."""

    toolId: Required[NonEmpty]
    toolName: str
    aiDescription: str
    runtimeScope: JsonObject
    params: JsonObject


class RunAction(Body, TypedDict, total=False):
    """A single step of a workflow. `previousOutputs` has the outputs of earlier steps by node id."""

    action: Required[Action]
    previousOutputs: JsonObject
    sessionId: Key
    fileThreadId: Key
    timezone: str
    runId: RunId
    origin: Literal["automation", "api", "other"]


class InterruptDto(TypedDict, total=False):
    """A wait for a person or a connection.

    In a sub-workflow or a subordinate, `path` has the ids of the nodes above, and `items` the index in the `forEach`
    of each. An approval of a tool call has the tool, the exact arguments and the digest of both; a call by a model also
    has its `toolCallId`. A connect has the tool and the provider of the missing connection.
    """

    interruptId: Required[str]
    runId: Required[str]
    type: Required[Literal["approval", "connect"]]
    nodeId: str
    path: list[str]
    items: list[int | None]
    message: str | None
    expiresAt: Time | None
    requiredApprovals: int
    approvals: int
    formSchema: JsonObject
    toolId: str
    arguments: Any
    digest: str
    toolCallId: str
    provider: str
    connectionId: str
    budget: JsonObject


class EventDto(TypedDict, total=False):
    """One event of a stream, with further fields by kind. `seq` counts from 1 without gaps."""

    kind: Required[Literal[RunEvent, NodeEvent, TurnEvent]]
    runId: Required[str]
    seq: Required[int]
    at: Required[Time]
    nodeId: str
    path: list[str]
    items: list[int | None]


class RunAccepted(TypedDict):
    runId: str
    status: Literal["queued", "running", "interrupted", "done", "error", "cancelled"]


class RunRecord(RunAccepted):
    target: JsonObject
    threadId: str | None
    parentRunId: str | None
    resumedBy: str | None
    output: Any
    error: ErrorBody | None
    interrupts: list[InterruptDto]
    usage: JsonObject | None
    createdAt: Time
    updatedAt: Time
    finishedAt: Time | None
