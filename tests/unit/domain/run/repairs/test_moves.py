"""Parked runs that move to another graph: what stays open, what changes with the graph, and what does not fit."""

from typing import Any

import pytest
from msgspec import structs

from wfcore.domain.run.effects import OpenChild
from wfcore.domain.run.entries import Actor, Moved, decode_entry, encode_entry
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.state import IllegalEntry
from wfcore.domain.run.trace import trace
from wfcore.testing.histories import ANN, History, sketch

BOB = Actor("bob")
ASK = {"type": "humanApproval", "message": "send?"}
PAY = {"toolId": "pay", "requiresApproval": True, "params": {"n": "{{ nodes.a.output }}"}}
AGENT = {"type": "agent", "agent_id": 7, "message": "go"}
CHILD = {"toolId": "core.workflow", "params": {"workflowId": 1}}
INSIDE = {1: sketch("s -> w", "w -approved-> b", w=ASK)}
LINE = ("s -> a", "a -> w", "w -approved-> b")
TOOLS = [{"name": "pay", "toolId": "bank.pay", "kind": "tool", "requiresApproval": True}]


def turned(graph: dict[str, Any]) -> dict[str, Any]:
    """The same graph, whose nodes have other positions."""
    return {**graph, "nodes": [graph["nodes"][0], *graph["nodes"][:0:-1]]}


def differences(history: History, graph: dict[str, Any]) -> list[tuple[str, str]]:
    """Why the run does not fit this graph; nothing has moved."""
    before = history.machine.copy()
    with pytest.raises(IllegalEntry, match=r"^what the run has done does not fit the graph$") as refused:
        history.move(graph)
    assert refused.value.reason == "incompatible"
    assert (history.machine.plan, history.machine.length) == (before.plan, before.length)
    assert history.machine.interrupts == before.interrupts
    shown: Any = refused.value.info["differences"]
    return [(one["nodeId"], one["what"]) for one in shown]


def why(history: History, graph: dict[str, Any]) -> str:
    """The message of the only difference."""
    with pytest.raises(IllegalEntry) as refused:
        history.move(graph)
    (one,) = refused.value.info["differences"]  # type: ignore[misc]
    return str(one["message"])  # type: ignore[index, call-overload]


def interrupt_ids(history: History) -> list[str]:
    return list(history.machine.interrupts)


class TestApprovals:
    def test_the_run_goes_on_with_the_other_graph(self) -> None:
        """Run, turn, interrupt and events stay; what follows the approval is that of the new graph."""
        history = History(sketch(*LINE, w=ASK)).succeed("a", 1)
        names, events, seq = interrupt_ids(history), list(history.events), history.machine.seq
        other = sketch("s -> a", "a -> w", "w -approved-> n", "n -> b", w=ASK, b={"toolId": "better"})
        history.move(turned(other), BOB)
        machine = history.machine
        assert (interrupt_ids(history), history.events, machine.seq) == (names, events, seq)
        assert (machine.status, machine.run_id, machine.pinned, machine.is_draft) == (
            "interrupted", "run-1", ("workflow", 0, "v0"), False,
        )  # fmt: skip
        history.decide("w").succeed("n").succeed("b", 9)
        assert (machine.status, machine.output, history.kinds("a").count("node_started")) == ("done", 9, 1)

    def test_a_paused_run_stays_paused(self) -> None:
        history = History(sketch(*LINE, w=ASK)).pause().succeed("a", 1)
        history.move(turned(sketch(*LINE, w={**ASK, "message": "?"})))
        assert history.machine.paused
        history.resume()
        assert history.waiting("w").message == "?"

    def test_texts_approvers_and_deadlines_are_those_of_the_node_now(self) -> None:
        """They count from when the approval was requested."""
        history = History(sketch(*LINE, w={**ASK, "timeoutSeconds": 60})).succeed("a", 7)
        opened = history.waiting("w")
        history.at += 5_000
        approvers = {"emails": ["Boss@x.org"], "groups": ["g"]}
        now = {**ASK, "message": "send {{ nodes.a.output }}?", "timeoutSeconds": 90, "approvers": approvers}
        history.move(sketch(*LINE, w=now))
        moved = history.waiting("w")
        assert (moved.id, moved.message, moved.emails, moved.groups) == (opened.id, "send 7?", ("boss@x.org",), ("g",))
        assert (moved.opened_at, moved.expires_at) == (opened.opened_at, opened.opened_at + 90_000)
        assert history.machine.next_due() == moved.expires_at

    def test_votes_stay_as_long_as_they_are_about_the_same(self) -> None:
        """Another text, form or number of approvers is decided anew."""
        two = {**ASK, "requiredApprovals": 2}
        history = History(sketch(*LINE, w=two)).succeed("a").decide("w")
        history.move(sketch(*LINE, w={**two, "timeoutSeconds": 60}))
        assert [vote.by for vote in history.waiting("w").answers] == [ANN]
        history.move(sketch(*LINE, w={**two, "message": "send it all?"}))
        assert history.waiting("w").answers == ()
        history.decide("w").decide("w", by=BOB)
        assert history.machine.interrupts == {}

    def test_reminders_that_were_sent_are_not_repeated(self) -> None:
        """Unless the node has another time for them."""
        late = {**ASK, "remindAfterSeconds": 10, "escalateAfterSeconds": 20, "escalateTo": {"emails": ["c@x.org"]}}
        history = History(sketch(*LINE, w=late)).succeed("a").pass_time(10).pass_time(10)
        before = history.waiting("w")
        history.move(turned(sketch(*LINE, w=late)))
        assert structs.replace(history.waiting("w"), node=before.node) == before
        history.move(sketch(*LINE, w={**late, "remindAfterSeconds": 30, "escalateAfterSeconds": 40}))
        assert (history.waiting("w").reminded_at, history.waiting("w").escalated_at) == (None, None)

    def test_a_message_that_cannot_be_rendered(self) -> None:
        history = History(sketch(*LINE, w=ASK)).succeed("a")
        found = why(history, sketch(*LINE, w={**ASK, "message": "{{ nodes.b.output }}"}))
        assert found.startswith("node `w` has a message that cannot be rendered: ")

    def test_nodes_that_are_new_beside_the_approval(self) -> None:
        """They begin when the run goes on."""
        history = History(sketch(*LINE, w=ASK)).succeed("a")
        history.move(sketch(*LINE, "a -> n", w=ASK))
        assert (history.machine.pending, history.machine.status) == ({}, "interrupted")
        history.decide("w", "deny")
        assert [effect.key for effect in history.pending("n")] == ["run-1:n:1"]
        assert history.succeed("n", 5).machine.status == "done"


