"""Messages of a context: whole turns, results of tool calls, and the request to the model."""

from typing import Any

import pytest

from wfcore.domain.agents.context_messages import (
    GIVEN_UP,
    NO_RESULT,
    MessageHead,
    ThreadHistory,
    newest_turns,
    paired,
    request_of,
)

Json = dict[str, Any]


def thread(*types: str, each: int = 10, whole: bool = True) -> ThreadHistory:
    """A thread with messages of these types, oldest first, `seq` counted from 1."""
    heads = [MessageHead(seq, kind, each) for seq, kind in enumerate(types, 1)]
    return ThreadHistory("t1", heads[::-1], whole)


class TestTurns:
    """The messages of a thread in a context."""

    @pytest.mark.parametrize(
        ("types", "limit", "kept"),
        [
            ("human ai human ai", 40, (0, 4)), ("human ai human ai", 39, (2, 4)), ("human ai human ai", 19, None),
            ("human ai tool ai", 39, None), ("human ai tool ai human", 10, (4, 5)), ("ai human", 20, (0, 2)),
            ("ai ai", 20, (0, 2)), ("tool ai human", 30, (2, 3)), ("tool", 30, None), ("human human", 10, (1, 2)),
        ],
    )  # fmt: skip
    def test_turns_are_whole(self, types: str, limit: int, kept: tuple[int, int] | None) -> None:
        """A turn begins with a human message; earlier messages are a turn, unless a tool message is first."""
        found = newest_turns(thread(*types.split()), limit)
        assert (found and (found.after, found.up_to)) == kept

    def test_incomplete_turns_are_left_out(self) -> None:
        """If older messages were not read, the messages before the first human message are left out."""
        assert newest_turns(thread("ai", "ai", whole=False), 100) is None
        kept = newest_turns(thread("ai", "human", whole=False), 100)
        assert kept is not None
        assert (kept.after, kept.count) == (1, 1)

    def test_the_wire_form(self) -> None:
        """A range has its thread and its bounds."""
        kept = newest_turns(thread("human", "ai"), 20)
        assert kept is not None
        assert kept.to_wire() == {"threadId": "t1", "after": 0, "upTo": 2}
        assert newest_turns(ThreadHistory("t1"), 20) is None


def ai(*calls: str, text: str = "") -> Json:
    return {"type": "ai", "content": text, "toolCalls": [{"id": call, "name": "f", "args": {}} for call in calls]}


def tool(call: str, text: str = "done") -> Json:
    return {"type": "tool", "content": text, "toolCallId": call}


HUMAN: Json = {"type": "human", "content": "hi"}


class TestPairs:
    """Every call has one result, after the message with the call."""

    @pytest.mark.parametrize(
        ("stored", "sent"),
        [
            ([ai("1"), tool("1")], [ai("1"), tool("1")]),
            ([ai("1", "2"), tool("2"), HUMAN, tool("1")], [ai("1", "2"), tool("1"), tool("2"), HUMAN]),
            ([ai("1"), HUMAN], [ai("1"), tool("1", NO_RESULT), HUMAN]),
            ([tool("1"), HUMAN], [HUMAN]),
            ([ai("1"), tool("1"), tool("1", "again")], [ai("1"), tool("1", "again")]),
            ([ai("1"), tool("1", "a"), ai("1"), tool("1", "b")], [ai("1"), tool("1", "a"), ai("1"), tool("1", "b")]),
        ],
    )  # fmt: skip
    def test_results_follow_their_calls(self, stored: list[Json], sent: list[Json]) -> None:
        """Messages between them move; a missing result is added, a result without a call is dropped."""
        assert paired(stored) == sent

    def test_runs_with_the_same_ids_of_calls(self) -> None:
        """A result belongs to the call of its own visit, whichever ids the provider gives."""
        left = [
            {**ai("1"), "id": "run1:a:1.1:1"}, {**ai("1"), "id": "run2:a:1.1:1"},
            {**tool("1", "b"), "id": "run2:a:1.2"}, {**ai("1"), "id": "run2:a:1.3:2"},
            {**tool("1", "a"), "id": "run1:a:1.2"}, {**tool("1", "c"), "id": "run2:a:1.4"},
        ]  # fmt: skip
        assert paired(left) == [ai("1"), tool("1", "a"), ai("1"), tool("1", "b"), ai("1"), tool("1", "c")]

    def test_a_retry(self) -> None:
        """The result of the turn that makes the call replaces that of the turn that gave it up, and no other."""
        left = [
            {**ai("1"), "id": "run1:a:1.1:1"}, {**tool("1", GIVEN_UP), "id": "run1:a:1.2"},
            {**ai("1"), "id": "run2:a:1.1:1"}, {**tool("1", "b"), "id": "run2:a:1.2"},
            {**tool("1", GIVEN_UP), "id": "run3:a:1.2"},
        ]  # fmt: skip
        made = [{**tool("1", "a"), "id": "run4:a:1.2"}, {**tool("1", "lost"), "id": "run5:a:1.2"}]
        assert paired(left) == [ai("1"), tool("1", GIVEN_UP), ai("1"), tool("1", "b")]
        assert paired([*left, *made]) == [ai("1"), tool("1", "a"), ai("1"), tool("1", "b")]

    def test_a_plain_message(self) -> None:
        """Ids, times and an empty list of calls are not sent to the provider."""
        row = {"type": "ai", "content": "", "id": "m1", "toolCalls": []}
        assert paired([row]) == [{"type": "ai", "content": ""}]

    def test_optional_keys(self) -> None:
        """Images, attachments and ids of calls are sent if they are not empty."""
        message = {"type": "human", "content": "look", "images": [{"data": "x"}], "attachments": {}}
        assert paired([message]) == [{"type": "human", "content": "look", "images": [{"data": "x"}]}]

    def test_the_request(self) -> None:
        """It has the system text, the conversation, the message and the rounds; empty parts are left out."""
        rounds = [ai("9"), tool("9")]
        context = {"system": "Be kind.", "human": {"content": "Where is my money?"}}
        assert request_of(context, [HUMAN, ai(text="yes")], rounds) == [
            {"type": "system", "content": "Be kind."},
            HUMAN,
            {"type": "ai", "content": "yes"},
            {"type": "human", "content": "Where is my money?"},
            *rounds,
        ]
        assert request_of({"system": "", "human": None}, (), ()) == []
