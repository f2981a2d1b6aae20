"""How nodes, effects and runs go: actions, forEach, retries, timers, agents, pauses, cancelling, bounds."""

from typing import Any

import pytest

from wfcore.domain.run.effects import CallModel, CallTool
from wfcore.domain.run.entries import Aborted, Failed, Limits, Started, Succeeded
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Retry, compile_plan
from wfcore.domain.run.state import IllegalEntry, RunStatus
from wfcore.testing.histories import ANN, BEGIN, History, sketch


def test_one_action_requests_one_call() -> None:
    """An effect carries the tool, rendered parameters, time-out and a key of execution, node and visit."""
    history = History(
        sketch("s -> a", a={"params": {"x": "{{ input.n }}", "y": "n={{ input.n }}"}, "timeoutSeconds": 9}),
        {"n": 4},
    )
    assert history.effect("a") == CallTool((1, 1, 0), 1, "run-1:a:1", "tool", {"x": 4, "y": "n=4"}, 0, 9)
    assert history.succeed("a", "out").machine.output == "out"
    assert history.kinds() == [
        "run_started", "node_started", "node_finished", "node_started", "node_finished", "done",
    ]  # fmt: skip


def test_keys_cannot_be_mixed_up() -> None:
    """Node ids with colons or letters outside ASCII cannot make two effects share a key."""
    history = History(sketch("s -> a", "s -> a:1", "s -> ü", a={"forEach": "[1, 2]"}))
    keys = [effect.key for effect in history.machine.pending.values()]
    assert keys == ["run-1:a:1.0", "run-1:a:1.1", "run-1:a%3A1:1", "run-1:%C3%BC:1"]


def test_a_run_starts_once() -> None:
    """A second start is illegal."""
    with pytest.raises(IllegalEntry, match="`start` is not possible in state `running`"):
        History(sketch("s -> a")).apply(Started(0, "x", ANN, None, {}))


# Failure


def test_an_aborted_run_ends_in_error() -> None:
    """Whatever it was doing, with the reason `defect`; what has ended or is parked cannot be aborted."""
    history = History(sketch("s -> a")).apply(Aborted(1, "a bug"))
    assert (history.machine.status, history.machine.pending, history.kinds()[-1]) == ("error", {}, "error")
    assert (history.machine.error or {})["info"] == {"reason": "defect"}
    for late in (history, History(sketch("s -> h", h={"type": "humanApproval"}))):
        with pytest.raises(IllegalEntry, match="`fail` is not possible in state"):
            late.apply(Aborted(2, "a bug"))


def test_a_failure_takes_the_error_edges() -> None:
    """A failed node with error edges leads on by them, and by them alone."""
    history = History(sketch("s -> a", "a -> b", "a -error-> c")).fail("a").succeed("c", 3)
    assert history.machine.output == 3
    assert history.kinds("b") == ["node_skipped"]
    assert history.kinds("a") == ["node_started", "node_failed"]


def test_a_failure_without_error_edges_ends_the_run() -> None:
    """The run ends in error with the node's error, and nothing its siblings wanted is pending."""
    history = History(sketch("s -> a", "s -> b", "s -> c", c={"type": "humanApproval"})).fail("a", "no luck")
    machine = history.machine
    assert (machine.status, machine.pending, machine.interrupts) == ("error", {}, {})
    assert machine.error == history.events[-1].data["error"]
    assert machine.error["message"] == "no luck"
    assert machine.error["info"] == {"nodeId": "a", "reason": "tool"}


def test_an_expression_that_fails_fails_its_node() -> None:
    """A missing field fails the node, which takes its error edges."""
    history = History(sketch("s -> a", "a -error-> b", a={"params": {"x": "{{ input.none }}"}}), {})
    assert history.kinds("a") == ["node_started", "node_failed"]
    assert history.succeed("b", 1).machine.output == 1


