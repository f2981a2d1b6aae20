"""The SQL of the journal, and the conversion of its rows.

Each statement is a constant, so that the driver can cache it as a prepared statement. Positions count from 1: the last
one is the length of the journal.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from msgspec import structs

from wfcore.adapters.sql.repositories.row_values import from_key
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Entry, Started
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.journal import Execution, ExecutionRef, NewExecution, NewRun, OpenInterrupt, RunRow, run_info

Row = Sequence[Any]

# Entries

_APPEND: Final = """
INSERT INTO wfcore_journal (execution, pos, entry, checksum) VALUES (?1, (
    SELECT ?2 FROM wfcore_executions
    WHERE id = ?1 AND org = ?3 AND (CAST(?4 AS bigint) IS NULL OR claimed_by = ?4)
    AND (?2 = 1 OR EXISTS (SELECT 1 FROM wfcore_journal WHERE execution = ?1 AND pos = ?2 - 1)){}
), ?5, ?6)"""

APPEND: Final = _APPEND.format("")
"""One entry: execution, position, organization, holder or NULL, text, checksum.

An IntegrityError means that the compare-and-set failed. An existing position violates the primary key. For a position
that is too high, a lost claim or another organization's execution the position becomes NULL, which is refused too.
"""

APPEND_WITH_LOCK: Final = _APPEND.format(" FOR NO KEY UPDATE")
"""The same with a lock on the execution, for databases with concurrent write transactions."""

CHECK_LENGTH: Final = """
SELECT 1 FROM wfcore_executions WHERE id = ?1 AND org = ?3 AND (CAST(?4 AS bigint) IS NULL OR claimed_by = ?4)
AND ?2 = coalesce((SELECT max(pos) FROM wfcore_journal WHERE execution = ?1), 0)"""
"""The same comparison for an append without entries."""

BEGIN: Final = "INSERT INTO wfcore_journal (execution, pos, entry, checksum) VALUES (?, ?, ?, ?)"
"""An entry of an execution that the same transaction creates, without a comparison."""

READ: Final = """
SELECT pos, entry, checksum FROM wfcore_journal
WHERE execution = (SELECT id FROM wfcore_executions WHERE id = ?1 AND org = ?2) AND pos > ?3 ORDER BY pos LIMIT ?4"""

CHECKSUM: Final = "SELECT checksum FROM wfcore_journal WHERE execution = ?1 AND pos = ?2"

EXECUTIONS: Final = """
SELECT e.id, o.uuid, (SELECT id FROM wfcore_runs WHERE execution = e.id ORDER BY key LIMIT 1)
FROM wfcore_executions e JOIN wfcore_organizations o ON o.key = e.org WHERE e.id > ?1 ORDER BY e.id LIMIT ?2"""
"""The executions after one, each with its organization and its first run."""

FIRST_RUN: Final = """
SELECT r.created_at, r.id, e.kind, e.resource_id, e.thread_id
FROM wfcore_executions e JOIN wfcore_runs r ON r.execution = e.id WHERE e.id = ?1 ORDER BY r.key LIMIT 1"""
"""The values that `compacted` removes from an execution's first entry."""

LENGTHS: Final = """
SELECT e.id, o.uuid, coalesce((SELECT max(pos) FROM wfcore_journal WHERE execution = e.id), 0)
FROM json_each(?1) given JOIN wfcore_executions e ON e.id = CAST(given.value AS bigint)
JOIN wfcore_organizations o ON o.key = e.org"""

# Executions, runs, interrupts

FIND_ORG: Final = "SELECT key FROM wfcore_organizations WHERE uuid = ?1"

ADD_EXECUTION: Final = """
INSERT INTO wfcore_executions
    (org, kind, resource_id, variation_id, is_draft, user_id, thread_id, started_by, wake_at, claimed_by, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""

SET_CLAIM: Final = """
UPDATE wfcore_executions SET wake_at = ?2, claimed_by = ?3,
    epoch = epoch + CASE WHEN CAST(?3 AS bigint) IS NULL THEN 0 ELSE 1 END
