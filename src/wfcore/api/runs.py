"""The shapes of runs: starting, resuming, chatting, single actions, and what is answered (interface, Resume a run)."""

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
Door = Literal["api", "svc_api", "mcp", "chatapp", "chatapp_dm", "teamchat", "other"]
Origin = Literal[Screen, Door]
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

    `summary` is told where the whole has no room. The server counts the bytes itself.
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
    """Content that is kept: `uploadId` and `storageKey` are the same name for it, and go with its bytes."""

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
    """What a run may use; it only narrows what the deployed variation allows."""

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
    """What every turn may say, whatever it begins with."""

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
    """A message to a skill or to the assistant: a run of it."""

    message: Required[NonEmpty]


class ResumeRun(TurnBody, total=False):
    message: str
    decision: Decision
    interruptId: str
    data: Any
    decisions: Annotated[list[InterruptDecision], Meta(min_length=1)]


class CreateRun(ResumeRun, total=False):
    """The body of resume, and one of `workflowId`, `skillId` and `assistant`."""

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
    """One step of a workflow by itself. `previousOutputs` are the outputs of earlier steps by node id."""

    action: Required[Action]
    previousOutputs: JsonObject
    sessionId: Key
    fileThreadId: Key
    timezone: str
    runId: RunId
    origin: Literal["automation", "api", "other"]


class InterruptDto(TypedDict, total=False):
    """A wait for a person or a connection; of a sub-workflow or a subordinate, `path` names the nodes above, `items`
    the position in the `forEach` of each.

    An approval of a call has the tool, the exact arguments and the digest of both; a call of a model has its
    `toolCallId`. A connect names the tool and what it has to be connected to.
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
