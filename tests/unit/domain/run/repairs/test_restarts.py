"""Visits that begin again after a retry: what goes on, what begins anew, and what bounds stop midway."""

from typing import Any, ClassVar

import pytest

from wfcore.domain.run.effects import CallModel, CallTool
from wfcore.domain.run.entries import Actor, Limits, Retried
from wfcore.testing.histories import ANN, History, sketch

EACH = {"forEach": "input", "params": {"n": "{{ item }}"}}
CHILD = {"toolId": "core.workflow", "params": {"workflowId": 1}}
INSIDE = {1: sketch("s -> b", b={"params": {"n": "{{ run.chosen.n }}"}})}
AGENT = {"type": "agent", "agent_id": 7, "message": "go"}
SINGLE = {"type": "agent", "message": "go"}
WAIT = {"toolId": "core.wait", "params": {"seconds": 60, "workflowId": 1}}
TOOLS = [
    {"name": "look", "toolId": "web.look", "kind": "tool"},
    {"name": "call", "toolId": "core.workflow", "kind": "workflow", "resourceId": 1},
]
BESIDE = ("s -> n", "s -> m", "s -> a")
"""Edges of a graph with two nodes that begin before `a`."""


def keys(history: History) -> list[tuple[str, int]]:
    """Key and attempt of what is pending."""
    return [(effect.key.removeprefix("run-1:"), effect.attempt) for effect in history.machine.pending.values()]


def requests(*names: str) -> dict[str, Any]:
    """A reply of a model that requests these tools."""
    calls = [{"id": f"c{number}", "name": name, "args": {}} for number, name in enumerate(names)]
    return {"text": "", "toolCalls": calls}


def bound_of(history: History) -> object:
    assert history.machine.error is not None
    return history.machine.error["info"].get("bound")


