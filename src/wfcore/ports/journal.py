"""The journal of executions, the rows that go with it, and who works on what.

The journal is the truth; runs, open interrupts and wake-ups are rows written in the same transaction. `append` is a
compare-and-set on the journal's length: of two writers that read the same length exactly one succeeds, and the other
learns it. Nothing is acknowledged before it is durable, as far as the adapter says it is (`Journal.durable`).
Appends of many executions may share one commit. All times are epoch milliseconds.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs
from msgspec import Struct

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.records import Record
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.conversations import ConversationRepository
from wfcore.ports.usage import UsageRows


class JournalConflict(Exception):
    """The journal is longer than the writer thought, or its claim is gone. Nothing was written: read it and go on."""


class RunExists(Exception):
    """The organization has a run of this id already. Nothing was written."""


class ExecutionRef(Struct, frozen=True):
    """An execution of an organization. Obtained from the store, never made up: it carries the tenant."""

    org: str
    id: int


@attrs.frozen
class Execution:
    """The row of an execution: what it runs, and who started it. The variation is pinned."""

    ref: ExecutionRef
    kind: Literal["workflow", "skill", "assistant", "action"]
    resource_id: int | None
    variation_id: str | None
    user_id: str
    thread_id: str
    root_run_id: str
    length: int
    claimed_by: int | None = None


@attrs.frozen
class RunRow:
    """One turn. `fingerprint` is a digest of target, body and principal; `result` holds output, error, interrupts and
    usage; `key` is its place among the organization's runs, those that began later having greater ones, and 0 for what
    was not read from the store.
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


@attrs.frozen
class NewExecution:
    """What `begin` writes beside the first entries. `is_draft`: the variation was not deployed, and may be dropped
    where no execution has pinned it.
    """

    org: str
    kind: Literal["workflow", "skill", "assistant", "action"]
    resource_id: int | None
    variation_id: str | None
    user_id: str
    thread_id: str
    is_draft: bool = False


def run_info(kind: str, resource_id: int | None, thread_id: str) -> dict[str, JSON]:
    """What expressions read as `run` of an execution's row: with these the `info` of its first entry begins."""
    return {"target": {"type": kind, "id": resource_id}, "threadId": thread_id}


@attrs.frozen
class NewRun:
    """A run that begins with these entries, and perhaps ends with them: `result` is as that of `RunRow`."""

    id: str
    user_id: str
    fingerprint: bytes
    status: RunStatus
    at: int
    parent_run_id: str | None = None
    result: JSON = None

    def row(self, execution: Execution, key: int = 0) -> RunRow:
        """What is read of it once it has been written."""
        finished = None if self.status.under_way else self.at
        return RunRow(self.id, execution.ref, self.user_id, self.fingerprint, self.status, self.parent_run_id, None,
                      self.result, self.at, self.at, finished, execution.kind, execution.resource_id,
                      execution.thread_id, key)  # fmt: skip


@attrs.frozen
class RunChange:
    """A run's row as it is from now on. `result` and `resumed_by` stay as they were when None."""

    id: str
    status: RunStatus
    at: int
    result: JSON = None
    resumed_by: str | None = None


class Append(Struct, frozen=True):
    """One transaction on one execution: entries after the first `expected`, and the rows that change with them.

    `interrupts`: all that are open from now on (None: unchanged). `wake_at`: when somebody has to
    look at the execution again if nobody does before (None: no need). `claimed_by`: the worker that holds the
    execution from now on, None for nobody. Both are written only when `moves` is true: the hot append touches one
    table. `wakes` makes the execution due at once and leaves whoever holds it alone. With `holder` set the append
    succeeds only while that worker holds the execution. `records` become rows of `Journal.conversations` and
    `Journal.usage`: those of the user who started the execution.
    """

    expected: int
    entries: Sequence[Entry]
    new_run: NewRun | None = None
    changes: Sequence[RunChange] = ()
    interrupts: Sequence[Interrupt] | None = None
    moves: bool = False
    wakes: bool = False
    wake_at: int | None = None
    claimed_by: int | None = None
    holder: int | None = None
    records: Sequence[Record] = ()


@attrs.frozen
class OpenInterrupt:
    """One open interrupt of the inbox, with the latest run of its execution."""

    interrupt: Interrupt
    run_id: str
    execution: Execution
    key: int


@attrs.frozen
class Holder:
    """A worker that holds executions, and when it last said that it is alive."""

    worker: int
    host: str
    pid: int
    seen_at: int


class Journal(Protocol):
    """Implementers: every method either did all it says, durably, or raised and did nothing.

    Cancelling a caller while it waits leaves the outcome unknown to it, never half written: reading again decides.
    """

    durable: bool

    @property
    def conversations(self) -> ConversationRepository:
        """What the message records of appends became."""
        ...

    @property
    def usage(self) -> UsageRows:
        """What the usage records of appends became."""
        ...

    async def begin(self, new: NewExecution, append: Append) -> ExecutionRef:
        """Create an execution with its first entries and `append.new_run`. `RunExists` when the run id is taken.

        `wake_at` and `claimed_by` are written in any case. `NotFound` for an organization that does not exist.
        """
        ...

    async def append(self, execution: ExecutionRef, append: Append) -> None:
        """Write after exactly `append.expected` entries, else `JournalConflict`; `RunExists` for a taken run id.

        A taken run id is told first. Without entries it is still a comparison. An interrupt that stays open
        keeps its place in the inbox. `NotFound` for a change of a run that the execution does not have.
        """
        ...

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        """The entries after the first `after`, in order. Empty for another organization's execution."""
        ...

    async def execution(self, execution: ExecutionRef) -> Execution:
        """The execution's row. `NotFound` when there is none."""
        ...

    async def find_run(self, org: str, run_id: str) -> RunRow | None:
        """The organization's run of this id."""
        ...

    async def find_turn(self, org: str, run_id: str) -> tuple[RunRow, Execution] | None:
        """The same with the row of its execution, in one read."""
        ...

    async def list_runs(
        self,
        org: str,
        *,
        limit: int,
        before: int | None = None,
        status: RunStatus | None = None,
        resource: tuple[str, int] | None = None,
        principal: Principal | None = None,
    ) -> list[RunRow]:
        """Runs, those that began last first, with a `key` smaller than `before`; `resource` is (kind, id).

        With `principal`: only runs it started, and runs of resources whose grants let it use them.
        """
        ...

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        """Open interrupts in the order in which they were opened, those with `key` greater than `after`; those `of`
        some executions, where they are named.
        """
        ...

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        """How many entries each journal has now; what does not exist is left out."""
        ...

    # Who works on what

    async def register(self, host: str, pid: int, now: int) -> int:
        """A new worker's number, never given twice."""
        ...

    async def heartbeat(self, worker: int, now: int) -> None:
        """The worker is alive. A worker that is not registered (any more) is registered again."""
        ...

    async def holders(self) -> list[Holder]:
        """The workers that hold executions, by number. One that nobody registered has no host and was never seen."""
        ...

    async def held(self, worker: int) -> list[ExecutionRef]:
        """The executions that this worker holds, by number."""
        ...

    async def release(self, worker: int) -> int:
        """Take everything from a worker that is gone; returns how many executions it held. Those are due at once."""
        ...

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        """Take up to `limit` executions that are due and held by nobody, the longest due first.

        Of several claimants, in any number of processes, exactly one gets each. Its queued run becomes a running
        one. Claiming is a sign of life, like a heartbeat.
        """
        ...

    async def next_wake(self) -> int | None:
        """The earliest time at which an execution that nobody holds is due; None when there is none."""
        ...
