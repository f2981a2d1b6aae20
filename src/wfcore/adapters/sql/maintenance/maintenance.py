"""The port `Maintenance` on a database."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql.maintenance.erasing import (
    BY_CONVERSATION,
    BY_EXECUTION,
    REWRITTEN,
    rewrite_batch,
    rewrite_journal,
    rewrite_parts,
    rewrite_rows_of,
)
from wfcore.adapters.sql.maintenance.pruning import (
    RULES,
    delete_conversations,
    delete_deleted,
    delete_executions,
    delete_executions_of,
    delete_resource,
    executions_of_resource,
    rows_to_prune,
    unused_resources,
)
from wfcore.adapters.sql.maintenance.tenancy import (
    TABLES,
    deletion_order,
    executions_after,
    of_organization,
    reading_order,
    text_columns,
)
from wfcore.adapters.sql.schema.tables import (
    audit,
    connection_grants,
    executions,
    journal,
    kept,
    metadata,
    organizations,
    resources,
    runs,
    tokens,
    variations,
)
from wfcore.adapters.sql.store import Transaction, Transactions
from wfcore.domain.kernel.errors import NotFound, unknown_organization
from wfcore.domain.people.erasure import Substitution
from wfcore.domain.resources.resource import Kind
from wfcore.ports.changes import FeedChange
from wfcore.ports.maintenance import NOTHING, Expiring, PersonalExecution, Pruned, Rewriting, Sizes
from wfcore.ports.repositories.conversations import Conversation

_CONVERSATIONS: Final = metadata.tables["wfcore_conversations"]
_MESSAGES: Final = metadata.tables["wfcore_messages"]
_ERASURES: Final = metadata.tables["wfcore_erasures"]

BATCH: Final = 500
"""Rows of one read, and the most executions or conversations that one transaction deletes: other writers wait for it,
and the number of parameters has a limit.
"""

FEW: Final = 50
"""Executions whose journals are read at once."""

_MANY: Final = (metadata.tables["wfcore_deliveries"], metadata.tables["wfcore_usage"], audit)
"""Further tables with many rows of an organization, by key."""


@attrs.frozen
class SqlMaintenance:
    """Implements the port `Maintenance`."""

    database: Transactions

    async def count(self, org: str, kind: Expiring, before: int, without: Mapping[Expiring, int] = NOTHING) -> int:
        async with self.database.reading() as connection:
            key = await _key(connection, org)
            if kind == "deleted":
                return len(await unused_resources(connection, key, {**without, kind: before}))
            counts = [
                (await connection.execute(sa.select(sa.func.count()).select_from(rule.old(key, before).subquery())))
                for rule in RULES[kind]
            ]
            return sum(int(one.scalar_one()) for one in counts)

    async def prune(self, org: str, kind: Expiring, before: int, *, limit: int) -> Pruned:
        if kind == "deleted":
            return await self._prune_deleted(org, before, limit)
        done, changes = 0, list[FeedChange]()
        async with self.database.writing() as connection:
            key = await _key(connection, org)
            for rule in RULES[kind]:
                found = await connection.execute(rule.old(key, before).limit(limit - done))
                if keys := [row[0] for row in found]:
                    deleted = await rule.delete(connection, key, before, keys)
                    done += deleted.count
                    changes += deleted.changes
        return Pruned(done, changes)

    async def _prune_deleted(self, org: str, before: int, limit: int) -> Pruned:
        """Delete resources that nothing uses, and first their executions, as far as those are still deleted."""
        async with self.database.reading() as connection:
            unused = await unused_resources(connection, await _key(connection, org), {"deleted": before})
        of, changes, chosen = resources.c, list[FeedChange](), list(unused)[:limit]
        for key in chosen:
            still = sa.select(of.key).where(of.key == key, of.status == "deleted", of.deleted_at < before)
            changes += await self._empty(org, *unused[key], still)
        if not chosen:
            return Pruned(0)
        async with self.database.writing() as connection:
            deleted = await delete_deleted(connection, await _key(connection, org), before, chosen)
        return Pruned(deleted.count, [*changes, *deleted.changes])

    async def _empty(
        self, org: str, kind: str, number: int, still: sa.Select[tuple[int]] | None = None
    ) -> list[FeedChange]:
        """Delete the executions of a resource, some in each transaction; with `still`, while it finds a row."""
        async with self.database.reading() as connection:
            key = await _key(connection, org)
            own = [row[0] for row in await connection.execute(executions_of_resource(key, kind, number))]
        changes = list[FeedChange]()
        for batch in _batches(own):
            async with self.database.writing() as connection:
                if still is not None and (await connection.execute(still)).first() is None:
                    break
                key = await _key(connection, org)
                changes += await delete_executions_of(connection, key, kind, number, batch)
        return changes

    async def texts(self, org: str, without: Mapping[Expiring, int] = NOTHING) -> AsyncIterator[Sequence[str]]:
        async with self.database.reading() as connection:
            key = await _key(connection, org)
            gone = await rows_to_prune(connection, key, without) if without else {}
        for table in TABLES:
            columns = [] if table is _ERASURES else text_columns(table)
            by, values = gone.get(table, (next(iter(table.primary_key)), frozenset()))
            wanted = [by, *columns] if columns else []
            async for rows in self._read(table, key, wanted):
                yield [text for of, *texts in rows if of not in values for text in texts if text is not None]

    def _read(
        self, table: sa.Table, org: int, columns: Sequence[sa.Column[Any]]
    ) -> AsyncIterator[Sequence[Sequence[Any]]]:
        """The values of these columns in the rows of an organization; each batch is a read of its own."""
        if table is journal or table in BY_EXECUTION:
            of = journal.c.execution if table is journal else BY_EXECUTION[table]
            return self._pages_of(of, self._executions(org), columns)
        if table in BY_CONVERSATION:
            return self._pages_of(BY_CONVERSATION[table], self._conversations(org), columns)
        return self._pages(table, org, columns)

    async def _pages(
        self, table: sa.Table, org: int, columns: Sequence[sa.Column[Any]]
    ) -> AsyncIterator[Sequence[Sequence[Any]]]:
        """The same by an index of the table."""
        order = reading_order(table)
        after: Sequence[object] | None = None
        while columns:
            found = sa.select(*order, *columns).where(of_organization(table, org)).order_by(*order).limit(BATCH)
            if after is not None:
                place = [sa.literal(value, column.type) for value, column in zip(after, order, strict=True)]
                found = found.where(sa.tuple_(*order) > sa.tuple_(*place))
            async with self.database.reading() as connection:
                rows = [tuple(row) for row in await connection.execute(found)]
            yield [row[len(order) :] for row in rows]
            if len(rows) < BATCH:
                return
            after = rows[-1][: len(order)]

    async def _pages_of(
        self, of: sa.Column[int], owners: AsyncIterator[Sequence[int]], columns: Sequence[sa.Column[Any]]
    ) -> AsyncIterator[Sequence[Sequence[Any]]]:
        """The same of rows that have one of these owners in a column."""
        if not columns:
            return
        async for ids in owners:
            for few in _batches(ids, FEW):
                async with self.database.reading() as connection:
                    found = sa.select(*columns).where(of.in_(few))
                    rows = [tuple(row) for row in await connection.execute(found)]
                yield rows

    async def _executions(self, org: int) -> AsyncIterator[Sequence[int]]:
        """The executions of an organization, in batches; each is a read of its own."""
        after = 0
        while True:
            async with self.database.reading() as connection:
                rows = (await connection.execute(executions_after(org, after, BATCH))).all()
            if not rows:
                return
            yield [row.execution for row in rows]
            after = rows[-1].key

    async def _conversations(self, org: int) -> AsyncIterator[Sequence[int]]:
        """The same of conversations."""
        async for rows in self._pages(_CONVERSATIONS, org, [_CONVERSATIONS.c.key]):
            yield [key for (key,) in rows]

    async def remove_organization(self, org: str) -> bool:
        """Most rows are deleted first, some in each transaction, and all that is left in the last one."""
        try:
            async with self.database.reading() as connection:
                key = await _key(connection, org)
        except NotFound:
            return False
        async for ids in self._executions(key):
            async with self.database.writing() as connection:
                await delete_executions(connection, key, ids)
        async for ids in self._keys(_CONVERSATIONS, key):
            async with self.database.writing() as connection:
                await delete_conversations(connection, ids)
        for table in _MANY:
            async for ids in self._keys(table, key):
                async with self.database.writing() as connection:
                    await connection.execute(table.delete().where(table.c.key.in_(ids)))
        async with self.database.writing() as connection:
            try:
                key = await _key(connection, org)
            except NotFound:
                return False
            for table in deletion_order():
                await connection.execute(table.delete().where(of_organization(table, key)))
            return True

    async def _keys(self, table: sa.Table, org: int) -> AsyncIterator[Sequence[int]]:
        """The keys of rows of an organization, some at a time, until it has none: the caller deletes them."""
        while True:
            async with self.database.reading() as connection:
                found = await connection.execute(sa.select(table.c.key).where(table.c.org == org).limit(BATCH))
                keys = [row[0] for row in found]
            if not keys:
                return
            yield keys

    async def sizes(self, org: str | None = None, user_id: str | None = None) -> Sizes:
        async with self.database.reading() as connection:
            key = None if org is None else await _key(connection, org)
            counts = []
            for table in (executions, runs, _CONVERSATIONS, audit):
                own = [] if key is None else [table.c.org == key]
                own += [] if user_id is None else [table.c.user_id == user_id]
                own += [runs.c.execution != 0] if table is runs else []
                own += [_MESSAGES.c.conversation == table.c.key] if table is _CONVERSATIONS else []
                what = sa.func.count()
                if table is executions and key is not None:  # no index of theirs begins with the organization
                    own[0], what = runs.c.org == key, sa.func.count(executions.c.id.distinct())
                    own += [
                        runs.c.execution == executions.c.id,
                        *([] if user_id is None else [runs.c.user_id == user_id]),
                    ]
                found = sa.select(what).select_from(table).where(*own)
                counts.append(int((await connection.execute(found)).scalar_one()))
        return Sizes(*counts)

    # The erasure of a person

    async def erasures(self) -> Sequence[tuple[str, str]]:
        found = sa.select(organizations.c.uuid, _ERASURES.c.id).where(organizations.c.key == _ERASURES.c.org)
        async with self.database.reading() as connection:
            return [(row.uuid, row.id) for row in await connection.execute(found)]

    async def executions_of(self, org: str, user_id: str) -> Sequence[PersonalExecution]:
        async with self.database.reading() as connection:
            key = await _key(connection, org)
            started = executions.c.id == runs.c.execution, executions.c.user_id == user_id
            by_user = runs.c.org == key, runs.c.user_id == user_id
            own = {row[0] for row in await connection.execute(sa.select(executions.c.id).where(*by_user, *started))}
            forks = defaultdict[int, set[int]](set)
            for origin, fork in await connection.execute(_forks(key)):
                forks[origin].add(fork)
            new = own & forks.keys()
            while new:
                new = set[int]().union(*(forks[number] for number in new)) - own
                own |= new
                new &= forks.keys()
            part = sa.select(runs.c.execution).where(*by_user)
            took_part = {row[0] for row in await connection.execute(part)} - {0}
        return [PersonalExecution(number, number in own) for number in sorted(own | took_part)]

    async def remove_execution(self, org: str, id: int) -> Sequence[FeedChange]:
        async with self.database.writing() as connection:
            key = await _key(connection, org)
            own = executions.c.org == key, executions.c.id == id
            if (await connection.execute(sa.select(executions.c.id).where(*own).with_for_update())).first():
                return await delete_executions(connection, key, [id])
        return ()

    async def remove_resource(self, org: str, kind: Kind, id: int) -> Sequence[FeedChange]:
        changes = await self._empty(org, kind.value, id)
        async with self.database.writing() as connection:
            return changes + await delete_resource(connection, await _key(connection, org), kind.value, id)

    async def forget_user(self, org: str, user_id: str) -> None:
        async with self.database.reading() as connection:
            own = _conversations_of(await _key(connection, org), user_id)
            found = [row[0] for row in await connection.execute(own)]
        for batch in _batches(found):
            async with self.database.writing() as connection:
                await delete_conversations(connection, batch)
        async with self.database.writing() as connection:
            key = await _key(connection, org)
            await delete_conversations(connection, [row[0] for row in await connection.execute(own)])
            for table in (kept, tokens, connection_grants):
                await connection.execute(table.delete().where(table.c.org == key, table.c.user_id == user_id))

    async def numbers(self, org: str, kind: Kind) -> Sequence[int]:
        async with self.database.reading() as connection:
            own = resources.c.org == await _key(connection, org), resources.c.kind == kind.value
            found = sa.select(resources.c.id).where(*own).order_by(resources.c.id)
            return [row[0] for row in await connection.execute(found)]

    async def conversations(
        self, org: str, user_id: str | None, *, limit: int, after: Conversation | None = None
    ) -> Sequence[Conversation]:
        of = _CONVERSATIONS.c
        order = of.thread_id, of.user_id  # as an index has them: by another one, each page would sort all
        async with self.database.reading() as connection:
            own = [of.org == await _key(connection, org)]
            own += [] if user_id is None else [of.user_id == user_id]
            own += [] if after is None else [sa.tuple_(*order) > sa.tuple_(after.thread_id, after.user_id)]
            rows = await connection.execute(sa.select(_CONVERSATIONS).where(*own).order_by(*order).limit(limit))
            return [
                Conversation(org, row.key, row.thread_id, row.user_id, row.created_at, row.updated_at) for row in rows
            ]

    async def rewrite(self, org: str, change: Substitution, on_read: Callable[[], None] = lambda: None) -> Rewriting:
        has_other_content = False
        for table in REWRITTEN if change.whole or change.within else ():
            after: Sequence[object] | None = []
            while after is not None:
                async with self.database.writing() as connection:
                    key = await _key(connection, org, exclusive=True)  # else who saves a row could write a text back
                    batch = await rewrite_batch(connection, table, key, change, after or None)
                after = batch.last
                has_other_content |= table is variations and "content" in batch.columns
        async with self.database.reading() as connection:
            key = await _key(connection, org)
        async for ids in self._conversations(key):
            async with self.database.writing() as connection:
                await rewrite_parts(connection, BY_CONVERSATION, ids, change)
        return Rewriting(await self._rewrite_executions(key, change, on_read), has_other_content)

    async def _rewrite_executions(self, org: int, change: Substitution, on_read: Callable[[], None]) -> int:
        """Replace texts in all executions of the organization. Returns how many journals could not be changed."""
        held = 0
        async for ids in self._executions(org):
            async with self.database.writing() as connection:
                await rewrite_parts(connection, BY_EXECUTION, ids, change)
            async with self.database.reading() as connection:
                entries = sa.select(journal.c.execution, journal.c.entry).where(journal.c.execution.in_(ids))
                rows = (await connection.execute(entries)).all()
            concerned = {number for number, entry in rows if change.concerns(entry)}
            for number in ids:
                if number in concerned:
                    async with self.database.writing() as connection:
                        held += not await rewrite_journal(connection, number, change, None)
                on_read()
        return held

    async def rewrite_execution(self, org: str, id: int, change: Substitution, length: int) -> bool:
        async with self.database.writing() as connection:
            if not await rewrite_journal(connection, id, change, length):
                return False
            await rewrite_rows_of(connection, id, change)
        return True

    async def scrub(self) -> None:
        await self.database.scrub()


def _batches(keys: Sequence[int], size: int = BATCH) -> Iterator[Sequence[int]]:
    return (keys[first : first + size] for first in range(0, len(keys), size))


def _conversations_of(org: int, user_id: str) -> sa.Select[tuple[int]]:
    return sa.select(_CONVERSATIONS.c.key).where(_CONVERSATIONS.c.org == org, _CONVERSATIONS.c.user_id == user_id)


def _forks(org: int) -> sa.Select[tuple[int, int]]:
    """The execution of each run that was forked, and that of the fork."""
    origin = runs.alias("origin")
    of_run = origin.c.org == org, origin.c.id == runs.c.forked_from
    return sa.select(origin.c.execution, runs.c.execution).where(
        runs.c.org == org, runs.c.forked_from.is_not(None), *of_run
    )


async def _key(connection: Transaction, org: str, *, exclusive: bool = False) -> int:
    """The key of the organization. With `exclusive`, its row is locked: its other transactions wait."""
    found = sa.select(organizations.c.key).where(organizations.c.uuid == org)
    key = (await connection.execute(found.with_for_update(key_share=True) if exclusive else found)).scalar()
    if key is None:
        raise unknown_organization(org)
    return int(key)