class TestExpressions:
    """What cannot be evaluated on the new graph fails the node, and repeats nothing that it requested before."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"params": {"n": 1}}, {"params": {"n": "{{ nodes.never.output }}"}}),
            ({"forEach": "[1]"}, {"forEach": "nodes.never.output"}),
            (AGENT, {**AGENT, "message": "{{ nodes.never.output }}"}),
            (SINGLE, {**SINGLE, "message": "{{ nodes.never.output }}"}),
        ],
        ids=["action", "items", "agent with a context", "agent"],
    )
    def test_the_node_fails(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        history = History(sketch("s -> a", a=before)).fail("a").retry(sketch("s -> a", a=after))
        assert (history.machine.status, keys(history)) == ("error", [])
        assert history.events[-2].data["error"]["info"] == {"nodeId": "a", "reason": "expression"}
        assert history.events[-3].data["visit"] == 2
        assert keys(history.retry(sketch("s -> a", a=before))) != []

    def test_a_wait_for_a_person_is_not_repeated_either(self) -> None:
        """The approval was that of other parameters."""
        ask = {"requiresApproval": True, "params": {"n": 1}}
        history = History(sketch("s -> a", a=ask)).succeed("a", "definition").cancel()
        history.retry(sketch("s -> a", a={**ask, "params": {"n": "{{ nodes.never.output }}"}}))
        assert (history.machine.status, history.machine.interrupts) == ("error", {})

    def test_a_visit_that_requested_nothing_goes_on(self) -> None:
        """It fails once more with the same error."""
        history = History(sketch("s -> a", a={"params": {"n": "{{ nodes.never.output }}"}})).retry()
        assert history.machine.status == "error"
        started = [event.data for event in history.events if event.kind == "node_started"]
        assert [data["visit"] for data in started if data["nodeId"] == "a"] == [1, 1]

    def test_an_agent_whose_message_could_not_be_rendered(self) -> None:
        """It starts in the same visit once the message is mended."""
        graph = sketch("s -> a", a={**SINGLE, "message": "{{ nodes.never.output }}"})
        history = History(graph).retry(sketch("s -> a", a=SINGLE))
        assert keys(history) == [("a:1", 1)]


class TestOtherNodes:
    def test_of_another_type(self) -> None:
        """A new visit, so that what is called now has a key of its own."""
        history = History(sketch("s -> a")).cancel().retry(sketch("s -> a", a=SINGLE))
        assert keys(history) == [("a:2", 1)]
        assert keys(history.cancel().retry(sketch("s -> a", a={"toolId": "other"}))) == [("a:3", 1)]

    @pytest.mark.parametrize("tool", [{**CHILD, "params": WAIT["params"]}, {"params": WAIT["params"]}])
    def test_another_tool_than_a_wait(self, tool: dict[str, Any]) -> None:
        """Its timer does not stand for the call."""
        history = History(sketch("s -> a", a=WAIT), children=INSIDE).cancel().retry(sketch("s -> a", a=tool))
        assert keys(history) == [("a:2", 1)]
        assert history.machine.root.timers == {}

    @pytest.mark.parametrize("opened", [True, False])
    def test_another_tool_than_a_child(self, opened: bool) -> None:
        """A child does not go on for it, and is not opened for it."""
        params = WAIT["params"]
        history = History(
            sketch("s -> a", a={**CHILD, "params": params}), {}, info={"chosen": {"n": 1}}, children=INSIDE
        )
        if opened:
            history.open("a")
        history.cancel().retry(sketch("s -> a", a=WAIT))
        assert (keys(history), history.machine.next_due()) == ([], history.at + 60_000)
        assert history.machine.root.children == {}

    def test_another_tool_than_a_call_that_is_held(self) -> None:
        """The decision was that of the former call."""
        ask = {"requiresApproval": True}
        history = History(sketch("s -> a", a=ask)).succeed("a", "definition").decide("a")
        history.fail("a", reason="connection_required", info={"provider": "p"}).cancel()
        history.retry(sketch("s -> a", a={**ask, "toolId": "other"}))
        assert history.machine.root.held == {}
        assert keys(history) == [("a:2.-1", 1)]


class TestBounds:
    """A retry that passes a bound in the middle of what it requests again ends there."""

    LIMITS: ClassVar = Limits(max_concurrent_effects=2)

    def test_items(self) -> None:
        """Nothing more of the batch is requested; the next turn goes on with the same attempts."""
        graph = sketch("s -> a", a=EACH)
        history = History(graph, [1, 2], limits=self.LIMITS).cancel().retry(sketch(*BESIDE, a=EACH))
        assert (bound_of(history), keys(history)) == ("concurrent_effects", [])
        assert keys(history.retry(graph)) == [("a:1.0", 2), ("a:1.1", 2)]

    def test_the_last_item(self) -> None:
        """The item that passed the bound was never requested: it is the first attempt then."""
        graph = sketch("s -> a", a=EACH)
        history = History(graph, [1, 2, 3], limits=self.LIMITS)
        assert (bound_of(history), keys(history)) == ("concurrent_effects", [])
        assert bound_of(history.retry()) == "concurrent_effects"
        narrow = sketch("s -> a", a={**EACH, "maxConcurrency": 2})
        history.retry(narrow)
        assert bound_of(history) == "concurrent_effects"

    def test_an_action_alone(self) -> None:
        """The visit in which nothing was requested goes on."""
        history = History(sketch("s -> n", "s -> m", "s -> a"), limits=self.LIMITS)
        assert bound_of(history) == "concurrent_effects"
        assert keys(history.retry(sketch("s -> n", "s -> a"))) == [("n:1", 2), ("a:1", 1)]

    def test_calls_of_a_model(self) -> None:
        """Those that were requested are requested again, up to the bound."""
        graph = sketch("s -> a", a=AGENT)
        history = (
            History(graph, limits=self.LIMITS).succeed("a", {"tools": TOOLS}).succeed("a", requests("look", "look"))
        )
        history.cancel().retry(sketch(*BESIDE, a=AGENT))
        assert (bound_of(history), keys(history)) == ("concurrent_effects", [])
        assert keys(history.retry(graph)) == [("a:1.2", 2), ("a:1.3", 2)]

    def test_a_call_that_passed_the_bound(self) -> None:
        """It is the next one that the round requests."""
        history = History(sketch("s -> a", a=AGENT), limits=self.LIMITS).succeed("a", {"tools": TOOLS})
        history.succeed("a", requests("look", "look", "look"))
        assert bound_of(history) == "concurrent_effects"
        assert bound_of(history.retry()) == "concurrent_effects"

    def test_a_context_that_passed_the_bound(self) -> None:
        """It is composed as the first attempt."""
        history = History(sketch(*BESIDE, a=AGENT), limits=self.LIMITS)
        assert bound_of(history) == "concurrent_effects"
        assert keys(history.retry(sketch("s -> a", a=AGENT))) == [("a:1.0", 1)]

    def test_children(self) -> None:
        """The children after it are not run."""
        each = {**CHILD, "forEach": "input"}
        graph = sketch("s -> a", a=each)
        history = History(graph, [1, 2], limits=self.LIMITS, info={"chosen": {"n": 1}}, children=INSIDE)
        history.open("a", step=0).open("a", step=1).cancel().retry(sketch(*BESIDE, a=each))
        assert (bound_of(history), keys(history)) == ("concurrent_effects", [])
        assert keys(history.retry(graph)) == [("a:1.0/b:1", 2), ("a:1.1/b:1", 2)]


class TestChildren:
    def test_of_a_model(self) -> None:
        """A child that a model opened goes on, and its output is a result of the round."""
        history = History(sketch("s -> a", a=AGENT), {}, info={"chosen": {"n": 1}}, children=INSIDE)
        history.succeed("a", {"tools": TOOLS}).succeed("a", requests("look", "call")).open("a", {}, step=3)
        history.succeed("a", "found", 2).cancel().retry()
        assert keys(history) == [("a:1.3/b:1", 2)]
        (effect,) = history.succeed("a/b", 5).pending("a")
        assert isinstance(effect, CallModel)
        assert [message["content"] for message in effect.transcript[1:]] == ["found", "5"]

    def test_one_that_cannot_go_on(self) -> None:
        """It fails the node, and the children after it are not run."""
        each = {**CHILD, "forEach": "input"}
        history = History(sketch("s -> a", a=each), [1, 2], info={"chosen": {"n": 1}}, children=INSIDE)
        history.open("a", step=0).open("a", step=1).cancel()
        history.apply(Retried(history.at, "run-2", ANN, info={"chosen": 1}))
        assert (history.machine.status, keys(history)) == ("error", [])
        assert [event.kind for event in history.events[-3:]] == ["node_failed", "node_failed", "error"]


def test_a_caught_failure_stays_so() -> None:
    """The node keeps its error and the edges that it took; what follows goes on."""
    graph = sketch("s -> a", "a -> b", "a -error-> c")
    history = History(graph).fail("a").fail("c").retry()
    assert keys(history) == [("c:1", 2)]
    assert history.kinds("b") == ["node_skipped"]
    assert history.succeed("c", 1).machine.output == 1


def test_a_copy_of_the_machine_has_what_was_left() -> None:
    """A retry of the copy does not change the original, for items and for agents."""
    graph = sketch("s -> a", "s -> g", a={**EACH, "maxConcurrency": 1}, g=AGENT)
    history = History(graph, [1, 2]).succeed("g", {"tools": TOOLS}).succeed("g", requests("look", "look"))
    history.succeed("a", "one", 0).cancel()
    twin = history.machine.copy()
    history.retry()
    assert keys(history) == [("a:1.1", 2), ("g:1.2", 2), ("g:1.3", 2)]
    history.succeed("a", "two", 1).succeed("g", "x", 2).cancel()
    twin.apply(Retried(history.at, "run-2", Actor("bob")))
    pending = [(effect.key, effect.attempt) for effect in twin.pending.values() if isinstance(effect, CallTool)]
    assert pending == [("run-1:a:1.1", 2), ("run-1:g:1.2", 2), ("run-1:g:1.3", 2)]
