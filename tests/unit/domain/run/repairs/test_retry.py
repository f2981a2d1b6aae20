"""Retries: a new turn continues a failed or cancelled execution, and repeats nothing that was completed."""

from typing import Any, ClassVar

import pytest

from wfcore.domain.run.effects import CallModel, CallTool
from wfcore.domain.run.entries import Actor, Forked, Limits, Retried, decode_entry, encode_entry
from wfcore.domain.run.machine.entries.repair_entries import approvals_of, has_begun
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import skill_plan
from wfcore.domain.run.replay import fold
from wfcore.domain.run.state import IllegalEntry
from wfcore.testing.histories import ANN, History, sketch

LINE = sketch("s -> a", "a -> b", "b -> c")
ASK = {"type": "humanApproval"}
CHOICE = {"type": "condition", "branches": [{"handle": "yes", "when": "input"}]}
RETRY = {"retry": {"maxAttempts": 2}}
EACH = {"forEach": "input", "params": {"n": "{{ item }}"}}
CALL = {"toolId": "core.workflow", "params": {"workflowId": 1}}
AGENT = {"type": "agent", "agent_id": 7, "message": "go"}
CONTEXT = {"tools": [{"name": "look", "toolId": "web.look", "kind": "tool"}]}
LOOK = {"text": "", "toolCalls": [{"id": "c", "name": "look", "args": {}}, {"id": "d", "name": "look", "args": {}}]}


def calls(history: History) -> list[tuple[str, int, Any]]:
    """Key, attempt and parameters of the tool calls that are pending."""
    found = [effect for effect in history.machine.pending.values() if isinstance(effect, CallTool)]
    return [(effect.key.removeprefix("run-1:"), effect.attempt, effect.params) for effect in found]


def keys(history: History) -> list[tuple[str, int]]:
    return [(key, attempt) for key, attempt, _ in calls(history)]


def same_after_fold(history: History) -> None:
    """The journal, as it is stored, leads to the same state."""
    stored = [decode_entry(encode_entry(entry)) for entry in history.entries]
    again = fold(history.started_plan, stored, plans=history.machine.plans)
    assert dict(again.pending) == dict(history.machine.pending)
    assert (again.status, again.output, again.run_id) == (
        history.machine.status, history.machine.output, history.machine.run_id,
    )  # fmt: skip


