"""The journal in tables: writes by group commit, short reads by key, and lists."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from wfcore.adapters.sql.journal import conversion, slots, writes
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.journal.checksums import Chain, LastChecksums, Text, chained, following
from wfcore.adapters.sql.journal.claims import SqlClaims
from wfcore.adapters.sql.repositories.conversations import SqlConversations
from wfcore.adapters.sql.repositories.row_values import to_key
from wfcore.adapters.sql.repositories.usage import SqlUsage
from wfcore.adapters.sql.repositories.verdicts import SqlVerdicts
from wfcore.adapters.sql.store import CommitTransaction, Damaged, Store
from wfcore.domain.kernel.errors import unknown_organization
from wfcore.domain.run.entries import Entry, encode_entry
from wfcore.ports.journal import (
    Append,
    Claimed,
    Execution,
    ExecutionRef,
    JournalConflict,
    JournalDamaged,
    NewExecution,
)
from wfcore.ports.repositories.audit import AuditRow

ENTRIES_PER_READ: Final = 500
"""Entries read between two yields to the event loop: about a millisecond of work."""

EXECUTIONS_PER_READ: Final = 100


class SqlJournal(SqlClaims):
    """Implements the port `Journal` in an open database, for the organizations in its tables."""

    def __init__(
        self,
        database: Store,
        on_commit: Callable[[float], None] | None = None,
    ) -> None:
        """`on_commit` is called with the seconds that each commit took."""
        super().__init__(database, on_commit)
        self.durable = database.durable
        self.conversations = SqlConversations(database)
        self.usage = SqlUsage(database)
        self.verdicts = SqlVerdicts(database)
        self._checksums = LastChecksums()

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        org, run = await self._org(new.org), append.new_run
        if org is None:
            raise unknown_organization(new.org)
        if run is None or append.expected or append.holder is not None:
            raise ValueError("the first append of an execution must have a new run, `expected` 0 and no holder")
        pinned = new.kind, new.resource_id, to_key(new.variation_id), new.is_draft, new.user_id
        thread = conversion.stored_thread(new.thread_id, run.id)
        wake_at, worker = 0 if append.wakes else append.wake_at, append.claimed_by
        starter = conversion.stored_starter(new.started_by)
        row = (org, *pinned, thread, starter, wake_at)
        texts = chained(map(conversion.stored_entry, conversion.compacted(append.entries, run, new)), 0)
        write = partial(writes.begin, row, worker, org, run, new, append, texts)
        try:
            number, holder = await self._commits.run(write, run.id)
        except JournalConflict as error:
            self._orgs.drop(new.org)
            raise unknown_organization(new.org) from error
        if texts:
            self._checksums.put(number, 0, 0, len(texts), texts[-1][1])
        return new.row(ExecutionRef(new.org, number), run.id, len(texts), holder)

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        org = await self._org(execution.org)
        before = self._checksums.get(execution.id, append.expected)
        if before is None:
            before = await self._checksum(execution, append)
        changes: slots.SlotChanges | None = None
        # Encoded before the group commit: an error affects one caller only.
        if append.is_plain and append.entries:
            rows = writes.plain_rows(execution.id, org, append, before)
            checksum = rows[-1][writes.CHECKSUM]
            if len(rows) == 1 and self._commits.insert_alone(rows[0]):
                self._checksums.put(execution.id, append.expected, before, 1, checksum)
                return None
            writing: Awaitable[int | None] = self._commits.insert(rows)
        else:
            texts = chained(map(encode_entry, append.entries), before)
            checksum = texts[-1][1] if texts else before
            if append.slots is not None or append.awaits:
                changes = self._frees.begin(execution.org)
            writing = self._commits.run(
                partial(self._append, execution.id, org, append, texts, before, changes), execution.id
            )
        count = len(append.entries)
        known = self._checksums.put(execution.id, append.expected, before, count, checksum) if count else None
        try:
            epoch = await writing
            if changes:
                await self._wake_admitted(execution, changes)
        except JournalConflict:
            self._checksums.refuse(execution.id, append.expected)
            raise
        except BaseException:
            self._checksums.drop(execution.id, known)
            raise
        finally:
            if changes is not None:
                self._frees.end(changes)
        return epoch

    def _append(
        self,
        number: int,
        org: int | None,
        append: Append,
        texts: list[Text],
        before: int,
        changes: slots.SlotChanges | None,
        transaction: CommitTransaction,
    ) -> int | None:
        """Write all rows of an append, and set its `changes` of slots. Returns the epoch of a claim."""
        if not texts:
            self._commits.lock_execution(transaction, number)
        writes.write(transaction, number, org, append, texts, before, self._first_runs.target(number))
        writes.add_projections(transaction, number, org, append)
        if append.snapshot is not None and texts:
            writes.put_snapshot(transaction, number, org, append, texts[-1])
        epoch = writes.set_claim(transaction, number, org, append) if append.updates_claim else None
        if append.wakes:
            transaction.executemany(sql.WAKE, [(number,)])
        if changes is not None:
            changes.write(transaction, number, append.slots, append.awaits)
        return epoch

    async def _checksum(self, execution: ExecutionRef, append: Append) -> int:
        """The checksum of the entry before those of the append. Raises the errors of `append` without such an entry."""
        if not append.entries:
            return 0
        rows = await self._database.look_up(sql.CHECKSUM, execution.id, append.expected)
        if not rows:
            if append.new_run and await self.find_run(execution.org, append.new_run.id):
                raise writes.run_exists(append.new_run)
            raise JournalConflict("the journal does not have the expected length")
        return int(rows[0][0])

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        org = await self._org(execution.org)

        def write(transaction: CommitTransaction) -> None:
            number = execution.id
            self._commits.lock_execution(transaction, number)
            writes.write(transaction, number, org, Append(length, ()))
            if not transaction.execute(sql.CHECK_FREE, (number,)).fetchone():
                raise JournalConflict("a worker holds the execution")
            for statement in sql.DELETE_EXECUTION:
                transaction.executemany(statement, [(number,)])
            writes.add_projections(transaction, number, org, Append(length, (), audit=audit))

        await self._commits.run(write, execution.id)

    async def is_deleted(self, org: str, run_id: str) -> bool:
        return bool(await self._database.look_up(sql.IS_DELETED, await self._org(org), run_id))

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        entries: list[Entry] = []
        org, chain = await self._org(execution.org), Chain(after)
        while True:
            try:
                rows = await self._database.look_up(sql.READ, execution.id, org, chain.pos, ENTRIES_PER_READ)
                entries += [conversion.to_entry(text) for text in chain.checked(rows)]
            except Damaged as error:
                raise JournalDamaged(f"the journal of execution {execution.id} is damaged") from error
            if len(rows) < ENTRIES_PER_READ:
                self._checksums.reach(execution.id, chain.pos, chain.checksum)
                return await self._restored(execution, entries)
            await asyncio.sleep(0)

    async def snapshot(self, execution: ExecutionRef) -> tuple[int, bytes] | None:
        org = await self._org(execution.org)
        for length, checksum, body, last in await self._database.look_up(sql.FIND_SNAPSHOT, execution.id, org):
            if following(body, last) == checksum:
                return length, bytes(body)
        return None

    async def with_entries(self, executions: Sequence[ExecutionRef]) -> list[Claimed]:
        rows = await self._database.look_up(sql.FIND_WITH_ENTRIES, conversion.to_json([ref.id for ref in executions]))
        return [await self._claimed(org, list(found)) for (org, _), found in groupby(rows, lambda row: row[:2])]

    async def _claimed(self, org: str, rows: Sequence[tuple[Any, ...]]) -> Claimed:
        """An execution from its rows, each with one of its entries."""
        _, *columns, at = rows[0][:-3]
        row = conversion.to_execution(org, columns)
        self._know_first_run(row, at)
        return Claimed(row, await self._claimed_entries(row, [found[-3:] for found in rows][: row.length]))

    async def claim(self, execution: ExecutionRef, worker: int, now: int) -> Claimed | None:
        rows = await self._commits.claim(execution.id, worker, now, await self._org(execution.org))
        if not rows:
            is_claimed = await self._claim_within_limits(execution, worker, now)
            return Claimed(await self.execution(execution)) if is_claimed else None
        return await self._claimed(execution.org, [(execution.org, *row) for row in rows])

    async def _claimed_entries(self, execution: Execution, rows: Sequence[tuple[Any, ...]]) -> list[Entry] | None:
        """None if there are more than these rows, or if they are damaged: `read` reports that."""
        if len(rows) < execution.length:
            return None
        chain = Chain(0)
        try:
            entries = [conversion.to_entry(text) for text in chain.checked(rows)]
        except (Damaged, ValueError):
            return None
        self._checksums.reach(execution.ref.id, chain.pos, chain.checksum)
        return await self._restored(execution.ref, entries)

    async def damaged(self, on_read: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        after = 0
        while rows := await self._database.look_up(sql.EXECUTIONS, after, EXECUTIONS_PER_READ):
            for after, org, run_id in rows:
                try:
                    await self.read(ExecutionRef(org, after))
                except (JournalDamaged, ValueError):
                    yield run_id
                on_read()
            await asyncio.sleep(0)

    async def _restored(self, execution: ExecutionRef, entries: list[Entry]) -> list[Entry]:
        """The entries, with the first one restored from the rows of its run and execution."""
        if entries and conversion.is_compacted(entries[0]):
            row = self._first_runs.get(execution.id)
            if row is None:
                (row,) = await self._database.look_up(sql.FIRST_RUN, execution.id)
            entries[0] = conversion.restored(entries[0], row)
        return entries

    async def within(self, connection: object) -> "SqlJournal":
        return SqlJournal(await self._database.joined(connection))
