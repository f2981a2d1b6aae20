"""Simulation of an unsaved graph, with rules about its runs (interface, `POST /api/v1/workflows/simulate`)."""

import asyncio
from collections.abc import Mapping
from typing import Final

import attrs

from wfcore.api.choices import SimulateWorkflow
from wfcore.domain.graph.rules import body_errors, write_issues
from wfcore.domain.graph.structure import structure_of_body
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import as_objects
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.rules.checking import Verdict, check_rules
from wfcore.domain.rules.rules import parse_rule
from wfcore.domain.rules.wire import simulation_to_wire, verdicts_to_wire
from wfcore.domain.run.simulation import STATES_PER_PATH, Simulation, simulate
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.ports import Ports

WORK: Final = 150_000
"""What one request may visit: the number of states times that of nodes, about a second of CPU."""

MOST_STATES: Final = 2_500

AT_ONCE: Final = 2
"""Simulations at the same time; others wait."""


@attrs.frozen
class SimulatedWorkflow:
    """The ends of the runs of a graph, and the verdict on each rule."""

    structure: Mapping[str, JSON]
    simulation: Simulation
    verdicts: list[Verdict]

    def to_wire(self) -> dict[str, JSON]:
        rules = verdicts_to_wire(self.structure, self.verdicts)
        return {**simulation_to_wire(self.simulation), "rules": rules}


class Simulations:
    """Simulates graphs. It reads nothing of the organization: tools and skills need not exist."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._slots = asyncio.Semaphore(AT_ONCE)

    @needs("workflows:read")
    async def simulate(self, me: Principal, body: SimulateWorkflow | Tree) -> SimulatedWorkflow:
        """Every end that runs of the graph can have, and whether rules hold for all runs. Nothing is called.

        `input` null, or absent, leaves open what reads it. Limits of states keep a request short: `complete` says
        whether all were visited. Invalid, with every issue, for a graph that cannot run, an input that its start node
        forbids, and a rule that names an unknown node.
        """
        wanted = parsed(SimulateWorkflow, body, {}, self._write_issues)
        refuse(body_errors({"workflowStructure": wanted.workflow_structure}), as_invalid=True)
        return await self.run(wanted)

    async def run(self, wanted: SimulateWorkflow) -> SimulatedWorkflow:
        """The simulation of a graph without errors. Errors: Invalid as above."""
        async with self._slots:
            return await asyncio.to_thread(_simulated, wanted)

    def _write_issues(self, tree: Tree) -> list[Issue]:
        structure = tree.get("workflowStructure")
        return write_issues(structure, limits=self._ports.settings.graph) if isinstance(structure, dict) else []


def _simulated(wanted: SimulateWorkflow) -> SimulatedWorkflow:
    structure = structure_of_body({"workflowStructure": wanted.workflow_structure})
    rules = [parse_rule(text, f"rules[{place}]") for place, text in enumerate(given(wanted.rules) or ())]
    most = min(MOST_STATES, WORK // len(as_objects(structure["nodes"])))
    verdicts = check_rules(structure, rules, given(wanted.input), max(most // max(len(rules), 1), 10))
    found = simulate(structure, given(wanted.input), max(most // STATES_PER_PATH, 1))
    return SimulatedWorkflow(structure, found, verdicts)
