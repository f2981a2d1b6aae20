"""The messages of a conversation in a context, and the request to the model that a context becomes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON

NO_RESULT: Final = "no result: the run that made the call still waits for it, or ended without it"
"""The result of a tool call without one: providers refuse a call without a result."""

GIVEN_UP: Final = "error: the call was given up before it had a result"
"""The result of a tool call whose visit was given up: by a failure or a cancel, which a retry can follow."""

_OPTIONAL: Final = ("toolCalls", "toolCallId", "images", "attachments")
"""The keys of a message other than `type` and `content` that are sent if they are not empty."""

_OPTIONAL_SET: Final = frozenset(_OPTIONAL)

Message = Mapping[str, JSON]
"""A message in the shape of the interface's Message."""


@attrs.frozen
class MessageHead:
    """A stored message without its text: its number in the thread, its type, the estimate of its tokens."""

    seq: int
    type: str
    tokens: int


@attrs.frozen
class ThreadHistory:
    """The newest messages of a thread, newest first. `whole`: the thread has no older ones."""

    thread_id: str
    heads: Sequence[MessageHead] = ()
    whole: bool = True


@attrs.frozen
class Range:
    """The messages of a thread with `after` < `seq` <= `up_to`."""

    thread_id: str
    after: int
    up_to: int
    count: int
    tokens: int

    def to_wire(self) -> dict[str, JSON]:
        return {"threadId": self.thread_id, "after": self.after, "upTo": self.up_to}


def newest_turns(history: ThreadHistory, limit: int) -> Range | None:
    """The newest whole turns that fit into `limit` tokens; None if not one fits.

    A turn is a human message and the messages up to the next one. So a tool message is never without the ai message
    that called the tool. The messages before the first human message of a thread are a turn, unless the first one is a
    tool message.
    """
    count = tokens = taken = 0
    for number, head in enumerate(history.heads, 1):
        taken += head.tokens
        if taken > limit:
            break
        if head.type == "human":
            count, tokens = number, taken
    else:
        if history.whole and history.heads and history.heads[-1].type != "tool":
            count, tokens = len(history.heads), taken
    if not count:
        return None
    return Range(history.thread_id, history.heads[count - 1].seq - 1, history.heads[0].seq, count, tokens)


def request_of(context: Mapping[str, JSON], stored: Iterable[Message], transcript: Iterable[Message]) -> list[Message]:
    """The exact messages of a request to the model: those of the context, then the `transcript` of the agent's rounds.

    `stored` are the messages of the context's range, in order.
    """
    messages: list[Message] = []
    if context["system"]:
        messages.append({"type": "system", "content": context["system"]})
    messages += paired(stored)
    if context["human"] is not None:
        messages.append({"type": "human", **as_object(context["human"])})
    return [*messages, *map(_request_message, transcript)]


def paired(stored: Iterable[Message]) -> list[Message]:
    """The messages, with exactly one result for each tool call, directly after the message with the call.

    Runs that share a thread can interleave their messages, and an interrupted run leaves calls without a result, which
    get `NO_RESULT`. A retry can make a call that was given up; its result then replaces `GIVEN_UP`. Results without a
    call are left out. Providers can use the id of a call again in another visit, or in a later round of the same.
    """
    sent: list[Message] = []
    places: dict[tuple[str, str], int] = {}
    given_up: dict[str, int] = {}
    for message in stored:
        if message["type"] != "tool":
            sent.append(_request_message(message))
            if calls := message.get("toolCalls"):
                visit, ids = _visit_of(message), dict.fromkeys(as_text(call["id"]) for call in as_objects(calls))
                places |= {(visit, call_id): number for number, call_id in enumerate(ids, len(sent))}
                sent += [{"type": "tool", "content": NO_RESULT, "toolCallId": call_id} for call_id in ids]
            continue
        call_id = str(message.get("toolCallId"))
        place = places.get((_visit_of(message), call_id)) or given_up.pop(call_id, None)
        if place is not None:
            sent[place] = _request_message(message)
            if message["content"] == GIVEN_UP:
                given_up[call_id] = place
    return sent


def _visit_of(message: Message) -> str:
    """The visit that left the message, in one turn: what its id has before the number of the step; "" without one.

    A retry is another turn.
    """
    return str(message.get("id", "")).rpartition(".")[0]


def _request_message(message: Message) -> Message:
    sent = {"type": message["type"], "content": message["content"]}
    if _OPTIONAL_SET.isdisjoint(message):
        return sent
    for key in _OPTIONAL:
        if value := message.get(key):
            sent[key] = value
    return sent
