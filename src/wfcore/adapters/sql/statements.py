"""The SQL of the journal, and its rows as values.

Each text is a constant: the driver keeps the prepared statement. Positions count from 1, so the last one
is the length of the journal.
"""

from collections.abc import Sequence
from typing import Any, Final

import attrs
import msgspec

from wfcore.domain.errors import JSON
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.journal import Execution, ExecutionRef, OpenInterrupt, RunRow

Row = Sequence[Any]

# Entries

_APPEND: Final = """
INSERT INTO journal (execution, pos, entry) VALUES (?1, (
    SELECT ?2 FROM executions
    WHERE id = ?1 AND org = ?3 AND (CAST(?4 AS bigint) IS NULL OR claimed_by = ?4)
    AND (?2 = 1 OR EXISTS (SELECT 1 FROM journal WHERE execution = ?1 AND pos = ?2 - 1)){}
), ?5)"""

APPEND: Final = _APPEND.format("")
"""One entry: execution, position, organization, holder or NULL, text.

An IntegrityError is the lost compare-and-set. A position that is taken breaks the primary key; one too far
ahead, a claim that is gone or another organization's execution make it NULL, which is refused as well.
"""

APPEND_ALONE: Final = _APPEND.format(" FOR NO KEY UPDATE")
"""The same where several transactions may write to the execution: they come one after the other."""

STILL: Final = """
SELECT 1 FROM executions WHERE id = ?1 AND org = ?3 AND (CAST(?4 AS bigint) IS NULL OR claimed_by = ?4)
AND ?2 = coalesce((SELECT max(pos) FROM journal WHERE execution = ?1), 0)"""
"""The same comparison for an append that has no entries."""

READ: Final = """
SELECT pos, entry FROM journal WHERE pos > ?3 AND execution = (
    SELECT e.id FROM executions e JOIN organizations o ON o.key = e.org WHERE e.id = ?1 AND o.uuid = ?2
) ORDER BY pos LIMIT ?4"""

LENGTHS: Final = """
SELECT e.id, o.uuid, coalesce((SELECT max(pos) FROM journal WHERE execution = e.id), 0)
FROM json_each(?1) asked JOIN executions e ON e.id = CAST(asked.value AS bigint)
JOIN organizations o ON o.key = e.org"""

# Executions, runs, interrupts

FIND_ORG: Final = "SELECT key FROM organizations WHERE uuid = ?1"

