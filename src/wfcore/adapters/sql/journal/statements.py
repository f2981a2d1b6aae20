"""The SQL of entries, executions and runs. Positions count from 1: the last one is the length of the journal."""

from typing import Final

from wfcore.adapters.sql.journal.claim_statements import claim_if_due, is_unlimited
from wfcore.adapters.sql.repositories.conversations import first_run_id, thread_id
from wfcore.adapters.sql.schema.named_tables import (
    approvers,
    call_slots,
    closed_interrupts,
    executions,
    interrupts,
    journal,
    organizations,
    runs,
    snapshots,
    verdicts,
)
from wfcore.adapters.sql.schema.statement import Dialect, Statement

# Entries


def length_of(d: Dialect) -> str:
    """The number of entries of an execution `e`."""
    return f"coalesce((SELECT max(pos) FROM {d[journal]} WHERE execution = e.id), 0)"


APPEND: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[journal]} (execution, pos, entry, checksum) VALUES ({d[1]}, (
    SELECT {d[2]} FROM {d[executions]}
    WHERE id = {d[1]} AND org = {d[3]} AND (CAST({d[4]} AS bigint) IS NULL OR claimed_by = {d[4]})
    AND ({d[2]} = 1 OR EXISTS (SELECT 1 FROM {d[journal]} WHERE execution = {d[1]} AND pos = {d[2]} - 1
        AND checksum = {d[7]}))
    {d.locked("FOR NO KEY UPDATE")}
), {d[5]}, {d[6]})"""
    )
)
"""One entry: execution, position, organization, holder or NULL, text, checksum, checksum of the entry before it.

An IntegrityError means that the compare-and-set failed. An existing position violates the primary key. For a position
that is too high, another entry before it than the writer knows (a failover has lost that one), a lost claim or another
organization's execution the position becomes NULL, which is refused too.
"""

CHECK_LENGTH: Final = Statement(
    lambda d: (
        f"""
SELECT 1 FROM {d[executions]}
WHERE id = {d[1]} AND org = {d[3]} AND (CAST({d[4]} AS bigint) IS NULL OR claimed_by = {d[4]})
AND {d[2]} = coalesce((SELECT max(pos) FROM {d[journal]} WHERE execution = {d[1]}), 0)"""
    )
)
"""The same comparison for an append without entries."""

BEGIN: Final = Statement(
    lambda d: (
        f"INSERT INTO {d[journal]} (execution, pos, entry, checksum) {d.inserted(f'{d[1]}, {d[2]}, {d[3]}, {d[4]}')}"
    ),
    types="bigint bigint text int",
)
"""An entry of an execution that the same transaction creates, without a comparison."""

READ: Final = Statement(
    lambda d: (
        f"""
SELECT pos, entry, checksum FROM {d[journal]}
WHERE execution = (SELECT id FROM {d[executions]} WHERE id = {d[1]} AND org = {d[2]}) AND pos > {d[3]}
ORDER BY pos LIMIT {d[4]}"""
    )
)

CHECKSUM: Final = Statement(lambda d: f"SELECT checksum FROM {d[journal]} WHERE execution = {d[1]} AND pos = {d[2]}")

FIND_SNAPSHOT: Final = Statement(
    lambda d: (
        f"""
SELECT s.length, s.checksum, s.body, j.checksum FROM {d[snapshots]} s
{d.join()} {d[journal]} j ON j.execution = s.execution AND j.pos = s.length
WHERE s.execution = {d[1]} AND s.org = {d[2]}"""
    )
)
"""A snapshot with the checksum of the last entry that it was taken after."""

PUT_SNAPSHOT: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[snapshots]} (execution, org, length, checksum, body)
VALUES ({d[1]}, {d[2]}, {d[3]}, {d[4]}, {d[5]})
ON CONFLICT (execution) DO UPDATE SET length = excluded.length, checksum = excluded.checksum, body = excluded.body"""
    )
)

DELETE_SNAPSHOT: Final = Statement(lambda d: f"DELETE FROM {d[snapshots]} WHERE execution = {d[1]}")

EXECUTIONS: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, o.uuid, (SELECT id FROM {d[runs]} WHERE execution = e.id ORDER BY key LIMIT 1)
FROM {d[executions]} e JOIN {d[organizations]} o ON o.key = e.org WHERE e.id > {d[1]} ORDER BY e.id LIMIT {d[2]}"""
    )
)
"""The executions after one, each with its organization and its first run."""

FIRST_RUN: Final = Statement(
    lambda d: (
        f"""
