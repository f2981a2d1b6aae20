"""What is written to a journal: executions and runs that begin, changes of runs, and the append that has them.

All times are epoch milliseconds.
"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct, structs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.messages import MessageRow
from wfcore.domain.projections.notices import Notice
from wfcore.domain.projections.usage import UsageRow
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.events import TargetKind
from wfcore.domain.run.state import Interrupt, RunStatus, StarterKind
from wfcore.ports.executions.rows import Execution, ExecutionRef, RunRow
from wfcore.ports.repositories.audit import AuditRow


class NewExecution(Struct, frozen=True, gc=False):
    """What `begin` writes in addition to the first entries.

    `is_draft`: the variation was never deployed, and can be dropped while no execution has pinned it.
    """

    org: str
    kind: TargetKind
    resource_id: int | None
    variation_id: str | None
    user_id: str
    thread_id: str
    is_draft: bool = False
    started_by: StarterKind = "person"

    def row(self, ref: ExecutionRef, run_id: str, length: int, holder: int | None) -> Execution:
        """The row that the store returns after the execution was written."""
        return Execution(ref, self.kind, self.resource_id, self.variation_id, self.user_id, self.thread_id, run_id,
                         length, holder, self.is_draft, self.started_by, int(holder is not None))  # fmt: skip


def run_info(kind: str, resource_id: int | None, thread_id: str) -> dict[str, JSON]:
    """The part of the expression variable `run` that comes from the execution's row, for `info` of the first entry."""
    return {"target": {"type": kind, "id": resource_id}, "threadId": thread_id}


def thread_of_run(run_id: str) -> str:
    """The id of the thread that a run begins with if it names none; it derives from the run's id, to be stored once."""
    return "thread_" + run_id.replace("-", "")


class NewRun(Struct, frozen=True, gc=False):
    """A run that begins, and possibly ends, with the entries of the same append. `result` is as in `RunRow`.

    `variation_id`, with `is_draft`, is given for a run of another variation than that of the execution.
    """

    id: str
    user_id: str
    fingerprint: bytes
    status: RunStatus
    at: int
    parent_run_id: str | None = None
    result: JSON = None
    started_by: StarterKind = "person"
    origin: str = "api"
    forked_from: str | None = None
    variation_id: str | None = None
    is_draft: bool = False

    def queued(self) -> "NewRun":
        """The same run before a worker drives it."""
        return structs.replace(self, status=RunStatus.queued)

    def row(self, execution: Execution, key: int = 0) -> RunRow:
        """The row that the store returns after the run was written."""
        finished = None if self.status.under_way else self.at
        own = self.variation_id is not None
        return RunRow(self.id, execution.ref, self.user_id, self.fingerprint, self.status, self.parent_run_id, None,
                      self.result, self.at, self.at, finished, execution.kind, execution.resource_id,
                      execution.thread_id, key, self.started_by, self.origin,
                      self.variation_id if own else execution.variation_id,
                      self.is_draft if own else execution.is_draft, execution.user_id, execution.started_by, None,
                      self.forked_from)  # fmt: skip


class RunChange(Struct, frozen=True, gc=False):
    """The new values of a run's row. `result`, `resumed_by` and `retried_by` stay unchanged when None.

    `variation_id` is the deployed variation that the run continues on; None for the one before.
    """

    id: str
    status: RunStatus
    at: int
    result: JSON = None
    resumed_by: str | None = None
    retried_by: str | None = None
    variation_id: str | None = None


class Append(Struct, frozen=True, gc=False):
    """One transaction on one execution: entries after the first `expected`, and the rows that change with them.

    - `interrupts`: all interrupts that are open after this append (None: unchanged).
    - `updates_claim`: write `wake_at` and `claimed_by`. False in the hot append, which touches one table.
    - `wake_at`: when a worker must handle the execution again at the latest (None: never).
    - `claimed_by`: the worker that holds the execution after this append (None: no worker).
    - `wakes`: make the execution due at once and keep its claim.
    - `holder`: the append succeeds only while this worker holds the execution.
    - `slots`: the attempts that keep their slot, or their place among those that wait for one (`take_slot`); all others
      of the execution lose it (None: unchanged).
    - `awaits`: attempts without a slot. If one of them has got it meanwhile, `wake_at` is at once, and
      `take_admitted` has the execution.
    - `messages`, `usage`: rows of `Journal.conversations` and `Journal.usage`, for the user who started the execution.
    - `verdict`: the verdict of the execution, one of `Journal.verdicts`; it replaces that of earlier appends.
    - `audit`: rows of the audit of the organization. A journal writes all three as they are.
    - `notices`: a journal adds a delivery of each for each subscriber (`DeliveryRepository.add`).
    - `snapshot`: what `Journal.snapshot` returns from now on, taken after these entries; empty: none (None: unchanged).
    """

    expected: int
    entries: Sequence[Entry]
    new_run: NewRun | None = None
    changes: Sequence[RunChange] = ()
    interrupts: Sequence[Interrupt] | None = None
    updates_claim: bool = False
    wakes: bool = False
    wake_at: int | None = None
    claimed_by: int | None = None
    holder: int | None = None
    messages: Sequence[MessageRow] = ()
    usage: Sequence[UsageRow] = ()
    audit: Sequence[AuditRow] = ()
    notices: Sequence[Notice] = ()
    verdict: VerdictRow | None = None
    slots: Sequence[str] | None = None
    awaits: Sequence[str] = ()
    snapshot: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it has entries only: the hot append, which touches one table."""
        rows = self.new_run or self.changes or self.updates_claim or self.wakes
        projected = self.messages or self.usage or self.audit or self.notices or self.verdict
        unchanged = self.interrupts is None and self.slots is None and self.snapshot is None
        return not (rows or projected) and unchanged


class PlainAppend(Append, frozen=True, gc=False):
    """An append of entries and a holder alone, as a session makes one for each step: no field has to be looked at."""

    is_plain: ClassVar[bool] = True
