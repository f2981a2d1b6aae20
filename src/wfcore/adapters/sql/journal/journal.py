"""The journal in tables: writes by group commit, short reads by key, and lists."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from wfcore.adapters.sql.journal import claim_statements as claims
from wfcore.adapters.sql.journal import conversion, interrupts, run_lists
from wfcore.adapters.sql.journal import interrupt_statements as inbox
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.journal.checksums import Chain, LastChecksums, Text, chained
from wfcore.adapters.sql.repositories.audit import add_rows
from wfcore.adapters.sql.repositories.conversations import SqlConversations, add_messages
from wfcore.adapters.sql.repositories.hooks import add_notices
from wfcore.adapters.sql.repositories.row_values import to_key
from wfcore.adapters.sql.repositories.usage import SqlUsage, add_usage
from wfcore.adapters.sql.repositories.verdicts import SqlVerdicts, put_verdict
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Commits, CommitTransaction, Damaged, Rows, Store
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Entry, encode_entry
from wfcore.domain.run.state import RunStatus
from wfcore.domain.run.versions import decode_stored
from wfcore.ports.journal import (
    HOUR,
    Append,
    Execution,
    ExecutionProgress,
    ExecutionRef,
    Holder,
    JournalConflict,
    JournalDamaged,
    NewExecution,
    NewRun,
    OpenInterrupt,
    RunChange,
    RunCount,
    RunExists,
    RunFilter,
    RunRow,
)
from wfcore.ports.repositories.audit import AuditRow

ENTRIES_PER_READ: Final = 500
"""Entries read between two yields to the event loop: about a millisecond of work."""

EXECUTIONS_PER_READ: Final = 100

_Due = tuple[Any, ...]
"""The row of an execution that is due: its number, its organization, the key and the limit of the organization."""

MAX_KEY: Final = 2**63 - 1
"""A key greater than that of every run."""


class SqlJournal:
    """Implements the port `Journal` in an open database, for the organizations in its tables."""

    def __init__(
        self,
        database: Store,
        on_commit: Callable[[float], None] | None = None,
    ) -> None:
        """`on_commit` is called with the seconds that each commit took."""
        self.durable = database.durable
        self.conversations = SqlConversations(database)
        self.usage = SqlUsage(database)
        self.verdicts = SqlVerdicts(database)
        self._database = database
        self._commits: Commits = database.commits(on_commit)
        self._checksums = LastChecksums()
        self._first_runs = conversion.FirstRuns()
        self._orgs: dict[str, int] = {}
        self._workers: dict[int, tuple[str, int]] = {}
        self._last_claimed_org = 0
        self._limited: set[str] = set()

    # Executions and their entries

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        org, run = await self._org(new.org), append.new_run
        if org is None:
            raise NotFound(f"unknown organization `{new.org}`")
        if run is None or append.expected or append.holder is not None:
            raise ValueError("the first append of an execution must have a new run, `expected` 0 and no holder")
        pinned = new.kind, new.resource_id, to_key(new.variation_id), new.is_draft, new.user_id
        thread = conversion.stored_thread(new.thread_id, run.id)
        wake_at, worker = 0 if append.wakes else append.wake_at, append.claimed_by
        starter = conversion.stored_starter(new.started_by)
        execution = (org, *pinned, thread, starter, wake_at)
        texts = chained(map(encode_entry, conversion.compacted(append.entries, run, new)), 0)

        def write(transaction: CommitTransaction) -> tuple[int, int | None]:
            number, holder = _add_execution(transaction, execution, worker)
            _add_run(transaction, number, org, run if holder == worker else run.queued(), new)
            transaction.executemany(sql.BEGIN, [(number, pos, *text) for pos, text in enumerate(texts, 1)])
            for change in append.changes:
                _change_run(transaction, number, org, change)
            interrupts.write(transaction, number, org, append, new)
            _add_projections(transaction, number, org, append)
            return number, holder

        try:
            number, holder = await self._commits.run(write, run.id)
        except JournalConflict as error:
            self._orgs.pop(new.org, None)
            raise NotFound(f"unknown organization `{new.org}`") from error
        if texts:
            self._checksums.put(number, 0, 0, texts)
        return new.row(ExecutionRef(new.org, number), run.id, len(texts), holder)

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        org = self._orgs.get(execution.org) or await self._org(execution.org)
        before = self._checksums.get(execution.id, append.expected)
        if before is None:
            before = await self._checksum(execution, append)
        # Encoded before the group commit: an error affects one caller only.
        texts = chained(map(encode_entry, append.entries), before)
        rows = _rows(execution.id, org, append, texts) if texts and append.is_plain else ()
        if len(rows) == 1 and self._commits.insert_alone(rows[0]):
            self._checksums.put(execution.id, append.expected, before, texts)
            return None
        if rows:
            writing: Awaitable[int | None] = self._commits.insert(rows)
        else:
            writing = self._commits.run(partial(self._append, execution.id, org, append, texts), execution.id)
        known = self._checksums.put(execution.id, append.expected, before, texts) if texts else None
        try:
            return await writing
        except BaseException:
            self._checksums.drop(execution.id, known)
            raise

    def _append(
        self, number: int, org: int | None, append: Append, texts: list[Text], transaction: CommitTransaction
    ) -> int | None:
        """Write all rows of an append. Returns the epoch of a claim."""
        if not texts:
            self._commits.lock_execution(transaction, number)
        _write(transaction, number, org, append, texts)
        _add_projections(transaction, number, org, append)
        epoch = _set_claim(transaction, number, org, append) if append.updates_claim else None
        if append.wakes:
            transaction.execute(sql.WAKE, (number,))
        return epoch

    async def _checksum(self, execution: ExecutionRef, append: Append) -> int:
        """The checksum of the entry before those of the append. Raises the errors of `append` without such an entry."""
        if not append.entries:
            return 0
        rows = await self._database.look_up(sql.CHECKSUM, execution.id, append.expected)
        if not rows:
            if append.new_run and await self.find_run(execution.org, append.new_run.id):
                raise RunExists(f"run `{append.new_run.id}` already exists")
            raise JournalConflict("the journal does not have the expected length")
        return int(rows[0][0])

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        org = await self._org(execution.org)

        def write(transaction: CommitTransaction) -> None:
            number = execution.id
            self._commits.lock_execution(transaction, number)
            _write(transaction, number, org, Append(length, ()), [])
            if not transaction.execute(sql.CHECK_FREE, (number,)).fetchone():
                raise JournalConflict("a worker holds the execution")
            for statement in sql.DELETE_EXECUTION:
                transaction.execute(statement, (number,))
            _add_projections(transaction, number, org, Append(length, (), audit=audit))

        await self._commits.run(write, execution.id)

    async def is_deleted(self, org: str, run_id: str) -> bool:
        return bool(await self._database.look_up(sql.IS_DELETED, await self._org(org), run_id))

    async def read(self, execution: ExecutionRef, after: int = 0) -> list[Entry]:
        entries: list[Entry] = []
        org, chain = await self._org(execution.org), Chain(after)
        while True:
            try:
                rows = await self._database.look_up(sql.READ, execution.id, org, chain.pos, ENTRIES_PER_READ)
                entries += [decode_stored(text) for text in chain.checked(rows)]
            except Damaged as error:
                raise JournalDamaged(f"the journal of execution {execution.id} is damaged") from error
            if len(rows) < ENTRIES_PER_READ:
                self._checksums.reach(execution.id, chain.pos, chain.checksum)
                return await self._restored(execution, entries)
            await asyncio.sleep(0)

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

    async def execution(self, execution: ExecutionRef) -> Execution:
        for row in await self._database.look_up(sql.FIND_EXECUTION, execution.id, await self._org(execution.org)):
            return conversion.to_execution(execution.org, row)
        raise NotFound

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        ids = list({ref.id: None for ref in executions})
        rows = await self._list(sql.LENGTHS, conversion.to_json(ids))
        found = {ExecutionRef(org, number): length for number, org, length in rows}
        return {ref: found[ref] for ref in executions if ref in found}

    # Runs and interrupts

    async def find_run(self, org: str, run_id: str) -> RunRow | None:
        rows = await self._database.look_up(sql.FIND_RUN, await self._org(org), run_id)
        return conversion.to_run(org, rows[0]) if rows else None

    async def find_turn(self, org: str, run_id: str) -> tuple[RunRow, Execution] | None:
        rows = await self._database.look_up(sql.FIND_TURN, await self._org(org), run_id)
        if not rows:
            return None
        run, execution = conversion.to_turn(org, rows[0])
        if run.id == execution.root_run_id:
            target = execution.kind, execution.resource_id, execution.thread_id
            first = run.created_at, run.id, *target, execution.user_id
            self._first_runs.put(execution.ref.id, first)
        return run, execution

    async def list_runs(
        self,
        org: str,
        *,
        limit: int,
        before: int | None = None,
        where: RunFilter = RunFilter(),  # noqa: B008  (immutable)
        principal: Principal | None = None,
    ) -> list[RunRow]:
        if principal and principal.org_uuid != org:
            return []
        before = MAX_KEY if before is None else before
        number = await self._org(org)
        if principal is None or not run_lists.can_be_far(where, principal):
            return await self._runs(org, run_lists.list_runs(number, limit, before, where, principal))
        oldest = await self._list(run_lists.OLDEST_OF_RECENT, number, before, run_lists.RECENT)
        if not oldest:
            return await self._runs(org, run_lists.list_runs(number, limit, before, where, principal))
        ((key,),) = oldest
        found = await self._runs(org, run_lists.list_recent_runs(number, limit, before, where, principal, key))
        if len(found) == limit:
            return found
        return await self._runs(org, run_lists.list_runs_by_targets(number, limit, before, where, principal))

    async def _runs(self, org: str, query: run_lists.Query) -> list[RunRow]:
        statement, values = query
        return [conversion.to_run(org, row) for row in await self._list(statement, *values)]

    async def count_runs(self, org: str, *, since: int, until: int, principal: Principal) -> list[RunCount]:
        if principal.org_uuid != org:
            return []
        statement, values = run_lists.count_runs(await self._org(org), since, until, principal)
        rows = await self._list(statement, *values)
        return [RunCount(RunStatus(status), kind, id_, hour * HOUR, count) for status, kind, id_, hour, count in rows]

    async def inbox(
        self, principal: Principal, *, limit: int, before: int, decided: bool = False, workflow: int | None = None
    ) -> list[OpenInterrupt]:
        org = principal.org_uuid
        values = await self._org(org), conversion.to_json(sorted(principal.subjects)), before, limit, workflow
        rows = await self._list(inbox.CLOSED_INBOX if decided else inbox.INBOX, *values)
        return [conversion.to_inbox_item(org, row) for row in rows]

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        key = await self._org(org)
        if of is None:
            rows = await self._list(inbox.LIST_INTERRUPTS, key, after, limit)
        else:
            ids = conversion.to_json(list({ref.id for ref in of if ref.org == org}))
            rows = await self._database.look_up(inbox.LIST_INTERRUPTS_OF, key, after, limit, ids)
        return [conversion.to_open_interrupt(org, row) for row in rows]

    # Who works on what

    async def register(self, host: str, pid: int, worker: int | None = None) -> int:
        def write(transaction: CommitTransaction) -> int:
            if worker is None:
                return transaction.insert(claims.ADD_WORKER, (host, pid))
            transaction.execute(claims.PUT_WORKER, (worker, host, pid))
            return worker

        if worker is not None:
            self._workers[worker] = host, pid
        number = await self._commits.run(write)
        self._workers[number] = host, pid
        return number

    async def heartbeat(self, worker: int) -> None:
        await self._commits.run(lambda transaction: self._record_heartbeat(transaction, worker))

    async def holders(self) -> list[Holder]:
        return [Holder(*row) for row in await self._database.look_up(claims.HOLDERS)]

    async def held_by(self, worker: int) -> list[ExecutionRef]:
        return [ExecutionRef(org, number) for org, number in await self._database.look_up(claims.HELD_BY, worker)]

    async def release(self, worker: int) -> int:
        def write(transaction: CommitTransaction) -> int:
            transaction.execute(claims.DROP_WORKER, (worker,))
            return transaction.execute(claims.RELEASE, (worker,)).rowcount

        return await self._commits.run(write)

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        def write(transaction: CommitTransaction) -> list[ExecutionRef]:
            due = transaction.execute(claims.DUE, (now, limit)).fetchall()
            shared = self._shares(transaction, now, limit) if len(due) == limit else []
            if shared:
                shared = self._within_limits(transaction, shared)
                _claim(transaction, worker, now, shared)
                due = transaction.execute(claims.DUE, (now, limit - len(shared))).fetchall()
            due = self._within_limits(transaction, due)
            if due or shared:
                self._record_heartbeat(transaction, worker)
            _claim(transaction, worker, now, due)
            return [ExecutionRef(org, number) for number, org, *_ in [*shared, *due]]

        return await self._commits.run(write)

    async def claim(self, execution: ExecutionRef, worker: int, now: int) -> bool:
        org = await self._org(execution.org)

        def write(transaction: CommitTransaction) -> bool:
            if not transaction.execute(claims.CLAIM_IF_DUE, (execution.id, worker, now, org)).rowcount:
                return self._claim_within_limit(transaction, execution, org, worker, now)
            transaction.execute(claims.BEGIN_RUN, (execution.id, now))
            return True

        return await self._commits.run(write, execution.id)

    def _claim_within_limit(
        self, transaction: CommitTransaction, execution: ExecutionRef, org: int | None, worker: int, now: int
    ) -> bool:
        """Claim a due execution of an organization with a limit."""
        if _left(transaction, org) <= 0:
            return False
        self._limited.add(execution.org)
        found = transaction.execute(claims.IS_DUE, (execution.id, org, now)).fetchall()
        _claim(transaction, worker, now, found)
        return bool(found)

    def _within_limits(self, transaction: CommitTransaction, due: list[_Due]) -> list[_Due]:
        """Those that can be claimed, in order. Of an organization with a limit, as many as keep it."""
        limited = {org: uuid for _, uuid, org, most in due if most is not None}
        self._limited.update(limited.values())
        kept, left = [], {org: _left(transaction, org) for org in limited}
        for one in due:
            if one[2] in left:
                left[one[2]] -= 1
            if left.get(one[2], 0) >= 0:
                kept.append(one)
        return kept

    def may_be_limited(self, org: str) -> bool:
        return org in self._limited

    def _shares(self, transaction: CommitTransaction, now: int, limit: int) -> list[_Due]:
        """Due executions, the same number of each organization; empty when only one has any.

        With more organizations than `limit`, each claim begins after the last organization of the claim before.
        """
        last = self._last_claimed_org
        orgs = transaction.execute(claims.DUE_ORGANIZATIONS, (now, last, limit)).fetchall()
        if last and len(orgs) < limit:
            begun = transaction.execute(claims.DUE_ORGANIZATIONS, (now, 0, limit)).fetchall()
            orgs += [org for org in begun if org[0] <= last][: limit - len(orgs)]
        if not orgs or (len(orgs) == 1 and limit > 1):
            return []
        self._last_claimed_org = orgs[-1][0]
        share = limit // len(orgs)
        return [
            (id_, org, key, most)
            for key, org, most in orgs
            for (id_,) in transaction.execute(claims.DUE_OF, (now, share, key)).fetchall()
        ]

    async def progress(self, execution: ExecutionRef) -> ExecutionProgress:
        for row in await self._database.look_up(claims.PROGRESS, execution.id, await self._org(execution.org)):
            kind, resource_id, status, claimed_by, wake_at = row
            return ExecutionProgress(kind, resource_id, RunStatus(status), claimed_by, wake_at)
        raise NotFound

    async def next_wake(self) -> int | None:
        for (wake_at,) in await self._database.look_up(claims.NEXT_WAKE):
            return int(wake_at)
        return None

    async def due_since(self, now: int) -> int | None:
        for (since,) in await self._database.look_up(claims.DUE_SINCE, now):
            return int(since)
        return None

    def _record_heartbeat(self, transaction: CommitTransaction, worker: int) -> None:
        """Record a sign of life; a worker that others released as dead is registered again."""
        transaction.execute(claims.SEE_WORKER, (worker, *self._workers.get(worker, ("", 0))))

    # Reads

    async def _list(self, statement: Statement, *values: Any) -> Rows:
        """A read that can take long."""
        async with self._database.reading() as connection:
            return [tuple(row) for row in (await connection.run(statement, values)).fetchall()]

    async def _org(self, uuid: str) -> int | None:
        if uuid not in self._orgs:
            for (key,) in await self._database.look_up(sql.FIND_ORG, uuid):
                self._orgs[uuid] = key
        return self._orgs.get(uuid)


def _rows(number: int, org: int | None, append: Append, texts: list[Text]) -> Rows:
    first = append.expected + 1
    return [(number, first + index, org, append.holder, *text) for index, text in enumerate(texts)]


def _write(transaction: CommitTransaction, number: int, org: int | None, append: Append, texts: list[Text]) -> None:
    """Write the entries and all rows that change with them. An existing run id is reported before a conflict."""
    if append.new_run:
        _add_run(transaction, number, org, append.new_run)
    if (
        not texts
        and not transaction.execute(sql.CHECK_LENGTH, (number, append.expected, org, append.holder)).fetchone()
    ):
        raise JournalConflict("the journal does not have the expected length, or the claim is lost")
    transaction.executemany(sql.APPEND, _rows(number, org, append, texts))
    for change in append.changes:
        _change_run(transaction, number, org, change)
    if append.interrupts is not None:
        interrupts.write(transaction, number, org, append)


def _set_claim(transaction: CommitTransaction, number: int, org: int | None, append: Append) -> int | None:
    """Claim the execution, and return the epoch of the claim; or release it.

    A claim of an organization with a limit is not made: the new run is queued.
    """
    if append.claimed_by is None:
        transaction.execute(sql.RELEASE, (number, append.wake_at))
        return None
    ((epoch, holder),) = transaction.execute(sql.CLAIM, (number, append.wake_at, append.claimed_by)).fetchall()
    if holder is not None:
        return int(epoch)
    if append.new_run:
        transaction.execute(sql.QUEUE_RUN, (org, append.new_run.id))
    return None


def _add_projections(transaction: CommitTransaction, number: int, org: int | None, append: Append) -> None:
    """Write the messages, the usage, the verdict, the audit and the deliveries of the append."""
    if append.messages:
        add_messages(transaction, number, append.messages)
    if append.usage:
        add_usage(transaction, number, append.usage)
    if append.verdict is not None:
        put_verdict(transaction, number, append.verdict)
    if append.audit:
        add_rows(transaction, org, append.audit)
    if append.notices:
        add_notices(transaction, org, append.notices)


def _left(transaction: CommitTransaction, org: int | None) -> int:
    """How many more executions of an organization with a limit can be claimed; 0 while another process claims some."""
    for (most,) in transaction.execute(claims.LOCK_LIMIT, (org,)).fetchall():
        ((count,),) = transaction.execute(claims.COUNT_CLAIMS, (org,)).fetchall()
        return int(most - count)
    return 0


def _claim(transaction: CommitTransaction, worker: int, now: int, due: Sequence[Sequence[Any]]) -> None:
    transaction.executemany(claims.CLAIM, [(number, worker) for number, *_ in due])
    transaction.executemany(claims.BEGIN_RUN, [(number, now) for number, *_ in due])


def _add_execution(transaction: CommitTransaction, row: tuple[Any, ...], worker: int | None) -> tuple[int, int | None]:
    """Add an execution. Returns its number, and the worker that holds it: none if its organization has a limit."""
    if worker is not None and transaction.may_find(claims.HAS_LIMITS):
        ((number, holder),) = transaction.execute(sql.ADD_WITHIN_LIMIT, (*row, worker)).fetchall()
        return int(number), holder
    return transaction.insert(sql.ADD_EXECUTION, (*row, worker, int(worker is not None))), worker


def _add_run(
    transaction: CommitTransaction, number: int, org: int | None, run: NewRun, new: NewExecution | None = None
) -> None:
    """Write a run; `new` is its execution, if it is the first."""
    finished = None if run.status.under_way else run.at
    result = None if run.result is None else conversion.to_json(run.result)
    row = (org, run.id, number, run.user_id, run.fingerprint, run.status, run.parent_run_id, result, run.at, finished,
           conversion.stored_starter(run.started_by), conversion.stored_origin(run.origin), run.forked_from,
           to_key(run.variation_id), run.is_draft,
           None if new is None else conversion.target_of(new.kind, new.resource_id))  # fmt: skip
    if not transaction.execute(sql.ADD_RUN, row).rowcount:
        raise RunExists(f"run `{run.id}` already exists")


def _change_run(transaction: CommitTransaction, number: int, org: int | None, change: RunChange) -> None:
    result = None if change.result is None else conversion.to_json(change.result)
    row = (
        org,
        change.id,
        number,
        change.status,
        change.at,
        result,
        change.resumed_by,
        change.status.under_way,
        change.retried_by,
    )
    if not transaction.execute(sql.CHANGE_RUN, row).rowcount:
        raise NotFound(f"the execution has no run `{change.id}`")
    if change.variation_id is not None:
        transaction.execute(sql.MOVE_RUN, (org, change.id, number, to_key(change.variation_id), False))
