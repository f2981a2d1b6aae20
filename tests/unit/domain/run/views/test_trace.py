"""What the graph of a run shows of its nodes: visits, attempts, inputs, outputs, items and edges."""

from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.run.entries import Forked, Succeeded
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import skill_plan
from wfcore.domain.run.trace import GraphTrace, NodeTrace, trace
from wfcore.testing.histories import ANN, History, sketch

ASK = {"type": "humanApproval", "message": "May {{ input.who }}?"}
CHILD = {"toolId": "core.workflow", "params": {"workflowId": 8, "input": {"n": "{{ input.n }}"}}}
CHOICE = {"type": "condition", "branches": [{"handle": "yes", "when": "input.ok"}]}


def traced(history: History, *path: str) -> GraphTrace:
    found = trace(Machine(history.started_plan, [], history.machine.plans), history.entries, path)
    assert found is not None
    return found


def node(history: History, name: str, *path: str) -> NodeTrace:
    return next(node for node in traced(history, *path).nodes if node.plan.id == name)


def statuses(history: History, *path: str) -> dict[str, str]:
    return {node.plan.id: node.status for node in traced(history, *path).nodes}


def taken(history: History, *path: str) -> list[bool | None]:
    found = traced(history, *path)
    count = sum(len(node.plan.outgoing) for node in found.nodes)
    return [found.taken.get(index) for index in range(count)]


