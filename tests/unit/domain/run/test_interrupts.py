"""Waits for a person: who may answer, what the answers come to, deadlines, and the turns that they make."""

from typing import Any

import pytest
from msgspec.structs import replace

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.errors import Forbidden, Invalid, NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, Role
from wfcore.domain.run.entries import Actor, Decision
from wfcore.domain.run.machine.states.deciders import check_answer, may_decide, may_see
from wfcore.domain.run.machine.states.interrupts import exit_by_hand, interrupt_to_wire
from wfcore.domain.run.plan import action_plan
from wfcore.domain.run.state import IllegalEntry, Interrupt
from wfcore.testing.histories import ANN, BEGIN, History, sketch

BOB = Actor("bob", "bob@example.org")
ORG, TEAM = "org-uuid", "team-uuid"


def asking(*edges: str, **data: Any) -> History:
    """A run that waits at the approval `w`."""
    return History(sketch("s -> w", *edges, w={"type": "humanApproval", **data}))


def reason(history: History, *decisions: Decision, by: Actor | None = ANN) -> str:
    with pytest.raises(IllegalEntry) as caught:
        history.resume(*decisions, by=by)
    return caught.value.reason


# Answers


def test_a_run_that_only_waits_is_parked() -> None:
    """The turn ends with `done`, interrupted, listing the open interrupts."""
    history = asking("w -approved-> a", message="ok?", formSchema={"type": "object"})
    wire = interrupt_to_wire(history.waiting("w"))
    assert history.kinds()[-2:] == ["interrupt", "done"]
    assert history.events[-1].data == {"status": "interrupted", "output": None, "interrupts": [wire]}
    assert wire == {
        "interruptId": history.waiting("w").id, "type": "approval", "nodeId": "w", "message": "ok?",
        "expiresAt": None, "requiredApprovals": 1, "approvals": 0, "formSchema": {"type": "object"},
    }  # fmt: skip


def test_an_answer_is_a_new_turn() -> None:
    """The next run begins at seq 1 and names its parent; the answer is the node's output."""
    history = asking("w -approved-> a").decide("w", by=BOB, data={"n": 1})
    first = next(event for event in history.events if event.run_id == "run-2")
    assert (first.kind, first.seq, first.data["parentRunId"]) == ("run_started", 1, "run-1")
    assert history.machine.nodes["w"]["output"] == {
        "decision": "approve", "data": {"n": 1}, "decidedBy": ["bob"],
        "decidedAt": "2027-01-15T08:00:00.000Z",
        "answers": [{"userId": "bob", "decision": "approve", "data": {"n": 1}, "at": "2027-01-15T08:00:00.000Z"}],
    }  # fmt: skip


def test_the_data_of_every_approver_is_kept() -> None:
    """`data` is the last approver's, `answers` has everybody's; of a denial `decidedBy` names who denied alone."""
    history = asking("w -approved-> a", requiredApprovals=2).decide("w", data="x").decide("w", by=BOB, data="y")
    output = history.machine.nodes["w"]["output"]
    assert (output["data"], output["decidedBy"]) == ("y", ["ann", "bob"])
    assert [(one["userId"], one["data"]) for one in output["answers"]] == [("ann", "x"), ("bob", "y")]
    denied = asking("w -denied-> a", requiredApprovals=2).decide("w", data="x").decide("w", "deny", BOB, data="no")
    output = denied.machine.nodes["w"]["output"]
    assert (output["decision"], output["data"], output["decidedBy"]) == ("deny", "no", ["bob"])
    assert [(one["userId"], one["decision"]) for one in output["answers"]] == [("ann", "approve"), ("bob", "deny")]


def test_a_denial_takes_its_edges_or_ends_the_path() -> None:
    """With a `denied` edge the run goes on there; without one the path ends and the run is done."""
    assert asking("w -denied-> a", "w -approved-> b").decide("w", "deny").effect("a").attempt == 1
    ended = asking("w -approved-> b").decide("w", "deny")
    assert ended.kinds("b") == ["node_skipped"]
    assert ended.machine.output["decision"] == "deny"


