"""One node on given values."""

from typing import Any

import pytest

from wfcore.domain.run.entries import Actor
from wfcore.domain.run.node_trial import NodeTrial, try_node
from wfcore.domain.run.plan import action_plan
from wfcore.testing.histories import BEGIN, sketch

ANN = Actor("ann")


def tried(data: Any, given: Any = None, edges: tuple[str, ...] = (), **outputs: Any) -> NodeTrial:
    """The node `n`, between others, with this data."""
    graph = sketch("s -> before", "before -> n", *edges, n={**data, "retry": {"maxAttempts": 9}} if edges else data)
    return try_node(graph, "n", {} if given is None else given, outputs, ANN, BEGIN)


class TestWithoutEffects:
    def test_what_is_computed_is_the_output(self) -> None:
        """From the input and the outputs of other nodes."""
        data = {
            "toolId": "core.transform",
            "params": {"value": "{{ input.a + nodes.before.output.b + nodes.s.output.a }}"},
        }
        found = tried(data, {"a": 1}, before={"b": 2})
        assert found.to_wire() == {"output": 4, "error": None, "handle": None, "wouldSend": []}

    def test_a_list(self) -> None:
        data = {"toolId": "core.transform", "forEach": "input", "params": {"value": "{{ item + 1 }}"}}
        assert tried(data, [1, 2]).output == [2, 3]

    def test_the_handle_of_a_condition(self) -> None:
        data = {"type": "condition", "branches": [{"handle": "big", "when": "input > 5"}]}
        assert [(tried(data, n).handle, tried(data, n).output) for n in (6, 5)] == [
            ("big", {"handle": "big"}), ("else", {"handle": "else"}),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            ({"toolId": "core.fail", "params": {"message": "no"}}, "failed"),
            ({"params": {"n": "{{ nodes.never.output }}"}}, "expression"),
            ({"type": "agent", "message": "{{ nodes.never.output }}"}, "expression"),
        ],
    )
    def test_a_failure(self, data: Any, reason: str) -> None:
        """It is left by `error` where the graph catches it."""
        found = tried(data)
        assert found.error is not None
        assert (found.error["info"]["reason"], found.handle, found.output) == (reason, None, None)  # type: ignore[index, call-overload]
        assert tried(data, None, ("n -error-> x",)).handle == "error"

    def test_a_start(self) -> None:
        """It gives the input that its schema allows."""
        schema = {"inputSchema": {"type": "object", "required": ["a"]}}
        graph = sketch("s -> n", s=schema)
        assert try_node(graph, "s", {"a": 1}, {}, ANN, BEGIN) == NodeTrial({"a": 1})
        refused = try_node(graph, "s", {}, {}, ANN, BEGIN)
        assert refused.error is not None
        assert refused.error["code"] == "VALIDATION"
        assert try_node(sketch("s -> n"), "s", 7, {}, ANN, BEGIN).output == 7


