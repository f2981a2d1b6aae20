"""Poison runs: an execution that the program cannot drive ends in error after a few tries, so that nobody waits for it
for ever."""

import logging

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.recent import Recent
from wfcore.domain.projections.notices import Moment
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.states.output import SERVER_FAULT
from wfcore.domain.run.state import IllegalEntry, RunStatus
from wfcore.ports.journal import Append, Execution, ExecutionRef, JournalConflict, RunChange, RunFilter
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.append import Projection, settled, wake_admitted
from wfcore.runtime.execution.plans import Plans

log = logging.getLogger("wfcore.drive")

PROGRAM_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What an error in the program raises, in the next try too. A full disk or a lost database raises none of these."""

TRIES = 5
"""Consecutive failures to drive an execution, after which it is ended."""


COUNTED = 1_000
"""The executions whose failures are counted, the latest ones. Those that other processes drive later would stay."""

MOST_TURNS = 100
"""Turns of a thread among which the one under way is: it is one of the latest."""


def damage(run_id: str) -> dict[str, JSON]:
    """The error of a run whose journal is damaged."""
    return {
        "code": "INTERNAL_ERROR",
        "status": "INTERNAL",
        "message": "the journal of the run is damaged",
        "requestId": run_id,
        "info": {"reason": SERVER_FAULT},
    }


class PoisonRuns:
    """Counts the failures of each execution that this process drives."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans
        self._tries = Recent[ExecutionRef, int](COUNTED)

    def forget(self, ref: ExecutionRef) -> None:
        """It was driven."""
        if self._tries:
            self._tries.drop(ref)

    async def end(self, ref: ExecutionRef, error: Exception) -> bool:
        """Whether the execution, which this error kept from being driven, has been ended for it."""
        tries = (self._tries.get(ref) or 0) + 1
        self._tries.put(ref, tries)
        if tries < TRIES:
            return False
        details = {"execution": ref.id, "tries": tries}
        try:
            await self._abort(ref, f"the run could not be carried on: {type(error).__name__}")
        except (*PROGRAM_ERRORS, IllegalEntry, JournalConflict):
            log.exception("an execution can neither be driven nor be ended", extra=details)
            return False
        log.error("an execution was ended, because it cannot be driven", exc_info=error, extra=details)
        self._tries.drop(ref)
        return True

    async def set_aside(self, ref: ExecutionRef, error: Exception) -> None:
        """End the run of an execution whose journal is damaged, without an entry. No worker drives it any more."""
        execution = await self._ports.journal.execution(ref)
        log.error("the journal of an execution is damaged", exc_info=error,
                  extra={"execution": ref.id, "run": execution.root_run_id})  # fmt: skip
        now = self._ports.clock.now()
        changes = [RunChange(run_id, RunStatus.error, now, {"error": damage(run_id)})
                   for run_id in await self._under_way(execution)]  # fmt: skip
        moment = Moment(execution.kind, execution.resource_id, execution.user_id, now, self._ports.handlers.by_event)
        notices = [moment.notice("run.failed", change.id, change.status) for change in changes]
        ended = Append(execution.length, (), None, changes, (), updates_claim=True, holder=execution.claimed_by,
                       notices=notices, slots=())  # fmt: skip
        await self._ports.journal.append(ref, ended)
        wake_admitted(self._ports, ref)
        self._ports.events.settle(ref)

    async def _under_way(self, execution: Execution) -> list[str]:
        where = RunFilter(thread_id=execution.thread_id)
        found = await self._ports.journal.list_runs(execution.ref.org, limit=MOST_TURNS, where=where)
        return [run.id for run in found if run.execution == execution.ref and run.status.under_way]

    async def _abort(self, ref: ExecutionRef, message: str) -> None:
        """Append the end to what the journal holds, and to nothing that was not written."""
        execution = await self._ports.journal.execution(ref)
        machine = await self._plans.machine(execution)
        expected, before, machine.sink = machine.length, tuple(machine.interrupts.values()), []
        entry = e.Aborted(max(self._ports.clock.now(), machine.at), message)
        machine.apply(entry)
        rows = Projection.of(self._ports, execution).rows(machine, before, (entry,))
        append = settled(machine, expected, (entry,), holder=execution.claimed_by, projected=rows)
        await self._ports.journal.append(ref, append)
        wake_admitted(self._ports, ref)
        self._ports.events.publish(ref, machine.take_events())
        self._ports.events.settle(ref)