def test_several_approvals_are_collected() -> None:
    """The first of two is a turn of its own, parked again on the same interrupt; the second goes on."""
    history = asking("w -approved-> a", requiredApprovals=2)
    waiting = history.waiting("w").id
    history.decide("w")
    assert (history.machine.status, history.waiting("w").id) == ("interrupted", waiting)
    assert history.events[-1].data["interrupts"][0]["approvals"] == 1
    assert reason(history, Decision(waiting, "approve")) == "already_decided"
    history.decide("w", by=BOB)
    assert history.machine.nodes["w"]["output"]["decidedBy"] == ["ann", "bob"]
    assert history.effect("a").attempt == 1


def test_one_denial_decides() -> None:
    """However many approvals there were."""
    history = asking("w -denied-> a", requiredApprovals=3).decide("w").decide("w", "deny", BOB)
    assert history.effect("a").attempt == 1


def test_answering_beside_a_working_branch() -> None:
    """The old turn ends there as interrupted; the other branch goes on, undisturbed, in the new one."""
    history = History(sketch("s -> w", "s -> a", "w -approved-> b", w={"type": "humanApproval"}))
    before = history.effect("a")
    history.decide("w")
    assert history.effect("a") is before
    ended = [event for event in history.events if event.run_id == "run-1"][-1]
    assert (ended.kind, ended.data["status"], len(ended.data["interrupts"])) == ("done", "interrupted", 1)
    history.succeed("a", 1).succeed("b", 2)
    assert history.machine.output == {"a": 1, "b": 2}


def test_several_answers_are_all_or_nothing() -> None:
    """One that cannot be taken refuses them all; together they are one turn."""
    graph = sketch("s -> v", "s -> w", v={"type": "humanApproval"}, w={"type": "humanApproval"})
    history = History(graph)
    both = Decision(history.waiting("v").id, "approve"), Decision(history.waiting("w").id, "deny")
    assert reason(history, both[0], Decision("int_none", "approve")) == "already_resumed"
    assert reason(history, both[0], both[0]) == "duplicate"
    assert reason(history, both[0], replace(both[1], decision="connected")) == "wrong_decision"
    assert len(history.machine.interrupts) == 2
    assert history.resume(*both).machine.status == "done"
    assert history.events[-1].run_id == "run-2"


def test_an_answer_may_void_another_of_the_same_turn() -> None:
    """The first starts the cycle anew, so that what the second answered waits no more."""
    graph = sketch("s -> a", "a -> v", "a -> w", "v -denied-> a", "w -denied-> a",
                   v={"type": "humanApproval"}, w={"type": "humanApproval"})  # fmt: skip
    history = History(graph).succeed("a")
    history.resume(*(Decision(history.waiting(name).id, "deny") for name in "vw"))
    assert history.effect("a").address == (1, 2, 0)


def test_what_waits_is_not_resumed_without_an_answer() -> None:
    """Nor is what does not wait; the reason says which."""
    assert reason(asking()) == "decision_required"
    assert reason(History(sketch("s -> a"))) == "not_interrupted"
    assert reason(asking(timeoutSeconds=5), by=None) == "not_due"
    assert reason(asking().decide("w")) == "not_interrupted"


# Deadlines


@pytest.mark.parametrize(
    ("edges", "on_timeout", "goes_to"),
    [
        (["w -expired-> a", "w -denied-> b"], "deny", "a"),
        (["w -expired-> a", "w -approved-> b"], "error", "a"),
        (["w -approved-> a", "w -denied-> b"], "approve", "a"),
        (["w -approved-> b", "w -denied-> a"], "deny", "a"),
        (["w -approved-> b", "w -denied-> a"], None, "a"),
    ],
)
def test_a_passed_deadline(edges: list[str], on_timeout: str | None, goes_to: str) -> None:
    """It takes the `expired` edges, else does what onTimeout says (deny); it is recorded as expired all the
    same.
    """
    data = {"onTimeout": on_timeout} if on_timeout else {}
    history = asking(*edges, timeoutSeconds=5, **data)
    assert history.machine.next_due() == BEGIN + 5_000
    history.pass_time(5)
    assert history.effect(goes_to).attempt == 1
    assert history.machine.nodes["w"]["output"]["decision"] == "expired"
    assert history.events[-1].run_id == "run-2"


