"""Moving the waiting runs of a workflow to its active variation (interface, Move-runs).

Each run moves by itself, in one append: a crash leaves it moved or as it was. It fits as for a retry, and if what waits
would have been requested with the same arguments. Ids of runs and interrupts stay.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import attrs
from msgspec import structs

from wfcore.api.repairs import MoveRuns
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.kernel.json_readers import as_list
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import IllegalEntry, RunStatus
from wfcore.ports.journal import Append, Execution, JournalConflict, RunFilter, RunRow
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.append import Projection, run_change
from wfcore.runtime.execution.plans import PlanKey, Plans
from wfcore.runtime.resources.deployment import lost_access
from wfcore.runtime.runs.reading import LATEST
from wfcore.runtime.runs.runs import TRIES

PAGE: Final = 500
"""Rows of runs that are read at once."""


@attrs.frozen
class MoveOutcome:
    """What became of one run; the `reason` is why it was not moved."""

    run_id: str
    moved: bool
    differences: Sequence[JSON] = ()
    reason: str | None = None

    def to_wire(self) -> dict[str, JSON]:
        return {
            "runId": self.run_id, "moved": self.moved, "differences": list(self.differences), "reason": self.reason,
        }  # fmt: skip


def move_issues(body: Mapping[str, JSON]) -> list[Issue]:
    """The fault of a body that has both `runIds` and `all`, or neither."""
    if ("runIds" in body) == ("all" in body):
        return [Issue("runIds", "give either `runIds` or `all`", "exclusive")]
    return []


def misfits(machine: Machine, entry: e.Moved) -> IllegalEntry | None:
    """Why the run cannot move now; None if it can. The plan of the entry must be in `plans`."""
    try:
        machine.check(entry)
    except IllegalEntry as error:
        return error
    return None


async def waiting_runs(ports: Ports, org: str, workflow: int) -> AsyncIterator[RunRow]:
    """The current turns of the parked executions of a workflow, newest first."""
    where = RunFilter(RunStatus.interrupted, Kind.WORKFLOW.value, workflow)
    before: int | None = LATEST
    while before is not None:
        rows = await ports.journal.list_runs(org, limit=PAGE, before=before, where=where)
        for row in rows:
            if row.resumed_by is None:
                yield row
        before = rows[-1].key if len(rows) == PAGE else None


@attrs.frozen
class MoveTarget:
    """The variation to which the runs of a workflow move; with a `refusal` none of them can."""

    workflow: int
    pinned: PlanKey
    refusal: str = ""


class RunMoves:
    """Moves waiting runs of workflows."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans

    async def move(self, me: Principal, workflow: Resource, body: MoveRuns) -> list[MoveOutcome]:
        """Move the runs of the workflow that the body selects. Conflict for one that is not deployed."""
        target = await self._target(me, workflow)
        names = given(body.run_ids)
        if names is not None:
            return [await self._move_run(me, name, target) for name in dict.fromkeys(names)]
        rows = waiting_runs(self._ports, me.org_uuid, workflow.id)
        selected = [row.id async for row in rows if row.variation_id != target.pinned[2]]
        return [await self._move_run(me, name, target) for name in selected]

    async def _target(self, me: Principal, workflow: Resource) -> MoveTarget:
        move(workflow.status, Operation.RUN)
        chosen = workflow.active_variation_id or ""
        async with self._ports.storage.reading(me.org_uuid) as work:
            variation = await work.workflows.variation(workflow.id, chosen)
            refusal = await lost_access(work, me.org_uuid, variation) if variation else ""
        return MoveTarget(workflow.id, (Kind.WORKFLOW.value, workflow.id, chosen), refusal)

    async def _move_run(self, me: Principal, run_id: str, target: MoveTarget) -> MoveOutcome:
        for _ in range(TRIES):
            found = await self._ports.journal.find_turn(me.org_uuid, run_id) if is_run_id(run_id) else None
            if found is None or (found[0].kind, found[0].resource_id) != (Kind.WORKFLOW, target.workflow):
                return MoveOutcome(run_id, False, reason="not_found")
            row, execution = found
            machine = await self._plans.machine(execution)
            now, actor = max(self._ports.clock.now(), machine.at), e.Actor(me.user_id, me.email)
            entry = e.Moved(now, actor, target.pinned)
            await self._plans.load(me.org_uuid, [entry], machine)
            if reason := _refusal(row, execution, machine, target):
                return MoveOutcome(run_id, False, reason=reason)
            if why := misfits(machine, entry):
                differences = as_list(why.info.get("differences") or ())
                return MoveOutcome(run_id, False, differences, why.reason)
            try:
                await self._write(execution, machine, entry)
            except JournalConflict:
                continue
            return MoveOutcome(run_id, True)
        return MoveOutcome(run_id, False, reason="busy")

    async def _write(self, execution: Execution, machine: Machine, entry: e.Moved) -> None:
        """Write the entry with the row of the turn, its interrupts and its next deadline."""
        expected, before = machine.length, tuple(machine.interrupts.values())
        machine.apply(entry)
        change = structs.replace(run_change(machine), variation_id=entry.pinned[2])
        rows = Projection.of(self._ports, execution).rows(machine, before, (entry,))
        waiting = tuple(machine.interrupts.values())
        append = Append(expected, (entry,), None, (change,), waiting, updates_claim=True, wake_at=machine.next_due(),
                        **rows.fields())  # fmt: skip
        await self._ports.journal.append(execution.ref, append)
        self._ports.dispatcher.wake(execution.ref, machine.length)


def _refusal(row: RunRow, execution: Execution, machine: Machine, target: MoveTarget) -> str:
    """Why this run cannot move to any graph now; "" if it can."""
    if row.id not in machine.current_turns:
        return "already_retried" if row.retried_by else "already_resumed"
    if machine.ended:
        return "ended"
    if machine.turn_open:
        return "not_waiting"
    now = machine.pinned[2] if machine.pinned else execution.variation_id
    if now == target.pinned[2]:
        return "already_active"
    return "access" if target.refusal else ""
