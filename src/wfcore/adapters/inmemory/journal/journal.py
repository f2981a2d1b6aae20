"""The port `Journal` in dicts. No method suspends, so no two calls interleave."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from msgspec import structs

from wfcore.adapters.inmemory.conversations import MemoryConversations
from wfcore.adapters.inmemory.journal.claims import MemoryClaims, RunLimit
from wfcore.adapters.inmemory.journal.run_reads import StoredExecution, Usable, row_of
from wfcore.adapters.inmemory.usage import MemoryUsage, MemoryVerdicts
from wfcore.domain.kernel.errors import NotFound, closed, unknown_organization
from wfcore.domain.projections.notices import Notice
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.state import Interrupt
from wfcore.ports.journal import (
    Append,
    Execution,
    ExecutionRef,
    JournalConflict,
    NewExecution,
    OpenInterrupt,
    RunChange,
    RunExists,
    RunRow,
)
from wfcore.ports.repositories.audit import AuditRow
from wfcore.ports.repositories.inbox import closed_interrupts

AddAuditRows = Callable[[str, Iterable[AuditRow]], None]
"""Appends rows to an organization's audit."""

AddNotices = Callable[[str, Iterable[Notice]], None]
"""Adds deliveries of an organization's events."""

UNEXPECTED: Final = "the journal does not have the expected length, or the claim is lost"


