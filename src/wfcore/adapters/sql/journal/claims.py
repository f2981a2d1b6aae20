"""Who works on which execution: workers, their claims, and the limits of organizations and workflows."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from wfcore.adapters.sql.journal import claim_statements as claims
from wfcore.adapters.sql.journal import slots
from wfcore.adapters.sql.journal.run_reads import KEPT_ORGANIZATIONS, SqlRunReads
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Commits, CommitTransaction, Store
from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.domain.kernel.recent import Recent
from wfcore.domain.run.effects import CallSlot
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import ExecutionProgress, ExecutionRef, Holder
from wfcore.ports.shards import Moving

T = TypeVar("T")

_Due = tuple[Any, ...]
"""The row of an execution that is due: its number, its organization, the key and the limit of the organization, and the
key of its workflow if that has a limit.
"""

_NOBODY: Final = 0
"""Not the key of an organization."""


class SqlClaims(SqlRunReads):
    """The methods of the port `Journal` on workers and their claims.

    `on_commit` is called with the seconds that each commit took.
    """

    def __init__(self, database: Store, on_commit: Callable[[float], None] | None = None) -> None:
        super().__init__(database)
        self._commits: Commits = database.commits(on_commit)
        self._workers: dict[int, tuple[str, int]] = {}
        self._last_claimed_org = 0
        self._limited = Recent[str, bool](KEPT_ORGANIZATIONS)
        self._admitted: list[ExecutionRef] = []
        self._frees = slots.Frees()

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
        def write(transaction: CommitTransaction, moving: int) -> int:
            transaction.execute(claims.DROP_WORKER, (worker,))
            return transaction.execute(claims.RELEASE, (worker, moving)).rowcount

        return await self._without_moving(write)

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        def write(transaction: CommitTransaction, moving: int) -> list[ExecutionRef]:
            due = transaction.execute(claims.DUE, (now, limit, moving)).fetchall()
            shared = self._shares(transaction, now, limit, moving) if len(due) == limit else []
            if shared:
                shared = self._within_limits(transaction, shared)
                _claim(transaction, worker, now, shared)
                due = transaction.execute(claims.DUE, (now, limit - len(shared), moving)).fetchall()
            due = self._within_limits(transaction, due)
            if due or shared:
                self._record_heartbeat(transaction, worker)
            _claim(transaction, worker, now, due)
            return [ExecutionRef(org, number) for number, org, *_ in [*shared, *due]]

        return await self._without_moving(write)

    async def _without_moving(self, write: Callable[[CommitTransaction, int], T]) -> T:
        """Call `write` with the key of an organization whose writes are refused, so that others do not wait for it."""
        try:
            return await self._commits.run(lambda transaction: write(transaction, _NOBODY))
        except Moving as moving:
            key = moving.key
        return await self._commits.run(lambda transaction: write(transaction, key))

    async def _claim_within_limits(self, execution: ExecutionRef, worker: int, now: int) -> bool:
        """Claim an execution that is due and free if its limits allow that."""
        org = await self._org(execution.org)

        def write(transaction: CommitTransaction) -> bool:
            rows = transaction.execute(claims.IS_DUE, (execution.id, org, now)).fetchall()
            found = self._within_limits(transaction, [(id_, execution.org, *limits) for id_, *limits in rows])
            _claim(transaction, worker, now, found)
            return bool(found)

        return await self._commits.run(write, execution.id)

    def _within_limits(self, transaction: CommitTransaction, due: list[_Due]) -> list[_Due]:
        """Those that can be claimed, in order: as many as keep the limits of organizations and workflows."""
        limited = [one for one in due if (one[3], one[4]) != (None, None)]
        for one in limited:
            self._limited.put(one[1], value=True)
        orgs = {one[2] for one in limited if one[3] is not None}
        workflows = {one[4] for one in limited if one[4] is not None}
        left = {(key, None): _left(transaction, claims.LOCK_LIMIT, claims.COUNT_CLAIMS, key) for key in sorted(orgs)}
        for key in sorted(workflows):
            left[None, key] = _left(transaction, claims.LOCK_WORKFLOW, claims.COUNT_CLAIMS_OF_WORKFLOW, key)
        kept = []
        for one in due:
            own = [limit for limit in ((one[2], None), (None, one[4])) if limit in left]
            if all(left[limit] > 0 for limit in own):
                left |= {limit: left[limit] - 1 for limit in own}
                kept.append(one)
        return kept

    def may_be_limited(self, org: str) -> bool:
        return org in self._limited

    def _shares(self, transaction: CommitTransaction, now: int, limit: int, moving: int) -> list[_Due]:
        """Due executions, the same number of each organization; empty when only one has any.

        With more organizations than `limit`, each claim begins after the last organization of the claim before.
        """
        last = self._last_claimed_org
        orgs = transaction.execute(claims.DUE_ORGANIZATIONS, (now, last, limit, moving)).fetchall()
        if last and len(orgs) < limit:
            begun = transaction.execute(claims.DUE_ORGANIZATIONS, (now, 0, limit, moving)).fetchall()
            orgs += [org for org in begun if org[0] <= last][: limit - len(orgs)]
        if not orgs or (len(orgs) == 1 and limit > 1):
            return []
        self._last_claimed_org = orgs[-1][0]
        share = limit // len(orgs)
        return [
            (id_, org, *limits)
            for key, org in orgs
            for id_, *limits in transaction.execute(claims.DUE_OF, (now, share, key)).fetchall()
        ]

    async def take_slot(self, execution: ExecutionRef, attempt: str, slot: CallSlot, holder: int | None) -> int:
        org = await self._org(execution.org)
        return await slots.take(self._database, org, execution.id, attempt, slot, holder)

    def take_admitted(self) -> list[ExecutionRef]:
        found, self._admitted = self._admitted, []
        return found

    async def _wake_admitted(self, execution: ExecutionRef, changes: slots.SlotChanges) -> None:
        """Wake what got slots that are free since a commit; at the latest it tries again by itself."""
        if changes.is_admitted:
            self._admitted.append(execution)
        org, freed = execution.org, self._frees.together(changes)
        with suppress(Unavailable):
            for number, is_held in await slots.admitted(self._database, await self._org(org), freed):
                if not is_held:
                    await self._commits.run(partial(slots.wake, number), number)
                self._admitted.append(ExecutionRef(org, number))

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
        transaction.executemany(claims.SEE_WORKER, [(worker, *self._workers.get(worker, ("", 0)))])


def _left(transaction: CommitTransaction, lock: Statement, count: Statement, key: int) -> int:
    """How many more executions the limit lets be claimed; 0 while another process claims some."""
    for (most,) in transaction.execute(lock, (key,)).fetchall():
        ((claimed,),) = transaction.execute(count, (key,)).fetchall()
        return int(most - claimed)
    return 0


def _claim(transaction: CommitTransaction, worker: int, now: int, due: Sequence[Sequence[Any]]) -> None:
    transaction.executemany(claims.CLAIM, [(number, worker) for number, *_ in due])
    transaction.executemany(claims.BEGIN_RUN, [(number, now) for number, *_ in due])