@pytest.mark.parametrize("when", ["1", "input.none", "'true'"])
def test_a_condition_must_give_a_boolean(when: str) -> None:
    """A branch that is not a boolean, or nothing, fails a condition, even with a branch called `error`."""
    branches = [{"handle": "x", "when": when}, {"handle": "error", "when": "false"}]
    history = History(sketch("s -> c", "c -x-> a", "c -error-> a", c={"type": "condition", "branches": branches}), {})
    assert history.machine.status == "error"


def test_the_first_true_branch_wins() -> None:
    """Branches are tried in order, then `else`."""
    branches = [{"handle": "big", "when": "input.n > 10"}, {"handle": "some", "when": "input.n > 0"}]
    graph = sketch("s -> c", "c -big-> a", "c -some-> b", "c -else-> d", c={"type": "condition", "branches": branches})
    taken = [[name for name in "abd" if "node_started" in History(graph, {"n": n}).kinds(name)] for n in (11, 1, 0)]
    assert taken == [["a"], ["b"], ["d"]]


def test_built_in_tools_need_no_effect() -> None:
    """core.transform gives its rendered value and core.fail fails, both without an effect; also per item."""
    graph = sketch(
        "s -> a", "a -> b", "b -> c", "c -error-> d",
        a={"toolId": "core.transform", "params": {"value": {"n": "{{ input }}"}}},
        b={"toolId": "core.transform", "forEach": "[1, 2]",
           "params": {"value": "{{ item + nodes.a.output.n }}"}},
        c={"toolId": "core.fail", "params": {"message": "stop {{ nodes.b.output }}"}},
    )  # fmt: skip
    history = History(graph, 5)
    assert [effect.address[0] for effect in history.machine.pending.values()] == [4]
    failed = next(event for event in history.events if event.kind == "node_failed")
    assert failed.data["error"]["message"] == "stop [6,7]"


# Retries


def test_retries_back_off_up_to_a_cap() -> None:
    """Waits grow by the coefficient up to the longest; maxAttempts counts the first try; the key stays."""
    retry = {
        "maxAttempts": 4,
        "initialIntervalSeconds": 0.5,
        "backoffCoefficient": 3,
        "maxIntervalSeconds": 2,
    }
    history = History(sketch("s -> a", a={"retry": retry}))
    seen = []
    for _ in range(3):
        history.fail("a")
        seen.append((history.effect("a").attempt, history.effect("a").not_before - BEGIN))
    assert seen == [(2, 500), (3, 1500), (4, 2000)]
    assert history.effect("a").key == "run-1:a:1"
    assert history.fail("a").machine.status == "error"
    assert history.kinds("a") == ["node_started", *["node_retrying"] * 3, "node_failed"]


def test_what_cannot_be_retried_is_not() -> None:
    """A failure that says so fails the node at its first attempt."""
    history = History(sketch("s -> a", a={"retry": {"maxAttempts": 5}}))
    assert history.fail("a", retryable=False).machine.status == "error"


def test_a_late_outcome_of_an_earlier_attempt_is_illegal() -> None:
    """Only the attempt that is pending can have an outcome."""
    history = History(sketch("s -> a", a={"retry": {"maxAttempts": 2}}))
    late = history.effect("a")
    history.fail("a")
    with pytest.raises(IllegalEntry) as caught:
        history.apply(Succeeded(history.at, *late.address, late.attempt, 1))
    assert caught.value.reason == "stale"


# forEach


def test_for_each_keeps_the_order_of_its_items() -> None:
    """No more calls than maxConcurrency are under way, and results stand in the order of the items."""
    data = {"forEach": "input", "maxConcurrency": 2, "params": {"x": "{{ item }}"}}
    history = History(sketch("s -> a", a=data), [10, 20, 30])
    assert [effect.params for effect in history.machine.pending.values()] == [{"x": 10}, {"x": 20}]
    history.succeed("a", "two", 1)
    assert history.effect("a", 2).params == {"x": 30}
    history.succeed("a", "three", 2).succeed("a", "one", 0)
    assert history.machine.output == ["one", "two", "three"]