class TestDifferences:
    def test_of_what_has_ended(self) -> None:
        """As for a retry."""
        history = History(sketch(*LINE, w=ASK)).succeed("a")
        assert differences(history, sketch("s -> w", "w -approved-> b", w=ASK)) == [("a", "removed")]
        between = sketch("s -> n", "n -> a", "a -> w", "w -approved-> b", w=ASK)
        assert differences(history, between) == [("s", "edge"), ("a", "edge")]

    @pytest.mark.parametrize(
        ("graph", "message"),
        [
            (sketch("s -> a", "a -> b"), "node `w` has begun, and is not in the other graph"),
            (
                sketch("s -> a", "a -> w", "w -> b"),
                "node `w` has begun as `humanApproval`, and is `action` in the other graph",
            ),
            (
                sketch("s -> a", "s -> w", "w -approved-> b", w=ASK),
                "the edge from `a` to `w` was taken, and is not in the other graph",
            ),
            (
                sketch(*LINE, "s -> n", "n -> w", w=ASK),
                "node `w` has begun, and follows `n` in the other graph, which has not run",
            ),
        ],
    )
    def test_of_what_has_begun(self, graph: dict[str, Any], message: str) -> None:
        """It cannot go, become something else, or wait for a node that has not run."""
        assert why(History(sketch(*LINE, w=ASK)).succeed("a"), graph) == message

    def test_the_same_plan(self) -> None:
        history = History(sketch(*LINE, w=ASK)).succeed("a").move(sketch(*LINE, w=ASK))
        pinned = history.machine.pinned
        assert pinned is not None
        history.apply(Moved(history.at, ANN, pinned)).decide("w").succeed("b", 2)
        assert history.machine.output == 2

    def test_what_does_not_wait(self) -> None:
        history = History(sketch("s -> a"))
        with pytest.raises(IllegalEntry) as running:
            history.move(sketch("s -> a", "a -> b"))
        history.succeed("a")
        with pytest.raises(IllegalEntry) as ended:
            history.move(sketch("s -> a", "a -> b"))
        assert [refused.value.reason for refused in (running, ended)] == ["not_waiting", "not_waiting"]

    def test_a_plan_that_is_missing(self) -> None:
        history = History(sketch("s -> w", w=ASK))
        with pytest.raises(IllegalEntry) as refused:
            history.apply(Moved(history.at, ANN, ("workflow", 1, "unknown")))
        assert refused.value.reason == "plan_missing"