SELECT r.created_at, r.id, e.kind, e.resource_id, coalesce(e.thread_id, 'thread_' || replace(r.id, '-', '')), e.user_id
FROM {d[executions]} e JOIN {d[runs]} r ON r.execution = e.id WHERE e.id = {d[1]} ORDER BY r.key LIMIT 1"""
    )
)
"""The values that `compacted` removes from an execution's first entry."""

LENGTHS: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, o.uuid, {length_of(d)}
FROM {d.values(d[1])} JOIN {d[executions]} e ON e.id = CAST(given.value AS bigint)
JOIN {d[organizations]} o ON o.key = e.org"""
    )
)

# Executions and runs


def executions_of_thread(d: Dialect, given: str) -> str:
    """The ids of the executions of a thread, in the organization with the key in parameter 1."""
    digits = f"CAST({given} AS text)"
    parts = (f"substr({digits}, {at}, {length})" for at, length in ((8, 8), (16, 4), (20, 4), (24, 4), (28, 12)))
    run_id = " || '-' || ".join(parts)
    return f"""SELECT id FROM {d[executions]} WHERE org = {d[1]} AND thread_id = {given}
        UNION ALL SELECT e.id FROM {d[runs]} x {d.join()} {d[executions]} e ON e.id = x.execution
        WHERE x.org = {d[1]} AND x.id = {run_id} AND e.thread_id IS NULL AND {thread_id(d)} = {given}"""


def _unless_limited(unlimited: str, worker: str) -> str:
    """The worker, or NULL where a limit holds: such executions are claimed when they are due."""
    return f"CASE WHEN {unlimited} THEN CAST({worker} AS bigint) END"


FIND_ORG: Final = Statement(lambda d: f"SELECT key FROM {d[organizations]} WHERE uuid = {d[1]}")


def _beginning(d: Dialect, worker: str, epoch: str) -> str:
    """An INSERT of an execution. An IntegrityError means that the organization is not there any more: it was deleted
    or moved.
    """
    org = f"(SELECT key FROM {d[organizations]} WHERE key = {d[1]})"
    given = ", ".join(d[number] for number in range(2, 10))
    return f"""
INSERT INTO {d[executions]}
    (org, kind, resource_id, variation_id, is_draft, user_id, thread_id, started_by, wake_at, claimed_by, epoch)
{d.inserted(f"{org}, {given}, {worker}, {epoch}")}"""


_BEGINNING: Final = "bigint text bigint bytea boolean text text text bigint bigint"

ADD_EXECUTION: Final = Statement(lambda d: _beginning(d, d[10], d[11]), key="id", types=f"{_BEGINNING} bigint")


def _beginning_within_limit(d: Dialect) -> str:
    unlimited = is_unlimited(d, d[1], d[2], d[3])
    inserted = _beginning(d, _unless_limited(unlimited, d[10]), f"CASE WHEN {unlimited} THEN 1 ELSE 0 END")
    return f"{inserted} RETURNING id, claimed_by"


ADD_WITHIN_LIMIT: Final = Statement(_beginning_within_limit, types=_BEGINNING)
"""An execution, claimed by the worker of parameter 10 if no limit holds for it."""


def _is_free(d: Dialect) -> str:
    """Whether no limit holds for the execution `e`."""
    return is_unlimited(d, "e.org", "e.kind", "e.resource_id")


CLAIM: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[executions]} AS e SET wake_at = {d[2]}, claimed_by = {_unless_limited(_is_free(d), d[3])},
    epoch = epoch + CASE WHEN {_is_free(d)} THEN 1 ELSE 0 END
WHERE id = {d[1]} RETURNING epoch, claimed_by"""
    )
)
"""The same for an execution that exists."""

QUEUE_RUN: Final = Statement(lambda d: f"UPDATE {d[runs]} SET status = 'queued' WHERE org = {d[1]} AND id = {d[2]}")

RELEASE: Final = Statement(
    lambda d: f"UPDATE {d[executions]} SET wake_at = {d[2]}, claimed_by = NULL{d.given()} WHERE id = {d[1]}",
    types="bigint bigint",
)