def test_for_each_of_nothing_gives_nothing() -> None:
    """An empty list is an empty result, approval or not; what is not a list fails the node."""
    assert History(sketch("s -> a", a={"forEach": "[]"})).machine.output == []
    assert History(sketch("s -> a", a={"forEach": "[]", "requiresApproval": True})).machine.output == []
    assert History(sketch("s -> a", a={"forEach": "{}"})).machine.status == "error"


def test_one_item_is_tried_again_alone() -> None:
    """An item has attempts of its own; when it has failed for good, so has the node, and the others are
    dropped.
    """
    history = History(sketch("s -> a", "a -error-> b", a={"forEach": "[1, 2]", "retry": {"maxAttempts": 2}}))
    history.fail("a", step=1)
    assert [history.effect("a", item).attempt for item in (0, 1)] == [1, 2]
    history.fail("a", step=1)
    assert [effect.address[0] for effect in history.machine.pending.values()] == [2]


# Timers


def test_a_wait_goes_off_in_time() -> None:
    """core.wait holds its branch until its time, not a millisecond less, without an effect."""
    history = History(sketch("s -> a", a={"toolId": "core.wait", "params": {"seconds": 1.5}}))
    assert (history.machine.pending, history.machine.next_due()) == ({}, BEGIN + 1500)
    assert history.pass_time(1.499).machine.status == "running"
    assert history.pass_time(0.001).machine.status == "done"
    assert history.machine.next_due() is None


@pytest.mark.parametrize("extra", [{}, {"forEach": "[1, 2]"}])
def test_a_wait_has_a_time_limit(extra: dict[str, Any]) -> None:
    """It fails with reason `timeout` at its `timeoutSeconds`, not a millisecond before; a longer one does nothing."""
    wait = {"toolId": "core.wait", "params": {"seconds": 9}, **extra}
    history = History(sketch("s -> a", a={**wait, "timeoutSeconds": 1.5})).pass_time(1.499)
    assert history.machine.status == "running"
    history.pass_time(0.001)
    assert (history.machine.status, history.machine.error["info"]["reason"]) == ("error", "timeout")
    long = History(sketch("s -> a", a={**wait, "timeoutSeconds": 9})).pass_time(9)
    assert long.machine.status == "done"


@pytest.mark.parametrize("seconds", [-1, True, "1", None, 1e11])
@pytest.mark.parametrize("extra", [{}, {"forEach": "[1]"}])
def test_a_wait_without_a_number_fails(seconds: object, extra: dict[str, Any]) -> None:
    """What is not a number of seconds fails the node."""
    history = History(sketch("s -> a", a={"toolId": "core.wait", "params": {"seconds": seconds}, **extra}))
    assert history.machine.status == "error"


def test_an_approved_wait_may_fail_too() -> None:
    """A bad number that turns up after an approval is a failure of the node like any other."""
    data = {"toolId": "core.wait", "params": {"seconds": "soon"}, "requiresApproval": True}
    history = History(sketch("s -> a", a=data)).decide("a")
    assert history.machine.status == "error"
    assert history.kinds("a")[-1] == "node_failed"


# Agents


