"""The driver: it performs the machine's effects and records their outcomes, until nothing is left to do.

Normal progress and recovery are the same code path: load the journal, fold it, perform what is pending.
"""

import asyncio
import logging

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.machine.machine import Machine
from wfcore.ports.faults import ClaimLost
from wfcore.ports.journal import Claimed, Execution, ExecutionRef, JournalDamaged
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.changes import publish_claimed
from wfcore.runtime.execution.performer import Performer
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.execution.poison_runs import PROGRAM_ERRORS, PoisonRuns
from wfcore.runtime.execution.session import Session
from wfcore.runtime.execution.telemetry import turn
from wfcore.runtime.execution.time_slice import SharedTimers, TimeSlice
from wfcore.runtime.tools.call_rates import CallRates

log = logging.getLogger("wfcore.drive")


class Driver:
    """Drives executions for a dispatcher; keeps the session of each that is being driven here."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans
        self._performer = Performer(ports, plans)
        self._poison_runs = PoisonRuns(ports, plans)
        self._time_slice = TimeSlice()
        self._rates = CallRates(ports)
        self._timers = SharedTimers(ports.clock)
        self._sessions: dict[ExecutionRef, Session] = {}
        self._warm: dict[ExecutionRef, tuple[Execution, Machine]] = {}

    def close(self) -> None:
        """Cancel what would keep this driver until an hour to come. The dispatcher drives nothing any more."""
        self._timers.close()

    def warm(self, execution: Execution, machine: Machine) -> None:
        """Keep the machine of an execution that this process has just claimed, until the loop turns."""
        self._warm[execution.ref] = (execution, machine)
        asyncio.get_running_loop().call_soon(self._warm.pop, execution.ref, None)

    def signal(self, ref: ExecutionRef) -> bool:
        """The journal may be longer now: the session reads it. False when the execution is not driven here."""
        session = self._sessions.get(ref)
        if session is not None:
            session.signal()
        return session is not None

    def has_read(self, ref: ExecutionRef, length: int) -> bool:
        """Whether the session of the execution knows that many entries; what it is writing counts, as a conflict makes
        it read the journal.
        """
        session = self._sessions.get(ref)
        return session is not None and session.machine.length >= length

    def lengths(self) -> dict[ExecutionRef, int]:
        """Entries that each session has read, to detect those of other processes."""
        return {ref: session.machine.length for ref, session in self._sessions.items()}

    async def handle(self, ref: ExecutionRef, claimed: Claimed | None = None) -> None:
        """Drive the execution until it waits or ends. The dispatcher holds the claim meanwhile."""
        try:
            await self._drive(ref, claimed)
        except PROGRAM_ERRORS as error:
            if not await self._poison_runs.end(ref, error):
                raise
        except JournalDamaged as error:
            await self._poison_runs.set_aside(ref, error)
        except NotFound:
            if await self._exists(ref):
                raise
            log.info("execution does not exist any more", extra={"execution": ref.id})
        else:
            self._poison_runs.forget(ref)

    async def _exists(self, ref: ExecutionRef) -> bool:
        """False when the member whose run it is was erased while it was driven."""
        try:
            await self._ports.journal.execution(ref)
        except NotFound:
            return False
        return True

    async def _drive(self, ref: ExecutionRef, claimed: Claimed | None) -> None:
        execution, machine = self._warm.pop(ref, (None, None))
        if execution is None or machine is None:
            claimed = claimed or Claimed(await self._ports.journal.execution(ref))
            execution = claimed.execution
            machine = await self._plans.machine(execution, entries=claimed.entries)
            publish_claimed(self._ports.changes, execution, machine)
        session = Session(self._ports, self._plans, self._performer, self._time_slice, execution, machine, self._rates,
                          self._timers)  # fmt: skip
        self._sessions[ref] = session
        with turn(self._ports.telemetry, execution, session):
            try:
                await session.drive()
            except ClaimLost:
                log.info("execution is no longer held by this worker", extra={"execution": ref.id})
            finally:
                self._sessions.pop(ref, None)
                await session.abandon()
