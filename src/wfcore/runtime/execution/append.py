"""Building appends: the rows that derive from a machine's state and are written with its entries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypedDict

from msgspec import Struct

from wfcore.domain.json.codec import from_ms
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.audit import decisions, reminders
from wfcore.domain.projections.cost import Price
from wfcore.domain.projections.messages import MessageRow, message_rows
from wfcore.domain.projections.notices import Moment, Notice, end_notices, interrupt_notices
from wfcore.domain.projections.usage import UsageRow, usage_rows
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.projections.verdicts import verdict_of
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.interrupts import interrupt_to_wire
from wfcore.domain.run.machine.states.snapshots import snapshot_of
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.journal import Append, Execution, ExecutionRef, NewExecution, NewRun, RunChange, StarterKind
from wfcore.ports.repositories.audit import AuditRow
from wfcore.runtime.common.audit import run_row
from wfcore.runtime.common.handlers import Handlers
from wfcore.runtime.common.ports import Ports


class ProjectedFields(TypedDict):
    """The fields of an append that are projections."""

    messages: Sequence[MessageRow]
    usage: Sequence[UsageRow]
    audit: Sequence[AuditRow]
    notices: Sequence[Notice]
    verdict: VerdictRow | None


class Projected(Struct, frozen=True, gc=False):
    """The rows of an append that are projections of its entries and records (`wfcore.domain.projections`)."""

    messages: Sequence[MessageRow] = ()
    usage: Sequence[UsageRow] = ()
    audit: Sequence[AuditRow] = ()
    notices: Sequence[Notice] = ()
    verdict: VerdictRow | None = None

    def fields(self) -> ProjectedFields:
        """The arguments of `Append`."""
        return {
            "messages": self.messages,
            "usage": self.usage,
            "audit": self.audit,
            "notices": self.notices,
            "verdict": self.verdict,
        }


NOTHING: Final = Projected()


class Projection(Struct, frozen=True, gc=False):
    """The projections of one execution: what their rows depend on, besides the machine."""

    target: NewExecution | Execution
    prices: Mapping[str, Price]
    handlers: Handlers

    @classmethod
    def of(cls, ports: Ports, target: NewExecution | Execution) -> "Projection":
        return cls(target, ports.settings.prices, ports.handlers)

    def rows(
        self, machine: Machine, before: Collection[Interrupt], entries: Sequence[Entry] = (), run_id: str = ""
    ) -> Projected:
        """The rows of what the machine has recorded since the last append, and of what changed with these entries.

        `before` are the interrupts that were open. `run_id` is the turn that a decision or a deadline is about, if it
        is not the current one.
        """
        target, records = self.target, machine.take_records() if machine.state.records else ()
        made = decisions(entries, before)
        if before:
            made += reminders(before, machine.interrupts)
        notices = self.notices(machine, before, entries, run_id)
        is_evaluation = target.started_by == "evaluation"
        verdict = self.verdict(machine) if is_evaluation else None
        if not records and not made and not notices and verdict is None:
            return NOTHING
        return Projected(
            message_rows(records) if records and not is_evaluation else (),
            usage_rows(records, target.kind, target.resource_id, self.prices) if records else (),
            [
                run_row(from_ms(one.at), one.user_id, one.action, run_id or machine.run_id, target, one.details)
                for one in made
            ],
            notices,
            verdict,
        )

    @property
    def _is_evaluation(self) -> bool:
        return self.target.started_by == "evaluation"

    def verdict(self, machine: Machine) -> VerdictRow | None:
        """The verdict of the execution, at its begin and at the end of its turns."""
        is_over = machine.length <= 1 or not machine.turn_open
        return verdict_of(machine) if self._is_evaluation and is_over else None

    def notices(
        self, machine: Machine, before: Collection[Interrupt] = (), entries: Sequence[Entry] = (), run_id: str = ""
    ) -> Sequence[Notice]:
        """The interrupts that have opened or ended with these entries, and the end of the execution; see `rows`."""
        is_open, waits = machine.turn_open, bool(before or machine.interrupts)
        if is_open and not waits:
            return ()
        target, status = self.target, machine.status
        moment = Moment(target.kind, target.resource_id, target.user_id, machine.at, self.handlers.by_event)
        ended = () if is_open else self._end_notices(moment, machine)
        if not waits:
            return (*ended,)
        changed = interrupt_notices(moment, machine.run_id, status, before, machine.interrupts, entries, run_id)
        return (*changed, *ended)

    def _end_notices(self, moment: Moment, machine: Machine) -> Iterable[Notice]:
        """The notice of the end; of an evaluation only that it has failed."""
        if not self._is_evaluation:
            return end_notices(moment, machine.run_id, machine.status)
        verdict = verdict_of(machine)
        failed = verdict is not None and verdict.passed is False
        return (moment.notice("evaluation.failed", machine.run_id, machine.status),) if failed else ()


def result_of(machine: Machine) -> dict[str, JSON]:
    """What a run's record shows of its end; keys without a value are left out."""
    result: dict[str, JSON] = {}
    if machine.status is RunStatus.done:
        result["output"] = machine.output
    if machine.error:
        result["error"] = machine.error
    if machine.usage:
        result["usage"] = machine.usage
    return result