def test_an_agent_calls_its_model() -> None:
    """Instructions and the rendered message become messages; the answer is the output; usage adds up."""
    data = {
        "type": "agent",
        "message": "sum {{ input }}",
        "instructions": ["be kind", "be brief"],
        "model": "m",
    }
    history = History(sketch("s -> a", "a -> b", a=data, b={"type": "agent", "message": "{{ nodes.a.output }}"}), [1])
    effect = history.effect("a")
    assert isinstance(effect, CallModel)
    assert list(effect.messages) == [
        {"type": "system", "content": "be kind\nbe brief"},
        {"type": "human", "content": "sum [1]"},
    ]
    history.say("a", "on").say("a", "e").succeed("a", "one", usage={"tokens": 5})
    history.succeed("b", "two", usage={"tokens": 6, "model": "m"})
    assert (history.machine.output, history.machine.usage) == ("two", {"tokens": 11})
    shown = [(str(e.kind), e.data) for e in history.events if e.kind.startswith("message")]
    assert shown[:3] == [
        ("message_delta", {"nodeId": "a", "messageId": "run-1:a:1:1", "delta": "on"}),
        ("message_delta", {"nodeId": "a", "messageId": "run-1:a:1:1", "delta": "e"}),
        ("message", {"nodeId": "a", "messageId": "run-1:a:1:1", "content": "one"}),
    ]


def test_an_answer_must_fit_the_output_schema() -> None:
    """With an outputSchema the output is the object; an answer that does not fit is a failed attempt."""
    data = {
        "type": "agent",
        "message": "x",
        "outputSchema": {"type": "object", "required": ["n"]},
        "retry": {"maxAttempts": 3},
    }
    history = History(sketch("s -> a", a=data))
    history.succeed("a", "no json").succeed("a", "{}")
    assert history.kinds("a") == ["node_started", "node_retrying", "node_retrying"]
    assert history.succeed("a", '{"n": 1}').machine.output == {"n": 1}


def test_only_a_model_streams_text() -> None:
    """A tool says nothing before its result."""
    with pytest.raises(IllegalEntry):
        History(sketch("s -> a")).say("a", "hm")


# Output


def test_the_output_is_that_of_the_ends() -> None:
    """One end gives its output, several an object by node id, none null; what failed is not an end."""
    assert History(sketch("s -> a", "s -> b")).succeed("b", 2).succeed("a", 1).machine.output == {
        "a": 1,
        "b": 2,
    }
    assert History({"nodes": [{"id": "s", "type": "start"}], "edges": []}, 9).machine.output == 9
    denied = History(sketch("s -> a", a={"requiresApproval": True})).succeed("a", "d").decide("a", "deny")
    assert (denied.machine.status, denied.machine.output) == ("done", None)


# Pausing and cancelling


def test_pausing_waits_for_what_is_under_way() -> None:
    """A paused run starts nothing new, lets effects end, parks, and goes on when it is resumed without a
    decision.
    """
    history = History(sketch("s -> a", "a -> b")).pause()
    assert history.machine.turn_open
    history.succeed("a")
    machine = history.machine
    assert (machine.status, machine.pending, machine.turn_open) == ("interrupted", {}, False)
    assert history.events[-1].data == {"status": "interrupted", "output": None, "interrupts": []}
    assert history.resume().succeed("b", 1).machine.output == 1
    assert history.events[-1].run_id == "run-2"


def test_a_paused_loop_over_items_starts_no_further_item() -> None:
    """The next item is the next step; those that are left are requested when the run goes on."""
    history = History(sketch("s -> a", a={"forEach": "[1, 2, 3]", "maxConcurrency": 1})).pause().succeed("a", 1)
    assert (history.machine.status, history.machine.pending) == ("interrupted", {})
    history.resume().succeed("a", 2, 1).succeed("a", 3, 2)
    assert history.machine.output == [1, 2, 3]


def test_a_run_with_nothing_left_is_done_though_paused() -> None:
    """There is no next step to park at."""
    assert History(sketch("s -> a")).pause().succeed("a", 1).machine.status == "done"


def test_a_parked_timer_goes_off_when_the_run_goes_on() -> None:
    """A run parked by hand has no deadline; a timer that passed meanwhile expires at the resume."""
    history = History(sketch("s -> a", a={"toolId": "core.wait", "params": {"seconds": 5}})).pause()
    assert (history.machine.status, history.machine.next_due()) == ("interrupted", None)
    history.at += 9_000
    assert history.resume().machine.status == "done"