class TestNodes:
    def test_each_status(self) -> None:
        """A node is pending, running, waiting, done, in error or skipped."""
        graph = sketch(
            "s -> a", "s -> b", "s -> w", "s -> c", "c -yes-> y", "a -> e", "e -error-> f", "f -> p", "b -> p",
            w=ASK, c=CHOICE,
        )  # fmt: skip
        history = History(graph, {"ok": False, "who": "Bob"}).succeed("a", 1).fail("e", retryable=False)
        assert statuses(history) == {
            "s": "done", "a": "done", "b": "running", "w": "waiting", "c": "done", "y": "skipped", "e": "error",
            "f": "running", "p": "pending",
        }  # fmt: skip

    def test_inputs_and_outputs(self) -> None:
        """The start shows the input of the run, an action its parameters, an approval its message."""
        graph = sketch("s -> a", "a -> w", a={"params": {"n": "{{ input.n }}"}}, w=ASK)
        history = History(graph, {"n": 3, "who": "Bob"}).succeed("a", {"m": 4})
        visits = {node.plan.id: node.visits[-1] for node in traced(history).nodes}
        assert visits["s"].input == {"n": 3, "who": "Bob"}
        assert (visits["a"].input, visits["a"].output) == ({"n": 3}, {"m": 4})
        assert visits["w"].input == {"message": "May Bob?"}
        assert (visits["a"].started_at, visits["a"].finished_at) == (history.at, history.at)

    def test_an_unfinished_effect_shows_its_parameters(self) -> None:
        """A call in flight shows what it works on, before it has a result."""
        history = History(sketch("s -> a", a={"params": {"n": "{{ input }}"}}), 5)
        (visit,) = node(history, "a").visits
        assert (visit.input, visit.output, visit.attempts, visit.finished_at) == ({"n": 5}, None, 0, None)

    def test_attempts_are_counted(self) -> None:
        """A retry is an attempt of the same visit; the error of the last one stands."""
        history = History(sketch("s -> a", a={"retry": {"maxAttempts": 2}})).fail("a")
        history.pass_time(2)
        (visit,) = node(history.fail("a", "still broken"), "a").visits
        assert (visit.attempts, visit.error) == (2, "still broken") or visit.error["message"] == "still broken"
        assert node(history, "a").status == "error"

    def test_a_cycle_has_a_visit_for_each_pass(self) -> None:
        """The node shows all visits, each with its own output."""
        again = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.a.output < 2"}]}
        history = History(sketch("s -> a", "a -> c", "c -again-> a", "c -else-> x", c=again))
        history.succeed("a", 1).succeed("a", 2)
        assert [(visit.visit, visit.output) for visit in node(history, "a").visits] == [(1, 1), (2, 2)]
        assert node(history, "x").status == "running"

    def test_an_agent_has_its_usage(self) -> None:
        """The tokens of all model calls of a visit are added; its input is what it is told, then what it is shown."""
        tools = [{"name": "look", "toolId": "web.look", "kind": "tool", "requiresApproval": False}]
        context = {"model": "m", "settings": {}, "human": {"content": "hi"}, "tools": tools}
        history = History(skill_plan(1), info={"message": "hi"})
        assert node(history, "agent").visits[-1].input == {"message": "hi"}
        called = {"text": "", "toolCalls": [{"id": "1", "name": "look", "args": {}}]}
        history.succeed("agent", context).succeed("agent", called, usage={"inputTokens": 3, "outputTokens": 1})
        history.succeed("agent", "found").succeed("agent", "Done.", usage={"inputTokens": 4, "model": "m"})
        (visit,) = node(history, "agent").visits
        assert visit.usage is not None
        assert {"inputTokens": 7, "outputTokens": 1, "model": "m"}.items() <= visit.usage.items()
        assert (node(history, "agent").status, visit.output) == ("done", "Done.")

    def test_a_model_without_a_context(self) -> None:
        """An agent of the graph without a skill shows the messages of its model."""
        history = History(sketch("s -> g", g={"type": "agent", "message": "Hello {{ input }}"}), "Bob")
        shown = node(history, "g").visits[-1].input
        assert shown["messages"][0]["content"] == "Hello Bob"

    def test_parameters_that_cannot_be_evaluated(self) -> None:
        """The node failed before it had an input."""
        history = History(sketch("s -> a", "a -error-> x", a={"params": {"n": "{{ nodes.never.output }}"}}))
        (visit,) = node(history, "a").visits
        assert (node(history, "a").status, visit.input) == ("error", None)

    def test_a_visit_that_a_new_pass_of_its_cycle_voids(self) -> None:
        """Its node is pending again, and the visit has an end."""
        again = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.a.output < 2"}]}
        graph = sketch(
            "s -> a",
            "a -> slow",
            "a -> m",
            "m -> c",
            "slow -> d",
            "c -again-> a",
            "c -else-> x",
            "d -again-> a",
            c=again,
            d=again,
        )
        history = History(graph).succeed("a", 1).succeed("m")
        assert [(visit.visit, visit.finished_at) for visit in node(history, "slow").visits] == [(1, history.at)]
        assert node(history, "slow").status == "pending"

    def test_an_action_without_its_connection(self) -> None:
        """It waits, and shows its parameters."""
        history = History(sketch("s -> a", a={"params": {"n": 1}}))
        history.fail("a", reason="connection_required", info={"provider": "x"})
        assert (node(history, "a").status, node(history, "a").visits[-1].input) == ("waiting", {"n": 1})

    def test_a_cancelled_run(self) -> None:
        """What was under way is cancelled; what never began stays pending."""
        history = History(sketch("s -> a", "a -> b")).cancel()
        assert statuses(history) == {"s": "done", "a": "cancelled", "b": "pending"}

    def test_an_action_that_must_be_approved(self) -> None:
        """It waits, and shows the parameters that are to be approved."""
        history = History(sketch("s -> a", a={"requiresApproval": True, "params": {"n": 1}})).succeed("a", "d")
        assert (node(history, "a").status, node(history, "a").visits[-1].input) == ("waiting", {"n": 1})

    def test_a_definition_that_is_looked_up(self) -> None:
        """That is not an attempt of the call; the parameters show while it is under way."""
        history = History(sketch("s -> a", a={"toolId": "mcp.c.t", "requiresApproval": True, "params": {"n": 1}}))
        history.succeed("a", "digest")
        (visit,) = node(history, "a").visits
        assert (node(history, "a").status, visit.attempts, visit.input) == ("waiting", 0, {"n": 1})
        (visit,) = node(history.decide("a").succeed("a", 5), "a").visits
        assert (visit.attempts, visit.output) == (1, 5)

    def test_a_model_whose_budget_is_spent(self) -> None:
        """It waits, and shows nothing before it is called."""
        agent = {"type": "agent", "message": "hi"}
        history = History(sketch("s -> f", "f -> g", f=agent, g=agent), info={"config": {"budget": {"maxTokens": 1}}})
        history.succeed("f", "x", usage={"inputTokens": 5, "outputTokens": 5})
        (visit,) = node(history, "g").visits
        assert (node(history, "g").status, visit.input, visit.attempts) == ("waiting", None, 0)
        assert node(history.decide("g"), "g").visits[-1].input["messages"][0]["content"] == "hi"