class TestCalls:
    """Approvals of tool calls bind the tool and its arguments."""

    def waiting(self) -> History:
        return History(sketch("s -> a", "a -> p", "p -> b", p=PAY)).succeed("a", 5).succeed("p", "digest")

    def test_that_stay_the_same(self) -> None:
        """The call that is made after the move is the one that was approved."""
        history = self.waiting()
        before = history.waiting("p")
        mended = {**PAY, "params": {"n": "{{ nodes.a.output + 0 }}"}}
        history.move(turned(sketch("s -> a", "a -> p", "p -> c", p=mended)))
        assert structs.replace(history.waiting("p"), node=before.node) == before
        (effect,) = history.decide("p").pending("p")
        assert (effect.key, effect.params) == ("run-1:p:1", {"n": 5})  # type: ignore[union-attr]
        assert history.succeed("p").succeed("c", 3).machine.output == 3

    @pytest.mark.parametrize(
        "other",
        [
            {"params": {"n": 6}},
            {"params": {"n": "{{ nodes.b.output }}"}},
            {"toolId": "other"},
            {"forEach": "[1]"},
            {"requiresApproval": False},
        ],
        ids=["arguments", "unrenderable", "tool", "list", "no approval"],
    )
    def test_that_would_change(self, other: dict[str, Any]) -> None:
        assert differences(self.waiting(), sketch("s -> a", "a -> p", "p -> b", p={**PAY, **other})) == [
            ("p", "arguments")
        ]

    def test_what_is_said_of_them(self) -> None:
        texts = [
            why(self.waiting(), sketch("s -> a", "a -> p", "p -> b", p={**PAY, **other}))
            for other in ({"params": {}}, {"requiresApproval": False})
        ]
        assert texts == [
            "node `p` waits in a visit that has begun with other arguments than in the other graph",
            "node `p` has begun, and its `requiresApproval` differs in the other graph",
        ]

    def test_a_call_that_waits_for_a_connection(self) -> None:
        """It is held beside its interrupt; a tool of a list is as well."""
        each = {"forEach": "[1, 2]", "params": {"n": "{{ item }}"}}
        for data in ({"params": {"n": 1}}, each):
            history = History(sketch("s -> a", "s -> p", p=data)).succeed("a")
            for effect in list(history.pending("p")):
                history.fail("p", step=effect.address[-1], reason="connection_required", info={"provider": "x"})
            names = interrupt_ids(history)
            history.move(turned(sketch("s -> a", "s -> p", p=data)))
            assert interrupt_ids(history) == names
            history.decide("p", "connected")
            assert history.effect("p").key.startswith("run-1:p:1")
            assert history.effect("p").address[0] == 1


class TestPaused:
    def test_what_is_not_due_yet_stays(self) -> None:
        """A retry keeps its time and attempt, a wait its timer."""
        retry = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 50}}
        graph = sketch("s -> a", "s -> t", a=retry, t={"toolId": "core.wait", "params": {"seconds": 60}})
        history = History(graph).fail("a").pause()
        (before,), timers = history.machine.pending.values(), list(history.machine.timers.values())
        history.move(turned(graph))
        (effect,) = history.machine.pending.values()
        assert (effect.attempt, effect.not_before, effect.key) == (2, before.not_before, before.key)
        assert (effect.address, before.address) == ((2, 1, 0), (1, 1, 0))
        assert (list(history.machine.timers), list(history.machine.timers.values())) == ([(1, 1, 0)], timers)
        history.resume().succeed("a", 1).pass_time(60)
        assert history.machine.output == {"a": 1, "t": {"seconds": 60}}

    def test_a_child_that_is_opened_again_later(self) -> None:
        """Its opener names the variation that its node runs on now."""
        graph = sketch("s -> c", "s -> a", c={**CHILD, "retry": {"maxAttempts": 2, "initialIntervalSeconds": 50}})
        history = History(graph, children=INSIDE).succeed("a").fail("c").pause().move(turned(graph))
        opener = history.effect("c")
        assert isinstance(opener, OpenChild)
        assert (opener.frame, opener.address) == (("workflow", 0, history.machine.pinned[2]), (2, 1, 0))  # type: ignore[index]

    def test_nodes_that_were_ready(self) -> None:
        history = History(sketch("s -> a", "a -> b")).pause().succeed("a").move(turned(sketch("s -> a", "a -> b")))
        assert history.resume().succeed("b", 4).machine.output == 4

    def test_what_a_retry_has_not_begun_again_yet(self) -> None:
        """A visit that was left goes on after the move, where its node stands now."""
        graph = sketch("s -> a", "a -> w", "s -> n", "n -> w")
        history = History(sketch("s -> a", "a -> w")).succeed("a").fail("w").retry(graph).pause().succeed("n")
        history.move(turned(graph)).resume()
        assert [(effect.key, effect.attempt) for effect in history.pending("w")] == [("run-1:w:1", 2)]