def test_a_retry_to_come_does_not_hold_up_a_pause() -> None:
    """What is not due yet does not count as under way; it is still requested in the next turn."""
    history = History(sketch("s -> a", a={"retry": {"maxAttempts": 2}})).fail("a").pause()
    assert history.machine.status == "interrupted"
    assert history.resume().succeed("a", 1).machine.output == 1


@pytest.mark.parametrize("pausing", [False, True])
def test_a_run_can_be_cancelled(pausing: bool) -> None:
    """It ends as cancelled, drops what it wanted, and says so on its stream, also when about to park."""
    history = History(sketch("s -> a"))
    if pausing:
        history.pause()
    history.cancel()
    assert (history.machine.status, history.machine.pending) == ("cancelled", {})
    assert history.kinds()[-1] == "cancelled"


def test_cancelling_a_parked_run_adds_no_event() -> None:
    """Its turn ended with `done`; only the record changes."""
    history = History(sketch("s -> a", a={"type": "humanApproval"}))
    shown = len(history.events)
    assert history.cancel().machine.status == "cancelled"
    assert len(history.events) == shown


@pytest.mark.parametrize("again", ["pause", "cancel", "resume"])
def test_nothing_happens_after_the_end(again: str) -> None:
    """An ended run takes no entry."""
    history = History(sketch("s -> a")).succeed("a")
    with pytest.raises(IllegalEntry):
        getattr(history, again)()
    with pytest.raises(IllegalEntry):
        history.pass_time(0) if history.machine.turn_open else history.resume(by=None)


# Bounds


def test_node_visits_are_bounded() -> None:
    """The visit past the bound ends the run in error, saying which bound."""
    graph = sketch("s -> a", "a -> c", "c -x-> a",
                 c={"type": "condition", "branches": [{"handle": "x", "when": "true"}]},
                 a={"toolId": "core.transform", "params": {"value": 1}})  # fmt: skip
    machine = History(graph, limits=Limits(max_node_visits=10)).machine
    assert machine.status == "error"
    assert machine.error["info"] == {"reason": "bounds", "bound": "node_visits"}
    assert sum(machine.root.visits) == 10


def test_duration_is_bounded() -> None:
    """A turn that lasts as long as the bound ends in error; the bound can be waited for."""
    history = History(sketch("s -> a"), limits=Limits(max_run_seconds=60))
    assert history.machine.next_due() == BEGIN + 60_000
    assert history.pass_time(59.999).machine.status == "running"
    assert history.pass_time(0.001).machine.error["info"]["bound"] == "duration"


def test_a_paused_turn_has_its_bound_too() -> None:
    """While effects end, only the duration can still run out."""
    history = History(sketch("s -> a"), limits=Limits(max_run_seconds=60)).pause()
    assert history.machine.next_due() == BEGIN + 60_000


def test_effects_at_once_are_bounded() -> None:
    """One effect too many ends the run in error; as many as the bound are fine."""
    graph = sketch("s -> a", a={"forEach": "[1, 2, 3]"})
    assert len(History(graph, limits=Limits(max_concurrent_effects=3)).machine.pending) == 3
    machine = History(graph, limits=Limits(max_concurrent_effects=2)).machine
    assert (machine.status, machine.pending) == ("error", {})
    assert machine.error["info"]["bound"] == "concurrent_effects"


def test_skipped_nodes_are_bounded() -> None:
    """A cycle that goes round a long dead path skips at most so many nodes for each visit."""
    first = {"type": "condition", "branches": [{"handle": "on", "when": "true"}]}
    dead = [f"d{number} -> d{number + 1}" for number in range(200)]
    graph = sketch(
        "s -> c", "c -on-> j", "c -else-> d0", *dead, "d200 -> j", "j -on-> c", "j -else-> z", c=first, j=first
    )
    machine = History(graph, limits=Limits(max_node_visits=50)).machine
    assert sum(machine.root.visits) < 50
    assert machine.error is not None
    assert machine.error["info"] == {"reason": "bounds", "bound": "node_visits"}


