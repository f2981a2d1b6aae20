"""Tests of the progress of tools: an event for each report, and nothing else changes."""

import pytest

from wfcore.domain.run.entries import Progressed, Sent
from wfcore.domain.run.state import IllegalEntry
from wfcore.testing.histories import History, sketch

LOOK = {"name": "look", "toolId": "web.look", "kind": "tool"}
CONTEXT = {"model": "m", "settings": {}, "human": {"content": "hi"}, "tools": [LOOK]}


def shown(history: History) -> list[dict[str, object]]:
    return [dict(event.data) for event in history.events if event.kind == "tool_progress"]


def test_a_report_is_an_event_and_the_call_goes_on() -> None:
    """Before and after the call is announced; the effect stays as it is, and its result ends it."""
    history = History(sketch("s -> pay")).progress("pay", 1, total=4)
    before = history.effect("pay")
    history.apply(Sent(history.at, 1, 1, 0, 1)).apply(Progressed(history.at, 1, 1, 0, 1, None, None, "page 2"))
    assert (before.key, history.effect("pay").attempt) == (history.effect("pay").key, 1)
    assert shown(history) == [
        {"nodeId": "pay", "toolId": "tool", "progress": 1, "total": 4},
        {"nodeId": "pay", "toolId": "tool", "progress": None, "message": "page 2"},
    ]
    assert history.succeed("pay", 7).machine.output == 7


def test_each_item_has_its_index() -> None:
    """The calls of one node report side by side."""
    history = History(sketch("s -> pay", pay={"forEach": "input", "params": {"n": "{{ item }}"}}), [5, 6])
    history.progress("pay", 1, step=1).progress("pay", 2, step=0)
    assert [(one["index"], one["progress"]) for one in shown(history)] == [(1, 1), (0, 2)]


def test_a_call_of_a_model_has_its_id() -> None:
    """As in its result."""
    skill = {"type": "agent", "agent_id": 1, "message": "go"}
    history = History(sketch("s -> a", a=skill)).succeed("a", CONTEXT)
    history.succeed("a", {"text": "", "toolCalls": [{"id": "c1", "name": "look", "args": {}}]}).progress("a", 3)
    assert shown(history) == [{"nodeId": "a", "toolId": "web.look", "progress": 3, "toolCallId": "c1"}]


def test_a_report_that_comes_too_late_is_refused() -> None:
    """After the result, of another attempt, and of an effect that is not a call of a tool."""
    history = History(sketch("s -> pay", "pay -> ask", ask={"type": "agent", "message": "hi"}))
    with pytest.raises(IllegalEntry):
        history.apply(Progressed(history.at, 1, 1, 0, 2, 1))
    history.succeed("pay")
    for node in (1, 2):
        with pytest.raises(IllegalEntry):
            history.apply(Progressed(history.at, node, 1, 0, 1, 1))
    assert shown(history) == []
