"""The rows that a journal returns: executions, their runs and interrupts, and who holds them.

All times are epoch milliseconds.
"""

from collections.abc import Sequence
from typing import Final

import attrs
from msgspec import Struct

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.events import TargetKind
from wfcore.domain.run.state import Interrupt, RunStatus, StarterKind


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


@attrs.frozen
class InboxFilter:
    """The interrupts of an inbox: those that match every given field.

    `workflows` are those of their runs. `undecided_by` are user ids that decide as one at the wall time `now`: without
    what none of them could decide then (`Interrupt.barred`), and without what has expired.
    """

    workflows: frozenset[int] | None = None
    undecided_by: frozenset[str] = frozenset()
    now: int = 0


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
    """What was read with or after a claim: the row of the execution, and its entries if they are few, else None."""

    execution: Execution
    entries: Sequence[Entry] | None = None
