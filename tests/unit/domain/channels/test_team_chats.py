"""Team chats: messages, the runs that they start, and answers."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from wfcore.domain.channels.interfaces import Interface, InterfaceKind
from wfcore.domain.channels.team_chats import (
    TeamMessage,
    answer_id_of,
    answer_of,
    body_of,
    read_team_message,
    reply_address,
    run_id_of,
)
from wfcore.domain.kernel.errors import Invalid, Malformed

INTERFACE = Interface("i1", 7, InterfaceKind.TEAMCHAT, {}, datetime(2026, 1, 1, tzinfo=UTC))
MESSAGE: TeamMessage = {"type": "message", "channel": "c", "text": "hi"}
RECORD: dict[str, Any] = {
    "runId": "r1",
    "status": "done",
    "output": "paid",
    "error": None,
    "interrupts": [],
    "usage": {"calls": 1},
}


class TestMessages:
    """Messages of a team chat."""

    def test_known_keys_are_kept(self) -> None:
        """Unknown keys and nulls are ignored."""
        assert read_team_message({**MESSAGE, "thread": None, "token": "x", "user": "u"}) == {**MESSAGE, "user": "u"}

    @pytest.mark.parametrize("data", [None, [], {"type": "message"}, {**MESSAGE, "text": 1}])
    def test_malformed(self, data: Any) -> None:
        """A wrong type or a missing key is malformed."""
        with pytest.raises(Malformed):
            read_team_message(data)

    @pytest.mark.parametrize("change", [{"text": ""}, {"channel": "c" * 256}, {"type": "reaction"}])
    def test_invalid(self, change: dict[str, str]) -> None:
        """An empty text, a long name and another type are invalid."""
        with pytest.raises(Invalid):
            read_team_message({**MESSAGE, **change})


class TestRuns:
    """The run of a message."""

    def test_the_body(self) -> None:
        """It has the message, the thread of the conversation, and the user if there is one."""
        body = body_of(7, INTERFACE, {**MESSAGE, "user": "u"}, {"message": "hi"})
        assert body == {
            "workflowId": 7,
            "input": {"message": "hi"},
            "message": "hi",
            "fileThreadId": body["fileThreadId"],
            "origin": "teamchat",
            "userContext": {"userId": "u", "name": "u"},
        }
        named = body_of(7, INTERFACE, {**MESSAGE, "user": "u", "name": "Grace", "email": "g@x.org"}, {})
        assert named["userContext"] == {"userId": "u", "name": "Grace", "email": "g@x.org"}
        assert "userContext" not in body_of(7, INTERFACE, MESSAGE, {})

    def test_conversations(self) -> None:
        """Channel and thread of one interface are one conversation."""
        other = attrs.evolve(INTERFACE, id="i2")
        threads = [
            body_of(7, interface, message, {})["fileThreadId"]
            for interface in (INTERFACE, other)
            for message in (MESSAGE, {**MESSAGE, "channel": "d"}, {**MESSAGE, "thread": "t"})
        ]
        assert len({*threads}) == 6
        assert body_of(7, INTERFACE, {**MESSAGE, "text": "other"}, {})["fileThreadId"] == threads[0]

    def test_ids(self) -> None:
        """Ids are the same on every attempt, and differ by interface, message, run and status."""
        other = attrs.evolve(INTERFACE, id="i2")
        assert run_id_of(INTERFACE, "m").startswith("teamchat-7-")
        assert len({run_id_of(INTERFACE, "m"), run_id_of(INTERFACE, "n"), run_id_of(other, "m")}) == 3
        answers = {answer_id_of(one, run, status) for one in (INTERFACE, other) for run in "rs" for status in "de"}
        assert len(answers) == 8


class TestAnswers:
    """Answers to a message."""

    def test_the_answer(self) -> None:
        """It has the address of the message and the fields of the run."""
        assert answer_of(reply_address(MESSAGE, "m1"), RECORD) == {
            "type": "answer",
            "channel": "c",
            "thread": None,
            "messageId": "m1",
            "runId": "r1",
            "status": "done",
            "output": "paid",
            "error": None,
            "interrupts": [],
            "text": "paid",
        }

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"output": {"a": 1}}, '{"a":1}'),
            ({"output": None}, ""),
            ({"status": "error", "error": {"message": "broken"}}, "broken"),
            ({"status": "cancelled"}, "The run was cancelled."),
            ({"status": "interrupted"}, "The run was interrupted."),
            ({"status": "interrupted", "interrupts": [{"message": "Pay?"}, {}, {"message": "Send?"}]}, "Pay?\nSend?"),
        ],
    )
    def test_the_text(self, change: dict[str, Any], text: str) -> None:
        """It is the error, the messages of open interrupts, a sentence for the status, or the output."""
        assert answer_of(reply_address(MESSAGE, "m1"), RECORD | change)["text"] == text
