"""Replies of models and results of tools: calls with ids of their own, texts within bounds, arguments that fit."""

from typing import Any

import pytest

from wfcore.domain.run.machine.replies import reply_of


def ids(*calls: object, step: int = 2) -> list[Any]:
    return [call["id"] for call in reply_of({"text": "", "toolCalls": list(calls)}, step).calls]


def test_ids_of_calls_are_unique() -> None:
    """A missing, empty or repeated id is made from the step; it never is that of another call."""
    assert ids({"id": "a"}, {"id": "b"}) == ["a", "b"]
    assert ids({"id": "a"}, {"id": "a"}, {"id": ""}, {"id": 7}, {}) == ["a", "call-3", "call-4", "call-5", "call-6"]
    assert ids({"id": "call-3"}, {}) == ["call-3", "call-3-"]
    assert ids({"id": "call-4"}, {"id": "call-4-"}, {}) == ["call-4", "call-4-", "call-4--"]


@pytest.mark.parametrize("output", ["hello", None, 7, ["x"]])
def test_what_is_not_an_object_is_text(output: object) -> None:
    """It requests nothing."""
    assert reply_of(output, 1).calls == ()  # type: ignore[arg-type]


def test_parts_of_another_type() -> None:
    """They are left out: a text that is not one is empty, calls that are not a list are none."""
    reply = reply_of({"text": 7, "toolCalls": "x"}, 1)
    assert (reply.text, reply.calls) == ("", ())
    (call, other) = reply_of({"text": "t", "toolCalls": [{"id": "a", "name": 7}, "x"]}, 1).calls
    assert call == {"id": "a", "name": "", "args": {}}
    assert other == {"id": "call-2", "name": "", "args": {}}
    assert reply_of({"text": "t", "toolCalls": [{"id": "a", "name": "n", "args": [1]}]}, 1).calls[0]["args"] == [1]