class TestWhereItFailed:
    def test_the_failed_node_is_the_next_attempt_of_its_visit(self) -> None:
        """Completed nodes keep their outputs; the key of the failed call stays."""
        history = History(LINE).succeed("a", 1).fail("b").retry()
        assert (history.machine.status, keys(history)) == ("running", [("b:1", 2)])
        same_after_fold(history)
        assert history.succeed("b", 2).succeed("c", 3).machine.output == 3

    def test_the_new_turn_has_its_own_events(self) -> None:
        """It begins with `run_started`, which names the turn before, and the visit starts again."""
        history = History(LINE).succeed("a", 1).fail("b")
        history.events.clear()
        history.retry()
        assert [(event.kind, event.seq, event.run_id) for event in history.events] == [
            ("run_started", 1, "run-2"), ("node_started", 2, "run-2"),
        ]  # fmt: skip
        assert history.events[0].data["parentRunId"] == "run-1"

    def test_a_cancelled_run_goes_on_in_all_its_branches(self) -> None:
        """Each with the next attempt."""
        history = History(sketch("s -> a", "s -> b", "a -> c", "b -> c")).succeed("a", 1).cancel().retry()
        assert keys(history) == [("b:1", 2)]
        assert history.succeed("b").succeed("c", 5).machine.output == 5

    def test_a_node_that_an_earlier_pass_left_is_not_an_end(self) -> None:
        """Its cycle was left by an edge of its first pass: the output is that of the nodes that led nowhere."""
        once = {"type": "condition", "branches": [{"handle": "again", "when": "!has(nodes.a.output)"}]}
        graph = sketch("s -> a", "s -> b", "a -again-> a", "a -again-> c", a=once)
        plain = History(graph).succeed("c", 1).succeed("b", 2).machine.output
        history = History(graph).succeed("c", 1).fail("b").retry().succeed("b", 2)
        assert history.machine.output == plain == {"b": 2, "c": 1}

    def test_the_retries_of_a_node_count_anew(self) -> None:
        """The attempts of the turns before do not count."""
        history = History(sketch("s -> a", a=RETRY)).fail("a").fail("a").retry()
        assert keys(history) == [("a:1", 3)]
        history.fail("a")
        assert (history.machine.status, keys(history)) == ("running", [("a:1", 4)])
        assert history.fail("a").machine.status == "error"

    def test_other_parameters_are_a_new_visit(self) -> None:
        """So the tool gets another key."""
        graph = sketch("s -> a", a={"params": {"n": 1}})
        history = History(graph).fail("a").retry(sketch("s -> a", a={"params": {"n": 2}}))
        assert calls(history) == [("a:2", 1, {"n": 2})]
        same_after_fold(history)

    def test_another_tool_is_a_new_visit(self) -> None:
        """It has not got the key before."""
        history = History(sketch("s -> a")).fail("a").retry(sketch("s -> a", a={"toolId": "other"}))
        assert keys(history) == [("a:2", 1)]

    def test_a_failure_in_the_machine_itself(self) -> None:
        """An expression that failed is evaluated again."""
        graph = sketch("s -> a", "a -> b", b={"params": {"n": "{{ nodes.a.output.total }}"}})
        history = (
            History(graph)
            .succeed("a", {})
            .retry(sketch("s -> a", "a -> b", b={"params": {"n": "{{ nodes.a.output }}"}}))
        )
        assert calls(history) == [("b:1", 1, {"n": {}})]

    def test_a_retry_of_a_retry(self) -> None:
        """Nothing is lost on the way."""
        history = History(LINE).succeed("a", 1).fail("b").retry().fail("b").retry().cancel().retry()
        assert keys(history) == [("b:1", 4)]
        same_after_fold(history)

    @pytest.mark.parametrize("end", ["done", "interrupted", "running"])
    def test_only_what_has_failed_or_was_cancelled(self, end: str) -> None:
        """Other runs are refused, and nothing has moved."""
        history = History(sketch("s -> a", a=ASK if end == "interrupted" else {}))
        if end == "done":
            history.succeed("a")
        with pytest.raises(IllegalEntry) as refused:
            history.retry()
        assert (refused.value.reason, history.machine.status) == ("not_retryable", end)

    def test_bounds_count_from_the_new_turn(self) -> None:
        """A run that passed its bound of visits can go on."""
        history = History(LINE, limits=Limits(max_node_visits=3)).succeed("a").succeed("b")
        assert history.machine.status == "error"
        assert keys(history.retry()) == [("c:1", 1)]


class TestItems:
    def test_completed_items_stay_completed(self) -> None:
        """Those that failed or were under way are called again, the others follow."""
        graph = sketch("s -> a", a={**EACH, "maxConcurrency": 2})
        history = History(graph, [1, 2, 3]).succeed("a", "one", 0).fail("a", step=1).retry()
        assert calls(history) == [("a:1.1", 2, {"n": 2}), ("a:1.2", 2, {"n": 3})]
        same_after_fold(history)
        assert history.succeed("a", "two", 1).succeed("a", "three", 2).machine.output == ["one", "two", "three"]

    def test_also_with_other_parameters(self) -> None:
        """The others are a new visit."""
        mended = sketch("s -> a", a={**EACH, "params": {"n": "{{ item + 10 }}"}})
        history = History(sketch("s -> a", a=EACH), [1, 2]).succeed("a", "one", 0).fail("a", step=1).retry(mended)
        assert calls(history) == [("a:2.1", 1, {"n": 12})]
        assert history.succeed("a", "two", 1).machine.output == ["one", "two"]

    def test_other_items_run(self) -> None:
        """A result belongs to its item."""
        mended = sketch("s -> a", a={**EACH, "forEach": "[1, 7]"})
        history = History(sketch("s -> a", a=EACH), [1, 2]).succeed("a", "one", 0).fail("a", step=1).retry(mended)
        assert calls(history) == [("a:2.1", 1, {"n": 7})]

    def test_null_is_a_result(self) -> None:
        """An item whose tool returned null is not called again."""
        history = History(sketch("s -> a", a=EACH), [1, 2]).succeed("a", None, 0).fail("a", step=1).retry()
        assert keys(history) == [("a:1.1", 2)]


