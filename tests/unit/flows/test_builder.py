"""Flows: a graph described in Python is exactly the stored structure, and errors point at lines."""

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import attrs
import pydantic
import pytest
from hypothesis import given, settings
from waiting import HANG

import wfcore
from wfcore.domain.graph.rules import deploy_issues
from wfcore.domain.graph.structure import parse_graph
from wfcore.flows import ConditionNode, Exit, Flow, FlowError, FlowNode, expr
from wfcore.testing.graphs import CATALOG, deployable_graphs


@attrs.frozen
class Refund:
    order: int
    amount: float


class Form(pydantic.BaseModel):
    reason: str


def send_refund(order: int, amount: float, ctx: wfcore.RunContext[Refund], note: str = "") -> str:
    return note


def line(offset: int) -> str:
    """The caller's line, so many lines before this call, as errors name it."""
    frame = inspect.stack()[1]
    return f"tests/unit/flows/test_builder.py:{frame.lineno - offset}"


def refunds() -> Flow:
    flow = Flow("Refunds", input=Refund)
    check = flow.condition(large=flow.input.amount > 1000)
    ask = flow.approval(f"Refund {flow.input.order}?", emails=["ann@example.org"], form=Form, after=check["large"])
    pay = flow.action(
        send_refund,
        order=flow.input.order,
        amount=flow.input.amount,
        after=[ask, check.otherwise],
        retry=3,
        timeout=timedelta(minutes=1),
    )
    flow.action("core.fail", message=f"no refund: {ask.output.decision}", id="stop", after=[ask.denied, pay.failed])
    return flow


def test_a_flow_is_the_stored_structure() -> None:
    """Nodes in the order of the calls, edges from the handles, options that were left out not stored."""
    made: Any = refunds().structure()
    start, check, ask, pay, stop = made["nodes"]
    assert start["data"]["inputSchema"]["$defs"]["Refund"]["required"] == ["order", "amount"]
    assert check == {
        "id": "condition",
        "type": "condition",
        "data": {"branches": [{"handle": "large", "when": "input.amount > 1000"}]},
    }
    assert ask["data"]["message"] == "Refund {{ input.order }}?"
    assert ask["data"]["approvers"] == {"emails": ["ann@example.org"]}
    assert ask["data"]["formSchema"]["$defs"]["Form"]["required"] == ["reason"]
    assert pay == {
        "id": "send_refund",
        "type": "action",
        "data": {
            "toolId": "send_refund",
            "params": {"order": "{{ input.order }}", "amount": "{{ input.amount }}"},
            "retry": {"maxAttempts": 3},
            "timeoutSeconds": 60.0,
        },
    }
    assert stop["data"]["params"]["message"] == "no refund: {{ nodes.approval.output.decision }}"
    assert made["edges"] == [
        {"id": "e1", "source": "start", "target": "condition"},
        {"id": "e2", "source": "condition", "target": "approval", "sourceHandle": "large"},
        {"id": "e3", "source": "approval", "target": "send_refund", "sourceHandle": "approved"},
        {"id": "e4", "source": "condition", "target": "send_refund", "sourceHandle": "else"},
        {"id": "e5", "source": "approval", "target": "stop", "sourceHandle": "denied"},
        {"id": "e6", "source": "send_refund", "target": "stop", "sourceHandle": "error"},
    ]


@pytest.mark.anyio
async def test_a_flow_runs() -> None:
    """A graph with `for_each` and an agent, from the builder to the output of a run."""

    def double(n: int) -> int:
        return 2 * n

    flow = Flow("Doubles")
    doubled = flow.action(double, for_each=flow.input.numbers, n=flow.item)
    total = flow.action("core.transform", value={"doubled": doubled.output, "many": doubled.output[0] + 1})
    flow.agent(message=f"the total of {total.output.many}", id="tell", after=total)
    async with wfcore.open("sqlite://", tools=[double]) as core:
        org = await core.directory.create_organization("Acme")
        me = core.principal(org.uuid, "u1")
        made = await core.workflows.create(me, name=flow.name, structure=flow.structure())
        await core.workflows.deploy(me, made.id)
        run = await core.runs.start(me, workflow=made.id, input={"numbers": [1, 2]})
        assert "the total of 3" in str(await core.runs.result(run, timeout=HANG))


