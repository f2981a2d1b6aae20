"""One node of a graph on given values: what it gives, or what it would send, without any effect (interface, Node test).

The node follows a start node alone, in a machine of its own. What it requests there is not performed: it is described,
and where it is calls of a tool, of a model or of a workflow, an action run can perform it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.kernel.errors import Invalid, Issue
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import WAIT, WORKFLOW, CallModel, CallTool, ComposeContext, Effect
from wfcore.domain.run.entries import Actor, Started
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.interrupts import interrupt_to_wire
from wfcore.domain.run.machine.states.state import Batch
from wfcore.domain.run.plan import NodePlan, compile_plan

GIVEN: Final = "{{ input }}"
"""The template of a value that was rendered before, and is the input of the run that performs the node."""

AT, EDGE = 1, "edge"

NOT_SHOWN: Final = frozenset({"interruptId", "nodeId", "type", "expiresAt", "approvals"})
"""The fields of an interrupt that only one that is open has."""


@attrs.frozen
class NodeTrial:
    """What the node gave, or its `error` as the content of an error envelope; `handle` is the one it is left by.

    `would_send` lists what it requests instead: `{"kind", ...}` of the kinds `tool`, `workflow`, `model`, `timer` and
    `approval`. `action` is what an action run performs for it, with the run's input; None for timers and approvals.
    `on_error` is the handle by which the node is left if that fails.
    """

    output: JSON = None
    error: Mapping[str, JSON] | None = None
    handle: str | None = None
    would_send: Sequence[Mapping[str, JSON]] = ()
    action: tuple[Mapping[str, JSON], JSON] | None = None
    on_error: str | None = None

    def to_wire(self, request_id: str = "") -> dict[str, JSON]:
        """`request_id` is that of the error: the request that tried the node."""
        return {
            "output": self.output,
            "error": None if self.error is None else {**self.error, "requestId": request_id},
            "handle": self.handle,
            "wouldSend": [dict(one) for one in self.would_send],
        }


def pair_of(structure: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    """The graph of the start node, without a schema, and this node alone, with one attempt."""
    nodes = {as_text(node["id"]): node for node in as_objects(structure["nodes"])}
    first = next(as_text(node["id"]) for node in nodes.values() if node["type"] == NodeType.START)
    start: dict[str, JSON] = {"id": first, "type": "start"}
    if name == first:
        return {"nodes": [start], "edges": []}
    data = {key: value for key, value in (optional_object(nodes[name].get("data")) or {}).items() if key != "retry"}
    node: dict[str, JSON] = {"id": name, "type": nodes[name]["type"], "data": data}
    return {"nodes": [start, node], "edges": [{"id": EDGE, "source": first, "target": name}]}


def try_node(
    structure: Mapping[str, JSON], name: str, given: JSON, outputs: Mapping[str, JSON], by: Actor, at: int
) -> NodeTrial:
    """What this node does with the input and the outputs of other nodes, whose data is valid."""
    pair = pair_of(structure, name)
    plan = compile_plan(pair)
    if plan.nodes[-1].kind is NodeType.START:
        return _started(structure, name, given)
    machine = Machine(plan)
    machine.root.outputs.update({node: {"output": output} for node, output in outputs.items()})
    machine.apply(Started(at, "test", by, given, {}))
    node, on_error = plan.nodes[AT], "error" if _catches(structure, name) else None
    if machine.error is not None:
        error = {key: value for key, value in machine.error.items() if key != "requestId"}  # there is no such run
        return NodeTrial(error=error, handle=on_error)
    if machine.ended:
        return NodeTrial(machine.nodes[name]["output"], handle=machine.root.handles.get(AT))
    data = as_object(as_objects(pair["nodes"])[AT]["data"])
    return attrs.evolve(_requested(machine, node, data), on_error=on_error)


def _started(structure: Mapping[str, JSON], name: str, given: JSON) -> NodeTrial:
    """A start node gives the input, if its schema allows it."""
    node = next(one for one in as_objects(structure["nodes"]) if one["id"] == name)
    schema = compile_plan({"nodes": [node], "edges": []}).nodes[0].schema
    issues = schema.check(given, "input") if schema is not None else []
    return NodeTrial(error=_invalid(issues)) if issues else NodeTrial(given)


def _invalid(issues: Sequence[Issue]) -> dict[str, JSON]:
    message = "; ".join(f"`{issue.path}`: {issue.message}" for issue in issues)
    info: dict[str, JSON] = {"errors": [issue.to_wire() for issue in issues]}
    return {"code": Invalid.code, "status": Invalid.status, "message": message, "info": info}


def _catches(structure: Mapping[str, JSON], name: str) -> bool:
    edges = as_objects(structure["edges"])
    return any(edge["source"] == name and edge.get("sourceHandle") == "error" for edge in edges)


def _requested(machine: Machine, node: NodePlan, data: Mapping[str, JSON]) -> NodeTrial:
    """What the node waits for."""
    if node.kind is NodeType.HUMAN_APPROVAL:
        (interrupt,) = machine.interrupts.values()
        shown = {key: value for key, value in interrupt_to_wire(interrupt).items() if key not in NOT_SHOWN}
        return NodeTrial(would_send=[{"kind": "approval", **shown}])
    if node.kind is NodeType.AGENT:
        (effect,) = machine.pending.values()
        action = _action("agent", {**data, "message": GIVEN})
        return NodeTrial(would_send=[_model_call(effect)], action=(action, _message(effect)))
    batch = machine.root.batches.get(AT)
    if batch is None:
        calls = [effect.params for effect in machine.pending.values() if isinstance(effect, CallTool)]
        return NodeTrial(
            would_send=[_call(node, calls[0])], action=(_action("action", {**data, "params": GIVEN}), calls[0])
        )
    if node.requires_approval:
        arguments: JSON = [*batch.calls] if batch.many else batch.calls[0]
        return NodeTrial(would_send=[{"kind": "approval", "toolId": node.tool, "arguments": arguments}])
    sent = [_call(node, call) for call in batch.calls]
    if node.tool == WAIT:
        return NodeTrial(would_send=sent)
    return NodeTrial(would_send=sent, action=_calls(batch, data))


def _calls(batch: Batch, data: Mapping[str, JSON]) -> tuple[Mapping[str, JSON], JSON]:
    """The single action that makes these calls, and its input: their parameters, each with its key if it has one."""
    name = "item" if batch.many else "input"
    given: list[JSON] = [*batch.calls]
    rendered = {"params": f"{{{{ {name} }}}}"}
    if batch.slots:
        given = [{"params": call, "key": key} for call, (key, _) in zip(batch.calls, batch.slots, strict=True)]
        rendered = {"params": f"{{{{ {name}.params }}}}", "concurrencyKey": f"{{{{ {name}.key }}}}"}
    if batch.many:
        return _action("action", {**data, "forEach": "input", **rendered}), given
    return _action("action", {**data, **rendered}), given[0]


def _action(kind: str, data: Mapping[str, JSON]) -> dict[str, JSON]:
    """The single action of a run that performs a node with this data."""
    return {"node": {"type": kind, "data": dict(data)}}


def _call(node: NodePlan, params: JSON) -> dict[str, JSON]:
    if node.tool == WORKFLOW:
        named = as_object(params)
        return {"kind": "workflow", "workflowId": named.get("workflowId"), "input": named.get("input", {})}
    if node.tool == WAIT:
        return {"kind": "timer", "seconds": as_object(params)["seconds"]}
    return {"kind": "tool", "toolId": node.tool, "params": params}


def _model_call(effect: Effect) -> dict[str, JSON]:
    if isinstance(effect, ComposeContext):
        tools: JSON = None if effect.tool_restrictions is None else [*effect.tool_restrictions]
        return {
            "kind": "model", "agentId": effect.agent_id, "model": effect.model, "instructions": effect.instructions,
            "message": effect.message, "toolRestrictions": tools,
        }  # fmt: skip
    assert isinstance(effect, CallModel)  # noqa: S101  (an agent begins with one of the two)
    messages: JSON = [dict(message) for message in effect.messages]
    return {"kind": "model", "agentId": effect.agent_id, "model": effect.model, "messages": messages}


def _message(effect: Effect) -> JSON:
    """The message of the agent, rendered."""
    if isinstance(effect, ComposeContext):
        return effect.message
    assert isinstance(effect, CallModel)  # noqa: S101  (an agent begins with one of the two)
    return effect.messages[-1]["content"]