class TestChildren:
    INSIDE: ClassVar[dict[int, Any]] = {1: sketch("s -> b", "b -> c")}

    def test_a_failed_child_is_carried_on(self) -> None:
        """Where it failed, under the same keys."""
        history = (
            History(sketch("s -> a", a=CALL), children=self.INSIDE).open("a").succeed("a/b", 1).fail("a/c").retry()
        )
        assert keys(history) == [("a:1/c:1", 2)]
        same_after_fold(history)
        assert history.succeed("a/c", 2).machine.output == 2

    def test_on_a_graph_with_other_positions(self) -> None:
        """Outcomes of the child belong to the node where it is now."""
        mended = sketch("s -> z", "z -> a", "s -> a", a=CALL)
        history = History(sketch("s -> a", a=CALL), children=self.INSIDE).open("a").succeed("a/b", 1).fail("a/c")
        history.retry(mended).succeed("z")
        assert keys(history) == [("a:1/c:1", 2)]
        same_after_fold(history)
        assert history.succeed("a/c", 2).machine.output == 2

    def test_children_of_items(self) -> None:
        """One had ended, one has failed, one was under way."""
        graph = sketch("s -> a", a={**CALL, "forEach": "input"})
        history = History(graph, [1, 2, 3], children=self.INSIDE)
        history.open("a", step=0).open("a", step=1).open("a", step=2)
        by_item = history.pending("a/b")
        assert [effect.key for effect in by_item] == ["run-1:a:1.0/b:1", "run-1:a:1.1/b:1", "run-1:a:1.2/b:1"]
        history.succeed("a/b", 1).succeed("a/c", "x").fail("a/b").retry()
        assert keys(history) == [("a:1.1/b:1", 2), ("a:1.2/b:1", 2)]
        same_after_fold(history)

    def test_a_cancelled_child(self) -> None:
        """It goes on too, with its time limit from now on."""
        graph = sketch("s -> a", a={**CALL, "timeoutSeconds": 60})
        history = History(graph, children=self.INSIDE).open("a").succeed("a/b", 1).cancel().retry()
        assert (keys(history), history.machine.next_due()) == ([("a:1/c:1", 2)], history.at + 60_000)
        assert history.pass_time(60).machine.status == "error"
        assert keys(history.retry()) == [("a:1/c:1", 3)]

    def test_a_child_that_could_not_be_opened(self) -> None:
        """It is requested again."""
        history = History(sketch("s -> a", a=CALL), children=self.INSIDE).fail("a", retryable=False).retry()
        assert [(effect.key, effect.attempt) for effect in history.pending("a")] == [("run-1:a:1", 2)]


