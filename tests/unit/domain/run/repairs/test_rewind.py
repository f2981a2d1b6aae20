"""What a retry and a fork keep: differences with another graph, handles, outputs, and the turn that begins."""

import re
from typing import Any

import pytest

from wfcore.domain.run.effects import CallModel
from wfcore.domain.run.entries import Forked, Retried
from wfcore.domain.run.state import IllegalEntry
from wfcore.testing.histories import ANN, BEGIN, History, sketch

ASK = {"type": "humanApproval"}
CHOICE = {"type": "condition", "branches": [{"handle": "yes", "when": "input"}]}
CHILD = {"toolId": "core.workflow", "params": {"workflowId": 1}}
LINE = sketch("s -> a", "a -> b", "b -> c")


def keys(history: History) -> list[tuple[str, int]]:
    """Key and attempt of what is pending."""
    return [(effect.key.removeprefix("run-1:"), effect.attempt) for effect in history.machine.pending.values()]


@pytest.mark.parametrize(
    ("mended", "difference"),
    [
        (sketch("s -> b", "b -> c"), ("a", "removed", "node `a` has ended, and is not in the other graph")),
        (
            sketch("s -> a", "a -> b", "b -> c", a=ASK),
            ("a", "type", "node `a` has ended as `action`, and is `humanApproval` in the other graph"),
        ),
        (
            sketch("s -> a", "s -> b", "b -> c"),
            ("a", "edge", "the edge from `a` to `b` was taken, and is not in the other graph"),
        ),
        (
            sketch("s -> a", "a -> b", "s -> n", "n -> b", "b -> c"),
            ("b", "edge", "node `b` has ended, and follows `n` in the other graph, which has not run"),
        ),
    ],
)
def test_a_difference_is_explained(mended: dict[str, Any], difference: tuple[str, str, str]) -> None:
    """In the words of the graph, beside what differs; the message of the refusal is the same for all."""
    history = History(LINE).succeed("a").succeed("b").fail("c")
    with pytest.raises(IllegalEntry, match=r"^what the run has done does not fit the graph$") as refused:
        history.retry(mended)
    shown: Any = refused.value.info["differences"]
    assert shown[0] == dict(zip(("nodeId", "what", "message"), difference, strict=True))


def test_the_handle_of_a_condition_is_kept_by_every_retry() -> None:
    """Its edges stay those that it took."""
    graph = sketch("s -> c", "c -yes-> a", "c -else-> b", c=CHOICE)
    history = History(graph, True).fail("a").retry().fail("a").retry()
    assert (keys(history), history.kinds("b")) == ([("a:1", 3)], ["node_skipped"])


def test_the_outputs_of_nodes_that_run_again_are_gone() -> None:
    """Until they have new ones."""
    history = History(LINE).succeed("a", 1).succeed("b", 2).fail("c").retry(again=("b",))
    assert history.machine.nodes == {"s": {"output": None}, "a": {"output": 1}}


def test_nodes_after_one_of_another_type_go_on() -> None:
    """Only that one begins a new visit."""
    history = History(sketch("s -> a", "s -> b")).cancel()
    history.retry(sketch("s -> a", "s -> b", a={"type": "agent", "message": "hi"}))
    assert keys(history) == [("a:2", 1), ("b:1", 2)]


def test_the_turn_of_a_retry() -> None:
    """It has neither output nor error, names its target, and the ids of its messages begin with its own."""
    graph = sketch(
        "s -> a", "a -> g", "g -> b", g={"type": "agent", "message": "hi"}, b={"params": {"n": "{{ run.n }}"}}
    )
    history = History(graph, info={"target": {"type": "workflow"}, "n": 1}).fail("a")
    history.events.clear()
    history.apply(Retried(history.at, "run-2", ANN, info={"n": 2}))
    assert (history.machine.output, history.machine.error, history.machine.info["n"]) == (None, None, 2)
    assert history.events[0].data == {"target": {"type": "workflow"}, "parentRunId": "run-1"}
    history.succeed("a").say("g", "he")
    assert history.events[-1].data["messageId"] == "run-2:g:1:1"
    (effect,) = history.succeed("g", "hello").pending("b")
    assert effect.params == {"n": 2}  # type: ignore[union-attr]


def test_a_refused_retry_and_a_refused_fork() -> None:
    """Both end at once in error, with the reason `refused`."""
    history = History(LINE).fail("a")
    history.apply(Retried(history.at, "run-2", ANN, refusal="no access"))
    fork = History(LINE).succeed("a")
    fork.apply(Forked(fork.at, "fork-1", ANN, "", ("b",), refusal="no access"))
    for one in (history, fork):
        assert one.machine.error is not None
        assert (one.machine.status, one.machine.error["message"]) == ("error", "no access")
        assert one.machine.error["info"] == {"reason": "access"}
        assert one.machine.pending == {}


