"""Requests of AG-UI clients: how a `RunAgentInput` becomes the body of a start or of a resume (AG-UI 1.0).

The thread is kept by the server, so only the last message of the input is sent. Keys of other versions are ignored.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, Required, TypedDict

import attrs
from msgspec import Meta

from wfcore.domain.channels.interfaces import chat_input
from wfcore.domain.json.codec import RunId, check
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed, refuse
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON

PAUSED: Final = "paused"
"""The id of the interrupt of a run that was parked on request: no decision answers it."""

MAX_NAME: Final = 255

_MEDIA_TYPE: Final = {"mimeType": "source.mimeType"}

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


@attrs.frozen
class MadeBody:
    """The body of a run that was made of a request. `places` are the paths of the request, by those of the body."""

    fields: dict[str, JSON]
    places: Mapping[str, str]

    @contextmanager
    def sent(self) -> Iterator[dict[str, JSON]]:
        """The fields. Malformed and Invalid that are raised about them name the paths of the request."""
        try:
            yield self.fields
        except (Malformed, Invalid) as error:
            found = as_objects(error.info["errors"])
            issues = [Issue(self._place(one), as_text(one["message"]), as_text(one["rule"])) for one in found]
            if any(issue.path for issue in issues):
                refuse(issues, as_invalid=isinstance(error, Invalid))
            raise

    def _place(self, issue: Mapping[str, JSON]) -> str:
        path = as_text(issue["path"])
        inside = [one for one in self.places if path == one or path.startswith((f"{one}.", f"{one}["))]
        nearest = max(inside, key=len, default="")
        return self.places[nearest] + path[len(nearest) :] if nearest else path


# Starts


def start_of(given: Mapping[str, JSON], schema: Mapping[str, JSON] | None) -> MadeBody:
    """The body of a start, without its target. `schema` is the workflow's input schema, None of a skill.

    Raises Malformed or Invalid when the last message is not a user's, or has parts that are not supported.
    """
    messages = as_objects(given["messages"])
    where = f"messages[{len(messages) - 1}]"
    if not messages or messages[-1]["role"] != "user":
        refuse([Issue("messages", "must end with a message of the role `user`, unless `resume` is given", "required")])
    content, attached = f"{where}.content", _Attached()
    text = _text_of(messages[-1].get("content"), content, attached)
    if not text.strip():
        refuse([Issue(content, "must contain text", "minLength")])
    for position, one in enumerate(as_objects(given.get("context") or ())):
        if one["value"]:
            document = {"fileName": as_text(one["description"])[:MAX_NAME], "parsedContent": one["value"]}
            names = {"fileName": "description", "parsedContent": "value"}
            attached.add("documents", document, f"context[{position}]", names)
    props = dict(as_object(given.get("forwardedProps") or {}))
    said = {} if schema is None else chat_input(schema, text)
    fields = {**props, **said}
    body: dict[str, JSON] = {
        "message": text,
        "fileThreadId": given["threadId"],
        **({} if schema is None and not fields else {"input": fields}),
        **({"attachments": dict(attached.found)} if attached.found else {}),
    }
    texts = dict.fromkeys(("message", *(f"input.{name}" for name in said)), content)
    every = dict.fromkeys(("attachments", "attachments.images", "attachments.documents"), content)
    places = {"fileThreadId": "threadId", "input": "forwardedProps", **texts, **every, **attached.places}
    return MadeBody(body, places)


@attrs.frozen
class _Attached:
    """Attachments by their kinds, and where their fields stand in the request."""

    found: dict[str, list[JSON]] = attrs.field(factory=dict)
    places: dict[str, str] = attrs.field(factory=dict)

    def add(self, kind: str, one: JSON, at: str, names: Mapping[str, str]) -> None:
        """`names` are those of the fields at the path `at` of the request."""
        all_of_kind = self.found.setdefault(kind, [])
        made = f"attachments.{kind}[{len(all_of_kind)}]"
        self.places.update({made: at, **{f"{made}.{name}": f"{at}.{sent}" for name, sent in names.items()}})
        all_of_kind.append(one)


def _text_of(content: JSON, path: str, attached: _Attached) -> str:
    """The text of a message. Its images and documents are added to `attached`."""
    if isinstance(content, str):
        return content
    texts, issues = list[str](), list[Issue]()
    for position, part in enumerate(content if isinstance(content, list) else ()):
        kind, source = _kind_and_source(part)
        at = f"{path}[{position}]"
        if kind == "text" and isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(as_text(part["text"]))
        elif kind == "image" and source is not None:
            attached.add("images", source, at, {"data": "source.value", **_MEDIA_TYPE})
        elif kind == "document" and source is not None and (text := _decoded(as_text(source["data"]))) is not None:
            document: JSON = {"parsedContent": text, "mimeType": source["mimeType"]}
            attached.add("documents", document, at, {"parsedContent": "source.value", **_MEDIA_TYPE})
        else:
            issues.append(Issue(at, "must be text, an image or a text document, inline", "unsupported"))
    refuse(issues)
    return "\n".join(texts)


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


def resume_of(entries: Sequence[Mapping[str, JSON]], types: Mapping[str, str]) -> MadeBody:
    """The body of the resume with these answers. `types` are the types of the open interrupts, by id.

    Raises Invalid for a payload that is not a decision.
    """
    if [one["interruptId"] for one in entries] == [PAUSED]:
        return MadeBody({}, {})
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
    places = {f"decisions[{position}]": f"resume[{position}]" for position in range(len(entries))}
    answers = {f"{made}.{name}": f"{at}.payload.{name}" for made, at in places.items() for name in ("decision", "data")}
    return MadeBody({"decisions": decisions}, {**places, **answers})


def _decision_of(payload: JSON) -> dict[str, JSON] | None:
    if not isinstance(payload, dict) or payload.get("decision") not in ("approve", "deny"):
        return None
    return {name: payload[name] for name in ("decision", "data") if name in payload}
