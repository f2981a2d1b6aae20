"""The slots of calls with a `concurrencyKey`: a row for each attempt that has one or waits for one.

The rows of a key are a queue in the order of `key`. An attempt has a slot while fewer rows are before its own than its
limit `most`, so nothing changes but that rows are added and deleted.
"""

from collections.abc import Collection
from typing import Any, Final

from wfcore.adapters.sql.schema.named_tables import call_slots, executions
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import CommitTransaction, Store
from wfcore.domain.json.codec import dumps
from wfcore.domain.run.effects import CallSlot
from wfcore.ports.journal import JournalConflict

MOST: Final = 1_000
"""The highest limit of a key."""

_LOCK: Final = Statement(
    lambda d: (
        f"""
SELECT CAST({d[1]} AS bigint), CAST({d[2]} AS text)
{d.locked(f", pg_advisory_xact_lock(hashtextextended(CAST({d[2]} AS text), CAST({d[1]} AS bigint)))")}"""
    )
)
"""Until the end of the transaction no other one adds a row of this key: keys are assigned in the order of commits."""

_HOLD: Final = Statement(
    lambda d: (
        f"""
SELECT 1 FROM {d[executions]} WHERE id = {d[1]} AND org = {d[2]} AND claimed_by = CAST({d[3]} AS bigint)
{d.locked("FOR NO KEY UPDATE")}"""
    )
)
"""Whether the worker holds the execution. Nobody else writes to it until the end of the transaction."""

_ADD: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[call_slots]} (org, name, execution, attempt, most)
VALUES ({d[1]}, {d[2]}, {d[3]}, {d[4]}, {d[5]}) ON CONFLICT (execution, attempt) DO NOTHING"""
    )
)

_COUNT_BEFORE: Final = Statement(
    lambda d: (
        f"""
SELECT count(*) FROM (SELECT 1 FROM {d[call_slots]} WHERE org = {d[1]} AND name = {d[2]} AND key < (
    SELECT key FROM {d[call_slots]} WHERE execution = {d[3]} AND attempt = {d[4]}) LIMIT {2 * MOST}) AS before"""
    )
)

_FREE: Final = Statement(
    lambda d: (
        f"""
DELETE FROM {d[call_slots]} WHERE execution = {d[1]} AND attempt NOT IN (SELECT value FROM {d.values(d[2])})
RETURNING name, most"""
    )
)

_ADMITTED: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, e.claimed_by FROM (
    SELECT execution, most, row_number() OVER (ORDER BY key) AS place FROM {d[call_slots]}
    WHERE org = {d[1]} AND name = {d[2]} ORDER BY key LIMIT {d[3]}
) s JOIN {d[executions]} e ON e.id = s.execution
WHERE s.place <= s.most AND (e.claimed_by IS NULL OR s.place > s.most - {d[4]})"""
    )
)
"""Executions with slots of a key: those that no worker holds, and those that got the latest slots."""

_WAKE: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[executions]} SET wake_at = 0 WHERE id = {d[1]} AND claimed_by IS NULL AND wake_at IS NOT NULL"""
    )
)

_WAKE_IF_ADMITTED: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[executions]} SET wake_at = 0 WHERE id = {d[1]} AND EXISTS (
    SELECT 1 FROM {d[call_slots]} s WHERE s.execution = {d[1]} AND s.attempt IN (SELECT value FROM {d.values(d[2])})
    AND s.most > (SELECT count(*) FROM (SELECT 1 FROM {d[call_slots]} b
        WHERE b.org = s.org AND b.name = s.name AND b.key < s.key LIMIT {MOST}) AS before))
RETURNING id"""
    )
)


async def take(store: Store, org: int | None, execution: int, attempt: str, slot: CallSlot, holder: int | None) -> int:
    """See `Journal.take_slot`. The place counts up to 2,000."""
    key, most = slot
    async with store.writing() as transaction:
        await transaction.run(_LOCK, (org, key))
        if not (await transaction.run(_HOLD, (execution, org, holder))).all():
            raise JournalConflict("the claim is lost")
        await transaction.run(_ADD, (org, key, execution, attempt, most))
        ((before,),) = await transaction.scan(_COUNT_BEFORE, (org, key, execution, attempt))
    return max(0, int(before) - most + 1)


Freed = dict[str, tuple[int, int]]
"""By key: the limit of the attempts that lost a slot or a place, and how many they are."""


class SlotChanges:
    """What an append changes: what it has `freed`, and whether an attempt that it awaits has its slot."""

    __slots__ = ("freed", "is_admitted", "org")

    def __init__(self, org: str) -> None:
        self.org = org
        self.freed: Freed = {}
        self.is_admitted = False

    def __bool__(self) -> bool:
        return bool(self.freed) or self.is_admitted

    def write(
        self, transaction: CommitTransaction, execution: int, kept: Collection[str] | None, awaited: Collection[str]
    ) -> None:
        """Delete the rows of all attempts of the execution but those `kept`; make it due at once if one that is
        `awaited` has its slot: then no worker holds it.
        """
        freed: Freed = {}
        self.freed, self.is_admitted = freed, False
        if awaited:
            woken = transaction.execute(_WAKE_IF_ADMITTED, (execution, dumps(list(awaited))))
            self.is_admitted = bool(woken.fetchall())
        if kept is not None:
            for name, most in transaction.execute(_FREE, (execution, dumps(list(kept)))).fetchall():
                highest, count = freed.get(name, NOTHING)
                freed[name] = max(highest, most), count + 1


class Frees:
    """The changes of this process that are under way: from before their commits until those are found to whom free
    slots went.

    Whose slots are new is seen from the places in the queue and from how many rows before them were deleted. A look-up
    also sees what others have deleted meanwhile, so it counts theirs too: to wake too many does no harm.
    """

    def __init__(self) -> None:
        self._under_way: dict[int, SlotChanges] = {}

    def begin(self, org: str) -> SlotChanges:
        changes = SlotChanges(org)
        self._under_way[id(changes)] = changes
        return changes

    def end(self, changes: SlotChanges) -> None:
        del self._under_way[id(changes)]

    def together(self, changes: SlotChanges) -> Freed:
        """What the changes have freed, counted with all that is under way."""
        under_way = [one.freed for one in self._under_way.values() if one.org == changes.org]
        return {
            name: (most, sum(freed.get(name, NOTHING)[1] for freed in under_way))
            for name, (most, _) in changes.freed.items()
        }


NOTHING: Final = (0, 0)


async def admitted(store: Store, org: int | None, freed: Freed) -> list[tuple[int, bool]]:
    """The executions that got slots which are free since a commit, and whether a worker holds them."""
    found: dict[int, bool] = {}
    for name, (most, count) in freed.items():
        rows: list[Any] = await store.look_up(_ADMITTED, org, name, most, count)
        found |= {number: holder is not None for number, holder in rows}
    return list(found.items())


def wake(execution: int, transaction: CommitTransaction) -> None:
    """Make the execution due at once if no worker holds it."""
    transaction.executemany(_WAKE, [(execution,)])
