"""Children: how they are opened, what they show, how they end, and what the frames around them know of it."""

from typing import Any

import pytest

from wfcore.domain.run.effects import CallTool, OpenChild
from wfcore.domain.run.entries import Decision, Failed, Limits, Opened, Resumed, Succeeded
from wfcore.domain.run.plan import action_plan
from wfcore.domain.run.replay import fold
from wfcore.domain.run.state import IllegalEntry
from wfcore.testing.histories import ANN, BEGIN, History, sketch

ASK = {"type": "humanApproval"}


def calling(workflow: int = 1, **data: Any) -> dict[str, Any]:
    return {"toolId": "core.workflow", "params": {"workflowId": workflow, "input": {"n": "{{ input.n }}"}}, **data}


def nested(*edges: str, child: dict[str, Any], call: dict[str, Any] | None = None, **data: Any) -> History:
    """A run whose node `call` is about to open `child`."""
    graph = sketch("s -> call", *edges, call=call or calling(), **data)
    return History(graph, {"n": 4}, children={1: child})


# Opening


def test_a_call_of_a_workflow_requests_a_child() -> None:
    """The effect names the workflow and its rendered input; the child starts with it, under the caller's key."""
    history = nested(child=sketch("s -> a", a={"params": {"x": "{{ input.n }}"}}))
    opener = history.effect("call")
    assert opener == OpenChild((1, 1, 0), 1, "run-1:call:1", "workflow", 1, {"n": 4})
    history.open("call", {"n": 5})
    assert history.effect("call/a") == CallTool((1, 1, 0, 1, 1, 1, 0), 1, "run-1:call:1/a:1", "tool", {"x": 5})
    assert history.succeed("call/a", "out").machine.output == "out"


def test_the_events_of_a_child_name_the_way_to_it() -> None:
    """They stand on the root's stream with `path`, and only the root begins and ends."""
    history = nested(child=sketch("s -> a")).open("call").succeed("call/a", 1)
    shown = [(str(e.kind), e.data.get("nodeId"), e.data.get("path")) for e in history.events]
    assert shown == [
        ("run_started", None, None), ("node_started", "s", None), ("node_finished", "s", None),
        ("node_started", "call", None), ("node_started", "s", ["call"]), ("node_finished", "s", ["call"]),
        ("node_started", "a", ["call"]), ("node_finished", "a", ["call"]), ("node_finished", "call", None),
        ("done", None, None),
    ]  # fmt: skip
    assert [event.seq for event in history.events] == list(range(1, 11))


def test_a_child_sees_its_own_input_and_nodes() -> None:
    """Expressions of a child read its own nodes and input, never those around it."""
    child = sketch("s -> a", "a -error-> b", a={"params": {"x": "{{ nodes.before.output }}"}})
    history = nested("before -> call", "s -> before", child=child, before={"toolId": "core.transform"})
    history.open("call")
    assert history.kinds("call/a") == ["node_started", "node_failed"]
    assert "node_started" in history.kinds("call/b")


def test_keys_of_frames_cannot_be_mixed_up() -> None:
    """Not by ids of nodes, nor by ids of runs that look like the key of a child."""
    history = nested(child=sketch("s -> a")).open("call")
    odd = History(sketch("s -> call:1/a", "s -> a")).machine.pending.values()
    assert history.effect("call/a").key not in {effect.key for effect in odd}
    assert history.effect("call/a").key.isascii()


@pytest.mark.parametrize("workflow", ["{{ input.n > 1 }}", "1", 0, 1.5, None])
def test_only_an_id_names_a_workflow(workflow: Any) -> None:
    """Anything else fails the node before anything is requested."""
    call = {"toolId": "core.workflow", "params": {"workflowId": workflow}}
    history = nested(child=sketch("s -> a"), call=call)
    assert history.machine.status == "error"
    assert "workflowId" in history.machine.error["message"]