WHERE id = ?1"""

WAKE: Final = "UPDATE wfcore_executions SET wake_at = 0 WHERE id = ?1"

ADD_RUN: Final = """
INSERT INTO wfcore_runs
    (org, id, execution, user_id, fingerprint, status, parent_run_id, result, created_at, updated_at, finished_at,
     started_by, origin, forked_from, variation_id, is_draft, kind, resource_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
    coalesce((SELECT kind FROM wfcore_executions WHERE id = ?3), ''),
    (SELECT resource_id FROM wfcore_executions WHERE id = ?3))
ON CONFLICT (org, id) DO NOTHING"""

CHANGE_RUN: Final = """
UPDATE wfcore_runs SET updated_at = ?5, result = coalesce(?6, result), resumed_by = coalesce(?7, resumed_by),
    retried_by = coalesce(?9, retried_by),
    finished_at = CASE WHEN ?8 THEN NULL WHEN status = ?4 THEN finished_at ELSE ?5 END, status = ?4
WHERE org = ?1 AND id = ?2 AND execution = ?3"""
"""`finished_at` is set when the status ends the turn (?8 is false), and when an ended status changes."""

DELETE_EXECUTION: Final = (
    "DELETE FROM wfcore_journal WHERE execution = ?1",
    """DELETE FROM wfcore_approvers WHERE interrupt IN (
    SELECT key FROM wfcore_interrupts WHERE execution = ?1
    UNION ALL SELECT key FROM wfcore_closed_interrupts WHERE execution = ?1)""",
    "DELETE FROM wfcore_interrupts WHERE execution = ?1",
    "DELETE FROM wfcore_closed_interrupts WHERE execution = ?1",
    """UPDATE wfcore_runs SET execution = 0, user_id = '', status = 'cancelled', parent_run_id = NULL,
    resumed_by = NULL, retried_by = NULL, forked_from = NULL, variation_id = NULL, result = NULL
    WHERE execution = ?1""",
    "DELETE FROM wfcore_executions WHERE id = ?1",
)
"""Delete an execution. The rows of its runs stay without an execution, so that their ids are not used again."""

CHECK_FREE: Final = "SELECT 1 FROM wfcore_executions WHERE id = ?1 AND claimed_by IS NULL"

IS_DELETED: Final = "SELECT 1 FROM wfcore_runs WHERE org = ?1 AND id = ?2 AND execution = 0"

INTERRUPTS_OF: Final = "SELECT key, body FROM wfcore_interrupts WHERE execution = ?1"

ADD_INTERRUPT: Final = "INSERT INTO wfcore_interrupts (org, execution, body) VALUES (?, ?, ?) RETURNING key"

CHANGE_INTERRUPT: Final = "UPDATE wfcore_interrupts SET body = ?2 WHERE key = ?1"
"""An interrupt that was open before keeps its key, and so its position in the inbox."""

DROP_INTERRUPT: Final = "DELETE FROM wfcore_interrupts WHERE key = ?1"

ADD_APPROVER: Final = """
INSERT INTO wfcore_approvers (org, subject, closed, interrupt) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"""

ADD_CLOSED: Final = """
INSERT INTO wfcore_closed_interrupts (key, org, execution, body, decision, decided_at) VALUES (?, ?, ?, ?, ?, ?)"""

CLOSE_APPROVERS: Final = "UPDATE wfcore_approvers SET closed = 1 WHERE interrupt = ?1"

DROP_APPROVERS: Final = "DELETE FROM wfcore_approvers WHERE interrupt = ?1"

TARGET: Final = "SELECT kind, resource_id, user_id FROM wfcore_executions WHERE id = ?1"

_INBOX: Final = """
WITH mine(subject) AS (
    SELECT value FROM json_each(?2)
    UNION SELECT 'r:' || s.kind || '/' || s.id FROM wfcore_grants g JOIN wfcore_resources s ON s.key = g.resource
    WHERE g.subject IN (SELECT value FROM json_each(?2)) AND g.use AND s.org = ?1
), found(key) AS (
    SELECT DISTINCT a.interrupt FROM mine CROSS JOIN wfcore_approvers a ON a.subject = mine.subject
    WHERE a.org = ?1 AND a.closed = {closed} AND a.interrupt < ?3
)"""

_LENGTH: Final = "coalesce((SELECT max(pos) FROM wfcore_journal WHERE execution = e.id), 0)"

_EXECUTION: Final = f"""
e.id, e.kind, e.resource_id, e.variation_id, e.user_id, e.thread_id,
(SELECT id FROM wfcore_runs WHERE execution = e.id ORDER BY key LIMIT 1), {_LENGTH}, e.claimed_by,
e.is_draft, e.started_by, e.epoch"""

FIND_EXECUTION: Final = f"SELECT {_EXECUTION} FROM wfcore_executions e WHERE e.id = ?1 AND e.org = ?2"

_RUN: Final = """
r.id, r.execution, r.user_id, r.fingerprint, r.status, r.parent_run_id, r.resumed_by, r.result, r.created_at,
r.updated_at, r.finished_at, r.kind, r.resource_id, e.thread_id, r.key, r.started_by, r.origin, e.variation_id,
e.is_draft, e.user_id, e.started_by, r.retried_by, r.forked_from, r.variation_id, r.is_draft"""

RUN_COLUMNS: Final = len(_RUN.split(","))

_RUNS: Final = "FROM wfcore_runs r CROSS JOIN wfcore_executions e ON e.id = r.execution WHERE r.org = ?1"
"""In SQLite, CROSS JOIN fixes the join order."""

FIND_RUN: Final = f"SELECT {_RUN} {_RUNS} AND r.id = ?2"

FIND_TURN: Final = f"SELECT {_RUN}, {_EXECUTION} {_RUNS} AND r.id = ?2"

LIST_RUNS: Final = f"SELECT {_RUN} {_RUNS}"
"""The beginning of a list; `run_lists` adds the filters."""

_INTERRUPT: Final = f"""
i.key, i.body, (SELECT id FROM wfcore_runs WHERE execution = e.id ORDER BY key DESC LIMIT 1), {_EXECUTION}"""

LIST_INTERRUPTS: Final = f"""
SELECT {_INTERRUPT} FROM wfcore_interrupts i CROSS JOIN wfcore_executions e ON e.id = i.execution
WHERE i.org = ?1 AND i.key > ?2 ORDER BY i.key LIMIT ?3"""

LIST_INTERRUPTS_OF: Final = f"""
SELECT {_INTERRUPT} FROM json_each(?4) given CROSS JOIN wfcore_interrupts i ON i.execution = CAST(given.value AS bigint)
CROSS JOIN wfcore_executions e ON e.id = i.execution
WHERE i.org = ?1 AND i.key > ?2 ORDER BY i.key LIMIT ?3"""

_INBOX_PAGE: Final = f"""{_INBOX}
SELECT {_INTERRUPT}, {{decision}} FROM found CROSS JOIN {{table}} i ON i.key = found.key
CROSS JOIN wfcore_executions e ON e.id = i.execution
WHERE CAST(?5 AS bigint) IS NULL OR (e.kind = 'workflow' AND e.resource_id = ?5) ORDER BY found.key DESC LIMIT ?4"""

INBOX: Final = _INBOX_PAGE.format(closed=0, table="wfcore_interrupts", decision="NULL, NULL")
"""Open interrupts: organization, subjects as JSON, key, limit, workflow or NULL."""

CLOSED_INBOX: Final = _INBOX_PAGE.format(
    closed=1, table="wfcore_closed_interrupts", decision="i.decision, i.decided_at"
)
"""The same of those that were decided or have expired."""

# Workers and claims

ADD_WORKER: Final = "INSERT INTO wfcore_workers (host, pid, beats) VALUES (?, ?, 0) RETURNING id"

SEE_WORKER: Final = """
INSERT INTO wfcore_workers (id, host, pid, beats) VALUES (?1, ?2, ?3, 1)
ON CONFLICT (id) DO UPDATE SET beats = wfcore_workers.beats + 1"""

HOLDERS: Final = """
SELECT DISTINCT e.claimed_by, coalesce(w.host, ''), coalesce(w.pid, 0), coalesce(w.beats, 0)
FROM wfcore_executions e LEFT JOIN wfcore_workers w ON w.id = e.claimed_by
WHERE e.claimed_by IS NOT NULL ORDER BY e.claimed_by"""

HELD_BY: Final = """
SELECT o.uuid, e.id FROM wfcore_executions e JOIN wfcore_organizations o ON o.key = e.org
WHERE e.claimed_by = ?1 ORDER BY e.id"""

RELEASE: Final = "UPDATE wfcore_executions SET claimed_by = NULL, wake_at = 0 WHERE claimed_by = ?1"

DROP_WORKER: Final = "DELETE FROM wfcore_workers WHERE id = ?1"

DUE: Final = """
SELECT e.id, o.uuid FROM wfcore_executions e JOIN wfcore_organizations o ON o.key = e.org
WHERE e.wake_at <= ?1 AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL ORDER BY e.wake_at, e.id LIMIT ?2"""

DUE_SKIP_LOCKED: Final = f"{DUE} FOR UPDATE OF e SKIP LOCKED"
"""The same for databases with concurrent transactions: executions that another one has locked are skipped."""

_FREE: Final = "wake_at IS NOT NULL AND claimed_by IS NULL"

DUE_ORGANIZATIONS: Final = f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM wfcore_executions WHERE org > ?2 AND {_FREE}
    UNION ALL
    SELECT (SELECT min(org) FROM wfcore_executions WHERE org > w.org AND {_FREE}) FROM waiting w WHERE w.org IS NOT NULL
)
SELECT o.key, o.uuid FROM waiting w CROSS JOIN wfcore_organizations o ON o.key = w.org
WHERE EXISTS (SELECT 1 FROM wfcore_executions WHERE org = w.org AND wake_at <= ?1 AND {_FREE}) LIMIT ?3"""
"""Up to ?3 organizations after ?2 with due executions: two look-ups in the index for each, however many it has."""

