"""The journal of executions, the rows that derive from it, and the claims of workers.

The journal is the source of truth; runs, open interrupts and wake-ups are rows written in the same transaction.
`append` is a compare-and-set on the journal's length: of two writers that read the same length exactly one succeeds,
and the other gets `JournalConflict`. A write is acknowledged only when it is durable, if the adapter is durable at all
(`Journal.durable`). Appends of many executions can share one commit. All times are epoch milliseconds.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Protocol

from wfcore.domain.resources.access import Principal
from wfcore.domain.run.effects import CallSlot
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.state import StarterKind
from wfcore.ports.executions.rows import (
    HOUR,
    Claimed,
    Execution,
    ExecutionProgress,
    ExecutionRef,
    Holder,
    InboxFilter,
    OpenInterrupt,
    RunCount,
    RunFilter,
    RunRow,
)
from wfcore.ports.executions.writes import Append, NewExecution, NewRun, PlainAppend, RunChange, run_info, thread_of_run
from wfcore.ports.repositories.audit import AuditRow
from wfcore.ports.repositories.conversations import ConversationRepository
from wfcore.ports.repositories.usage import UsageRows
from wfcore.ports.repositories.verdicts import VerdictRows

__all__ = [
    "HOUR",
    "Append",
    "Claimed",
    "Execution",
    "ExecutionProgress",
    "ExecutionRef",
    "Holder",
    "InboxFilter",
    "Journal",
    "JournalConflict",
    "JournalDamaged",
    "NewExecution",
    "NewRun",
    "OpenInterrupt",
    "PlainAppend",
    "RunChange",
    "RunCount",
    "RunExists",
    "RunFilter",
    "RunRow",
    "StarterKind",
    "run_info",
    "thread_of_run",
]


class JournalConflict(Exception):
    """The journal has more entries than the writer expected, or the writer lost its claim. Nothing was written."""


class JournalDamaged(Exception):
    """The stored entries of an execution are not those that were written. They are not used."""


class RunExists(Exception):
    """The organization already has a run with this id. Nothing was written."""


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
        where: RunFilter = RunFilter(),  # noqa: B008  (immutable)
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
        self,
        principal: Principal,
        *,
        limit: int,
        decided: bool = False,
        where: InboxFilter = InboxFilter(),  # noqa: B008  (immutable)
    ) -> list[int]:
        """The keys of the newest open or closed interrupts that the principal can see, newest first.

        It sees those that name it, those without named approvers of targets that it can use, and those that it decided.
        Withdrawn ones are not kept. The cost depends on the principal's interrupts, not on those of others; it is that
        of an index, without the interrupts themselves.
        """
        ...

    async def interrupts_at(self, org: str, keys: Sequence[int], *, decided: bool = False) -> list[OpenInterrupt]:
        """The open or closed interrupts with these keys, newest first; those that do not exist are left out."""
        ...

    async def deadlines(self, org: str, keys: Sequence[int], *, decided: bool = False) -> dict[int, int]:
        """The deadlines of those of these open or closed interrupts that have one, by key: the next one first, and of
        the same the newest interrupt first.
        """
        ...

    async def find_interrupts(
        self, principal: Principal, ids: Collection[str]
    ) -> dict[str, tuple[OpenInterrupt, bool]]:
        """The interrupts of these ids, open or else closed, each with whether the principal can use its target.

        Only of executions whose target it can use, or of which it sees an open or closed interrupt: it need not see the
        interrupt itself. The cost depends on the ids alone. What else exists changes neither the result nor how many
        reads it takes.
        """
        ...

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        """How many entries each journal has now; executions that do not exist are left out."""
        ...

    async def with_entries(self, executions: Sequence[ExecutionRef]) -> list[Claimed]:
        """Executions and their entries, in one read: what a worker needs of those that it has claimed together.

        The entries are None if they are more than a few, or damaged: `read` has them, or reports that. Executions that
        do not exist are left out.
        """
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