def left_open(machine: Machine) -> dict[str, JSON]:
    """What the record of a turn keeps when another takes over: the interrupts that were open, and the usage.

    While a run is parked its open interrupts are rows of their own, and its record needs no copy.
    """
    waiting = [interrupt_to_wire(interrupt) for interrupt in machine.interrupts.values()]
    return {"interrupts": waiting, **result_of(machine)}


def run_change(machine: Machine) -> RunChange:
    """The row of the turn that the machine is in."""
    return RunChange(machine.run_id, machine.status, machine.at, result_of(machine) or None)


def settled(
    machine: Machine,
    expected: int,
    entries: Sequence[Entry],
    *,
    begun: NewRun | None = None,
    changes: Sequence[RunChange] = (),
    holder: int | None = None,
    had_interrupts: bool = True,
    projected: Projected = NOTHING,
) -> Append:
    """The append that ends a turn: its row, the open interrupts, the next wake-up, perhaps a snapshot, and no claim.

    `begun` is the row of a turn that has begun with these very entries, `changes` those of the turns before. Where
    none was open before (`had_interrupts`), there is none to close. `projected` are the other rows of the append.
    """
    waiting = tuple(machine.interrupts.values())
    return Append(
        expected,
        entries,
        begun,
        changes if begun else (run_change(machine),),
        waiting if waiting or had_interrupts else None,
        updates_claim=True,
        wake_at=machine.next_due(),
        holder=holder,
        slots=machine.slots,
        snapshot=snapshot_of(machine.state),
        **projected.fields(),
    )


def new_run(
    machine: Machine,
    user_id: str,
    fingerprint: bytes,
    parent: str | None,
    *,
    queued: bool = False,
    started_by: StarterKind = "person",
    origin: str = "api",
    forked_from: str | None = None,
) -> NewRun:
    """The row of a turn that has just begun, and perhaps ended at once; `queued` as long as nobody drives it."""
    status = RunStatus.queued if queued else machine.status
    result = None if machine.turn_open else result_of(machine) or None
    own = None if machine.pinned is None else machine.pinned[2]
    return NewRun(machine.run_id, user_id, fingerprint, status, machine.at, parent, result, started_by, origin,
                  forked_from, own, machine.is_draft)  # fmt: skip


def wake_admitted(ports: Ports, own: ExecutionRef | None = None) -> bool:
    """Wake the executions whose calls got slots by an append. Whether the `own` one, which runs, is among them."""
    admitted = ports.journal.take_admitted()
    for ref in admitted:
        if ref != own:
            ports.dispatcher.wake(ref)
    return own in admitted
