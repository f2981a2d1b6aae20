"""Team chats: the messages from one, and the answers posted to it (interface, workflow interfaces).

Messages and answers are JSON, signed with the interface's secret (Standard Webhooks 1.0.0). A message starts a run;
messages of the same channel and thread belong to one conversation.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.json.codec import NonEmpty, canonical, read, text_of
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON

ChatName = Annotated[str, Meta(min_length=1, max_length=255, description="Opaque name from the team chat")]

STATUS_TEXTS: Final = {"cancelled": "The run was cancelled.", "interrupted": "The run was interrupted."}
"""The text of an answer for a run without an output or a message."""


class TeamMessage(TypedDict, total=False):
    """A message that a person wrote. Other keys are ignored, as every team chat sends some.

    `user` is the id of the person in the team chat; models receive `name`, or else that id, and `email`.
    """

    type: Required[Literal["message"]]
    channel: Required[ChatName]
    thread: ChatName
    user: ChatName
    name: ChatName
    email: ChatName
    text: Required[NonEmpty]


class TeamDecision(TypedDict, total=False):
    """The decision of a person on an approval that an answer of this chat has shown, if its `approvals` are on.

    `messageId` and `interruptId` are those of the answer. The person is the member with the verified address `email`.
    """

    type: Required[Literal["decision"]]
    messageId: Required[ChatName]
    interruptId: Required[ChatName]
    decision: Required[Literal["approve", "deny"]]
    email: Required[ChatName]
    data: Any


class TeamAnswer(TypedDict):
    """The answer, posted when the run of a message has ended and when it waits for a person or a connection.

    `text` is for people: the run's output (JSON if it is not a string), the message of its error, or the messages of
    its open interrupts.
    """

    type: Literal["answer"]
    channel: str
    thread: str | None
    messageId: str
    runId: str
    status: Literal["interrupted", "done", "error", "cancelled"]
    text: str
    output: Any
    error: Any
    interrupts: list[Any]


def read_team_message(data: JSON) -> TeamMessage | TeamDecision:
    """The message or decision, with its known keys that are not null. Raises Malformed or Invalid for any other
    value.
    """
    if isinstance(data, dict) and data.get("type") == "decision":
        return read(TeamDecision, _known(TeamDecision, data))
    return read(TeamMessage, _known(TeamMessage, data) if isinstance(data, dict) else data)


def _known(shape: type, data: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: data[name] for name in shape.__annotations__ if data.get(name) is not None}


def body_of(
    workflow_id: int, interface: Interface, message: TeamMessage, run_input: Mapping[str, JSON]
) -> dict[str, JSON]:
    """The body of the run that a message starts, with this input."""
    speaker = _speaker_of(message)
    user = {"userContext": speaker} if speaker else {}
    return {
        "workflowId": workflow_id,
        "input": dict(run_input),
        "message": message["text"],
        "fileThreadId": _thread_of(interface, message),
        "origin": "teamchat",
        **user,
    }


def _speaker_of(message: TeamMessage) -> dict[str, JSON]:
    """The end user of the run: data for models and memories, never an identity."""
    known: dict[str, JSON | None] = {
        "userId": message.get("user"),
        "name": message.get("name") or message.get("user"),
        "email": message.get("email"),
    }
    return {field: text for field, text in known.items() if text is not None}


def _thread_of(interface: Interface, message: TeamMessage) -> str:
    """The conversation's thread id, one for each thread of each channel of an interface."""
    address = canonical([interface.id, message["channel"], message.get("thread")])
    return f"thread_{hashlib.sha256(address).hexdigest()[:32]}"


def reply_address(message: TeamMessage, message_id: str) -> dict[str, JSON]:
    """The fields of an answer that name the message it replies to."""
    return {"channel": message["channel"], "thread": message.get("thread"), "messageId": message_id}


def run_id_of(interface: Interface, message_id: str) -> str:
    """The id of the run that a message starts: `teamchat-7-` and 32 hexadecimal digits (as `webhooks.run_id_of`)."""
    digest = hmac.digest(interface.id.encode(), message_id.encode(), hashlib.sha256).hex()
    return f"teamchat-{interface.resource_id}-{digest[:32]}"


def answer_id_of(interface: Interface, run_id: str, status: str) -> str:
    """The `webhook-id` of the answer for this status of a turn: the same on every attempt."""
    return "answer-" + hmac.digest(interface.id.encode(), f"{status} {run_id}".encode(), hashlib.sha256).hex()[:32]


def answer_of(address: Mapping[str, JSON], record: Mapping[str, JSON]) -> dict[str, JSON]:
    """The answer for a run's record; `address` is the `reply_address` of its message."""
    fields = {name: record[name] for name in ("runId", "status", "output", "error", "interrupts")}
    return {"type": "answer", **address, **fields, "text": _text_of(record)}


def _text_of(record: Mapping[str, JSON]) -> str:
    if record["error"]:
        return str(as_object(record["error"])["message"])
    status = as_text(record["status"])
    requests = [as_text(one["message"]) for one in as_objects(record["interrupts"]) if one.get("message")]
    if requests or status in STATUS_TEXTS:
        return "\n".join(requests) or STATUS_TEXTS[status]
    output = record["output"]
    return "" if output is None else text_of(output)