DUE_OF: Final = """
SELECT e.id FROM wfcore_executions e
WHERE e.org = ?3 AND e.wake_at <= ?1 AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL
ORDER BY e.wake_at, e.id LIMIT ?2"""
"""The same as DUE for one organization."""

DUE_OF_SKIP_LOCKED: Final = f"{DUE_OF} FOR UPDATE OF e SKIP LOCKED"

CLAIM: Final = "UPDATE wfcore_executions SET claimed_by = ?2, epoch = epoch + 1 WHERE id = ?1"

BEGIN_RUN: Final = """
UPDATE wfcore_runs SET status = 'running', updated_at = ?2 WHERE execution = ?1 AND status = 'queued'"""

DUE_SINCE: Final = """
SELECT CASE WHEN wake_at > 0 THEN wake_at
    ELSE (SELECT updated_at FROM wfcore_runs WHERE execution = e.id ORDER BY key DESC LIMIT 1) END
FROM wfcore_executions e
WHERE wake_at <= ?1 AND wake_at IS NOT NULL AND claimed_by IS NULL ORDER BY wake_at, id LIMIT 1"""

NEXT_WAKE: Final = "SELECT min(wake_at) FROM wfcore_executions WHERE wake_at IS NOT NULL AND claimed_by IS NULL"


