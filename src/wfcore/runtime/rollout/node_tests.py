"""Trying one node of a workflow on given values (interface, Node test)."""

from collections.abc import Mapping
from typing import Final

import attrs

from wfcore.api.run_graphs import TestNode
from wfcore.domain.graph.rules import body_errors
from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.values import UNSET, given
from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.resources.resource import Resource
from wfcore.domain.run.entries import Actor
from wfcore.domain.run.machine.states.interrupts import interrupt_to_wire
from wfcore.domain.run.node_trial import NOT_SHOWN, NodeTrial, pair_of, try_node
from wfcore.domain.run.state import RunStatus
from wfcore.runtime.common.authorization import authorize, check_not_limited, check_scopes
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.rollout.single_actions import LONGEST, SingleActions
from wfcore.runtime.runs.repairs import RepairableRuns

AT: Final = "workflowStructure.nodes[1]"
"""Where the tested node is, in the graph of it and of the start node."""


class NodeTests:
    """Tries nodes, and performs what they request as runs of single actions."""

    def __init__(self, ports: Ports, runs: RepairableRuns) -> None:
        self._ports = ports
        self._runs = runs
        self._actions = SingleActions(ports, runs)

    async def run(
        self, me: Principal, workflow: Resource, content: WorkflowContent, node: str, body: TestNode
    ) -> NodeTrial:
        """What the node gives. Errors: NotFound, Forbidden, Invalid."""
        structure = {"nodes": [], "edges": [], **structure_of(content)}
        names = [as_text(one["id"]) for one in as_objects(structure["nodes"])]
        if node not in names or all(one["type"] != "start" for one in as_objects(structure["nodes"])):
            raise NotFound
        perform, outputs = bool(given(body.perform)), given(body.outputs) or {}
        if perform:
            check_scopes(me, ("workflows:invoke",))
            authorize(me, workflow, "use")
        refuse(
            Issue(f"outputs.{name}", f"there is no node `{name[:80]}`", "reference")
            for name in outputs
            if name not in names
        )
        refuse(_node_issues(structure, node, names.index(node)), as_invalid=True)
        value = {} if body.input is UNSET else body.input
        trial = try_node(structure, node, value, outputs, Actor(me.user_id, me.email), self._ports.clock.now())
        if not perform or trial.action is None:
            return trial
        check_not_limited(me)
        return await self._performed(me, node, trial, *trial.action)

    async def _performed(
        self, me: Principal, node: str, trial: NodeTrial, action: Mapping[str, JSON], value: JSON
    ) -> NodeTrial:
        """What the node gives when its calls are made, by a run of its own. It is cancelled if a person must decide."""
        ended = await self._actions.perform(me, action, value, "node")
        if ended is None:
            return NodeTrial(error=_too_long(), handle=trial.on_error)
        return await self._outcome(me, node, trial, ended)

    async def _outcome(self, me: Principal, node: str, trial: NodeTrial, ended: RunView) -> NodeTrial:
        if ended.status is RunStatus.done:
            return NodeTrial(ended.output)
        if ended.status is RunStatus.interrupted:
            shown = [interrupt_to_wire(one) for one in ended.interrupts]
            await self._runs.cancel(me, ended.id)
            waits = [{**{k: v for k, v in one.items() if k not in NOT_SHOWN}, "kind": one["type"]} for one in shown]
            return NodeTrial(would_send=waits)
        return NodeTrial(error=_at_node(node, as_object(ended.error or _cancelled())), handle=trial.on_error)


def _node_issues(structure: Mapping[str, JSON], node: str, place: int) -> list[Issue]:
    """The errors of the node's data, with their paths in the whole graph. What it reads is given, or fails it."""
    issues = body_errors({"workflowStructure": pair_of(structure, node)})
    return [
        attrs.evolve(issue, path=f"workflowStructure.nodes[{place}]{issue.path.removeprefix(AT)}")
        for issue in issues
        if issue.path.startswith(f"{AT}.data") and issue.rule != "reference"
    ]


def _at_node(node: str, error: Mapping[str, JSON]) -> dict[str, JSON]:
    """The error with the id that the node has in its workflow."""
    return {**error, "info": {**as_object(error["info"]), "nodeId": node}}


def _too_long() -> dict[str, JSON]:
    return _error(f"no end within {LONGEST:g} seconds: the run of the node was cancelled", "timeout")


def _cancelled() -> dict[str, JSON]:
    return _error("the run of the node was cancelled", "failed")


def _error(message: str, reason: str) -> dict[str, JSON]:
    return {"code": "BAD_REQUEST", "status": "INVALID_ARGUMENT", "message": message, "info": {"reason": reason}}