class TestItems:
    MANY: ClassVar[dict[str, Any]] = {"forEach": "input", "params": {"n": "{{ item }}"}}

    def test_items_are_shown_in_list_order(self) -> None:
        """Each item has its own status, attempts, output and error."""
        graph = sketch("s -> a", a={**self.MANY, "retry": {"maxAttempts": 3}})
        history = History(graph, [5, 6, 7]).succeed("a", 50, 0).fail("a", "no", 1)
        (visit,) = node(history, "a").visits
        assert visit.items is not None
        assert visit.input == [{"n": 5}, {"n": 6}, {"n": 7}]
        assert [one.index for one in visit.items] == [0, 1, 2]
        assert visit.items[0].status == "done"
        assert [one.attempts for one in visit.items] == [1, 1, 0]
        assert visit.items[0].output == 50

    def test_children_of_items(self) -> None:
        """An opened child is an attempt of its item."""
        graph = sketch(
            "s -> k",
            k={"toolId": "core.workflow", "params": {"workflowId": 8, "input": "{{ item }}"}, "forEach": "input"},
        )
        history = History(graph, [{"n": 1}, {"n": 2}], children={8: sketch("s -> i")}).open("k", step=0)
        (visit,) = node(history, "k").visits
        assert [(one.status, one.attempts) for one in visit.items or ()] == [("running", 1), ("running", 0)]

    def test_an_item_of_a_child_is_followed(self) -> None:
        """The last one that was opened."""
        graph = sketch("s -> k", k={**CHILD, "forEach": "input", "params": {"workflowId": 8}})
        history = History(graph, [1, 2], children={8: sketch("s -> i")}).open("k", step=0).open("k", step=1)
        assert statuses(history, "k") == {"s": "done", "i": "running"}
        first, second = history.pending("k/i")
        for effect, output in ((second, "two"), (first, "one")):
            history.apply(Succeeded(history.at, *effect.address[-3:], 1, output, None, effect.address[:-3]))
        (visit,) = node(history, "i", "k").visits
        assert (visit.output, visit.attempts) == ("two", 1)

    def test_an_item_that_waits_and_one_that_is_retried(self) -> None:
        """The first waits for a person, the second runs again; the third has not begun."""
        many = {**self.MANY, "maxConcurrency": 2, "retry": {"maxAttempts": 2}}
        history = History(sketch("s -> a", a=many), [5, 6, 7]).fail("a", "no", 1)
        (visit,) = node(history, "a").visits
        assert [one.status for one in visit.items or ()] == ["running", "running", "pending"]
        history.fail("a", step=0, reason="connection_required", info={"provider": "x"})
        (visit,) = node(history, "a").visits
        assert [one.attempts for one in visit.items or ()] == [1, 1, 0]
        assert node(history, "a").status == "waiting"

    def test_items_behind_an_approval(self) -> None:
        """None has begun."""
        history = History(sketch("s -> a", a={**self.MANY, "requiresApproval": True}), [5, 6]).succeed("a", "digest")
        (visit,) = node(history, "a").visits
        assert [one.status for one in visit.items or ()] == ["pending", "pending"]

    def test_finished_items(self) -> None:
        """After the end every item has its part of the output."""
        history = History(sketch("s -> a", a=self.MANY), [5, 6]).succeed("a", 50, 0).succeed("a", 60, 1)
        (visit,) = node(history, "a").visits
        assert [(one.status, one.output) for one in visit.items or ()] == [("done", 50), ("done", 60)]

    def test_items_of_a_cancelled_run(self) -> None:
        """Items under way are cancelled with their node."""
        history = History(sketch("s -> a", a=self.MANY), [5, 6]).succeed("a", 50, 0).cancel()
        (visit,) = node(history, "a").visits
        assert [one.status for one in visit.items or ()] == ["done", "cancelled"]

    def test_items_that_call_nothing(self) -> None:
        """Each was tried once, on its own parameters. A list that cannot be evaluated has no items."""
        many = {"toolId": "core.transform", "forEach": "input.list", "params": {"value": "{{ item + 1 }}"}}
        (visit,) = node(History(sketch("s -> a", a=many), {"list": [5, 6]}), "a").visits
        assert visit.input == [{"value": 6}, {"value": 7}]
        assert [(one.attempts, one.output) for one in visit.items or ()] == [(1, 6), (1, 7)]
        (visit,) = node(History(sketch("s -> a", a=many), {"list": 7}), "a").visits
        assert (visit.input, visit.items) == (None, None)

    def test_an_empty_list(self) -> None:
        """A node without items ends at once."""
        history = History(sketch("s -> a", a=self.MANY), [])
        assert (node(history, "a").visits[-1].items, node(history, "a").status) == ([], "done")