# Values

_FIELDS: Final = attrs.fields(Interrupt)
_interrupt = msgspec.json.Decoder(list[Any]).decode


def to_json(value: Any) -> str:
    """A value as JSON text; an attrs value as an object of its fields."""
    return msgspec.json.encode(value).decode()


def interrupt_text(interrupt: Interrupt) -> str:
    """An interrupt as a JSON array of its fields, the id first, without trailing fields that have their default."""
    values = [getattr(interrupt, field.name) for field in _FIELDS]
    while values[-1] == _FIELDS[len(values) - 1].default:
        values.pop()
    return to_json(values)


def to_interrupt(text: str) -> Interrupt:
    """The inverse of `interrupt_text`."""
    names = (field.name for field in _FIELDS)
    return msgspec.convert(dict(zip(names, _interrupt(text), strict=False)), Interrupt)


def compacted(entries: Sequence[Entry], run: NewRun, new: NewExecution) -> Sequence[Entry]:
    """The first entries, without values that the rows of their run and execution also hold. The run id is then empty.

    These values would take half of the storage of a waiting run.
    """
    shared = run_info(new.kind, new.resource_id, new.thread_id)
    match entries:
        case [Started(at=run.at, run_id=run.id, info=info) as started, *more] if _begins_with(info, shared):
            own = {name: value for name, value in info.items() if name not in shared}
            return [structs.replace(started, at=0, run_id="", info=own), *more]
    return entries