def test_a_whole_number_names_a_workflow_however_it_is_written() -> None:
    """JSON has one kind of number: 2.0 is the id 2."""
    history = History(sketch("s -> call", call={"toolId": "core.workflow", "params": {"workflowId": 2.0}}))
    effect = history.effect("call")
    assert isinstance(effect, OpenChild)
    assert repr(effect.resource_id) == "2"


def test_a_child_whose_plan_is_missing_is_not_opened() -> None:
    """`IllegalEntry` says so before anything has moved, and the effect is as pending as before."""
    history = History(sketch("s -> call", call=calling()), {"n": 1})
    with pytest.raises(IllegalEntry) as caught:
        history.open("call")
    assert caught.value.reason == "plan_missing"
    assert isinstance(history.effect("call"), OpenChild)
    assert len(history.entries) == 1


def test_only_the_requested_child_is_opened() -> None:
    """Another workflow, a tool's result or an opening that nobody waits for is refused."""
    history = nested("s -> b", child=sketch("s -> a"))
    for entry in (
        Opened(BEGIN, 1, 1, 0, 1, "workflow", 2, "v", {}),
        Opened(BEGIN, 1, 1, 0, 1, "skill", 1, "v", {}),
        Opened(BEGIN, 2, 1, 0, 1, "workflow", 1, "v", {}),
        Succeeded(BEGIN, 1, 1, 0, 1, {}),
    ):
        with pytest.raises(IllegalEntry):
            history.apply(entry)


# Ending


def test_a_failure_inside_takes_the_error_edges_outside() -> None:
    """What nothing in the child catches is the caller's failure, with the same words."""
    history = nested("call -error-> b", child=sketch("s -> a", "s -> x")).open("call").fail("call/a", "no luck")
    failed = next(e for e in history.events if e.kind == "node_failed" and e.data["nodeId"] == "call")
    assert failed.data["error"]["message"] == "no luck"
    assert set(history.machine.pending) == {history.effect("b").address}
    assert history.machine.root.children == {}


def test_a_retry_opens_another_child_under_the_same_key() -> None:
    """Its effects have the keys of the first one's, and what is left of the first is nobody's any more."""
    call = calling(retry={"maxAttempts": 2, "initialIntervalSeconds": 1})
    history = nested(child=sketch("s -> a", "s -> x"), call=call).open("call")
    first, late = history.effect("call/a"), history.effect("call/x")
    history.fail("call/a")
    assert (history.effect("call").attempt, history.effect("call").not_before) == (2, BEGIN + 1000)
    history.open("call")
    assert history.effect("call/a").key == first.key
    with pytest.raises(IllegalEntry):
        history.apply(Succeeded(BEGIN, 1, 1, 0, 1, None, within=late.address[:-3]))
    history.fail("call/a", "again")
    assert (history.machine.status, history.machine.error["info"]["nodeId"]) == ("error", "call")


def test_whether_a_failure_inside_ends_the_run_is_foretold() -> None:
    """Only when neither the child, nor a retry, nor an error edge around it takes it."""
    for call, edges, fatal in (
        (calling(), [], True),
        (calling(), ["call -error-> b"], False),
        (calling(retry={"maxAttempts": 2}), [], False),
    ):
        history = nested(*edges, child=sketch("s -> a"), call=call).open("call")
        failed = Failed(BEGIN, 1, 1, 0, 1, "no", within=(1, 1, 0, 1))
        assert history.machine.ends_run(failed) is fatal
        assert (history.apply(failed).machine.status == "error") is fatal


def test_a_cycle_that_starts_anew_gives_its_child_up() -> None:
    """Nothing of a superseded child is pending, waits or has a timer."""
    child = sketch("s -> a", "s -> w", "s -> wait", w=ASK, wait={"toolId": "core.wait", "params": {"seconds": 9}})
    check = {"type": "condition", "branches": [{"handle": "again", "when": "false"}]}
    edges = ("s -> m", "m -> call", "call -> c", "c -again-> m", "m -> v", "v -denied-> m")
    graph = sketch(*edges, call=calling(), v=ASK, c=check)
    history = History(graph, {"n": 1}, children={1: child}).succeed("m").open("call").decide("v", "deny")
    assert [effect.key for effect in history.machine.pending.values()] == ["run-1:m:2"]
    assert (history.machine.interrupts, history.machine.timers, history.machine.root.children) == ({}, {}, {})
    history.succeed("m")
    assert history.effect("call").key == "run-1:call:2"


