"""Which messages of a conversation go along, and how a composed context becomes the messages that a model is sent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.kernel.json_type import JSON

NO_RESULT: Final = "no result: the run ended before the tool answered"
"""What a model is told of a call that was never answered; providers refuse a call without an answer."""

_MAYBE: Final = ("toolCalls", "toolCallId", "images", "attachments")
"""The keys of a message that a model is sent beside `type` and `content`, where there is something in them."""

_BEYOND_TEXT: Final = frozenset(_MAYBE)

Message = Mapping[str, JSON]
"""In the interface's Message shape."""


@attrs.frozen
class MessageHead:
    """A stored message without its text: its place in the thread, its type, the estimate of its tokens."""

    seq: int
    type: str
    tokens: int


@attrs.frozen
class ThreadHistory:
    """The newest messages of a thread, newest first. `whole`: there are no older ones."""

    thread_id: str
    heads: Sequence[MessageHead] = ()
    whole: bool = True


@attrs.frozen
class Range:
    """The messages of a thread with a `seq` greater than `after`, up to `up_to`."""

    thread_id: str
    after: int
    up_to: int
    count: int
    tokens: int

    def to_wire(self) -> dict[str, JSON]:
        return {"threadId": self.thread_id, "after": self.after, "upTo": self.up_to}


def newest_turns(history: ThreadHistory, room: int) -> Range | None:
    """The newest whole turns that fit into so many tokens; None when not one does.

    A turn is a human message and all that follows up to the next. So no tool message goes without the ai message that
    called the tool. What stands before the first human message of a thread counts as a turn, unless it begins with a
    tool message.
    """
    count = tokens = taken = 0
    for number, head in enumerate(history.heads, 1):
        taken += head.tokens
        if taken > room:
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
    """The messages that the model is sent, to the letter: what was composed, then what the agent's rounds brought.

    `stored` are the messages of the context's range, in order.
    """
    messages: list[Message] = []
    if context["system"]:
        messages.append({"type": "system", "content": context["system"]})
    messages += paired(stored)
    if context["human"] is not None:
        messages.append({"type": "human", **context["human"]})
    return [*messages, *map(_sent, transcript)]


def paired(stored: Iterable[Message]) -> list[Message]:
    """The messages with every tool call answered right behind the message that made it, exactly once.

    Runs that share a thread may have written between each other's lines, and one that was broken off leaves calls
    without an answer, which get one that says so. Answers to no call are left out.
    """
    rows: list[tuple[Message, dict[str, Message | None]]] = []
    open_calls: dict[str, dict[str, Message | None]] = {}
    for message in stored:
        if message["type"] == "tool":
            answers = open_calls.pop(str(message.get("toolCallId")), None)
            if answers is not None:
                answers[str(message["toolCallId"])] = message
            continue
        answers = {}
        if calls := message.get("toolCalls"):
            answers = {call["id"]: None for call in calls}
            open_calls.update(dict.fromkeys(answers, answers))
        rows.append((message, answers))
    sent: list[Message] = []
    for message, answers in rows:
        sent.append(_sent(message))
        if answers:
            sent += _answers(answers)
    return sent


def _answers(calls: Mapping[str, Message | None]) -> list[Message]:
    return [
        _sent(answer) if answer else {"type": "tool", "content": NO_RESULT, "toolCallId": call_id}
        for call_id, answer in calls.items()
    ]


def _sent(message: Message) -> Message:
    sent = {"type": message["type"], "content": message["content"]}
    if _BEYOND_TEXT.isdisjoint(message):
        return sent
    for key in _MAYBE:
        if value := message.get(key):
            sent[key] = value
    return sent