def test_a_deadline_can_end_the_run() -> None:
    """onTimeout `error` fails the node."""
    machine = asking("w -approved-> b", timeoutSeconds=5, onTimeout="error").pass_time(5).machine
    assert (machine.status, machine.error["info"]["cause"]) == ("error", "expired")


def test_a_deadline_passes_while_others_work() -> None:
    """With a turn open, time alone does it: no new turn is made."""
    history = History(sketch("s -> w", "s -> a", "w -expired-> b", w={"type": "humanApproval", "timeoutSeconds": 5}))
    history.pass_time(5)
    assert history.effect("b").attempt == 1
    assert {event.run_id for event in history.events} == {"run-1"}


def test_an_answer_after_the_deadline_is_too_late() -> None:
    """It is refused as expired, also when nobody has noticed yet."""
    history = asking("w -approved-> a", timeoutSeconds=5)
    history.at += 5_000
    assert reason(history, Decision(history.waiting("w").id, "approve")) == "expired"


def test_an_answer_elsewhere_lets_a_passed_deadline_go_off() -> None:
    """A new turn sees the time: it does not park again on what has expired."""
    graph = sketch("s -> v", "s -> w", "w -expired-> a",
                   v={"type": "humanApproval"}, w={"type": "humanApproval", "timeoutSeconds": 5})  # fmt: skip
    history = History(graph)
    history.at += 9_000
    assert history.decide("v").effect("a").attempt == 1


# Reminders and escalations

BOSS = {"emails": ["Boss@example.org"]}


def test_a_reminder_leaves_the_approval_open() -> None:
    """The system makes a turn that parks again on the same interrupt, with an event; a decision still counts."""
    history = asking("w -approved-> a", remindAfterSeconds=5, timeoutSeconds=60)
    name = history.waiting("w").id
    assert history.machine.next_due() == BEGIN + 5_000
    history.pass_time(5)
    reminded = next(event for event in history.events if event.kind == "interrupt.reminded")
    assert (reminded.run_id, reminded.data["interruptId"]) == ("run-2", name)
    assert reminded.data["remindedAt"] == "2027-01-15T08:00:05.000Z"
    assert (history.machine.status, history.waiting("w").id) == ("interrupted", name)
    assert history.events[-1].data["interrupts"][0]["remindedAt"] == "2027-01-15T08:00:05.000Z"
    assert history.machine.next_due() == BEGIN + 60_000
    assert history.decide("w").effect("a").attempt == 1


def test_reminders_do_not_replace_the_turn_that_was_interrupted() -> None:
    """`current_turns` has the turns before the reminders, until a decision, a deadline or a retry follows."""
    history = asking("w -approved-> a", remindAfterSeconds=5, escalateAfterSeconds=10, escalateTo=BOSS)
    history.pass_time(5).pass_time(5)
    assert history.machine.current_turns == ("run-1", "run-2", "run-3")
    assert history.machine.copy().current_turns == ("run-1", "run-2", "run-3")
    assert history.decide("w").machine.current_turns == ("run-4",)
    late = asking("w -expired-> a", remindAfterSeconds=5, timeoutSeconds=9).pass_time(5).pass_time(4)
    assert late.machine.current_turns == ("run-3",)
    retried = asking(remindAfterSeconds=5).pass_time(5).cancel().retry()
    assert len(retried.machine.current_turns) == 1


def test_a_reminder_beside_a_working_branch() -> None:
    """With a turn open, time alone does it."""
    data = {"type": "humanApproval", "remindAfterSeconds": 5}
    history = History(sketch("s -> w", "s -> a", "w -approved-> b", w=data)).pass_time(5)
    assert {event.run_id for event in history.events} == {"run-1"}
    assert history.kinds("w") == ["node_started", "interrupt", "interrupt.reminded"]
    assert history.pass_time(5).kinds("w").count("interrupt.reminded") == 1


def test_what_is_due_at_once_is_one_event() -> None:
    """A reminder and an escalation of the same moment; after the deadline there is neither."""
    data = {"remindAfterSeconds": 5, "escalateAfterSeconds": 6, "escalateTo": BOSS, "timeoutSeconds": 9}
    both = asking("w -approved-> a", **data).pass_time(8)
    (event,) = [one for one in both.events if one.kind == "interrupt.reminded"]
    assert event.data["remindedAt"] == event.data["escalatedAt"]
    late = asking("w -expired-> a", **data).pass_time(9)
    assert "interrupt.reminded" not in late.kinds()
    assert late.effect("a").attempt == 1