def test_bounds_count_what_children_do() -> None:
    """Node visits and effects at once are the run's, wherever they happen, and end it as a whole."""
    call = calling(forEach="[1, 2]")
    graph = sketch("s -> call", call=call)
    for limits, bound in ((Limits(5), "node_visits"), (Limits(max_concurrent_effects=2), "concurrent_effects")):
        history = History(graph, {"n": 1}, limits=limits, children={1: sketch("s -> a", "s -> b")})
        history.open("call", step=0)
        if not history.machine.ended:
            history.open("call", step=1)
        assert history.machine.error["info"] == {"reason": "bounds", "bound": bound}
        assert (history.machine.pending, history.machine.root.children) == ({}, {})
        assert history.kinds()[-1] == "error"


# People and time inside


def test_an_interrupt_inside_parks_the_root() -> None:
    """It carries its path, is answered like any other, and its deadline is the run's next moment."""
    child = sketch("s -> w", "w -approved-> a", w={**ASK, "timeoutSeconds": 5})
    history = nested(child=child).open("call")
    waiting = history.waiting("call/w")
    assert history.events[-1].data["interrupts"][0]["path"] == ["call"]
    assert (history.machine.status, history.machine.next_due()) == ("interrupted", BEGIN + 5000)
    outside = History(sketch("s -> w", w=ASK)).waiting("w")
    assert waiting.id != outside.id
    assert history.decide("call/w").effect("call/a").attempt == 1


def test_a_deadline_inside_goes_off() -> None:
    """The system resumes the run, and the child goes on as if it stood alone."""
    child = sketch("s -> w", "w -expired-> a", w={**ASK, "timeoutSeconds": 5})
    history = nested(child=child).open("call").pass_time(5)
    assert history.succeed("call/a", 7).machine.output == 7


def test_a_child_has_so_much_time() -> None:
    """`timeoutSeconds` of the node that called it bounds all that it does, waits for people included."""
    call = calling(timeoutSeconds=5, retry={"maxAttempts": 2, "initialIntervalSeconds": 1})
    history = nested("call -error-> b", child=sketch("s -> w", "w -approved-> a", w=ASK), call=call).open("call")
    assert history.machine.next_due() == BEGIN + 5000
    history.pass_time(5)
    assert (history.machine.interrupts, history.effect("call").attempt) == ({}, 2)
    history.open("call").pass_time(5)
    failed = next(e for e in history.events if e.kind == "node_failed")
    assert failed.data["error"]["info"] == {"nodeId": "call", "reason": "timeout"}
    assert set(history.machine.pending) == {history.effect("b").address}
    assert history.machine.timers == {}

    history = nested(child=sketch("s -> a"), call=call).open("call").succeed("call/a", 1)
    assert (history.machine.status, history.machine.timers) == ("done", {})


def test_timers_of_several_children_expire_together() -> None:
    """Each child goes on; the run ends only when all have."""
    child = sketch("s -> t", "t -> a", t={"toolId": "core.wait", "params": {"seconds": 3}})
    history = nested(child=child, call=calling(forEach="[1, 2]"))
    history.open("call").open("call").pass_time(3)
    assert len(history.pending("call/a")) == 2
    history.succeed("call/a", 1).succeed("call/a", 2)
    assert (history.machine.status, history.machine.output) == ("done", [1, 2])


def test_a_paused_run_holds_its_children() -> None:
    """Nothing new is requested inside; a child opened meanwhile starts when the run is resumed."""
    history = nested("s -> b", child=sketch("s -> a", "a -> z")).open("call").pause()
    history.succeed("call/a").succeed("b")
    assert (history.machine.status, history.machine.pending) == ("interrupted", {})
    assert history.resume().succeed("call/z", 1).machine.status == "done"

    history = nested(child=sketch("s -> a")).pause().open("call")
    assert (history.machine.status, history.machine.pending) == ("interrupted", {})
    assert history.resume().succeed("call/a", 2).machine.output == 2