class MemoryJournal(MemoryClaims):
    """Implements the port `Journal` for tests and first steps; its content is lost with the process.

    `org_exists` returns whether an organization exists (by default always), `usable` whether a principal can use a
    resource (by default always), `add_audit_rows` receives the rows of the audit, `add_notices` the notices,
    `run_limit` returns the limit of an organization or of a workflow (by default none).
    """

    def __init__(
        self,
        *,
        org_exists: Callable[[str], bool] = lambda _: True,
        usable: Usable = lambda *_: True,
        add_audit_rows: AddAuditRows = lambda *_: None,
        add_notices: AddNotices = lambda *_: None,
        run_limit: RunLimit = lambda *_: None,
    ) -> None:
        super().__init__(usable, run_limit)
        self.durable = False
        self.conversations = MemoryConversations(usable)
        self.usage = MemoryUsage()
        self.verdicts = MemoryVerdicts()
        self._org_exists = org_exists
        self._add_audit_rows = add_audit_rows
        self._add_notices = add_notices
        self._pinned: set[str] = set()
        self._last_run = self._last_key = self._last_execution = 0
        self._deleted: set[tuple[str, str]] = set()
        self._deleted_at: dict[tuple[str, str], int] = {}
        """When the deleted runs had ended."""

    def close(self) -> None:
        """Refuse every call from now on with Unavailable. What was kept is gone, so that no call has to ask."""
        refused: Any = _Closed()
        self._executions = self._runs = self._due = self._workers = self._registered = self._deleted = refused

    def pinned(self, variation_id: str) -> bool:
        """Whether an execution runs this variation, which must then be kept."""
        return variation_id in self._pinned

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        run = append.new_run
        if not self._org_exists(new.org):
            raise unknown_organization(new.org)
        if run is None or append.expected or append.holder is not None:
            raise ValueError("the first append of an execution must have a new run, `expected` 0 and no holder")
        ref = ExecutionRef(new.org, self._last_execution + 1)
        stored = StoredExecution(new.row(ref, run.id, 0, None), [])
        append = self._without_claim(stored, append)
        stored.epoch = int(append.claimed_by is not None)
        self._check(new.org, stored, append)
        self._executions[ref.id] = stored
        self._last_execution = ref.id
        if new.variation_id is not None:
            self._pinned.add(new.variation_id)
        self._write(stored, append)
        self._set_claim(stored, 0 if append.wakes else append.wake_at, append.claimed_by)
        return row_of(stored)

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        if append.is_plain:  # the hot append: `_expected` and `_find` without calls
            found = self._executions.get(execution.id)
            if found is None or len(found.entries) != append.expected or found.row.ref != execution:
                raise JournalConflict(UNEXPECTED)
            if append.holder != found.claimed_by and append.holder is not None:
                raise JournalConflict(UNEXPECTED)
            found.entries += append.entries
            return None
        stored = self._check(execution.org, self._find(execution), append)
        append = self._without_claim(stored, append)
        self._write(stored, append)
        if append.updates_claim:
            self._set_claim(stored, append.wake_at, append.claimed_by)
            stored.epoch += append.claimed_by is not None
        is_admitted = bool(append.awaits) and self._slots.is_admitted(execution, append.awaits)
        if append.wakes or is_admitted:
            self._set_claim(stored, 0, stored.claimed_by)
        if is_admitted:
            self._admitted.append(execution)
        if append.slots is not None:
            self._free_slots(execution, append.slots)
        return stored.epoch if append.updates_claim and append.claimed_by is not None else None

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        stored = self._check(execution.org, self._find(execution), Append(length, ()))
        if stored.claimed_by is not None:
            raise JournalConflict("a worker holds the execution")
        for run_id in stored.runs:
            run = self._runs[execution.org].pop(run_id)
            self._deleted.add((execution.org, run_id))
            self._deleted_at[execution.org, run_id] = run.finished_at or run.updated_at
        self._closed = [one for one in self._closed if one.execution.ref != execution]
        self._free_slots(execution)
        del self._executions[execution.id]
        self.verdicts.delete(execution)
        if audit:
            self._add_audit_rows(execution.org, audit)

    async def is_deleted(self, org: str, run_id: str) -> bool:
        return (org, run_id) in self._deleted

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        stored = self._find(execution)
        return stored.entries[after:] if stored else []

    async def snapshot(self, execution: ExecutionRef) -> tuple[int, bytes] | None:
        stored = self._find(execution)
        return stored.snapshot if stored else None

    async def damaged(self, on_read: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        for _ in self._executions:
            on_read()
        return
        yield ""  # nothing that is kept in memory is damaged

    async def within(self, connection: object) -> "MemoryJournal":
        raise ValueError("`connection` is to another database: wfcore's is in memory")

    def _check(self, org: str, stored: StoredExecution | None, append: Append) -> StoredExecution:
        """Raise the errors of `append`, in order of precedence, before anything has changed."""
        if append.new_run and (
            append.new_run.id in self._runs.get(org, {}) or (org, append.new_run.id) in self._deleted
        ):
            raise RunExists(f"run `{append.new_run.id}` already exists")
        stored = _expected(stored, append)
        own = stored.runs if append.new_run is None else [*stored.runs, append.new_run.id]
        for change in append.changes:
            if change.id not in own:
                raise NotFound(f"the execution has no run `{change.id}`")
        return stored

    def _write(self, stored: StoredExecution, append: Append) -> None:
        stored.entries.extend(append.entries)
        if append.snapshot is not None:
            stored.snapshot = (len(stored.entries), append.snapshot) if append.snapshot else None
        if append.new_run:
            self._last_run += 1
            if append.new_run.variation_id is not None:
                self._pinned.add(append.new_run.variation_id)
            self._put_run(append.new_run.row(stored.row, self._last_run))
            stored.runs.append(append.new_run.id)
        for change in append.changes:
            if change.variation_id is not None:
                self._pinned.add(change.variation_id)
            self._put_run(_changed(self._runs[stored.row.ref.org][change.id], change))
        if append.interrupts is not None:
            self._replace_interrupts(stored, append.interrupts, append.entries)
        if append.messages:
            self.conversations.add(stored.row, append.messages)
        if append.usage:
            first = self._runs[stored.row.ref.org][stored.runs[0]]
            self.usage.add(stored.row, append.usage, first.origin)
        if append.verdict is not None:
            self.verdicts.put(stored.row, append.verdict)
        if append.audit:
            self._add_audit_rows(stored.row.ref.org, append.audit)
        if append.notices:
            self._add_notices(stored.row.ref.org, append.notices)

    def _replace_interrupts(
        self, stored: StoredExecution, interrupts: Sequence[Interrupt], entries: Sequence[Entry]
    ) -> None:
        """Replace the open interrupts. One that was open before keeps its key, and so its position in the inbox."""
        before, stored.interrupts = stored.interrupts, {}
        opened = {name: interrupt for name, (_, interrupt) in before.items()}
        for one in closed_interrupts(opened, interrupts, entries):
            key = before[one.interrupt.id][0]
            self._closed.append(OpenInterrupt(one.interrupt, "", stored.row, key, one.decision, one.at))
        for interrupt in interrupts:
            self._last_key += interrupt.id not in before
            key, _ = before.get(interrupt.id, (self._last_key, None))
            stored.interrupts[interrupt.id] = key, interrupt


class _Closed:
    """Stands for what a closed journal kept."""

    def _refuse(self, *_: object) -> NoReturn:
        raise closed()

    __getattr__ = __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = _refuse


def _expected(stored: StoredExecution | None, append: Append) -> StoredExecution:
    """The execution, if it has the length and the holder that the append expects. Raises JournalConflict."""
    if stored is None or len(stored.entries) != append.expected or append.holder not in (None, stored.claimed_by):
        raise JournalConflict(UNEXPECTED)
    return stored


def _changed(run: RunRow, change: RunChange) -> RunRow:
    """The run after the change. `finished_at` is set when the status ends the turn or an ended status changes."""
    finished = None if change.status.under_way else change.at
    return structs.replace(
        run,
        status=change.status,
        updated_at=change.at,
        result=run.result if change.result is None else change.result,
        resumed_by=run.resumed_by if change.resumed_by is None else change.resumed_by,
        retried_by=run.retried_by if change.retried_by is None else change.retried_by,
        finished_at=run.finished_at if change.status == run.status else finished,
        variation_id=run.variation_id if change.variation_id is None else change.variation_id,
        is_draft=run.is_draft and change.variation_id is None,
    )