WAKE: Final = Statement(lambda d: f"UPDATE {d[executions]} SET wake_at = 0 WHERE id = {d[1]}")

_TARGET: Final = "coalesce(CAST({} AS bigint), (SELECT target FROM {} WHERE execution = {} ORDER BY key LIMIT 1), 0)"

ADD_RUN: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[runs]}
    (org, id, execution, user_id, fingerprint, status, parent_run_id, result, created_at, finished_at, started_by,
     origin, forked_from, variation_id, is_draft, target)
{d.inserted(", ".join([*(d[number] for number in range(1, 16)), _TARGET.format(d[16], d[runs], d[3])]))}
ON CONFLICT (org, id) DO NOTHING"""
    ),
    types="bigint text bigint text bytea text text text bigint bigint text text text bytea boolean bigint",
)
"""A run. The last parameter is its `conversion.target_of`; NULL for that of the execution's first run."""

CHANGE_RUN: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[runs]} SET updated_at = {d[5]}, result = coalesce({d[6]}, result), resumed_by = coalesce({d[7]}, resumed_by),
    retried_by = coalesce({d[9]}, retried_by),
    finished_at = CASE WHEN {d[8]} THEN NULL WHEN status = {d[4]} THEN finished_at ELSE {d[5]} END, status = {d[4]}
{d.given()} WHERE org = {d[1]} AND id = {d[2]} AND execution = {d[3]}"""
    ),
    types="bigint text bigint text bigint text text boolean text",
)
"""`finished_at` is set when the status ends the turn (parameter 8 is false), and when an ended status changes."""

MOVE_RUN: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[runs]} SET variation_id = {d[4]}, is_draft = {d[5]}
WHERE org = {d[1]} AND id = {d[2]} AND execution = {d[3]}"""
    )
)
"""Another variation for a run, and whether it is a draft."""

DELETE_EXECUTION: Final = (
    Statement(lambda d: f"DELETE FROM {d[journal]} WHERE execution = {d[1]}"),
    DELETE_SNAPSHOT,
    Statement(lambda d: f"DELETE FROM {d[verdicts]} WHERE execution = {d[1]}"),
    Statement(lambda d: f"DELETE FROM {d[call_slots]} WHERE execution = {d[1]}"),
    Statement(
        lambda d: (
            f"""
DELETE FROM {d[approvers]} WHERE interrupt IN (
    SELECT key FROM {d[interrupts]} WHERE execution = {d[1]}
    UNION ALL SELECT key FROM {d[closed_interrupts]} WHERE execution = {d[1]})"""
        )
    ),
    Statement(lambda d: f"DELETE FROM {d[interrupts]} WHERE execution = {d[1]}"),
    Statement(lambda d: f"DELETE FROM {d[closed_interrupts]} WHERE execution = {d[1]}"),
    Statement(
        lambda d: (
            f"""
UPDATE {d[runs]} SET execution = 0, user_id = '', status = 'cancelled', parent_run_id = NULL,
    resumed_by = NULL, retried_by = NULL, forked_from = NULL, variation_id = NULL, result = NULL
WHERE execution = {d[1]}"""
        )
    ),
    Statement(lambda d: f"DELETE FROM {d[executions]} WHERE id = {d[1]}"),
)
"""Delete an execution. The rows of its runs stay without an execution, so that their ids are not used again."""

CHECK_FREE: Final = Statement(lambda d: f"SELECT 1 FROM {d[executions]} WHERE id = {d[1]} AND claimed_by IS NULL")

IS_DELETED: Final = Statement(lambda d: f"SELECT 1 FROM {d[runs]} WHERE org = {d[1]} AND id = {d[2]} AND execution = 0")

LOCK_EXECUTION: Final = Statement(
    lambda d: f"SELECT 1 FROM {d[executions]} WHERE id = {d[1]} {d.locked('FOR NO KEY UPDATE')}"
)


def execution_columns(d: Dialect) -> str:
    """The columns of an execution `e`, for `conversion.to_execution`."""
    return f"""
e.id, e.kind, e.resource_id, e.variation_id, e.user_id, e.thread_id, {first_run_id(d)},
{length_of(d)}, e.claimed_by, e.is_draft, e.started_by, e.epoch"""


