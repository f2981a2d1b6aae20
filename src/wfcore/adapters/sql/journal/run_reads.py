"""The reads of runs, of their executions and of their interrupts."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from wfcore.adapters.sql.journal import conversion, run_lists
from wfcore.adapters.sql.journal import interrupt_statements as inbox
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.store import Rows, Store
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.recent import Recent
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import Execution, ExecutionRef, InboxFilter, OpenInterrupt, RunCount, RunFilter, RunRow

MAX_KEY: Final = 2**63 - 1
"""A key greater than that of every run."""

KEPT_ORGANIZATIONS: Final = 10_000
"""The organizations used last, whose keys are kept."""


class SqlRunReads:
    """The methods of the port `Journal` that only read, apart from `read`."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._first_runs = conversion.FirstRuns()
        self._orgs = Recent[str, int](KEPT_ORGANIZATIONS)

    async def execution(self, execution: ExecutionRef) -> Execution:
        for *row, at in await self._database.look_up(sql.FIND_EXECUTION, execution.id, await self._org(execution.org)):
            found = conversion.to_execution(execution.org, row)
            self._know_first_run(found, at)
            return found
        raise NotFound

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        ids = list({ref.id: None for ref in executions})
        rows = await self._database.scan(sql.LENGTHS, conversion.to_json(ids))
        found = {ExecutionRef(org, number): length for number, org, length in rows}
        return {ref: found[ref] for ref in executions if ref in found}

    async def find_run(self, org: str, run_id: str) -> RunRow | None:
        rows = await self._database.look_up(sql.FIND_RUN, await self._org(org), run_id)
        return conversion.to_run(org, rows[0]) if rows else None

    async def find_turn(self, org: str, run_id: str) -> tuple[RunRow, Execution] | None:
        rows = await self._database.look_up(sql.FIND_TURN, await self._org(org), run_id)
        if not rows:
            return None
        run, execution = conversion.to_turn(org, rows[0])
        if run.id == execution.root_run_id:
            self._know_first_run(execution, run.created_at)
        return run, execution

    def _know_first_run(self, execution: Execution, at: int) -> None:
        target = execution.kind, execution.resource_id, execution.thread_id
        self._first_runs.put(execution.ref.id, (at, execution.root_run_id, *target, execution.user_id))

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
        if principal is not None and run_lists.can_be_far(where, principal):
            return await self._far_runs(number, limit, before, where, principal)
        oldest, before = await self._period(number, before, where)
        return await self._runs(org, run_lists.list_runs(number, limit, before, where, principal, oldest))

    async def _period(self, number: int | None, before: int, where: RunFilter) -> tuple[int, int]:
        """The least key of the period of the filter, and one greater than each of its keys, at most `before`."""
        query = run_lists.edges_of_period(number, where)
        if query is None:
            return 0, before
        ((least, greatest),) = await self._rows(query)
        last = before if where.until is None else min(before, (greatest or 0) + 1)
        return MAX_KEY if least is None else least, last

    async def _far_runs(
        self, number: int | None, limit: int, before: int, where: RunFilter, principal: Principal
    ) -> list[RunRow]:
        """A page for a principal that can be unable to see most runs: the first of the ways that reads few of them."""
        org = principal.org_uuid
        more = run_lists.more_of_period(number, where)
        if more is not None and not await self._rows(more):
            return await self._runs(org, run_lists.list_runs_by_period(number, limit, before, where, principal))
        least, before = await self._period(number, before, where)
        oldest = await self._rows(run_lists.oldest_of_recent(number, before, where))
        recent = max([least, *(key for (key,) in oldest)])
        found = await self._runs(org, run_lists.list_runs(number, limit, before, where, principal, recent))
        if len(found) == limit or recent == least:
            return found
        return await self._runs(org, run_lists.list_runs_by_targets(number, limit, before, where, principal, least))

    async def _runs(self, org: str, query: run_lists.Query) -> list[RunRow]:
        return [conversion.to_run(org, row) for row in await self._rows(query)]

    async def _rows(self, query: run_lists.Query) -> Rows:
        statement, values = query
        return await self._database.scan(statement, *values)

    async def count_runs(self, org: str, *, since: int, until: int, principal: Principal) -> list[RunCount]:
        if principal.org_uuid != org:
            return []
        statement, values = run_lists.count_runs(await self._org(org), since, until, principal)
        async with self._database.reading() as connection:  # reads all runs of the period
            ((statuses, *numbers),) = await connection.scan(statement, values)
        return await asyncio.to_thread(conversion.to_counts, statuses, *numbers)

    async def inbox(
        self,
        principal: Principal,
        *,
        limit: int,
        decided: bool = False,
        where: InboxFilter = InboxFilter(),  # noqa: B008  (immutable)
    ) -> list[int]:
        subjects = conversion.to_json(sorted(principal.subjects))
        workflows = None if where.workflows is None else conversion.to_json(list(where.workflows))
        values = await self._org(principal.org_uuid), subjects, limit, workflows
        if decided:
            ((keys,),) = await self._database.scan(inbox.CLOSED_INBOX, *values)
        else:
            others = conversion.to_json([inbox.barred_subject(user) for user in where.undecided_by])
            ((keys,),) = await self._database.scan(inbox.INBOX, *values, others, where.now)
        return conversion.to_keys(keys)

    async def interrupts_at(self, org: str, keys: Sequence[int], *, decided: bool = False) -> list[OpenInterrupt]:
        statement = inbox.CLOSED_AT if decided else inbox.INTERRUPTS_AT
        rows = await self._database.scan(statement, await self._org(org), conversion.to_json(keys)) if keys else []
        return [conversion.to_inbox_item(org, row) for row in rows]

    async def deadlines(self, org: str, keys: Sequence[int], *, decided: bool = False) -> dict[int, int]:
        statement = inbox.CLOSED_DEADLINES if decided else inbox.DEADLINES
        ((found, at),) = await self._database.scan(statement, await self._org(org), conversion.to_json(keys))
        return dict(zip(conversion.to_keys(found), conversion.to_keys(at), strict=True))

    async def find_interrupts(
        self, principal: Principal, ids: Collection[str]
    ) -> dict[str, tuple[OpenInterrupt, bool]]:
        org, subjects = principal.org_uuid, conversion.to_json(sorted(principal.subjects))
        found = dict[str, tuple[OpenInterrupt, bool]]()
        for statement in (inbox.FIND_INTERRUPTS, inbox.FIND_CLOSED_INTERRUPTS):
            if left := frozenset(ids).difference(found):
                hashes = conversion.to_json(sorted({inbox.hash_of(name) for name in left}))
                values = await self._org(org), subjects, hashes, principal.user_id
                for *row, can_use in await self._database.look_up(statement, *values):
                    item = conversion.to_inbox_item(org, row)
                    if item.interrupt.id in left:
                        found[item.interrupt.id] = item, bool(can_use)
        return found

    async def open_interrupts(
        self, org: str, *, limit: int, after: int = 0, of: Sequence[ExecutionRef] | None = None
    ) -> list[OpenInterrupt]:
        key = await self._org(org)
        if of is None:
            rows = await self._database.scan(inbox.LIST_INTERRUPTS, key, after, limit)
        else:
            ids = conversion.to_json(list({ref.id for ref in of if ref.org == org}))
            rows = await self._database.look_up(inbox.LIST_INTERRUPTS_OF, key, after, limit, ids)
        return [conversion.to_open_interrupt(org, row) for row in rows]

    async def _org(self, uuid: str) -> int | None:
        found = self._orgs.get(uuid)
        if found is None:
            for (found,) in await self._database.look_up(sql.FIND_ORG, uuid):
                self._orgs.put(uuid, found)
        return found