class TestWhatWouldBeSent:
    def test_a_call(self) -> None:
        found = tried({"toolId": "web.look", "params": {"n": "{{ input.n }}"}, "timeoutSeconds": 5}, {"n": 3})
        assert found.would_send == [{"kind": "tool", "toolId": "web.look", "params": {"n": 3}}]
        assert found.action is not None
        action, given = found.action
        assert given == {"n": 3}
        node = action_plan(action).nodes[1]
        assert (node.tool, node.plain, node.timeout, node.retry.max_attempts) == ("web.look", True, 5, 1)

    def test_calls_of_a_list(self) -> None:
        """All of them, however many are made at once."""
        data = {"toolId": "t", "forEach": "input", "maxConcurrency": 1, "params": {"n": "{{ item }}"}}
        found = tried(data, [1, 2])
        assert found.would_send == [{"kind": "tool", "toolId": "t", "params": {"n": n}} for n in (1, 2)]
        assert found.action is not None
        assert found.action[1] == [{"n": 1}, {"n": 2}]
        assert action_plan(found.action[0]).nodes[1].for_each is not None

    def test_a_call_with_a_key(self) -> None:
        """The key is rendered with what the node reads, and is text afterwards, as the parameters are."""
        data = {
            "toolId": "t",
            "params": {"n": "{{ input.n }}"},
            "concurrencyKey": "{{ nodes.before.output }}-{{ input.n }}",
        }
        found = tried(data, {"n": 1}, before="{{ run.id }}")
        assert found.action is not None
        assert found.action[1] == {"params": {"n": 1}, "key": "{{ run.id }}-1"}
        performed = action_plan(found.action[0]).nodes[1]
        assert performed.params is not None
        assert performed.concurrency_key is not None
        scope = {"input": found.action[1]}
        assert performed.params.render(scope) == {"n": 1}
        assert performed.concurrency_key.render(scope) == "{{ run.id }}-1"

    def test_calls_of_a_list_with_keys(self) -> None:
        data = {"toolId": "t", "forEach": "input", "params": {"n": "{{ item.n }}"}, "concurrencyKey": "k-{{ item.n }}"}
        found = tried(data, [{"n": 1}, {"n": 2}])
        assert found.action is not None
        assert found.action[1] == [{"params": {"n": n}, "key": f"k-{n}"} for n in (1, 2)]
        performed = action_plan(found.action[0]).nodes[1]
        assert performed.concurrency_key is not None
        assert performed.concurrency_key.render({"item": {"key": "k-2"}}) == "k-2"

    def test_a_workflow(self) -> None:
        found = tried({"toolId": "core.workflow", "params": {"workflowId": 7, "input": {"n": 1}}})
        assert found.would_send == [{"kind": "workflow", "workflowId": 7, "input": {"n": 1}}]
        assert found.action is not None
        assert found.action[1] == {"workflowId": 7, "input": {"n": 1}}

    def test_a_timer(self) -> None:
        """Nothing performs it."""
        found = tried({"toolId": "core.wait", "params": {"seconds": 60}})
        assert (found.would_send, found.action) == ([{"kind": "timer", "seconds": 60}], None)

    def test_a_question(self) -> None:
        """With all that its approvers would be shown."""
        found = tried({"type": "humanApproval", "message": "pay {{ input }}?", "requiredApprovals": 2}, 7)
        (sent,) = found.would_send
        assert (sent["kind"], sent["message"], sent["requiredApprovals"], found.action) == (
            "approval",
            "pay 7?",
            2,
            None,
        )
        assert "interruptId" not in sent

    @pytest.mark.parametrize(
        ("data", "arguments"), [({"params": {"n": 1}}, {"n": 1}), ({"forEach": "[1]", "params": {}}, [{}])]
    )
    def test_the_approval_of_a_call(self, data: Any, arguments: Any) -> None:
        """The call itself would only follow it."""
        found = tried({"toolId": "pay", "requiresApproval": True, **data})
        assert (found.would_send, found.action) == (
            [{"kind": "approval", "toolId": "pay", "arguments": arguments}], None,
        )  # fmt: skip

    def test_an_agent_with_a_skill(self) -> None:
        data = {"type": "agent", "agent_id": 7, "message": "look at {{ input }}", "instructions": ["a", "b"]}
        found = tried({**data, "tool_restrictions": ["t"]}, "it")
        assert found.would_send == [
            {"kind": "model", "agentId": 7, "model": None, "instructions": "a\nb", "message": "look at it",
             "toolRestrictions": ["t"]}
        ]  # fmt: skip
        assert tried(data, "it").would_send[0]["toolRestrictions"] is None
        assert found.action is not None
        assert found.action[1] == "look at it"
        plan = action_plan(found.action[0])
        assert (plan.nodes[1].skill_id, plan.nodes[1].composed) == (7, True)

    def test_an_agent_without_one(self) -> None:
        found = tried({"type": "agent", "message": "hi", "instructions": "be kind", "model": "m"})
        messages = [{"type": "system", "content": "be kind"}, {"type": "human", "content": "hi"}]
        assert found.would_send == [{"kind": "model", "agentId": None, "model": "m", "messages": messages}]
        assert found.action is not None
        assert found.action[1] == "hi"
