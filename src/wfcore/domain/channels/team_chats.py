"""Team chats: the messages that come from one, and the answers that go back (interface, workflow interfaces).

Both ways they are JSON, signed with the interface's secret as Standard Webhooks 1.0.0 has it. A message starts a run;
messages of the same channel and thread are one conversation.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.json.codec import NonEmpty, canonical, dumps, read
from wfcore.domain.kernel.json_type import JSON

Place = Annotated[str, Meta(min_length=1, max_length=255, description="Opaque name of the team chat's")]

UNANSWERED: Final = {"cancelled": "The run was cancelled.", "interrupted": "The run was interrupted."}
"""What is said of a run that left no words of its own."""


class TeamMessage(TypedDict, total=False):
    """A message that somebody wrote. Further keys, which every team chat sends, are left aside."""

    type: Required[Literal["message"]]
    channel: Required[Place]
    thread: Place
    user: Place
    text: Required[NonEmpty]


class TeamAnswer(TypedDict):
    """What is posted when the run of a message has ended, and whenever it waits for a person or a connection.

    `text` is for people: the run's output, as JSON where it is no text, the message of its error, or what it asks.
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


def read_team_message(data: JSON) -> TeamMessage:
    """The message, with the keys that have a meaning and a value. Malformed or Invalid for what is none."""
    if isinstance(data, dict):
        data = {name: data[name] for name in TeamMessage.__annotations__ if data.get(name) is not None}
    return read(TeamMessage, data)


def body_of(workflow_id: int, interface: Interface, message: TeamMessage, given: Mapping[str, JSON]) -> dict[str, JSON]:
    """The body of the run that a message starts, with this input."""
    user = {"userContext": {"userId": message["user"]}} if "user" in message else {}
    return {
        "workflowId": workflow_id,
        "input": dict(given),
        "message": message["text"],
        "fileThreadId": _thread_of(interface, message),
        "origin": "teamchat",
        **user,
    }


def _thread_of(interface: Interface, message: TeamMessage) -> str:
    """One thread for each thread of each channel that an interface serves."""
    place = canonical([interface.id, message["channel"], message.get("thread")])
    return f"thread_{hashlib.sha256(place).hexdigest()[:32]}"


def place_of(message: TeamMessage, message_id: str) -> dict[str, JSON]:
    """What an answer says of the message that it is to."""
    return {"channel": message["channel"], "thread": message.get("thread"), "messageId": message_id}


def run_id_of(interface: Interface, message_id: str) -> str:
    """The id of the run that a message starts: `teamchat-7-` and 32 hexadecimal digits, as of a webhook."""
    mark = hmac.digest(interface.id.encode(), message_id.encode(), hashlib.sha256).hex()
    return f"teamchat-{interface.workflow_id}-{mark[:32]}"


def answer_id_of(interface: Interface, run_id: str, status: str) -> str:
    """The `webhook-id` of the answer that tells of this turn that it is so: the same on every try."""
    return "answer-" + hmac.digest(interface.id.encode(), f"{status} {run_id}".encode(), hashlib.sha256).hex()[:32]


def answer_of(place: Mapping[str, JSON], record: Mapping[str, JSON]) -> dict[str, JSON]:
    """The answer that a run's record makes, to where its message came from."""
    told = {name: record[name] for name in ("runId", "status", "output", "error", "interrupts")}
    return {"type": "answer", **place, **told, "text": _text_of(record)}


def _text_of(record: Mapping[str, JSON]) -> str:
    if record["error"]:
        return str(record["error"]["message"])
    asked = [one["message"] for one in record["interrupts"] if one.get("message")]
    if asked or record["status"] in UNANSWERED:
        return "\n".join(asked) or UNANSWERED[record["status"]]
    output = record["output"]
    return output if isinstance(output, str) else "" if output is None else dumps(output)