def test_cycles_and_parallel_branches() -> None:
    """`to` draws an edge to an earlier node; `after=flow.start` begins another branch, `after=[]` none."""
    flow = Flow("Loop")
    fetch = flow.action("core.http", url="https://example.org")
    check = flow.condition({"not yet": fetch.output.status != 200})
    check["not yet"].to(fetch)
    other = flow.action("core.wait", seconds=1, after=flow.start)
    last = flow.action("core.transform", value=1, after=[])
    assert check.otherwise.to(other, last) is last
    assert other.to(last) is last
    edges: Any = flow.structure()["edges"]
    assert [(edge["source"], edge.get("sourceHandle"), edge["target"]) for edge in edges] == [
        ("start", None, "http"),
        ("http", None, "condition"),
        ("condition", "not yet", "http"),
        ("start", None, "wait"),
        ("condition", "else", "wait"),
        ("condition", "else", "transform"),
        ("wait", None, "transform"),
    ]


def test_ids_are_unique() -> None:
    """Made from the tool or the type, with a number where they are taken."""
    flow = Flow("Ids")
    nodes = [flow.action("core.wait", seconds=1) for _ in range(3)] + [flow.approval(), flow.agent(1)]
    assert [node.id for node in nodes] == ["wait", "wait_2", "wait_3", "approval", "agent"]
    with pytest.raises(FlowError) as refused:
        flow.agent(1, id="wait_2")
    assert str(refused.value) == f"{line(1)}: node `wait_2` is defined twice: {line(4)} has it too"


def described(structure: Mapping[str, Any]) -> Flow:
    """The same graph, by the calls of the builder."""
    starts = [node for node in structure["nodes"] if node["type"] == "start"]
    flow = Flow("Random", id=starts[0]["id"], data=starts[0].get("data"), position=_position(starts[0]))
    nodes: dict[str, FlowNode] = {flow.start.id: flow.start}
    for node in structure["nodes"]:
        if node["type"] != "start":
            common = {"id": node["id"], "after": [], "position": _position(node)}
            nodes[node["id"]] = CALLS[node["type"]](flow, dict(node["data"]), common)
    for edge in structure["edges"]:
        Exit(nodes[edge["source"]], edge.get("sourceHandle")).to(nodes[edge["target"]])
    return flow


def _position(node: Mapping[str, Any]) -> Any:
    return (node["position"]["x"], node["position"]["y"]) if "position" in node else None


def _tries(data: dict[str, Any]) -> dict[str, Any]:
    return {"retry": data.pop("retry", None), "timeout": data.pop("timeoutSeconds", None)}


def _action(flow: Flow, data: dict[str, Any], common: Any) -> FlowNode:
    named = {"for_each": "forEach", "max_concurrency": "maxConcurrency", "requires_approval": "requiresApproval",
             "concurrency_key": "concurrencyKey", "concurrency_limit": "concurrencyLimit"}  # fmt: skip
    options = {name: data.pop(key, None) for name, key in named.items()}
    given = _tries(data)
    return flow.action(data.pop("toolId"), data.pop("params", None), data=data, **options, **given, **common)


def _agent(flow: Flow, data: dict[str, Any], common: Any) -> FlowNode:
    named = {"tools": "tool_restrictions", "model_settings": "modelSettings", "output": "outputSchema"}
    options = {name: data.pop(key, None) for name, key in named.items()}
    own = {key: data.pop(key, None) for key in ("message", "instructions", "model")}
    given = _tries(data)
    return flow.agent(data.pop("agent_id", None), data=data, **own, **options, **given, **common)


def _approval(flow: Flow, data: dict[str, Any], common: Any) -> FlowNode:
    named = {"required": "requiredApprovals", "allow_self_approval": "allowSelfApproval", "form": "formSchema",
             "timeout": "timeoutSeconds", "on_timeout": "onTimeout"}  # fmt: skip
    options = {name: data.pop(key, None) for name, key in named.items()}
    approvers = data.pop("approvers", {})
    return flow.approval(data.pop("message", None), data=data, **approvers, **options, **common)


def _condition(flow: Flow, data: dict[str, Any], common: Any) -> FlowNode:
    branches = {branch["handle"]: branch["when"] for branch in data.pop("branches")}
    return flow.condition(branches, data=data, **common)


CALLS: Final[Mapping[str, Callable[[Flow, dict[str, Any], Any], FlowNode]]] = {
    "action": _action,
    "agent": _agent,
    "humanApproval": _approval,
    "condition": _condition,
}


