"""Workflows with what their deploys mean for runs: the impact of a deploy, moves, tests of nodes."""

from typing import Unpack

from wfcore.api.repairs import MoveFields, MoveRuns
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.resources.workflows import Workflows
from wfcore.runtime.rollout.moves import MoveOutcome, RunMoves, move_issues

MOVE_NAMES = {"runs": "runIds"}
"""Short keyword arguments of the library, in addition to the wire names in snake case."""


class RolloutWorkflows(Workflows):
    """The use cases of workflows, with those that also concern their runs."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        super().__init__(ports)
        self._moves = RunMoves(ports, plans)

    @needs("*:write")
    async def move_runs(
        self, me: Principal, id: int, body: MoveRuns | Tree | None = None, **fields: Unpack[MoveFields]
    ) -> list[MoveOutcome]:
        """Move waiting runs to the active variation, one by one, where they fit: those named, or all of them.

        Requires manage. `runs` is short for `run_ids`; with `all`, runs that are on the active variation are left out.
        Ids of runs and interrupts stay. Errors: Malformed, Invalid, NotFound, Forbidden; Conflict with `info.reason`
        `not_deployed` or `deleted`.
        """
        return await self._moves.move(me, id, parsed(MoveRuns, body, fields, move_issues, names=MOVE_NAMES))