def first_run_time(d: Dialect) -> str:
    """When the first run of an execution `e` began."""
    return f"(SELECT created_at FROM {d[runs]} WHERE execution = e.id ORDER BY key LIMIT 1)"


FIND_EXECUTION: Final = Statement(
    lambda d: (
        f"SELECT {execution_columns(d)}, {first_run_time(d)} FROM {d[executions]} e WHERE e.id = {d[1]}"
        f" AND e.org = {d[2]}"
    )
)

ENTRIES_PER_CLAIM: Final = 100

FIND_CLAIMED: Final = Statement(
    lambda d: (
        f"""
SELECT {execution_columns(d)}, {first_run_time(d)}, j.pos, j.entry, j.checksum
FROM {d[executions]} e LEFT JOIN {d[journal]} j ON j.execution = e.id AND j.pos <= {ENTRIES_PER_CLAIM}
WHERE e.id = {d[1]} ORDER BY j.pos"""
    )
)
"""An execution with each of its first entries."""

FEW_ENTRIES: Final = 8

FIND_WITH_ENTRIES: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, {execution_columns(d)}, {first_run_time(d)}, j.pos, j.entry, j.checksum
FROM {d.values(d[1])} JOIN {d[executions]} e ON e.id = CAST(given.value AS bigint)
JOIN {d[organizations]} o ON o.key = e.org
LEFT JOIN {d[journal]} j ON j.execution = e.id AND j.pos <= {FEW_ENTRIES}
ORDER BY e.id, j.pos"""
    )
)
"""Executions with each of their first entries: few, as those of a longer execution are read in vain."""

CLAIM_AND_FIND: Final = Statement(
    lambda d: (
        f"""
WITH claimed AS ({claim_if_due(d)}
        AND e.xmin = (SELECT xmin FROM {d[executions]} WHERE id = {d[1]})
    RETURNING {execution_columns(d)}, {first_run_time(d)}
), begun AS (
    UPDATE {d[runs]} SET status = 'running', updated_at = {d[3]} FROM claimed
    WHERE execution = {d[1]} AND status = 'queued'
)
SELECT claimed.*, pos, entry, checksum
FROM claimed LEFT JOIN {d[journal]} ON execution = {d[1]} AND pos <= {ENTRIES_PER_CLAIM} ORDER BY pos"""
    )
)
"""On PostgreSQL: `CLAIM_IF_DUE`, `BEGIN_RUN` and `FIND_CLAIMED` in one statement, with the same parameters.

It does not claim what another transaction changed since it began (`xmin`): it does not see the runs of that one.
"""


def run_columns(d: Dialect, thread: str = "") -> str:
    """The columns of a run `r` of an execution `e`, for `conversion.to_run`. `thread` replaces that of the thread."""
    return f"""
r.id, r.execution, r.user_id, r.fingerprint, r.status, r.parent_run_id, r.resumed_by, r.result, r.created_at,
coalesce(r.updated_at, r.created_at), r.finished_at, e.kind, e.resource_id, {thread or thread_id(d)}, r.key,
r.started_by, r.origin, e.variation_id, e.is_draft, e.user_id, e.started_by, r.retried_by, r.forked_from,
r.variation_id, r.is_draft"""


def runs_of_organization(d: Dialect, index: str | None = None) -> str:
    """The runs of the organization with the key in parameter 1, as `r`, each with its execution, as `e`.

    `index` is one that SQLite must use for the runs, "" their key.
    """
    by = "" if index is None else d.by_index(index)
    return f"FROM {d[runs]} r {by} {d.join()} {d[executions]} e ON e.id = r.execution WHERE r.org = {d[1]}"


def list_of_runs(d: Dialect, index: str | None = None) -> str:
    """The beginning of a list; `run_lists` adds the filters."""
    return f"SELECT {run_columns(d)} {runs_of_organization(d, index)}"


FIND_RUN: Final = Statement(lambda d: f"{list_of_runs(d)} AND r.id = {d[2]}")

FIND_TURN: Final = Statement(
    lambda d: (
        f"""
SELECT {run_columns(d, "e.thread_id")}, {first_run_id(d)}, {length_of(d)}, e.claimed_by, e.epoch
{runs_of_organization(d)} AND r.id = {d[2]}"""
    )
)
"""A run, and the rest of its execution. The thread is NULL where it derives from the first run."""
