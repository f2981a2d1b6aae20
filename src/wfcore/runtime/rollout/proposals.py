"""Proposals of a configured model for the graph of a workflow. Nothing is saved.

Each attempt is a run of a single agent: durable, limited and counted as usage like any other. What the model returns
must pass the checks of a deploy and a simulation before anybody sees it; else the model is sent its faults.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.api.choices import SimulateWorkflow
from wfcore.api.variations import ProposeChange
from wfcore.domain.graph.rules import write_issues
from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Invalid, Issue
from wfcore.domain.kernel.json_readers import as_object, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive, missing_scopes
from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.resources.differences import Difference, difference
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.rules.checking import CounterExample
from wfcore.domain.rules.proposals import CHANGE_SCHEMA, INSTRUCTIONS, Offered, changed, question, simulation_faults
from wfcore.domain.rules.rules import parse_rule
from wfcore.domain.run.state import RunStatus
from wfcore.domain.run.trace import sum_of
from wfcore.runtime.common.authorization import check_not_limited
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.rollout.single_actions import LONGEST, SingleActions
from wfcore.runtime.runs.repairs import RepairableRuns
from wfcore.runtime.tools.catalog import ToolCatalog
from wfcore.runtime.tools.simulations import SimulatedWorkflow, Simulations

ATTEMPTS: Final = 3
"""How often the model is called for one proposal."""

MOST_OFFERED: Final = 100
"""The most tools, and the most skills, that the model is sent: those with the lowest ids."""

Check = Callable[[Principal, WorkflowContent, int], Awaitable[list[Issue]]]


@attrs.frozen
class Proposal:
    """A changed graph that could be deployed."""

    explanation: str
    content: WorkflowContent
    difference: Difference
    simulated: SimulatedWorkflow
    run_ids: Sequence[str]
    usage: Mapping[str, JSON]

    def to_wire(self) -> dict[str, JSON]:
        return {
            "explanation": self.explanation,
            "workflowStructure": structure_of(self.content),
            "diff": self.difference.to_wire(),
            "simulation": self.simulated.to_wire(),
            "runIds": [*self.run_ids],
            "usage": dict(self.usage),
        }


class Proposals:
    """Calls models for changes. `check` gives the issues that prevent a deploy of a content."""

    def __init__(self, ports: Ports, runs: RepairableRuns, check: Check) -> None:
        self._ports = ports
        self._actions = SingleActions(ports, runs)
        self._catalog = ToolCatalog(ports)
        self._simulations = Simulations(ports)
        self._check = check

    async def propose(self, me: Principal, id: int, content: WorkflowContent, wanted: ProposeChange) -> Proposal:
        """The first change of the model that has no faults. Invalid with `info.reason`: see `RolloutWorkflows`."""
        check_not_limited(me)
        for place, rule in enumerate(given(wanted.rules) or ()):
            parse_rule(rule, f"rules[{place}]")
        graph, offered = {"nodes": [], "edges": [], **structure_of(content)}, await self._offered(me)
        change: Mapping[str, JSON] | None = None
        faults: Sequence[Issue] = ()
        runs: list[RunView] = []
        for _ in range(ATTEMPTS):
            runs.append(await self._answer(me, wanted, question(wanted.request, graph, offered, change, faults)))
            change = as_object(runs[-1].output)
            new = WorkflowContent(trigger=content.trigger, workflow_structure=changed(graph, change))
            found = await self._faults(me, id, content, new, wanted)
            if isinstance(found, SimulatedWorkflow):
                usage: Mapping[str, JSON] = {}
                for run in runs:
                    usage = sum_of(usage, optional_object(run.usage) or {})
                diff = await beside_loop(size_of(new.workflow_structure), difference, content, new)
                return Proposal(as_text(change["explanation"]), new, diff, found, [run.id for run in runs], usage)
            faults = found
        raise Invalid(
            f"the model proposed nothing valid in {ATTEMPTS} attempts: {faults[0].message}",
            {"reason": "no_valid_proposal", "errors": [fault.to_wire() for fault in faults]},
        )

    async def _offered(self, me: Principal) -> Offered:
        """What the caller can see of what a graph can use."""
        tools = await self._catalog.page(me, limit=MOST_OFFERED)
        shown = ("id", "name", "description", "parameters", "outputSchema")
        skills: list[JSON] = []
        if not missing_scopes(me.scopes, ("skills:read",)):
            async with self._ports.storage.reading(me.org_uuid) as work:
                page = await work.skills.page(me, limit=MOST_OFFERED, status=Status.ACTIVE.value)
            usable = [one for one in page if derive(me, one.access).can_use]
            skills = [{"agent_id": one.id, "name": one.name, "description": one.description} for one in usable]
        listed = [{key: one for key, one in tool.to_wire().items() if key in shown} for tool in tools]
        return Offered(listed, skills, sorted(self._ports.models))

    async def _answer(self, me: Principal, wanted: ProposeChange, message: str) -> RunView:
        """The run of the model's answer."""
        model = given(wanted.model)
        data: dict[str, JSON] = {
            "instructions": INSTRUCTIONS,
            "message": "{{ input }}",
            "outputSchema": CHANGE_SCHEMA,
            **({} if model is None else {"model": model}),
        }
        run = await self._actions.perform(me, {"node": {"type": "agent", "data": data}}, message, "proposal")
        if run is None:
            raise Invalid(f"the model did not answer within {LONGEST:g} seconds", {"reason": "timeout"})
        if run.status is not RunStatus.done:
            error = optional_object(run.error) or {}
            reason = (optional_object(error.get("info")) or {}).get("reason") or "model"
            raise Invalid(str(error.get("message") or "the run was cancelled"), {"reason": reason, "runId": run.id})
        return run

    async def _faults(
        self, me: Principal, id: int, before: WorkflowContent, new: WorkflowContent, wanted: ProposeChange
    ) -> SimulatedWorkflow | Sequence[Issue]:
        """Why this content is not a proposal; its simulation if it is one."""
        structure = dict(structure_of(new))
        found = write_issues(structure, limits=self._ports.settings.graph)
        if not found and structure == structure_of(before):
            found = [Issue("workflowStructure", "the change changes nothing", "simulation")]
        if not found:
            found = await self._check(me, new, id)
        errors = [issue for issue in found if issue.severity == "error"]
        if errors:
            return errors
        try:
            simulated = await self._simulations.run(SimulateWorkflow(workflow_structure=structure, rules=wanted.rules))
        except Invalid as error:  # a rule names a node that this graph does not have
            return [Issue("workflowStructure", error.message, "rule")]
        faults = [*simulation_faults(simulated.simulation)]
        faults += [
            Issue(
                "workflowStructure", "; ".join(verdict.lines()), "rule", counter_example=_path(verdict.counter_example)
            )
            for verdict in simulated.verdicts
            if not verdict.holds
        ]
        return faults or simulated


def _path(example: CounterExample | None) -> tuple[str, ...]:
    return () if example is None else tuple(example.path)
