"""The journal of executions, the rows that derive from it, and the claims of workers.

The journal is the source of truth; runs, open interrupts and wake-ups are rows written in the same transaction.
`append` is a compare-and-set on the journal's length: of two writers that read the same length exactly one succeeds,
and the other gets `JournalConflict`. A write is acknowledged only when it is durable, if the adapter is durable at all
(`Journal.durable`). Appends of many executions can share one commit. All times are epoch milliseconds.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import ClassVar, Final, Protocol

import attrs
from msgspec import Struct, structs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.messages import MessageRow
from wfcore.domain.projections.notices import Notice
from wfcore.domain.projections.usage import UsageRow
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.effects import CallSlot
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.events import TargetKind
from wfcore.domain.run.state import Interrupt, RunStatus, StarterKind
from wfcore.ports.repositories.audit import AuditRow
from wfcore.ports.repositories.conversations import ConversationRepository
from wfcore.ports.repositories.usage import UsageRows
from wfcore.ports.repositories.verdicts import VerdictRows


class JournalConflict(Exception):
    """The journal has more entries than the writer expected, or the writer lost its claim. Nothing was written."""


class JournalDamaged(Exception):
    """The stored entries of an execution are not those that were written. They are not used."""


class RunExists(Exception):
    """The organization already has a run with this id. Nothing was written."""


class ExecutionRef(Struct, frozen=True, gc=False):
    """An execution of an organization. Only the store creates one, because it carries the tenant."""

    org: str
    id: int


class Execution(Struct, frozen=True, gc=False):
    """The row of an execution: what it runs, and which user started it. The variation is pinned.

    `epoch` is the number of its claims so far. It grows with every claim, also by the same worker.
    """

    ref: ExecutionRef
    kind: TargetKind
    resource_id: int | None
    variation_id: str | None
    user_id: str
    thread_id: str
    root_run_id: str
    length: int
    claimed_by: int | None = None
    is_draft: bool = False
    started_by: StarterKind = "person"
    epoch: int = 0

    def claimed(self, worker: int | None, epoch: int | None) -> "Execution":
        """The execution held by this worker, with the epoch of its claim; by none without a claim."""
        return Execution(self.ref, self.kind, self.resource_id, self.variation_id, self.user_id, self.thread_id,
                         self.root_run_id, self.length, worker, self.is_draft, self.started_by, epoch or 0)  # fmt: skip


class RunRow(Struct, frozen=True, gc=False):
    """One turn. `fingerprint` is a digest of target, body and principal; `result` holds output, error, interrupts and
    usage. `key` orders the organization's runs by their start; it is 0 for a row that was not read from the store.

    `started_by` and `origin` are of this turn; `root_user_id` and `root_started_by` of the first turn of its execution.
    `retried_by` is the turn that retried this one, `forked_from` the run from which its execution was forked.
    """

    id: str
    execution: ExecutionRef
    user_id: str
    fingerprint: bytes
    status: RunStatus
    parent_run_id: str | None
    resumed_by: str | None
    result: JSON
    created_at: int
    updated_at: int
    finished_at: int | None
    kind: str
    resource_id: int | None
    thread_id: str
    key: int = 0
    started_by: StarterKind = "person"
    origin: str = "api"
    variation_id: str | None = None
    is_draft: bool = False
    root_user_id: str = ""
    root_started_by: StarterKind = "person"
    retried_by: str | None = None
    forked_from: str | None = None


@attrs.frozen
class RunFilter:
    """The runs of a list: those that match every given field.

    `started_by` is the user who started the turn, `root_started_by` what started the first turn of its execution;
    `since` (inclusive) and `until` (exclusive) limit `created_at`.
    """

    status: RunStatus | None = None
    kind: str | None = None
    resource_id: int | None = None
    thread_id: str | None = None
    started_by: str | None = None
    origin: str | None = None
    variation_id: str | None = None
    since: int | None = None
    until: int | None = None
    root_started_by: StarterKind | None = None


@attrs.frozen
class RunCount:
    """How many turns of one status and target began in one hour. `hour` is its begin in epoch milliseconds."""

    status: RunStatus
    kind: str
    resource_id: int | None
    hour: int
    count: int


HOUR: Final = 3_600_000
"""Milliseconds."""


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


class OpenInterrupt(Struct, frozen=True, gc=False):
    """One interrupt of the inbox, with the latest run of its execution.

    A closed one has its `decision`, which can also be `expired`, and `decided_at` in epoch milliseconds.
    """

    interrupt: Interrupt
    run_id: str
    execution: Execution
    key: int
    decision: str | None = None
    decided_at: int | None = None


@attrs.frozen
class ExecutionProgress:
    """What an execution is, the status of its latest run, who holds it, and when it is due (None: at no time)."""

    kind: str
    resource_id: int | None
    status: RunStatus
    claimed_by: int | None
    wake_at: int | None


@attrs.frozen
class Holder:
    """A worker that holds executions, and the number of its heartbeats.

    A heartbeat has no time: an observer measures by its own monotonic clock how long the number stays the same.
    """

    worker: int
    host: str
    pid: int
    beats: int


@attrs.frozen
class Claimed:
    """What a claim has read: the row of the execution after it, and its entries if they are few, otherwise None."""

    execution: Execution
    entries: Sequence[Entry] | None = None


class Journal(Protocol):
    """Implementers: a method either does everything it documents, durably, or raises and changes nothing.

    A caller that is cancelled while it waits does not know the outcome, but a write is never partial: read again.
    """

    durable: bool

    @property
    def conversations(self) -> ConversationRepository:
        """The messages that appends recorded."""
        ...

    @property
    def usage(self) -> UsageRows:
        """The usage that appends recorded."""
        ...

    @property
    def verdicts(self) -> VerdictRows:
        """The verdicts of evaluations that appends recorded."""
        ...

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        """Create an execution with its first entries and `append.new_run`. `RunExists` when the run id is taken.

        `wake_at` and `claimed_by` are always written, but an organization or a workflow with a limit (`limit_runs`)
        gives no claim here: its execution has none, and its run is queued. `NotFound` for an organization that does not
        exist.
        """
        ...

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        """Write after exactly `append.expected` entries, else `JournalConflict`; `RunExists` for a taken run id.

        `RunExists` takes precedence. An append without entries still compares the length. An interrupt that stays open
        keeps its position in the inbox. `NotFound` for a change of a run that the execution does not have.
        Returns the epoch of the claim that the append makes; None when it makes none. As with `begin`, an organization
        or a workflow with a limit gives no claim here, and a new run is queued.
        """
        ...

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        """Delete an execution of exactly this length that no worker holds, else `JournalConflict`.

        Its entries, runs, interrupts and verdict are deleted. Its messages and usage stay, and the ids of its runs stay
        taken.
        """
        ...

    async def is_deleted(self, org: str, run_id: str) -> bool:
        """Whether the organization had a run of this id that was deleted."""
        ...

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        """The entries after the first `after`, in order. Empty for another organization's execution.

        `JournalDamaged` when they are not those that were written, as far as the store can detect that.
        """
        ...

    async def snapshot(self, execution: ExecutionRef) -> tuple[int, bytes] | None:
        """The latest snapshot, and how many entries it was taken after. A journal can keep none, and return None.

        None also for another organization's execution, and when the entries up to there are not those that it was taken
        after, as far as the store can detect that. It has user data: it is deleted, or its texts are erased, with the
        entries.
        """
        ...

    def damaged(self, on_read: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        """Read the entries of all executions, in batches. The id of the first run of each damaged one.

        `on_read` is called for each execution.
        """
        ...

    async def within(self, connection: object) -> "Journal":
        """This journal in a transaction of the embedding product, which alone commits it.

        `begin` and `append` write, under a savepoint, and reads by key also see what the transaction wrote. Raises
        ValueError for a connection to another database or without a transaction, TypeError for any other value.
        """
        ...

    async def execution(self, execution: ExecutionRef) -> Execution:
        """The execution's row. `NotFound` when there is none."""
        ...

    async def find_run(self, org: str, run_id: str) -> RunRow | None:
        """The organization's run of this id."""
        ...

    async def find_turn(self, org: str, run_id: str) -> tuple[RunRow, Execution] | None:
        """The organization's run of this id with the row of its execution, in one read."""
        ...

    async def list_runs(
        self,
        org: str,
        *,
        limit: int,
        before: int | None = None,
        where: RunFilter = RunFilter(),
        principal: Principal | None = None,
    ) -> list[RunRow]:
        """Runs with a `key` smaller than `before`, latest start first.

        With `principal`: only runs of resources that it can use, and its own runs without a resource. Of a deleted
        resource only for a principal that can manage it too, as in all lists of a principal.
        """
        ...

    async def count_runs(self, org: str, *, since: int, until: int, principal: Principal) -> list[RunCount]:
        """The runs that `list_runs` returns for the period, counted by status, target and hour, in no order."""
        ...

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        """Open interrupts with a `key` greater than `after`, in the order in which they were opened.

        With `of`: only those of these executions.
        """
        ...

    async def inbox(
        self, principal: Principal, *, limit: int, before: int, decided: bool = False, workflow: int | None = None
    ) -> list[OpenInterrupt]:
        """Open or closed interrupts with a `key` smaller than `before` that the principal can see, newest first.

        It sees those that name it, those without named approvers of targets that it can use, and those that it decided.
        Withdrawn ones are not kept. The cost depends on the principal's interrupts, not on those of others.
        """
        ...

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        """How many entries each journal has now; executions that do not exist are left out."""
        ...

    # Workers and claims

    async def register(self, host: str, pid: int, worker: int | None = None) -> int:
        """Register a new worker, without heartbeats. Returns its number, which is never reused.

        With `worker`: under this number, which another database of the installation has assigned.
        """
        ...

    async def heartbeat(self, worker: int) -> None:
        """Add one to the heartbeats of the worker. A worker that is not registered is registered again."""
        ...

    async def holders(self) -> list[Holder]:
        """The workers that hold executions, by number. An unregistered one has an empty host and `beats` 0."""
        ...

    async def held_by(self, worker: int) -> list[ExecutionRef]:
        """The executions that this worker holds, by number."""
        ...

    async def release(self, worker: int) -> int:
        """Release all claims of a dead worker. Returns how many executions it held; they are due at once."""
        ...

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        """Claim up to `limit` executions that are due at the wall time `now` and that no worker holds.

        Of each organization the longest due first. When more are due, every organization with due executions gets the
        same share, and what it does not use is for the others; a share of less than one is given in turn.
        Exactly one of several concurrent claimants, in any number of processes, gets each execution. The execution's
        queued run becomes a running one. A claim counts as a heartbeat of the worker.
        An organization or a workflow with a limit never has more claims than that, whichever processes claim at the
        same time: a claim beyond it is not made. What waits for a limit is not due for `next_wake` and `due_since`.
        """
        ...

    async def claim(self, execution: ExecutionRef, worker: int, now: int) -> Claimed | None:
        """Claim this execution if it is due at the wall time `now` and no worker holds it. None: nothing has changed.

        As with `claim_due`, exactly one claimant gets it, within the limits, and its queued run becomes a running one.
        This is for engines that deliver executions to workers: whatever they deliver, and however often, the claim is
        the fence. The entries can be older than the claim by what was appended meanwhile, as those of `read`.
        """
        ...

    async def take_slot(self, execution: ExecutionRef, attempt: str, slot: CallSlot, holder: int | None) -> int:
        """How many other calls must end before this attempt of the execution can begin: 0 when it has a slot.

        Attempts with the same key of one organization have a place each, in the order in which they came. One has a
        slot while fewer are before it than its limit. It keeps its place, whichever worker holds the execution, until
        an append leaves it out of `slots`, or the execution is deleted. `JournalConflict` when the worker `holder` does
        not hold the execution: nothing has changed.
        """
        ...

    def take_admitted(self) -> list[ExecutionRef]:
        """Executions whose attempts have got a slot, by the appends of this process since the last call: each needs a
        wake-up. Others may be among them.

        One that no worker holds is due at once. A process that ends between the append and this loses the wake-up, so
        what waits for a slot also tries again after some time.
        """
        ...

    async def progress(self, execution: ExecutionRef) -> ExecutionProgress:
        """What an engine waits for and shows, in one read. `NotFound` when there is no such execution."""
        ...

    def may_be_limited(self, org: str) -> bool:
        """Whether a claim of this process has met a limit in the organization: a release can make others due."""
        ...

    async def next_wake(self) -> int | None:
        """The earliest time at which an execution that no worker holds is due; None when there is none.

        0 means at once: it is due whatever the wall clock shows.
        """
        ...

    async def due_since(self, now: int) -> int | None:
        """When the execution that the next claim takes at `now` became due; None when none is due.

        For one that is due at once, this is when its latest turn last changed.
        """
        ...
