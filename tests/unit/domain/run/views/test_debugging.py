"""Tests of debug events: what a turn with `debug` shows in addition, and that no other turn does."""

from typing import Any

from wfcore.domain.run.entries import Actor, Decision, Forked, Resumed, Retried
from wfcore.domain.run.plan import skill_plan
from wfcore.domain.run.replay import step
from wfcore.testing.histories import History, sketch

DEBUG = {"message": "hi", "debug": True}
SEGMENT = {"source": "memories", "ref": "m1", "tokens": 12}
CONTEXT = {
    "model": "m", "system": "a secret", "human": {"content": "hi"}, "tools": [], "digest": "sha256:ab",
    "segments": [{**SEGMENT, "why": "matches a secret"}],
}  # fmt: skip
BY = Actor("bob", "bob@example.org")


def shown(history: History) -> list[dict[str, Any]]:
    """The debug events so far."""
    return [dict(event.data) for event in history.events if event.kind == "debug"]


def timed(history: History) -> list[tuple[Any, ...]]:
    fields = ("nodeId", "effect", "attempt", "ms")
    return [tuple(one[name] for name in fields) for one in shown(history) if one["about"] == "timing"]


def test_a_context_is_shown_without_its_texts() -> None:
    """Digest and sizes are those of the context; each effect of the agent has its time."""
    history = History(skill_plan(1), info=dict(DEBUG))
    history.pass_time(2).succeed("agent", CONTEXT).pass_time(0.25).succeed("agent", "hello")
    assert shown(history)[1] == {
        "about": "context", "nodeId": "agent", "digest": "sha256:ab", "segments": [SEGMENT]
    }  # fmt: skip
    assert timed(history) == [("agent", "context", 1, 2_000), ("agent", "model", 1, 250)]
    assert "secret" not in str(shown(history))
    assert [event.seq for event in history.events] == list(range(1, len(history.events) + 1))


def test_each_attempt_of_a_tool_has_its_time() -> None:
    """That of a repetition begins when its pause is over."""
    graph = sketch("s -> fetch", fetch={"retry": {"maxAttempts": 2, "initialIntervalSeconds": 5}})
    history = History(graph, info={"debug": True})
    history.pass_time(1).fail("fetch").pass_time(7).succeed("fetch")
    assert timed(history) == [("fetch", "tool", 1, 1_000), ("fetch", "tool", 2, 2_000)]
    assert shown(history)[0]["toolId"] == "tool"


def test_effects_of_children_show_their_place() -> None:
    """The events of a child have its path."""
    call = {"toolId": "core.workflow", "params": {"workflowId": 2, "input": {}}}
    child = sketch("s -> fetch")
    history = History(sketch("s -> call", call=call), info={"debug": True}, children={2: child})
    history.open("call", {}).pass_time(1).succeed("call/fetch")
    assert shown(history) == [
        {"about": "timing", "nodeId": "fetch", "path": ["call"], "effect": "tool", "toolId": "tool", "attempt": 1,
         "ms": 1_000}
    ]  # fmt: skip


def test_a_turn_without_debug_shows_none() -> None:
    """The value has to be `true`."""
    for info in ({}, {"debug": False}, {"debug": "true"}, {"debug": None}):
        history = History(skill_plan(1), info={"message": "hi", **info})
        history.succeed("agent", CONTEXT).succeed("agent", "hello")
        assert shown(history) == []


def test_each_turn_has_its_own_debug() -> None:
    """A resume, a retry and a fork say it anew. What was requested in a turn before has no time."""
    graph = sketch("s -> ask", "s -> fetch", "ask -approved-> pay", ask={"type": "humanApproval"})
    history = History(graph, info={})
    waiting = history.waiting("ask").id
    debugged = Resumed(history.at, "run-2", BY, (Decision(waiting, "approve"),), {"debug": True})
    history.apply(debugged).pass_time(3).succeed("fetch")
    assert timed(history) == []
    history.fail("pay")
    assert timed(history) == [("pay", "tool", 1, 3_000)]
    assert history.machine.status == "error"
    twin = step(history.machine, Retried(history.at, "run-3", BY, info={"debug": None}))
    assert twin.state.requested_at is None
    kept = step(history.machine, Retried(history.at, "run-3", BY))
    assert list(kept.state.requested_at.values()) == [history.at]
    forked = step(history.machine, Forked(history.at, "fork-1", BY, "key", ("pay",), info={"debug": None}))
    assert forked.state.requested_at is None