class TestChildren:
    GRAPH = sketch("s -> k", "k -> z", k=CHILD)
    INNER = sketch("s -> i", "i -> w", w=ASK)

    def history(self) -> History:
        return History(self.GRAPH, {"n": 1}, children={8: self.INNER})

    def test_a_child_is_followed_by_its_path(self) -> None:
        """The graph at a path is that of the child; the node of the root shows what the child was given."""
        history = self.history()
        assert node(history, "k").visits[-1].input == {"workflowId": 8, "input": {"n": 1}}
        history.open("k", {"n": 1, "who": "Eve"}).succeed("k/i", 2)
        found = traced(history, "k")
        assert (found.opened, statuses(history, "k")) == (
            ("workflow", 8, "v"),
            {"s": "done", "i": "done", "w": "waiting"},
        )
        assert node(history, "k").status in ("running", "waiting")
        history.decide("k/w")
        assert statuses(history, "k")["w"] == "done"
        assert node(history, "k").status == "done"
        assert taken(history, "k") == [True, True]

    def test_a_path_without_a_child(self) -> None:
        """Where nothing was opened there is no graph."""
        history = self.history()
        assert trace(Machine(history.machine.plan, [], history.machine.plans), history.entries, ("k",)) is None

    def test_a_child_of_a_cancelled_run(self) -> None:
        """Its nodes under way are cancelled too."""
        history = self.history().open("k", {"n": 1}).cancel()
        assert statuses(history, "k") == {"s": "done", "i": "cancelled", "w": "pending"}

    def test_the_last_child_at_a_path_counts(self) -> None:
        """A retried child shows its latest attempt."""
        graph = sketch("s -> k", k={**CHILD, "retry": {"maxAttempts": 2}})
        history = History(graph, {"n": 1}, children={8: sketch("s -> i")}).open("k").fail("k/i", retryable=False)
        history.pass_time(2).open("k")
        assert statuses(history, "k") == {"s": "done", "i": "running"}


class TestEdges:
    def test_edges_are_decided_by_their_source(self) -> None:
        """An edge is taken, not taken, or undecided (None)."""
        graph = sketch("s -> c", "c -yes-> y", "c -else-> n", "n -> z", c=CHOICE)
        assert taken(History(graph, {"ok": False})) == [True, False, True, None]

    def test_an_approval_takes_the_edge_of_its_decision(self) -> None:
        """Approved, denied, and expired with a handle of its own or with the decision of `onTimeout`."""
        graph = sketch("s -> w", "w -approved-> a", "w -denied-> d", w=ASK)
        assert taken(History(graph, {"who": "B"})) == [True, None, None]
        assert taken(History(graph, {"who": "B"}).decide("w")) == [True, True, False]
        assert taken(History(graph, {"who": "B"}).decide("w", "deny")) == [True, False, True]

    def test_an_expired_approval(self) -> None:
        """Without an `expired` edge the decision of `onTimeout` holds, which is a denial unless it says otherwise."""
        for on_timeout, edges in (({}, [True, False, True]), ({"onTimeout": "approve"}, [True, True, False])):
            ask = {**ASK, "timeoutSeconds": 60, **on_timeout}
            history = History(sketch("s -> w", "w -approved-> a", "w -denied-> d", w=ask), {"who": "B"})
            assert taken(history.pass_time(61)) == edges
        ask = {**ASK, "timeoutSeconds": 60}
        history = History(sketch("s -> w", "w -approved-> a", "w -expired-> d", w=ask), {"who": "B"})
        assert taken(history.pass_time(61)) == [True, False, True]

    def test_a_caught_failure_takes_the_error_edge(self) -> None:
        """The plain edge of the failed node is not taken."""
        history = History(sketch("s -> a", "a -error-> x", "a -> y")).fail("a", retryable=False)
        assert taken(history) == [True, True, False]


@given(st.lists(st.integers(0, 3), max_size=8))
def test_the_trace_follows_every_prefix(outcomes: list[int]) -> None:
    """Whatever has happened up to now, the trace agrees with the machine on what runs and on the outputs."""
    graph = sketch("s -> a", "s -> b", "a -> j", "b -> j", "a -error-> f", "j -> z")
    history = History(graph)
    for outcome in outcomes:
        open_nodes = [name for name in ("a", "b", "j", "f", "z") if history.pending(name)]
        if not open_nodes or history.machine.ended:
            break
        name = open_nodes[outcome % len(open_nodes)]
        if outcome == 3 and name == "a":
            history.fail(name, retryable=False)
        else:
            history.succeed(name, outcome)
    shown = statuses(history)
    machine = history.machine
    for index, plan in enumerate(machine.plan.nodes):
        ran = machine.root.visits[index] if not machine.ended else len(node(history, plan.id).visits)
        assert (shown[plan.id] in ("running", "done", "error")) == bool(ran)
    for name, output in machine.nodes.items():
        assert node(history, name).visits[-1].output == output["output"]