ADD_EXECUTION: Final = """
INSERT INTO executions
    (org, kind, resource_id, variation_id, user_id, thread_id, root_run_id, wake_at, claimed_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""

MOVE: Final = "UPDATE executions SET wake_at = ?2, claimed_by = ?3 WHERE id = ?1"

WAKE: Final = "UPDATE executions SET wake_at = 0 WHERE id = ?1"

ADD_RUN: Final = """
INSERT INTO runs
    (org, id, execution, user_id, fingerprint, status, parent_run_id, created_at, updated_at, finished_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
ON CONFLICT (org, id) DO NOTHING"""

CHANGE_RUN: Final = """
UPDATE runs SET updated_at = ?5, result = coalesce(?6, result), resumed_by = coalesce(?7, resumed_by),
    finished_at = CASE WHEN ?8 THEN NULL WHEN status = ?4 THEN finished_at ELSE ?5 END, status = ?4
WHERE org = ?1 AND id = ?2 AND execution = ?3"""
"""A turn finished when its status first said that it is not under way, and again when that changes."""

KEEP_INTERRUPTS: Final = """
DELETE FROM interrupts WHERE execution = ?1 AND id NOT IN (SELECT value FROM json_each(?2))"""

PUT_INTERRUPT: Final = """
INSERT INTO interrupts (org, execution, id, run_id, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (execution, id) DO UPDATE SET run_id = excluded.run_id, body = excluded.body"""
"""One that was open before keeps its key, and so its place in the inbox."""

HAND_OVER: Final = "UPDATE interrupts SET run_id = ?2 WHERE execution = ?1"

_EXECUTION: Final = """
o.uuid, e.id, e.kind, e.resource_id, e.variation_id, e.user_id, e.thread_id, e.root_run_id,
coalesce((SELECT max(pos) FROM journal WHERE execution = e.id), 0), e.claimed_by"""

FIND_EXECUTION: Final = f"""
SELECT {_EXECUTION} FROM executions e JOIN organizations o ON o.key = e.org WHERE e.id = ?1 AND o.uuid = ?2"""

_RUNS: Final = """
SELECT CAST(?1 AS text), r.id, r.execution, r.user_id, r.fingerprint, r.status, r.parent_run_id, r.resumed_by, r.result,
    r.created_at, r.updated_at, r.finished_at, e.kind, e.resource_id, e.thread_id
FROM runs r CROSS JOIN executions e ON e.id = r.execution
WHERE r.org = (SELECT key FROM organizations WHERE uuid = ?1)"""
"""CROSS JOIN is SQLite's way to say that this is the order to join in."""

FIND_RUN: Final = f"{_RUNS} AND r.id = ?2"

LIST_RUNS: Final = f"""{_RUNS} AND (r.created_at, r.id) < (?2, ?3)
AND (CAST(?4 AS text) IS NULL OR r.status = ?4)
AND (CAST(?5 AS text) IS NULL OR (e.kind = ?5 AND e.resource_id = ?6))
AND (CAST(?7 AS text) IS NULL OR r.user_id = ?7 OR (
    SELECT 1 FROM resources s JOIN grants g ON g.resource = s.key
    WHERE s.org = r.org AND s.kind = e.kind AND s.id = e.resource_id
    AND g.use AND g.subject IN (SELECT value FROM json_each(?8)) LIMIT 1
) = 1)
ORDER BY r.created_at DESC, r.id DESC LIMIT ?9"""
"""A walk back along an index. PostgreSQL would rather make a table of all grants first, were the subquery an EXISTS."""

_INTERRUPTS: Final = f"""
SELECT i.key, i.run_id, i.body, {_EXECUTION}
FROM interrupts i CROSS JOIN executions e ON e.id = i.execution CROSS JOIN organizations o ON o.key = e.org
WHERE i.org = (SELECT key FROM organizations WHERE uuid = ?1) AND i.key > ?2"""

LIST_INTERRUPTS: Final = f"{_INTERRUPTS} ORDER BY i.key LIMIT ?3"

LIST_INTERRUPTS_OF: Final = f"""{_INTERRUPTS}
AND i.execution IN (SELECT CAST(value AS bigint) FROM json_each(?4)) ORDER BY i.key LIMIT ?3"""

LATEST_RUN: Final = "SELECT id FROM runs WHERE execution = ?1 AND resumed_by IS NULL"
"""The turn that no other one took over."""

# Who works on what

ADD_WORKER: Final = "INSERT INTO workers (host, pid, seen_at) VALUES (?, ?, ?) RETURNING id"

SEE_WORKER: Final = """
INSERT INTO workers (id, host, pid, seen_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (id) DO UPDATE SET seen_at = max(workers.seen_at, excluded.seen_at)"""

HOLDERS: Final = """
SELECT DISTINCT e.claimed_by, coalesce(w.host, ''), coalesce(w.pid, 0), coalesce(w.seen_at, 0)
FROM executions e LEFT JOIN workers w ON w.id = e.claimed_by WHERE e.claimed_by IS NOT NULL ORDER BY e.claimed_by"""

HELD: Final = """
SELECT o.uuid, e.id FROM executions e JOIN organizations o ON o.key = e.org WHERE e.claimed_by = ?1 ORDER BY e.id"""

RELEASE: Final = "UPDATE executions SET claimed_by = NULL, wake_at = 0 WHERE claimed_by = ?1"

DROP_WORKER: Final = "DELETE FROM workers WHERE id = ?1"

DUE: Final = """
SELECT e.id, o.uuid FROM executions e JOIN organizations o ON o.key = e.org
WHERE e.wake_at <= ?1 AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL ORDER BY e.wake_at, e.id LIMIT ?2"""

DUE_TO_NOBODY: Final = f"{DUE} FOR UPDATE OF e SKIP LOCKED"
"""The same where several transactions may claim: what another one is about to claim or writes to is passed over."""

CLAIM: Final = "UPDATE executions SET claimed_by = ?2 WHERE id = ?1"

BEGIN_RUN: Final = """
UPDATE runs SET status = 'running', updated_at = ?2 WHERE execution = ?1 AND status = 'queued'"""

NEXT_WAKE: Final = "SELECT min(wake_at) FROM executions WHERE wake_at IS NOT NULL AND claimed_by IS NULL"


# Values

_interrupt = msgspec.json.Decoder(Interrupt).decode


def to_json(value: Any) -> str:
    """A value as JSON text; an attrs value as an object of its fields."""
    return msgspec.json.encode(value).decode()


def interrupt_text(interrupt: Interrupt) -> str:
    """An interrupt as JSON text without what it says by default: most of a parked run's bytes would be that."""
    shown = attrs.asdict(interrupt, recurse=False, filter=lambda field, value: value != field.default)
    return to_json(shown)


def to_execution(row: Row) -> Execution:
    org, number, *rest = row
    return Execution(ExecutionRef(org, number), *rest)


def to_run(row: Row) -> RunRow:
    org, run_id, execution, user_id, fingerprint, status, parent, resumed_by, result, *rest = row
    return RunRow(
        run_id,
        ExecutionRef(org, execution),
        user_id,
        fingerprint,
        RunStatus(status),
        parent,
        resumed_by,
        _from_json(result),
        *rest,
    )


def to_open_interrupt(row: Row) -> OpenInterrupt:
    key, run_id, body, *execution = row
    return OpenInterrupt(_interrupt(body), run_id, to_execution(execution), key)


def _from_json(text: str | None) -> JSON:
    return None if text is None else msgspec.json.decode(text)