def test_a_failure_that_is_out_of_date_does_not_end_the_run() -> None:
    """Neither one of an attempt that is not pending nor one that a person decides about ends the run."""
    history = History(sketch("s -> a"))
    stale = Failed(history.at, 1, 1, 0, 2, "late", "failed", False, (), None)
    held = Failed(history.at, 1, 1, 0, 1, "no connection", "connection_required", False, (), {"provider": "x"})
    last = Failed(history.at, 1, 1, 0, 1, "broken", "failed", False, (), None)
    assert [history.machine.ends_run(entry) for entry in (stale, held, last)] == [False, False, True]


def test_a_very_late_retry_waits_no_longer_than_the_bound() -> None:
    """The back-off of an attempt whose power is out of range is the longest one."""
    assert Retry(max_attempts=9, coefficient=10.0, longest=60.0).delay_ms(5_000) == 60_000


# What the machine shows


def test_a_check_changes_nothing() -> None:
    """It refuses what `apply` would refuse, and the state stays as it was."""
    history = History(sketch("s -> a"))
    before, fine = history.machine.seq, Succeeded(history.at, 1, 1, 0, 1, "x")
    history.machine.check(fine)
    assert (history.machine.seq, history.machine.length, list(history.machine.pending)) == (before, 1, [(1, 1, 0)])
    with pytest.raises(IllegalEntry):
        history.machine.check(Succeeded(history.at, 1, 1, 0, 2, "x"))
    history.apply(fine)
    with pytest.raises(IllegalEntry):
        history.machine.check(fine)


def test_events_are_collected_only_with_a_sink() -> None:
    """Without one there are none, and they count all the same; taken events are not returned again."""
    entry = Started(BEGIN, "run-1", ANN, None, {"origin": "api"})
    silent, loud = Machine(compile_plan(sketch("s -> a"))), Machine(compile_plan(sketch("s -> a")), [])
    silent.apply(entry)
    loud.apply(entry)
    assert (silent.take_events(), silent.sink) == ([], None)
    assert [event.seq for event in loud.take_events()] == [1, 2, 3, 4]
    assert (loud.take_events(), silent.seq, loud.seq) == ([], 4, 4)
    assert loud.info["origin"] == "api"


def test_a_retry_chooses_the_variation() -> None:
    """Until then the machine has none of its own, and the interrupt history has everything there ever was."""
    graph = sketch("s -> w", "w -approved-> a", w={"type": "humanApproval"})
    history = History(graph)
    name = history.waiting("w").id
    assert (history.machine.pinned, history.machine.is_draft) == (None, False)
    assert history.machine.interrupt_history == {name: "approval"}
    history.decide("w").fail("a").retry(graph)
    assert (history.machine.pinned, history.machine.is_draft) == (("workflow", 0, "v0"), True)
    assert history.machine.interrupt_history == {name: "approved"}


def test_a_start_that_was_refused() -> None:
    """The run has its first events, and has ended in error; nothing is requested."""
    machine = Machine(compile_plan(sketch("s -> a")), [])
    machine.apply(Started(BEGIN, "run-1", ANN, None, {"target": "x"}, refusal="no access"))
    assert [str(event.kind) for event in machine.take_events()] == ["run_started", "error"]
    assert (machine.status, machine.pending, machine.at) == ("error", {}, BEGIN)
    assert machine.error is not None
    assert (machine.error["message"], machine.error["info"]) == ("no access", {"reason": "access"})


def test_statuses_of_turns_that_are_under_way() -> None:
    """A queued turn and a running one are; an interrupted one has ended."""
    assert [status for status in RunStatus if status.under_way] == [RunStatus.queued, RunStatus.running]