class TestWaits:
    def test_an_approval_is_requested_again(self) -> None:
        """With the same id, and without the votes it had."""
        graph = sketch("s -> w", "w -approved-> a", w={**ASK, "requiredApprovals": 2})
        history = History(graph).decide("w")
        before = history.waiting("w")
        history.cancel().retry()
        assert (history.waiting("w").id, history.waiting("w").answers) == (before.id, ())
        same_after_fold(history)
        assert keys(history.decide("w").decide("w", by=Actor("bob"))) == [("a:1", 1)]

    def test_the_approval_of_a_call_binds_it_as_before(self) -> None:
        """An approved call that failed needs no other approval; one that was not approved does."""
        graph = sketch("s -> a", a={"requiresApproval": True})
        assert keys(History(graph).succeed("a", "d").decide("a").fail("a").retry()) == [("a:1", 2)]
        waiting = History(graph).succeed("a", "d").cancel().retry().succeed("a", "d")
        assert (waiting.machine.status, keys(waiting.decide("a"))) == ("interrupted", [("a:1", 1)])

    def test_other_arguments_need_another_approval(self) -> None:
        """The approval was for those before."""
        graph = sketch("s -> a", a={"requiresApproval": True, "params": {"n": 1}})
        mended = sketch("s -> a", a={"requiresApproval": True, "params": {"n": 2}})
        history = History(graph).succeed("a", "d").decide("a").fail("a").retry(mended).succeed("a", "d")
        assert (history.machine.status, keys(history)) == ("interrupted", [])

    def test_a_definition_that_was_looked_up(self) -> None:
        """It is looked up again, and the approval is requested again; what was approved stays so."""
        graph = sketch("s -> a", a={"toolId": "mcp.c.t", "requiresApproval": True})
        waiting = History(graph).cancel().retry()
        assert [(effect.address[-1], effect.attempt) for effect in waiting.pending("a")] == [(-1, 1)]
        waiting.succeed("a", "digest").cancel().retry().succeed("a", "digest").decide("a")
        assert keys(waiting) == [("a:1", 1)]
        same_after_fold(waiting)
        (effect,) = waiting.fail("a").retry().pending("a")
        assert isinstance(effect, CallTool)
        assert (effect.definition, effect.attempt) == ("digest", 2)

    def test_a_call_that_was_held(self) -> None:
        """It is held again: a decision is needed before it is made."""
        needed: dict[str, Any] = {"reason": "connection_required", "info": {"provider": "mail"}}
        history = History(sketch("s -> a")).fail("a", **needed).cancel().retry()
        assert (history.machine.status, keys(history)) == ("interrupted", [])
        assert keys(history.decide("a", "connected")) == [("a:1", 1)]

    def test_a_timer_keeps_its_moment(self) -> None:
        """A wait is not longer for having been cancelled."""
        history = History(sketch("s -> a", a={"toolId": "core.wait", "params": {"seconds": 60}})).cancel().retry()
        assert history.machine.next_due() == history.at + 60_000
        assert history.pass_time(60).machine.status == "done"


class TestAgents:
    def test_a_model_without_a_context(self) -> None:
        """The same call, as the next attempt."""
        history = History(sketch("s -> a", a={"type": "agent", "message": "go"})).fail("a").retry()
        (effect,) = history.pending("a")
        assert isinstance(effect, CallModel)
        assert (effect.key, effect.attempt) == ("run-1:a:1", 2)
        assert history.succeed("a", "hello").machine.output == "hello"

    @pytest.mark.parametrize("graph", [sketch("s -> agent", agent=AGENT), skill_plan(7)], ids=["node", "skill"])
    def test_an_agent_goes_on_in_its_round(self, graph: Any) -> None:
        """Calls with a result are not made again; the model gets all of them."""
        history = History(graph, {}, info={"message": "go"}).succeed("agent", CONTEXT).succeed("agent", LOOK)
        history.succeed("agent", "found", 2).cancel().retry()
        assert keys(history) == [("agent:1.3", 2)]
        same_after_fold(history)
        (effect,) = history.succeed("agent", "more").pending("agent")
        assert isinstance(effect, CallModel)
        assert [message["content"] for message in effect.transcript[1:]] == ["found", "more"]
        assert history.succeed("agent", "bye").machine.output == "bye"

    def test_a_model_that_failed(self) -> None:
        """The context stays, the call is the next attempt."""
        history = History(sketch("s -> a", a=AGENT)).succeed("a", CONTEXT).fail("a").retry()
        assert [(effect.key, effect.attempt) for effect in history.pending("a")] == [("run-1:a:1.1", 2)]

    def test_a_context_that_failed(self) -> None:
        """It is composed again."""
        history = History(sketch("s -> a", a=AGENT)).fail("a").retry()
        assert [(effect.key, effect.attempt) for effect in history.pending("a")] == [("run-1:a:1.0", 2)]

    def test_another_message_is_a_new_visit(self) -> None:
        """The agent begins anew."""
        history = History(sketch("s -> a", a=AGENT)).succeed("a", CONTEXT).fail("a")
        history.retry(sketch("s -> a", a={**AGENT, "message": "stop"}))
        assert [(effect.key, effect.attempt) for effect in history.pending("a")] == [("run-1:a:2.0", 1)]

    def test_a_refused_budget_is_requested_again(self) -> None:
        """The call was not made, so it is requested as a new one, which is held again."""
        budget: dict[str, Any] = {"reason": "budget", "info": {"budget": {"maxTokens": 1, "of": "user"}, "times": 1}}
        history = (
            History(sketch("s -> a", a=AGENT)).succeed("a", CONTEXT).fail("a", **budget).decide("a", "deny").retry()
        )
        assert [(effect.key, effect.attempt) for effect in history.pending("a")] == [("run-1:a:1.2", 1)]