@settings(max_examples=60)
@given(deployable_graphs())
def test_every_deployable_graph_can_be_described(structure: dict[str, Any]) -> None:
    """Described by the calls of the builder, a random graph is the same structure, but for the ids of its edges."""
    made: Any = described(structure).structure()
    assert sorted(made["nodes"], key=lambda node: node["id"]) == sorted(
        (_stored(node) for node in structure["nodes"]), key=lambda node: node["id"]
    )
    assert [{**edge, "id": ""} for edge in made["edges"]] == [{**edge, "id": ""} for edge in structure["edges"]]
    assert [i for i in deploy_issues(parse_graph(made), CATALOG) if i.severity == "error"] == []


def _stored(node: dict[str, Any]) -> dict[str, Any]:
    """A node as the builder stores it: without empty data."""
    return {key: value for key, value in node.items() if key != "data" or value}


class TestErrors:
    """An error names the line of the program that describes what is wrong."""

    def test_at_once(self) -> None:
        """Data that cannot run, an unknown or missing parameter, an unknown branch, another flow, a default handle."""
        flow = Flow("Wrong")
        other = Flow("Other")
        check = flow.condition(large="true")
        cases: list[tuple[Callable[[], Any], str]] = [
            (lambda: flow.action("core.wait", timeout=0), "node `wait`: `timeoutSeconds`: must be more than 0"),
            (lambda: flow.action(send_refund, ordr=1, after=[]),
             "node `send_refund`: unknown parameter `ordr`: use `order`, `amount`, `note`"),
            (lambda: flow.action(send_refund, order=1), "node `send_refund`: parameter `amount` is required"),
            (lambda: flow.action("core.transform", value=expr("1 +"), after=[]),
             "node `transform`: `params.value`: syntax error"),
            (lambda: flow.action(5), "tool `int`: use a function or a callable object, not `int`"),  # type: ignore[arg-type]
            (lambda: flow.action("core.wait", seconds=object()), "a `object` is not a JSON value"),
            (lambda: flow.action("get", id=flow.input.order), "`id` is the id of the node: give a parameter of this"),  # type: ignore[arg-type]
            (lambda: check["small"], "node `condition`: unknown branch `small`: use `large` or `else`"),
            (flow.approval, "node `condition` has several handles: name one, as in `after=check['large']`"),
            (lambda: flow.start.to(other.start), "node `start` is of another flow"),
            (lambda: Exit(flow.approval(after=[]), "approved").to(other.start), "node `start` is of another flow"),
            (flow.start.done.to, "`to` needs a node"),
            (lambda: Flow("x", input=Flow), "`Flow` has no JSON Schema: "),
        ]  # fmt: skip
        for call, message in cases:
            with pytest.raises(FlowError) as refused:
                call()
            where, _, text = str(refused.value).partition(": ")
            assert text.startswith(message), text
            assert where.startswith("tests/unit/flows/test_builder.py:")

    def test_of_the_whole_graph(self) -> None:
        """All at once: a cycle without a condition, a node that cannot be reached, unknown nodes."""
        flow = Flow("Wrong")
        one = flow.action("core.transform", value="{{ nodes.nobody.output }}")
        two = flow.action("core.transform", value=1, for_each="nodes.nowhere.output")
        two.to(one)
        flow.approval(after=[])
        with pytest.raises(FlowError) as refused:
            flow.structure()
        message = str(refused.value)
        assert f"{line(7)}: node `transform`: reads the unknown node `nobody`" in message
        assert f"{line(7)}: node `transform_2`: reads the unknown node `nowhere`" in message
        assert f"{line(6)}: node `approval`: it cannot be reached from the `start` node" in message
        assert f"{line(10)}: a cycle must contain a condition or a humanApproval" in message
        assert len(refused.value.lines) == len(refused.value.issues) == len(message.splitlines())
        errors: Any = refused.value.info["errors"]
        assert {each["line"] for each in errors} == {str(each) for each in refused.value.lines}

    def test_an_unknown_handle(self) -> None:
        """At the line of the edge."""
        flow = Flow("Wrong")
        node = flow.action("core.transform", value=1)
        Exit(node, "maybe").to(flow.approval(after=[]))
        with pytest.raises(FlowError, match=r"unknown handle `maybe`") as refused:
            flow.structure()
        assert str(refused.value.lines[0]) == line(3)


def test_a_condition_of_no_branches() -> None:
    with pytest.raises(FlowError, match="`branches`"):
        Flow("Wrong").condition()
    node = ConditionNode("c", lambda _exit, _target: None)
    with pytest.raises(FlowError, match=r"check\['else'\]"):
        _ = node.done