def test_an_escalation_adds_approvers() -> None:
    """Only after it they see the interrupt and can decide; the first ones still can."""
    named = {"approvers": {"emails": ["bob@example.org"]}, "escalateAfterSeconds": 5, "escalateTo": BOSS}
    for data, first in ((named, False), ({**named, "approvers": {"groups": [TEAM]}}, False), (
            {"escalateAfterSeconds": 5, "escalateTo": BOSS}, True)):  # fmt: skip
        history = asking("w -approved-> a", **data)
        assert refusal(person("boss"), history.waiting("w"), False) is NotFound
        history.pass_time(5)
        escalated = history.waiting("w")
        assert refusal(person("boss"), escalated, False) is None
        assert refusal(person("boss", verified=False), escalated, False) is NotFound
        assert refusal(person("bob", TEAM), escalated, first) is None
        assert refusal(person("eve"), escalated, False) is NotFound


# Actions that need approval


def test_an_approved_call_runs_as_it_was_shown() -> None:
    """The interrupt shows tool, arguments and digest; exactly that stored call runs."""
    history = History(sketch("s -> a", a={"requiresApproval": True, "params": {"x": "{{ input }}"}}), 5).succeed(
        "a", "d"
    )
    shown = history.events[-2].data
    assert (history.machine.pending, shown["toolId"], shown["arguments"]) == ({}, "tool", {"x": 5})
    assert shown["digest"] == fingerprint({"toolId": "tool", "arguments": {"x": 5}})
    history.decide("a")
    assert (history.effect("a").tool, history.effect("a").params) == ("tool", shown["arguments"])
    assert history.succeed("a", 1).machine.output == 1


@pytest.mark.parametrize("many", [False, True])
def test_no_call_is_made_before_its_definition_is_known(many: bool) -> None:
    """A run that goes on while the definition is read does not make the call: it has no approval yet."""
    data = {"requiresApproval": True, **({"forEach": "[1, 2]"} if many else {})}
    history = History(sketch("s -> a", "s -> w", a=data, w={"type": "humanApproval"}))
    assert [effect.address[-1] for effect in history.pending("a")] == [-1]
    history.decide("w")
    assert [effect.address[-1] for effect in history.pending("a")] == [-1]
    history.succeed("a", "d")
    assert (history.machine.pending, history.waiting("a").type) == ({}, "approval")
    assert len(history.decide("a").machine.pending) == (2 if many else 1)


def test_one_approval_binds_all_calls_of_a_loop() -> None:
    """With forEach the arguments are the list of all of them."""
    data = {"requiresApproval": True, "forEach": "[1, 2]", "params": {"x": "{{ item }}"}}
    history = History(sketch("s -> a", a=data)).succeed("a", "d")
    assert history.waiting("a").call["arguments"] == [{"x": 1}, {"x": 2}]
    assert len(history.decide("a").machine.pending) == 2


def test_a_denied_call_fails_or_ends_the_path() -> None:
    """It takes the error edges, or ends the path, but never the run."""
    call = {"requiresApproval": True}
    caught = History(sketch("s -> a", "a -error-> b", a=call)).succeed("a", "d").decide("a", "deny")
    assert caught.effect("b").attempt == 1
    ended = History(sketch("s -> a", "a -> b", a=call)).succeed("a", "d").decide("a", "deny")
    assert (ended.machine.status, ended.kinds("b")) == ("done", ["node_skipped"])
    assert ended.kinds("a")[-1] == "node_failed"


# Who may


def person(name: str, *groups: str, verified: bool = True) -> Principal:
    email = f"{name}@example.org"
    return Principal(ORG, name, email, frozenset(groups), frozenset(), Role.MEMBER, verified)


def waiting(**fields: Any) -> Interrupt:
    return Interrupt("int_1", 0, "w", 1, "?", 0, **fields)