def test_unknown_names_are_refused() -> None:
    """With the same reason for every field."""
    for body in ({"again": ("z",)}, {"outputs": {"z": 1}}, {"skip": ("z",)}):
        with pytest.raises(IllegalEntry, match=r"^there is no node `z`$") as refused:
            History(LINE).fail("a").retry(**body)  # type: ignore[arg-type]
        assert refused.value.reason == "unknown_node"


def test_a_node_that_gets_an_output_by_hand_has_one_visit() -> None:
    """Its first one, where it had not begun."""
    history = History(LINE).fail("a").retry(outputs={"c": 7}).succeed("a").succeed("b")
    started = [
        event.data["visit"] for event in history.events if event.data.get("nodeId") == "c" and "visit" in event.data
    ]
    assert (started, history.machine.output) == ([1], 7)


def test_the_execution_of_a_fork() -> None:
    """It has the id, the user, the start and the input of its own; expressions read them."""
    params = {
        "run": "{{ run.id }}",
        "user": "{{ run.userId }}",
        "at": "{{ run.startedAt }}",
        "s": "{{ nodes.s.output }}",
    }
    source = History(sketch("s -> a", "a -> b", "s -> c", b={"params": params}), 1).succeed("a")
    fork = source.fork("b", given=(2,))
    by_node = {effect.key: effect for effect in fork.machine.pending.values()}
    assert by_node.keys() == {"fork-key:b:2", "fork-key:c:1"}
    assert by_node["fork-key:b:2"].params == {  # type: ignore[union-attr]
        "run": "fork-1", "user": "ann", "at": "2027-01-15T08:00:00.000Z", "s": 2,
    }  # fmt: skip
    assert fork.machine.nodes["s"] == {"output": 2}


def test_interrupts_of_a_fork() -> None:
    """Each has an id of the usual form, the same for every replay, and is opened with the fork."""
    source = History(sketch("s -> w", "s -> a", w=ASK)).succeed("a")
    source.at += 5_000
    first, second = source.fork("a"), source.fork("a")
    waiting = first.waiting("w")
    assert re.fullmatch("int_[0-9a-f]{24}", waiting.id)
    assert waiting.id == second.waiting("w").id != source.waiting("w").id
    assert (waiting.opened_at, waiting.visit, waiting.answers) == (BEGIN + 5_000, 1, ())


def test_an_approval_in_a_child_that_goes_on() -> None:
    """It is open again where the child is now, and can be decided."""
    inside = {1: sketch("s -> w", "w -approved-> b", w=ASK)}
    history = History(sketch("s -> a", a={**CHILD, "forEach": "[7]"}), children=inside).open("a")
    history.cancel().at += 9_000
    history.retry(sketch("s -> n", "s -> a", a={**CHILD, "forEach": "[7]"}))
    again = history.waiting("a/w")
    assert (again.visit, again.opened_at) == (1, BEGIN + 9_000)
    assert (again.path, again.items, again.within) == (("a",), (0,), (2, 1, 0, 1))
    assert keys(history.decide("a/w")) == [("n:1", 1), ("a:1.0/b:1", 1)]


def test_attempts_before_the_retry_do_not_count() -> None:
    """Neither those of a call, of a child, nor the wait for the next of them."""
    twice = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 60}}
    history = History(sketch("s -> a", a=twice)).fail("a").cancel().retry()
    (effect,) = history.pending("a")
    assert (effect.attempt, effect.carried, effect.not_before) == (3, 2, 0)  # type: ignore[union-attr]
    inside = {1: sketch("s -> b")}
    child = History(sketch("s -> a", a={**CHILD, **twice}), children=inside).open("a").fail("a/b").open("a").fail("a/b")
    assert child.machine.status == "error"
    assert keys(child.retry()) == [("a:1/b:1", 2)]
    assert keys(child.fail("a/b")) == [("a:1", 3)]


def test_a_held_model_is_held_again() -> None:
    """In the same attempt, with what its turn has now; a call that broke off before counts anew."""
    agent = {"type": "agent", "message": "hi", "timeoutSeconds": 9}
    budget = {"config": {"budget": {"maxTokens": 1}}}
    history = History(sketch("s -> f", "f -> g", f=agent, g=agent), info=budget)
    history.succeed("f", "x", usage={"inputTokens": 5}).cancel().retry()
    (effect,) = history.decide("g").pending("g")
    assert isinstance(effect, CallModel)
    assert (effect.key, effect.attempt, effect.carried, effect.timeout) == ("run-1:g:1", 1, 0, 9)
    again = History(sketch("s -> g", g=agent)).say("g", "he").fail("g", reason="broken_off").cancel().retry()
    (effect,) = again.pending("g")
    assert isinstance(effect, CallModel)
    assert (effect.attempt, effect.broken_off, effect.timeout) == (3, 0, 9)