def test_a_resumed_run_is_the_same_in_all_frames() -> None:
    """What a turn says of the run is what expressions inside children read."""
    child = sketch("s -> w", "w -approved-> a", w=ASK, a={"params": {"x": "{{ run.origin }}"}})
    history = nested(child=child).open("call")
    decision = Decision(history.waiting("call/w").id, "approve")
    history.apply(Resumed(BEGIN, "run-2", ANN, (decision,), {"origin": "api"}))
    assert history.effect("call/a").params == {"x": "api"}


def test_answering_one_interrupt_releases_no_other() -> None:
    """A call that waits for its own approval is not made because the run went on for another reason."""
    child = sketch("s -> a", "s -> w", a={"requiresApproval": True}, w=ASK)
    history = nested("s -> b", child=child, b={"requiresApproval": True}).open("call")
    history.succeed("b", "d").succeed("call/a", "d").decide("call/w")
    assert history.machine.pending == {}
    assert {history.waiting("b").id, history.waiting("call/a").id} == set(history.machine.interrupts)


def test_cancelling_ends_all_frames() -> None:
    """Nothing is left, and no event follows the terminal."""
    history = nested(child=sketch("s -> a", "s -> w", w=ASK)).open("call").cancel()
    assert (history.machine.pending, history.machine.interrupts, history.machine.root.children) == ({}, {}, {})
    assert history.kinds()[-1] == "cancelled"


# Calls whose outcome may be unknown, calls that need a connection


def test_what_was_sent_is_known_until_the_next_attempt() -> None:
    """`Sent` marks this attempt, once; a retry is another one. The mark survives folding."""
    history = History(sketch("s -> a", a={"retry": {"maxAttempts": 2}})).send("a")
    assert history.effect("a").sent
    again = fold(history.machine.plan, history.entries)
    assert again.pending == history.machine.pending
    with pytest.raises(IllegalEntry):
        history.send("a")
    assert not history.fail("a").effect("a").sent


@pytest.mark.parametrize("data", [{}, {"forEach": "[1]"}])
def test_a_missing_connection_opens_an_interrupt(data: dict[str, Any]) -> None:
    """The call waits for `connected`, is made again, waits again while it has to; `cancelled` fails the node."""
    history = History(sketch("s -> a", "a -error-> b", a=data))
    needed = {"reason": "connection_required", "info": {"provider": "mail"}}
    call = history.effect("a")
    names = []
    for _ in range(2):
        history.fail("a", **needed)
        waiting = history.waiting("a")
        names.append(waiting.id)
        assert (waiting.type, dict(waiting.call)) == ("connect", {"toolId": "tool", "provider": "mail"})
        assert history.machine.status == "interrupted"
        history.decide("a", "connected")
        assert history.effect("a") == call
    assert len(set(names)) == 2
    history.fail("a", **needed).decide("a", "cancelled")
    assert "node_failed" in history.kinds("a")
    assert history.effect("b").attempt == 1


def test_a_connect_is_not_answered_like_an_approval() -> None:
    """Each kind of interrupt takes its own answers alone."""
    history = History(sketch("s -> a", "s -> w", w=ASK)).fail("a", reason="connection_required", info={"provider": "x"})
    for node, decision in (("a", "approve"), ("w", "connected")):
        with pytest.raises(IllegalEntry) as caught:
            history.decide(node, decision)
        assert caught.value.reason == "wrong_decision"


def test_of_an_action_alone_tool_and_parameters_count() -> None:
    """What else its descriptor says changes nothing: there is no retry and no loop in it."""
    action = {"toolId": "tool", "params": {"x": "{{ input.n }}"}, "retry": {"maxAttempts": 9}, "forEach": "[1, 2]"}
    history = History(action_plan(action), {"n": 3})
    assert history.effect("action").params == {"x": 3}
    assert history.fail("action").machine.status == "error"