def refusal(who: Principal, interrupt: Interrupt, can_use: bool) -> type[Exception] | None:
    try:
        may_decide(who, interrupt, ANN, can_use)
    except (Forbidden, NotFound) as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("named", "who", "can_use", "expected"),
    [
        ({}, person("bob"), True, None),
        ({}, person("bob"), False, NotFound),
        ({"emails": ("bob@example.org",)}, person("bob"), False, None),
        ({"emails": ("bob@example.org",)}, person("bob", verified=False), False, NotFound),
        ({"emails": ("bob@example.org",)}, person("eve"), True, Forbidden),
        ({"emails": ("bob@example.org",)}, person("eve"), False, NotFound),
        ({"groups": (TEAM,)}, person("bob", TEAM), False, None),
        ({"groups": (TEAM,)}, person("bob"), True, Forbidden),
        ({"groups": (ORG,)}, person("bob"), False, None),
        ({"allow_self": False}, person("ann"), True, Forbidden),
        ({"allow_self": False}, person("bob"), True, None),
        ({"allow_self": True}, person("ann"), True, None),
    ],
)
def test_who_may_decide(named: dict[str, Any], who: Principal, can_use: bool, expected: type[Exception] | None) -> None:
    """The named ones, by verified e-mail or group, even without access; else whoever can use."""
    assert refusal(who, waiting(**named), can_use) is expected
    assert may_see(who, waiting(**named), can_use) or expected in (NotFound, Forbidden)


def test_nobody_decides_twice() -> None:
    """The required approvals come from different people."""
    once = asking(requiredApprovals=2).decide("w", by=Actor("bob")).waiting("w")
    assert refusal(person("bob"), once, True) is Forbidden
    assert refusal(person("eve"), once, True) is None


@pytest.mark.parametrize(("kind", "decision"), [("approval", "connected"), ("connect", "approve"), ("approval", "x")])
def test_an_answer_of_the_wrong_kind_is_invalid(kind: str, decision: str) -> None:
    """Approvals take approve or deny, connects take connected or cancelled."""
    with pytest.raises(Invalid) as caught:
        check_answer(waiting(type=kind), Decision("int_1", decision), "decisions[0].")
    assert caught.value.info["errors"][0]["path"] == "decisions[0].decision"


def test_an_approval_must_fill_the_form() -> None:
    """Data that breaks the form is invalid; a denial needs none."""
    form = waiting(form_schema={"type": "object", "required": ["n"]})
    check_answer(form, Decision("int_1", "approve", {"n": 1}))
    check_answer(form, Decision("int_1", "deny"))
    with pytest.raises(Invalid):
        check_answer(form, Decision("int_1", "approve", {}))


# Texts and outputs


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"maxTokens": 10, "of": "run"}, "the run's budget of 10 tokens is spent: go on with as much again?"),
        (
            {"maxTokens": 10, "maxCost": 2, "of": "user", "period": "day"},
            "the user's budget of 10 tokens and 2 of cost a day is spent: go on with as much again?",
        ),
        ({"maxCost": 0.5}, "the budget of 0.5 of cost is spent: go on with as much again?"),
    ],
)
def test_a_spent_budget_is_explained(budget: dict[str, Any], message: str) -> None:
    """Whose it is, how much, and for which period."""
    history = History(sketch("s -> g", g={"type": "agent", "message": "hi"}))
    history.fail("g", reason="budget", info={"budget": budget, "times": 1})
    assert (history.waiting("g").message, history.waiting("g").call) == (message, {"budget": budget})


def test_a_missing_connection_is_explained() -> None:
    """With what is known of it; a call of an action has no id of a model's call."""
    history = History(sketch("s -> a")).fail("a", reason="connection_required", info={"provider": "mail", "x": 1})
    waiting = history.waiting("a")
    assert (waiting.message, waiting.type, waiting.tool_call_id) == ("`tool` needs a connection", "connect", "")
    assert waiting.call == {"toolId": "tool", "provider": "mail"}


def test_a_changed_call_of_a_model_keeps_its_id() -> None:
    """So that clients find the call that they display."""
    tools = [{"name": "pay", "toolId": "pay", "requiresApproval": True}]
    agent = {"type": "agent", "agent_id": 1, "message": "hi"}
    called = {"text": "", "toolCalls": [{"id": "c1", "name": "pay", "args": {}}]}
    history = History(sketch("s -> g", g=agent)).succeed("g", {"tools": tools}).succeed("g", called).decide("g")
    history.fail("g", reason="definition_changed", info={"definition": "d2"})
    waiting = history.waiting("g")
    assert waiting.tool_call_id == "c1"
    assert waiting.message == "`pay` has changed since it was approved: allow it with these arguments?"


