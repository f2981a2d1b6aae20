"""What is too old: the conditions, and the deletion of rows with all that depends on them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import sqlalchemy as sa

from wfcore.adapters.sql.journal.conversion import target_of, to_interrupt
from wfcore.adapters.sql.maintenance.tenancy import executions_after
from wfcore.adapters.sql.schema.tables import (
    approvers,
    audit,
    call_slots,
    closed_interrupts,
    executions,
    grants,
    interfaces,
    interrupts,
    journal,
    memories,
    memory_words,
    metadata,
    resources,
    runs,
    schedules,
    snapshots,
    variations,
    webhooks,
)
from wfcore.adapters.sql.store import Transaction
from wfcore.ports.changes import FeedChange, interrupt_change, resource_removed, run_change, runs_removed
from wfcore.ports.maintenance import Expiring, Pruned

_VERDICTS: Final = metadata.tables["wfcore_verdicts"]
_POSTINGS: Final = metadata.tables["wfcore_postings"]
_DELIVERIES: Final = metadata.tables["wfcore_deliveries"]
_CONVERSATIONS: Final = metadata.tables["wfcore_conversations"]
_PARTICIPANTS: Final = metadata.tables["wfcore_participants"]
_MESSAGES: Final = metadata.tables["wfcore_messages"]

_ENDED: Final = ("done", "error", "cancelled")
_OPENED: Final = '["open",%'
"""The beginning of an entry that opens a child."""


class PruningRule(Protocol):
    """The rows of one kind that are too old, by their keys."""

    def old(self, org: int, before: int) -> sa.Select[Any]:
        """The keys, the oldest first."""
        ...

    async def delete(self, connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
        """Delete these, unless they have changed."""
        ...


class EndedExecutions:
    """Executions whose last turn ended."""

    def old(self, org: int, before: int) -> sa.Select[Any]:
        later = runs.alias("later")
        return (
            sa.select(runs.c.execution)
            .where(
                runs.c.org == org,
                runs.c.created_at < before,
                runs.c.finished_at < before,
                runs.c.execution != 0,
                runs.c.status.in_(_ENDED),
                ~sa.exists().where(later.c.execution == runs.c.execution, later.c.key > runs.c.key),
            )
            .order_by(runs.c.created_at)
        )

    async def delete(self, connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
        """An execution that a retry has continued meanwhile stays."""
        free = sa.select(executions.c.id).where(
            executions.c.id.in_(keys), executions.c.claimed_by.is_(None), executions.c.wake_at.is_(None)
        )
        locked = [row[0] for row in await connection.execute(free.with_for_update())]
        still = self.old(org, before).where(runs.c.execution.in_(locked))
        found = [row[0] for row in await connection.execute(still)]
        return Pruned(len(found), await delete_executions(connection, org, found))


async def delete_executions(connection: Transaction, org: int, found: Sequence[int]) -> list[FeedChange]:
    """Delete executions with their rows, those of their runs too: the ids of the runs are free again.

    Returns the changes of their runs and open interrupts.
    """
    changes = await _deletions(connection, found)
    waiting = [sa.select(table.c.key).where(table.c.execution.in_(found)) for table in (interrupts, closed_interrupts)]
    own_runs = sa.select(runs.c.id).where(runs.c.execution.in_(found))
    statements = [
        approvers.delete().where(approvers.c.interrupt.in_(sa.union_all(*waiting))),
        _POSTINGS.delete().where(_POSTINGS.c.org == org, _POSTINGS.c.run_id.in_(own_runs)),
        *(table.delete().where(table.c.execution.in_(found)) for table in (journal, snapshots, _VERDICTS, interrupts)),
        *(table.delete().where(table.c.execution.in_(found)) for table in (closed_interrupts, call_slots, runs)),
        executions.delete().where(executions.c.id.in_(found)),
    ]
    for statement in statements:
        await connection.execute(statement)
    return changes


async def _deletions(connection: Transaction, found: Sequence[int]) -> list[FeedChange]:
    """The changes when these executions are deleted. Those of a run are in the order of the starts."""
    of = executions.c
    target = of.id, of.kind, of.resource_id, of.user_id
    own = sa.select(*target, runs.c.id, runs.c.created_at).where(runs.c.execution == of.id, of.id.in_(found))
    waiting = sa.select(interrupts.c.execution, interrupts.c.body).where(interrupts.c.execution.in_(found))
    first, changes = dict[int, tuple[Any, ...]](), list[FeedChange]()
    for number, kind, resource_id, user_id, run_id, began_at in await connection.execute(own.order_by(runs.c.key)):
        first.setdefault(number, (run_id, began_at, kind, resource_id, user_id))
        changes.append(run_change(run_id, "deleted", kind, resource_id, user_id))
    for number, body in await connection.execute(waiting):
        run_id, began_at, *of_target = first[number]
        changes.append(interrupt_change(to_interrupt(body, run_id, began_at), "deleted", *of_target))
    return changes


class DeletedRuns:
    """The ids of deleted runs."""

    def old(self, org: int, before: int) -> sa.Select[Any]:
        at = sa.func.coalesce(runs.c.finished_at, runs.c.updated_at)
        return sa.select(runs.c.key).where(
            runs.c.org == org, runs.c.created_at < before, at < before, runs.c.execution == 0
        )

    async def delete(self, connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
        return await _delete(connection, runs, runs.c.key, keys)


class OldDeliveries:
    """Deliveries of events that are not pending."""

    def old(self, org: int, before: int) -> sa.Select[Any]:
        of = _DELIVERIES.c
        return sa.select(of.key).where(of.org == org, of.at < before, of.next_at.is_(None))

    async def delete(self, connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
        return await _delete(connection, _DELIVERIES, _DELIVERIES.c.key, keys)


class OldAudit:
    """Rows of the audit."""

    def old(self, org: int, before: int) -> sa.Select[Any]:
        return sa.select(audit.c.key).where(audit.c.org == org, audit.c.at < before).order_by(audit.c.at)

    async def delete(self, connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
        return await _delete(connection, audit, audit.c.key, keys)


async def delete_conversations(connection: Transaction, keys: Sequence[int]) -> Pruned:
    """Delete conversations with their messages."""
    for table in (_MESSAGES, _PARTICIPANTS):
        await connection.execute(table.delete().where(table.c.conversation.in_(keys)))
    return await _delete(connection, _CONVERSATIONS, _CONVERSATIONS.c.key, keys)


class OldConversations:
    """Conversations whose latest message is old, and which no execution of theirs continues any more."""

    def old(self, org: int, before: int) -> sa.Select[Any]:
        of, later = _CONVERSATIONS.c, runs.alias("later")
        unended = (
            sa.exists()
            .where(executions.c.org == of.org, executions.c.thread_id == of.thread_id)
            .where(executions.c.user_id == of.user_id, runs.c.execution == executions.c.id)
            .where(runs.c.status.not_in(_ENDED))
            .where(~sa.exists().where(later.c.execution == runs.c.execution, later.c.key > runs.c.key))
        )
        return sa.select(of.key).where(of.org == org, of.updated_at < before, ~unended).order_by(of.updated_at)

    async def delete(self, connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
        """The row is locked first, so that concurrent writers to the conversation wait for it."""
        still = self.old(org, before).where(_CONVERSATIONS.c.key.in_(keys)).with_for_update()
        found = [row[0] for row in await connection.execute(still)]
        return await delete_conversations(connection, found)


def deleted_resources(org: int, before: int) -> sa.Select[tuple[int, str, int]]:
    """Key, kind and number of the workflows and skills deleted before, without those of which an execution goes on."""
    later = runs.alias("later")
    target = sa.case((resources.c.kind == "workflow", resources.c.id), else_=-resources.c.id)
    goes_on = (
        sa.exists()
        .where(runs.c.org == org, runs.c.target == target, runs.c.execution != 0, runs.c.status.not_in(_ENDED))
        .where(~sa.exists().where(later.c.execution == runs.c.execution, later.c.key > runs.c.key))
        .correlate(resources)
    )
    gone = resources.c.org == org, resources.c.deleted_at < before, resources.c.status == "deleted"
    return sa.select(resources.c.key, resources.c.kind, resources.c.id).where(*gone, ~goes_on)


async def delete_deleted(connection: Transaction, org: int, before: int, keys: Sequence[int]) -> Pruned:
    """Delete these workflows and skills, as far as they are still deleted. Nothing can have called them since."""
    still = await connection.execute(deleted_resources(org, before).where(resources.c.key.in_(keys)))
    changes = [await delete_resource(connection, org, kind, number) for _, kind, number in still.all()]
    return Pruned(len(changes), [one for of_one in changes for one in of_one])


def executions_of_resource(org: int, kind: str, number: int) -> sa.Select[tuple[int]]:
    """The executions of a workflow or skill."""
    of = runs.c.org == org, runs.c.target == target_of(kind, number), runs.c.execution != 0
    return sa.select(runs.c.execution).where(*of).distinct()


async def delete_resource(connection: Transaction, org: int, kind: str, number: int) -> list[FeedChange]:
    """Delete a workflow or skill with its executions, which must be few, and all of its rows. Returns the changes; none
    for no such one.
    """
    own = [row[0] for row in await connection.execute(executions_of_resource(org, kind, number))]
    deleted = await delete_executions(connection, org, own)
    if kind == "skill":
        for table in (memory_words, memories, _VERDICTS):
            await connection.execute(table.delete().where(table.c.org == org, table.c.skill_id == number))
    else:
        for table in (schedules, webhooks):
            await connection.execute(table.delete().where(table.c.org == org, table.c.workflow_id == number))
    offered = interfaces.c.org == org, interfaces.c.target == kind, interfaces.c.resource_id == number
    await connection.execute(interfaces.delete().where(*offered))
    gone = variations.c.org == org, variations.c.kind == kind, variations.c.resource_id == number
    await connection.execute(variations.delete().where(*gone))
    lines = await _grants(connection, org, kind, number)
    this = resources.c.org == org, resources.c.kind == kind, resources.c.id == number
    await connection.execute(grants.delete().where(grants.c.resource.in_(sa.select(resources.c.key).where(*this))))
    await connection.execute(resources.delete().where(*this))
    return resource_removed(kind, number, lines, deleted) if lines else deleted


async def delete_executions_of(
    connection: Transaction, org: int, kind: str, number: int, found: Sequence[int]
) -> list[FeedChange]:
    """Delete some executions of a workflow or skill before itself. Returns the changes."""
    lines = await _grants(connection, org, kind, number)
    return runs_removed(kind, number, lines, await delete_executions(connection, org, found))


async def _grants(connection: Transaction, org: int, kind: str, number: int) -> list[tuple[str, bool, bool]]:
    """Subject, use and manage of each grant of a resource."""
    this = resources.c.org == org, resources.c.kind == kind, resources.c.id == number
    granted = grants.c.resource.in_(sa.select(resources.c.key).where(*this))
    found = await connection.execute(sa.select(grants.c.subject, grants.c.use, grants.c.manage).where(granted))
    return [(subject, bool(use), bool(manage)) for subject, use, manage in found]


RULES: Final[dict[Expiring, Sequence[PruningRule]]] = {
    "runs": (EndedExecutions(), DeletedRuns(), OldDeliveries()),
    "conversations": (OldConversations(),),
    "audit": (OldAudit(),),
}


_OF_EXECUTIONS: Final = (journal, snapshots, _VERDICTS, interrupts, closed_interrupts, runs)

Gone = dict[sa.Table, tuple["sa.Column[Any]", frozenset[Any]]]
"""By table: the column, and its values in the rows that a pruning deletes."""

Target = tuple[str, int]
"""Kind and number of a workflow or skill."""

PAGE: Final = 500
"""Executions whose calls are read at once."""


async def unused_resources(connection: Transaction, org: int, limits: Mapping[Expiring, int]) -> dict[int, Target]:
    """The deleted workflows and skills that nothing uses, by their keys: each after those that have called it.

    They are those that pruning these kinds deletes: also those whose last callers it deletes. The journals of the
    organization are read only if some could be unused, and until each is found to have a caller that stays.
    """
    if "deleted" not in limits:
        return {}
    rows = await connection.execute(deleted_resources(org, limits["deleted"]))
    targets = {target_of(kind, number): (key, (kind, number)) for key, kind, number in rows.all()}
    gone = EndedExecutions().old(org, limits["runs"]) if "runs" in limits and targets else None
    ended = frozenset[int]() if gone is None else frozenset(row[0] for row in await connection.execute(gone))
    callers = await _callers(connection, org, targets, ended)
    found = dict[int, None]()
    while more := [one for one in targets if one not in found and callers[one] <= found.keys() | {one}]:
        found.update(dict.fromkeys(more))
    return dict(targets[one] for one in found)


async def _callers(
    connection: Transaction, org: int, targets: Mapping[int, object], without: Collection[int]
) -> dict[int, set[int]]:
    """The targets of executions, but `without` these, that have called each of some targets; of one with a caller that
    is not among them, this one is enough.
    """
    callers = {target: set[int]() for target in targets}
    named, after = await _variations(connection, org, targets), 0
    while any(found <= targets.keys() for found in callers.values()):
        page = (await connection.execute(executions_after(org, after, PAGE))).all()
        if not page:
            break
        of = {row.execution: row.target for row in page if row.execution not in without}
        opened = journal.c.execution.in_(list(of)), journal.c.entry.like(_OPENED)
        for number, entry in await connection.execute(sa.select(journal.c.execution, journal.c.entry).where(*opened)):
            for text in named.keys() & entry.split('"'):
                callers[named[text]].add(of[number])
        after = page[-1].key
    return callers


async def _variations(connection: Transaction, org: int, targets: Iterable[int]) -> dict[str, int]:
    """The variations of these targets, each with its target."""
    of, wanted = variations.c, set(targets)
    if not wanted:
        return {}
    gone = sa.exists().where(resources.c.org == org, resources.c.kind == of.kind, resources.c.id == of.resource_id)
    found = sa.select(of.id, of.kind, of.resource_id).where(of.org == org, gone.where(resources.c.status == "deleted"))
    every = ((name, target_of(kind, number)) for name, kind, number in await connection.execute(found))
    return {name: target for name, target in every if target in wanted}


async def rows_to_prune(connection: Transaction, org: int, limits: Mapping[Expiring, int]) -> Gone:
    """The rows with content of customers that pruning these kinds, with these times, would delete."""

    async def found(rule: PruningRule, kind: Expiring) -> frozenset[Any]:
        rows = await connection.execute(rule.old(org, limits[kind])) if kind in limits else ()
        return frozenset(row[0] for row in rows)

    unused = await unused_resources(connection, org, limits)
    own, variants = await _of_resources(connection, org, unused.values())
    ended = await found(EndedExecutions(), "runs") | own
    stale = await found(OldConversations(), "conversations")
    return {
        **{table: (table.c.execution, ended) for table in _OF_EXECUTIONS},
        executions: (executions.c.id, ended),
        _DELIVERIES: (_DELIVERIES.c.key, await found(OldDeliveries(), "runs")),
        _CONVERSATIONS: (_CONVERSATIONS.c.key, stale),
        _MESSAGES: (_MESSAGES.c.conversation, stale),
        audit: (audit.c.key, await found(OldAudit(), "audit")),
        resources: (resources.c.key, frozenset(unused)),
        variations: (variations.c.id, variants),
    }


async def _of_resources(
    connection: Transaction, org: int, targets: Iterable[Target]
) -> tuple[frozenset[int], frozenset[str]]:
    """The executions and the variations of these resources."""
    own, variants = set[int](), set[str]()
    of = variations.c
    for kind, number in targets:
        own.update(row[0] for row in await connection.execute(executions_of_resource(org, kind, number)))
        found = sa.select(of.id).where(of.org == org, of.kind == kind, of.resource_id == number)
        variants.update(row[0] for row in await connection.execute(found))
    return frozenset(own), frozenset(variants)


async def _delete(connection: Transaction, table: sa.Table, key: sa.Column[Any], keys: Sequence[int]) -> Pruned:
    return Pruned(int((await connection.execute(table.delete().where(key.in_(keys)))).rowcount))
