"""Requests of AG-UI clients: how a `RunAgentInput` becomes the body of a start or of a resume (AG-UI 1.0).

The thread is kept by the server, so only the last message of the input is sent. Keys of other versions are ignored.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.domain.channels.interfaces import chat_input
from wfcore.domain.json.codec import RunId, check
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON

PAUSED: Final = "paused"
"""The id of the interrupt of a run that was parked on request: no decision answers it."""

MAX_NAME: Final = 255

ThreadId = Annotated[str, Meta(min_length=1, max_length=255, description="The thread of the conversation")]
Unsupported = Annotated[list[Any], Meta(description="Not supported: refused unless it is empty")]


class AgentMessage(TypedDict, total=False):
    """A message. `content` is a text or, of a user's message, a list of parts."""

    role: Required[str]
    content: Any


class AgentContext(TypedDict):
    """An attached document: its name and its text."""

    description: str
    value: str


class ResumeEntry(TypedDict, total=False):
    """The answer to an interrupt: of an approval, `payload` is `{"decision": "approve"|"deny", "data"}`.

    `cancelled` denies an approval, and cancels a connect.
    """

    interruptId: Required[str]
    status: Required[Literal["resolved", "cancelled"]]
    payload: Any


class RunAgentInput(TypedDict, total=False):
    """A request of an AG-UI client. The last message starts the run, or `resume` carries a parked one on.

    The fields of `forwardedProps` become fields of the run's `input`, the `context` becomes attached documents. Other
    keys are ignored.
    """

    threadId: Required[ThreadId]
    runId: Required[RunId]
    messages: Required[list[AgentMessage]]
    tools: Unsupported
    context: list[AgentContext]
    state: Annotated[Any, Meta(description="Not supported: refused unless it is empty")]
    forwardedProps: Annotated[Any, Meta(description="An object: fields of the run's `input`")]
    resume: list[ResumeEntry]


_Known = RunAgentInput.__annotations__
_NOTHING: Final[tuple[JSON, ...]] = (None, [], {}, "")


def read_agent_input(data: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The known keys that are not null. Raises Malformed or Invalid with every issue."""
    known = {name: data[name] for name in _Known if data.get(name) is not None}
    for name, shape in (("messages", AgentMessage), ("context", AgentContext), ("resume", ResumeEntry)):
        if isinstance(given := known.get(name), list):
            known[name] = [_known(one, shape) for one in given]
    refuse([*check(RunAgentInput, known), *_unsupported_issues(known)])
    return known


def _known(entry: JSON, shape: type) -> JSON:
    if not isinstance(entry, dict):
        return entry
    return {name: entry[name] for name in shape.__annotations__ if entry.get(name) is not None}


def _unsupported_issues(known: Mapping[str, JSON]) -> Iterator[Issue]:
    if known.get("tools") not in _NOTHING:
        yield Issue("tools", "must be empty: the tools of a run are those of its target", "unsupported")
    if known.get("state") not in _NOTHING:
        yield Issue("state", "must be empty: a run has no state that is shared with its client", "unsupported")
    if not isinstance(known.get("forwardedProps", {}), dict):
        yield Issue("forwardedProps", "must be an object", "type")


# Starts


def start_of(given: Mapping[str, JSON], schema: Mapping[str, JSON] | None) -> dict[str, JSON]:
    """The fields of the body of a start, without its target. `schema` is the workflow's input schema, None of a skill.

    Raises Malformed or Invalid when the last message is not a user's, or has parts that are not supported.
    """
    messages = as_objects(given["messages"])
    where = f"messages[{len(messages) - 1}]"
    if not messages or messages[-1]["role"] != "user":
        refuse([Issue("messages", "must end with a message of the role `user`, unless `resume` is given", "required")])
    text, attachments = _parts_of(messages[-1].get("content"), f"{where}.content")
    if not text.strip():
        refuse([Issue(f"{where}.content", "must contain text", "minLength")])
    documents = [*attachments["documents"], *_documents_of(as_objects(given.get("context") or ()))]
    attached = {
        name: list(some) for name, some in (("images", attachments["images"]), ("documents", documents)) if some
    }
    props = dict(as_object(given.get("forwardedProps") or {}))
    fields = {**props, **({} if schema is None else chat_input(schema, text))}
    return {
        "message": text,
        "fileThreadId": given["threadId"],
        **({} if schema is None and not fields else {"input": fields}),
        **({"attachments": attached} if attached else {}),
    }


def _documents_of(context: Sequence[Mapping[str, JSON]]) -> list[JSON]:
    return [
        {"fileName": as_text(one["description"])[:MAX_NAME], "parsedContent": one["value"]}
        for one in context
        if one["value"]
    ]


def _parts_of(content: JSON, path: str) -> tuple[str, dict[str, list[JSON]]]:
    """The text of a message, and its images and documents as fields of attachments."""
    attached: dict[str, list[JSON]] = {"images": [], "documents": []}
    if isinstance(content, str):
        return content, attached
    texts, issues = list[str](), list[Issue]()
    for position, part in enumerate(content if isinstance(content, list) else ()):
        kind, source = _kind_and_source(part)
        if kind == "text" and isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(as_text(part["text"]))
        elif kind == "image" and source is not None:
            attached["images"].append(source)
        elif kind == "document" and source is not None and (text := _decoded(as_text(source["data"]))) is not None:
            attached["documents"].append({"parsedContent": text, "mimeType": source["mimeType"]})
        else:
            issues.append(
                Issue(f"{path}[{position}]", "must be text, an image or a text document, inline", "unsupported")
            )
    refuse(issues)
    return "\n".join(texts), attached


def _kind_and_source(part: JSON) -> tuple[JSON, dict[str, JSON] | None]:
    """The type of a part, and its inline content as `data` and `mimeType`; None without such content."""
    if not isinstance(part, dict):
        return None, None
    source = part.get("source")
    if not isinstance(source, dict) or source.get("type") != "data":
        return part.get("type"), None
    value, media_type = source.get("value"), source.get("mimeType")
    is_inline = isinstance(value, str) and isinstance(media_type, str)
    return part.get("type"), {"data": value, "mimeType": media_type} if is_inline else None


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


# Resumes


def resume_of(entries: Sequence[Mapping[str, JSON]], types: Mapping[str, str]) -> dict[str, JSON]:
    """The body of the resume with these answers. `types` are the types of the open interrupts, by id.

    Raises Invalid for a payload that is not a decision.
    """
    if [one["interruptId"] for one in entries] == [PAUSED]:
        return {}
    decisions, issues = list[JSON](), list[Issue]()
    for position, entry in enumerate(entries):
        name, resolved = as_text(entry["interruptId"]), entry["status"] == "resolved"
        if types.get(name) == "connect":
            decisions.append({"interruptId": name, "decision": "connected" if resolved else "cancelled"})
        elif not resolved:
            decisions.append({"interruptId": name, "decision": "deny"})
        elif (answer := _decision_of(entry.get("payload"))) is not None:
            decisions.append({"interruptId": name, **answer})
        else:
            message = 'must be `{"decision": "approve" or "deny", "data"}`'
            issues.append(Issue(f"resume[{position}].payload", message, "enum"))
    refuse(issues)
    return {"decisions": decisions}


def _decision_of(payload: JSON) -> dict[str, JSON] | None:
    if not isinstance(payload, dict) or payload.get("decision") not in ("approve", "deny"):
        return None
    return {name: payload[name] for name in ("decision", "data") if name in payload}