AGAIN = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.a.output < 2"}]}


class TestCycles:
    GRAPH = sketch("s -> a", "a -> b", "b -> c", "c -again-> a", "c -else-> d", c={
        "type": "condition", "branches": [{"handle": "again", "when": "nodes.b.output < 2"}],
    })  # fmt: skip

    def test_in_a_later_pass(self) -> None:
        """The pass goes on, and the cycle can go round again and be left."""
        history = History(self.GRAPH).succeed("a").succeed("b", 0).succeed("a").fail("b").retry()
        assert keys(history) == [("b:2", 2)]
        same_after_fold(history)
        history.succeed("b", 1).succeed("a").cancel().retry().succeed("b", 5)
        assert keys(history) == [("d:1", 1)]

    def test_after_the_cycle(self) -> None:
        """A cycle that was left stays so."""
        history = History(self.GRAPH).succeed("a").succeed("b", 5).fail("d").retry()
        assert keys(history) == [("d:1", 2)]

    def test_an_edge_that_an_earlier_pass_took(self) -> None:
        """It leads out of the cycle, and stays taken: its target runs once the cycle is left."""
        graph = sketch("s -> a", "a -> x", "a -> b", "b -again-> a", "b -else-> d", b=AGAIN)
        history = History(graph).succeed("a", 0).fail("a").retry()
        assert keys(history) == [("a:2", 2)]
        same_after_fold(history)
        assert keys(history.succeed("a", 5)) == [("x:1", 1), ("d:1", 1)]

    def test_again_inside_a_cycle(self) -> None:
        """The node and what follows it run anew, and the cycle goes on."""
        history = History(self.GRAPH).succeed("a").succeed("b", 5).fail("d").retry(again=("b",))
        assert keys(history) == [("b:2", 1)]
        assert keys(history.succeed("b", 1)) == [("a:2", 1)]


class TestByHand:
    def test_a_node_that_has_run_runs_again_with_what_follows(self) -> None:
        """Each as a new visit; what is beside it keeps its result."""
        history = (
            History(sketch("s -> a", "a -> b", "s -> x", "b -> c", "x -> c")).succeed("a").succeed("x", 9).succeed("b")
        )
        history.fail("c").retry(again=("a",))
        assert keys(history) == [("a:2", 1)]
        history.succeed("a").succeed("b")
        assert keys(history) == [("c:2", 1)]
        same_after_fold(history)

    def test_an_output_given_by_hand(self) -> None:
        """The failed node counts as done with it."""
        graph = sketch("s -> a", "a -> b", b={"params": {"n": "{{ nodes.a.output }}"}})
        history = History(graph).fail("a").retry(outputs={"a": 7})
        assert calls(history) == [("b:1", 1, {"n": 7})]
        same_after_fold(history)

    def test_of_a_node_that_comes_later(self) -> None:
        """It is taken when the node is reached."""
        history = History(LINE).fail("a").retry(outputs={"c": 7}).succeed("a").succeed("b")
        assert (history.machine.status, history.machine.output) == ("done", 7)

    def test_of_a_node_that_has_run(self) -> None:
        """What follows it runs again."""
        history = History(LINE).succeed("a", 1).succeed("b").fail("c").retry(outputs={"a": 2})
        assert (keys(history), history.machine.nodes["a"]) == ([("b:2", 1)], {"output": 2})

    def test_skipped_nodes_count_as_done(self) -> None:
        """Without an output; their plain edges are taken."""
        history = History(sketch("s -> a", "a -> b", "a -error-> c")).cancel().retry(skip=("a",))
        assert (keys(history), history.machine.nodes["a"]) == ([("b:1", 1)], {"output": None})

    def test_a_condition_needs_a_handle_and_an_approval_a_decision(self) -> None:
        """As text, or as a field of the output."""
        graph = sketch("s -> c", "c -yes-> w", "c -else-> x", "w -approved-> a", "w -denied-> b", c=CHOICE, w=ASK)
        history = History(graph, 1)
        assert history.machine.status == "error"
        for bad in ({"skip": ("c",)}, {"outputs": {"c": 1}}, {"outputs": {"c": {"handle": "no"}}}, {"skip": ("w",)}):
            with pytest.raises(IllegalEntry) as refused:
                history.retry(**bad)
            assert refused.value.reason == "unknown_exit"
        history.retry(outputs={"c": {"handle": "yes"}, "w": "approve"}, skip=("w",))
        assert keys(history) == [("a:1", 1)]
        assert history.machine.nodes["w"]["output"]["decidedBy"] == ["ann"]

    def test_unknown_nodes(self) -> None:
        """They are refused."""
        with pytest.raises(IllegalEntry, match="there is no node `z`"):
            History(LINE).fail("a").retry(again=("z",))

    def test_a_refusal(self) -> None:
        """The turn ends at once; the next one can go on."""
        history = History(LINE).fail("a")
        history.apply(Retried(history.at, "run-2", ANN, refusal="no access"))
        assert history.machine.error is not None
        assert history.machine.error["message"] == "no access"
        history._turn = 2
        assert keys(history.retry()) == [("a:1", 2)]