def is_compacted(entry: Entry) -> bool:
    return type(entry) is Started and not entry.run_id


def restored(entry: Entry, row: Row) -> Entry:
    """The inverse of `compacted` for one entry, with the row of `FIRST_RUN`."""
    assert type(entry) is Started  # noqa: S101  (no other entry is compacted)
    at, run_id, *execution = row
    return structs.replace(entry, at=at, run_id=run_id, info={**run_info(*execution), **entry.info})


def _begins_with(info: Mapping[str, JSON], shared: Mapping[str, JSON]) -> bool:
    return list(info.items())[: len(shared)] == list(shared.items())


def to_execution(org: str, row: Row) -> Execution:
    number, kind, resource_id, variation, *rest, is_draft, started_by, epoch = row
    user_id, thread_id, root, length, claimed_by = rest
    ref, pinned = ExecutionRef(org, number), from_key(variation)
    return Execution(ref, kind, resource_id, pinned, user_id, thread_id, root, length, claimed_by, bool(is_draft),
                     started_by, epoch)  # fmt: skip


def to_run(org: str, row: Row) -> RunRow:
    run_id, execution, user_id, fingerprint, status, parent, resumed_by, result, *rest = row
    *rest, retried_by, forked_from, own_variation, own_is_draft = rest
    *rest, started_by, origin, variation, is_draft, root_user_id, root_started_by = rest
    if own_variation is not None:
        variation, is_draft = own_variation, own_is_draft
    created_at, updated_at, finished_at, kind, resource_id, thread_id, key = rest
    return RunRow(
        run_id,
        ExecutionRef(org, execution),
        user_id,
        fingerprint,
        RunStatus(status),
        parent,
        resumed_by,
        _from_json(result),
        created_at,
        updated_at,
        finished_at,
        kind,
        resource_id,
        thread_id,
        key,
        started_by,
        origin,
        from_key(variation),
        bool(is_draft),
        root_user_id,
        root_started_by,
        retried_by,
        forked_from,
    )


def to_turn(org: str, row: Row) -> tuple[RunRow, Execution]:
    return to_run(org, row[:RUN_COLUMNS]), to_execution(org, row[RUN_COLUMNS:])


def to_open_interrupt(org: str, row: Row) -> OpenInterrupt:
    key, body, run_id, *execution = row
    return OpenInterrupt(to_interrupt(body), run_id, to_execution(org, execution), key)


def to_inbox_item(org: str, row: Row) -> OpenInterrupt:
    *fields, decision, decided_at = row
    return attrs.evolve(to_open_interrupt(org, fields), decision=decision, decided_at=decided_at)


def _from_json(text: str | None) -> JSON:
    return None if text is None else msgspec.json.decode(text)