class TestRepairs:
    def test_a_visit_that_a_retry_continues(self) -> None:
        """It stays one visit, with all its attempts, and ends as the last one did."""
        history = History(sketch("s -> a", "a -> b")).succeed("a", 1).fail("b")
        assert node(history, "b").status == "error"
        history.retry()
        (visit,) = node(history, "b").visits
        assert (node(history, "b").status, visit.finished_at, visit.error) == ("running", None, None)
        (visit,) = node(history.succeed("b", 2), "b").visits
        assert (visit.visit, visit.attempts, visit.output) == (1, 2, 2)

    def test_a_retry_of_a_node_that_calls_nothing(self) -> None:
        """It is the next attempt too, whichever node it is: no call numbers it."""
        fails = {"toolId": "core.fail", "params": {"message": "no"}}
        history = History(sketch("s -> a", a=fails))
        assert [node(history, "a").visits[-1].attempts, node(history.retry(), "a").visits[-1].attempts] == [1, 2]
        assert [(visit.visit, visit.attempts) for visit in node(history.retry(), "a").visits] == [(1, 3)]

    def test_a_mended_graph(self) -> None:
        """Its nodes are shown, with what those before them have done."""
        history = History(sketch("s -> a", "a -> b")).succeed("a", 1).fail("b")
        history.retry(sketch("s -> n", "s -> a", "a -> c", "n -> c"))
        shown = {name: node(history, name).status for name in ("a", "n", "c")}
        assert shown == {"a": "done", "n": "running", "c": "pending"}

    def test_nodes_that_run_again(self) -> None:
        """A new visit of each, and what follows is pending again."""
        history = History(sketch("s -> a", "a -> b")).succeed("a", 1).fail("b").retry(again=("a",))
        assert [visit.visit for visit in node(history, "a").visits] == [1, 2]
        assert node(history, "b").status == "pending"


def test_a_child_on_a_graph_that_was_mended() -> None:
    """Its own graph stays; it goes on in the attempt that it was."""
    history = TestChildren().history().open("k", {"n": 1}).fail("k/i", retryable=False)
    assert statuses(history, "k")["i"] == "error"
    history.retry(sketch("s -> n", "s -> k", "k -> z", k=CHILD))
    assert statuses(history, "k") == {"s": "done", "i": "running", "w": "pending"}
    assert [(visit.visit, visit.attempts) for visit in node(history.succeed("k/i", 2), "i", "k").visits] == [(1, 2)]


def test_a_child_within_a_child_on_a_graph_that_was_mended() -> None:
    """It is followed at its path, although its nodes have other positions now."""
    outer, inner = sketch("s -> k", k=CHILD), sketch("s -> i")
    graph = sketch("s -> k", k={**CHILD, "params": {"workflowId": 9}})
    history = History(graph, {"n": 1}, children={8: inner, 9: outer}).open("k", {"n": 1}).cancel()
    history.retry(sketch("s -> n", "s -> k", k={**CHILD, "params": {"workflowId": 9}})).open("k/k", {"n": 1})
    assert statuses(history, "k", "k") == {"s": "done", "i": "running"}
    assert node(history.succeed("k/k/i", 3), "i", "k", "k").visits[-1].output == 3


def test_a_fork_shows_what_was_open_as_pending() -> None:
    """Whether it ran or waited, in a branch that the fork does not reach at once."""
    graph = sketch("s -> a", "s -> w", "s -> x", "a -> b", w=ASK)
    history = History(graph, {"who": "B"}).succeed("a", 1)
    entries = [*history.entries, Forked(history.at, "fork-1", ANN, "", ("s",))]
    found = trace(Machine(history.started_plan), entries)
    assert found is not None
    assert {one.plan.id: one.status for one in found.nodes} == {
        "s": "done", "a": "running", "w": "waiting", "x": "running", "b": "pending",
    }  # fmt: skip


def test_a_fork_begins_again_where_it_was_made() -> None:
    """What was open in the source when it was forked is pending in the fork until it starts there."""
    history = History(sketch("s -> a", "a -> b", "s -> c")).succeed("a", 1)
    history.apply(Forked(history.at, "fork-1", ANN, "", ("b",)))
    assert statuses(history) == {"s": "done", "a": "done", "b": "running", "c": "running"}
    machine = Machine(history.machine.plan)
    machine.sink = []
    assert machine.sink == []