class TestForks:
    def test_before_a_node(self) -> None:
        """Results so far are kept; the node and what follows it run under keys of the fork."""
        fork = History(LINE).succeed("a", 1).succeed("b", 2).succeed("c", 3).fork("c")
        (effect,) = fork.machine.pending.values()
        assert (effect.key, fork.machine.run_id, fork.machine.starter) == ("fork-key:c:2", "fork-1", ANN)
        assert [(event.kind, event.run_id) for event in fork.events] == [
            ("run_started", "fork-1"), ("node_started", "fork-1"),
        ]  # fmt: skip
        same_after_fold(fork)
        assert fork.succeed("c", 4).machine.output == 4

    def test_of_a_run_that_waits(self) -> None:
        """Its interrupts are others than those of the source, which stay open there."""
        source = History(sketch("s -> a", "s -> w", w=ASK)).succeed("a", 1)
        fork = source.fork("a", by=Actor("bob"))
        assert fork.machine.starter.user_id == "bob"
        assert fork.machine.interrupts.keys().isdisjoint(source.machine.interrupts)
        fork.succeed("a", 2)
        same_after_fold(fork)
        assert fork.machine.status == "interrupted"

    def test_a_held_call_of_a_run_that_waits(self) -> None:
        """It is held in the fork too, behind an interrupt of its own."""
        needed: dict[str, Any] = {"reason": "connection_required", "info": {"provider": "mail"}}
        source = History(sketch("s -> a", "s -> b")).fail("a", **needed).succeed("b")
        fork = source.fork("b")
        assert fork.machine.interrupts.keys().isdisjoint(source.machine.interrupts)
        assert [effect.key for effect in fork.machine.pending.values()] == ["fork-key:b:2"]

    def test_with_another_input(self) -> None:
        """Expressions that run from now on read it."""
        graph = sketch("s -> a", "a -> b", b={"params": {"n": "{{ input }}"}})
        fork = History(graph, 1).succeed("a").succeed("b").fork("b", given=(2,))
        assert calls(fork)[0][2] == {"n": 2}
        same_after_fold(fork)

    def test_on_another_graph(self) -> None:
        """If what was done fits it."""
        fork = History(LINE).succeed("a", 1).fork("b", structure=sketch("s -> a", "a -> b", b={"toolId": "other"}))
        (effect,) = fork.machine.pending.values()
        assert isinstance(effect, CallTool)
        assert effect.tool == "other"
        with pytest.raises(IllegalEntry) as refused:
            History(LINE).succeed("a", 1).fork("b", structure=sketch("s -> b"))
        assert refused.value.reason == "incompatible"

    def test_what_a_fork_needs(self) -> None:
        """Another execution, whose nodes are those named, and a plan of the variation that is chosen."""
        source = History(LINE).succeed("a", 1)
        with pytest.raises(IllegalEntry, match="there is no node `z`") as refused:
            source.fork("z")
        assert refused.value.reason == "unknown_node"
        with pytest.raises(IllegalEntry, match="continues what another execution has done") as refused:
            Machine(source.machine.plan).apply(Forked(0, "fork-1", ANN, "", ("a",)))
        assert refused.value.reason == "illegal"
        with pytest.raises(IllegalEntry, match="the plan of the variation is not in `plans`") as refused:
            source.apply(Forked(0, "fork-1", ANN, "", ("b",), ("workflow", 1, "unknown")))
        assert refused.value.reason == "plan_missing"