def test_the_output_after_a_deadline() -> None:
    """Nobody decided; votes that there were are kept."""
    history = asking("w -expired-> a", timeoutSeconds=9, requiredApprovals=2).decide("w", data="x").pass_time(9)
    at = "2027-01-15T08:00:00.000Z"
    assert history.machine.nodes["w"]["output"] == {
        "decision": "expired", "data": None, "decidedBy": [], "decidedAt": "2027-01-15T08:00:09.000Z",
        "answers": [{"userId": "ann", "decision": "approve", "data": "x", "at": at}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "output", "handle"),
    [
        ("approve", {"decision": "approve", "data": None}, "approved"),
        ({"decision": "deny", "data": {"n": 1}}, {"decision": "deny", "data": {"n": 1}}, "denied"),
        ("expired", {"decision": "expired", "data": None}, "expired"),
    ],
)
def test_a_decision_by_hand(given: Any, output: dict[str, Any], handle: str) -> None:
    """It is that of the user who gave it."""
    node = asking().machine.plan.nodes[1]
    by = {"decidedBy": ["bob"], "decidedAt": "2027-01-15T08:00:00.000Z", "answers": []}
    assert exit_by_hand(node, given, BOB, BEGIN) == ({**output, **by}, handle)


def test_a_handle_by_hand() -> None:
    """One of the condition; what names none is refused with those that there are."""
    choice = {"type": "condition", "branches": [{"handle": "yes", "when": "input"}]}
    machine = History(
        sketch("s -> c", "c -yes-> a", "c -else-> w", c=choice, w={"type": "humanApproval"}), True
    ).machine
    condition, action, approval = (next(one for one in machine.plan.nodes if one.id == name) for name in "caw")
    for given in ("yes", {"handle": "yes"}):
        assert exit_by_hand(condition, given, ANN, BEGIN) == ({"handle": "yes"}, "yes")
    assert exit_by_hand(action, {"handle": "yes"}, ANN, BEGIN) == ({"handle": "yes"}, None)
    for node, given, message in (
        (condition, {"handle": "no"}, "the output of `c` must name its handle: `yes` or `else`"),
        (condition, 7, "the output of `c` must name its handle: `yes` or `else`"),
        (approval, None, "the output of `w` must name its decision: `approve` or `deny` or `expired`"),
    ):
        with pytest.raises(IllegalEntry) as refused:
            exit_by_hand(node, given, ANN, BEGIN)
        assert (str(refused.value), refused.value.reason) == (message, "unknown_exit")
        assert refused.value.info["nodeId"] == node.id


def test_an_approval_shows_what_the_call_is_for() -> None:
    """The name and the purpose that the action gives its call, also of a single action; so does a connect."""
    shown: dict[str, JSON] = {"toolName": "Pay out", "aiDescription": "Pays the customer back"}
    call: dict[str, JSON] = {"toolId": "bank.pay", **shown}
    approval = History(sketch("s -> a", a={**call, "requiresApproval": True})).succeed("a", "d")
    connect = History(action_plan({**call, "params": {}}))
    connect.fail("action", reason="connection_required", info={"provider": "bank"})
    for waiting in (approval.waiting("a"), connect.waiting("action")):
        wire = interrupt_to_wire(waiting)
        assert {name: wire.get(name) for name in shown} == shown
        assert "`Pay out`" in str(wire["message"])


def test_a_tool_whose_name_was_looked_up() -> None:
    """The approval binds the digest of its definition, and the call carries it."""
    history = History(sketch("s -> a", a={"toolId": "mcp.c.t", "requiresApproval": True}))
    history.succeed("a", {"digest": "d1", "name": "Pay an invoice"})
    assert history.machine.root.batches[1].tool_name == "Pay an invoice"
    (effect,) = history.decide("a").pending("a")
    assert effect.definition == "d1"  # type: ignore[union-attr]