class TestAgents:
    def waiting(self) -> History:
        history = History(sketch("s -> a", "a -> g", g=AGENT)).succeed("a")
        history.succeed("g", {"model": "m", "tools": TOOLS})
        return history.succeed("g", {"text": "", "toolCalls": [{"id": "c1", "name": "pay", "args": {"n": 1}}]})

    def test_the_conversation_goes_on(self) -> None:
        history = self.waiting()
        names = interrupt_ids(history)
        history.move(turned(sketch("s -> a", "a -> g", "g -> b", g=AGENT)))
        assert interrupt_ids(history) == names
        history.decide("g")
        assert history.effect("g").key == "run-1:g:1.2"
        history.succeed("g", "paid").succeed("g", "done").succeed("b", 8)
        assert history.machine.output == 8

    def test_other_instructions(self) -> None:
        """The agent has begun with others."""
        graph = sketch("s -> a", "a -> g", g={**AGENT, "instructions": "be kind"})
        assert differences(self.waiting(), graph) == [("g", "arguments")]


class TestChildren:
    def test_an_approval_in_a_child(self) -> None:
        """The child stays on its variation, its interrupt keeps its id; the time limit of the child stays."""
        data = {**CHILD, "timeoutSeconds": 60}
        history = History(sketch("s -> a", "a -> c", "c -> b", c=data), children=INSIDE).succeed("a").open("c", {})
        names, due = interrupt_ids(history), history.machine.next_due()
        history.move(turned(sketch("s -> a", "a -> c", "c -> n", c=data)))
        (child,) = history.machine.root.children.values()
        assert (interrupt_ids(history), history.machine.next_due()) == (names, due)
        assert (child.place.within, child.plan) == ((2, 1, 0, 1), history.machine.plans["workflow", 1, "v"])
        history.decide("c/w").succeed("c/b", 1).succeed("n", 2)
        assert history.machine.output == 2

    def test_children_of_a_list_and_grandchildren(self) -> None:
        """Every address below the node changes with it."""
        each = {**CHILD, "forEach": "[1, 2]"}
        plans = {1: sketch("s -> c", c={"toolId": "core.workflow", "params": {"workflowId": 2}}), 2: INSIDE[1]}
        graph = sketch("s -> a", "a -> c", c=each)
        history = History(graph, children=plans).succeed("a").open("c", {}, step=0).open("c", {}, step=1)
        history.open("c/c", {}).open("c/c", {})
        names = interrupt_ids(history)
        history.move(turned(graph))
        assert (interrupt_ids(history), len(names)) == (names, 2)
        for _ in names:
            history.decide("c/c/w").succeed("c/c/b", "x")
        assert history.machine.output == ["x", "x"]

    def test_a_child_where_another_one_was(self) -> None:
        """Its interrupt has another id than the one that is still open."""
        graph = sketch("s -> c", "s -> a", "a -> d", c=CHILD, d=CHILD)
        history = History(graph, children=INSIDE).open("c", {}).pause().succeed("a")
        first = history.waiting("c/w")
        nodes = {node["id"]: node for node in graph["nodes"]}
        history.move({**graph, "nodes": [nodes[name] for name in ("s", "d", "a", "c")]}).resume().open("d", {})
        second = history.waiting("d/w")
        assert (first.within, second.within, history.waiting("c/w").id) == ((1, 1, 0, 1), (1, 1, 0, 1), first.id)
        assert second.id != first.id
        history.decide("c/w").succeed("c/b", 1).decide("d/w").succeed("d/b", 2)
        assert history.machine.output == {"c": 1, "d": 2}


def test_the_entry_is_stored() -> None:
    """As a line of JSON."""
    entry = Moved(5, ANN, ("workflow", 7, "v"))
    line = encode_entry(entry)
    assert line == b'["move",1,5,{"user_id":"ann","email":"ann@example.org"},["workflow",7,"v"]]'
    assert decode_entry(line) == entry


def test_the_graph_of_a_run_follows() -> None:
    """Nodes keep what they have done, and the new ones are there."""
    history = History(sketch(*LINE, w=ASK)).succeed("a", 1)
    history.move(turned(sketch(*LINE, "b -> n", w=ASK))).decide("w").succeed("b", 2)
    machine = type(history.machine)(compile_plan(sketch(*LINE, w=ASK)), [], history.machine.plans)
    found = trace(machine, history.entries)
    assert found is not None
    shown = {node.plan.id: (node.status, [visit.output for visit in node.visits]) for node in found.nodes}
    assert (shown["a"], shown["b"], shown["n"][0]) == (("done", [1]), ("done", [2]), "running")