class TestDifferences:
    def differences(self, mended: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
        history = History(sketch("s -> a", "a -> b", "b -> c", "s -> x"), 1).succeed("a").succeed("b").fail("c")
        with pytest.raises(IllegalEntry) as refused:
            history.retry(mended, **more)
        assert history.machine.status == "error"
        found: Any = refused.value.info["differences"]
        return [(one["nodeId"], one["what"]) for one in found]

    def test_every_one_is_reported(self) -> None:
        """What has ended must be there, of the same type, with its edges, and after nothing new that has not run."""
        assert self.differences(sketch("s -> a", "a -> c")) == [("b", "removed")]
        assert self.differences(sketch("s -> a", "a -> b", "b -> c", b=ASK)) == [("b", "type")]
        assert self.differences(sketch("s -> a", "s -> b", "b -> c")) == [("a", "edge")]
        assert self.differences(sketch("s -> a", "a -> b", "s -> n", "n -> b", "b -> c")) == [("b", "edge")]
        assert self.differences(sketch("s -> n", "n -> b", a=ASK)) == [("a", "removed"), ("b", "edge")]

    def test_changed_data_is_none(self) -> None:
        """Neither are changes of what failed or never ran."""
        history = History(sketch("s -> a", "a -> b", "b -> c")).succeed("a").fail("b")
        mended = sketch("s -> a", "a -> n", "n -> b", "a -> m", a={"toolId": "other"})
        assert keys(history.retry(mended)) == [("n:1", 1), ("m:1", 1)]
        assert keys(history.succeed("n")) == [("m:1", 1), ("b:1", 2)]

    def test_nodes_that_run_again_do_not_count(self) -> None:
        """What follows `again` need not fit."""
        history = History(sketch("s -> a", "a -> b", "b -> c")).succeed("a").succeed("b").fail("c")
        mended = sketch("s -> a", "a -> b", "s -> n", "n -> b", b={"toolId": "other"})
        assert keys(history.retry(mended, again=("b",))) == [("n:1", 1)]

    def test_a_skipped_node_that_is_reached_runs(self) -> None:
        """It never ran; what was skipped with it can run too."""
        graph = sketch("s -> c", "c -yes-> a", "c -else-> b", "b -> d", "a -> f", c=CHOICE)
        mended = sketch("s -> c", "c -yes-> a", "c -yes-> b", "b -> d", "a -> f", c=CHOICE)
        history = History(graph, True).succeed("a").fail("f").retry(mended)
        assert sorted(keys(history)) == [("b:1", 1), ("f:1", 2)]
        assert sorted(keys(history.succeed("b"))) == [("d:1", 1), ("f:1", 2)]


class TestWhatWasDone:
    def test_approved_nodes(self) -> None:
        """Those that have ended after an approval: of a person, or of their call."""
        graph = sketch("s -> w", "w -approved-> a", "a -> b", "s -> x", w=ASK, a={"requiresApproval": True})
        history = History(graph).succeed("x")
        assert approvals_of(history.machine.root) == set()
        history.decide("w")
        assert approvals_of(history.machine.root) == {"w"}
        history.succeed("a", "definition").decide("a").succeed("a")
        assert approvals_of(history.machine.root) == {"w", "a"}

    def test_nodes_that_have_begun(self) -> None:
        """In the last pass of their cycle; skipped, or not reached yet, they have not."""
        graph = sketch("s -> c", "c -yes-> a", "c -else-> b", "a -> d", "d -> e", c=CHOICE)
        root = History(graph, True).succeed("a").machine.root
        assert [name for name in "scabdez" if has_begun(root, name)] == ["s", "c", "a", "d"]
        again = History(TestCycles.GRAPH).succeed("a").succeed("b", 0).machine.root
        assert [name for name in "sabcd" if has_begun(again, name)] == ["s", "a"]
