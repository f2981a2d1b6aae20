"""The SQL of the journal, and its rows as values.

Each text is a constant: the driver keeps the prepared statement. Positions count from 1, so the last one
is the length of the journal.
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

BEGIN: Final = "INSERT INTO journal (execution, pos, entry) VALUES (?, ?, ?)"
"""An entry of an execution that is made in the same transaction: there is nothing to compare with."""

READ: Final = """
SELECT pos, entry FROM journal
WHERE execution = (SELECT id FROM executions WHERE id = ?1 AND org = ?2) AND pos > ?3 ORDER BY pos LIMIT ?4"""

ABOUT: Final = """
SELECT r.created_at, r.id, e.kind, e.resource_id, e.thread_id
FROM executions e JOIN runs r ON r.execution = e.id WHERE e.id = ?1 ORDER BY r.key LIMIT 1"""
"""What `spared` leaves out of an execution's first entry."""

LENGTHS: Final = """
SELECT e.id, o.uuid, coalesce((SELECT max(pos) FROM journal WHERE execution = e.id), 0)
FROM json_each(?1) asked JOIN executions e ON e.id = CAST(asked.value AS bigint)
JOIN organizations o ON o.key = e.org"""

# Executions, runs, interrupts

FIND_ORG: Final = "SELECT key FROM organizations WHERE uuid = ?1"

ADD_EXECUTION: Final = """
INSERT INTO executions (org, kind, resource_id, variation_id, is_draft, user_id, thread_id, wake_at, claimed_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""

MOVE: Final = "UPDATE executions SET wake_at = ?2, claimed_by = ?3 WHERE id = ?1"

WAKE: Final = "UPDATE executions SET wake_at = 0 WHERE id = ?1"

ADD_RUN: Final = """
INSERT INTO runs
    (org, id, execution, user_id, fingerprint, status, parent_run_id, result, created_at, updated_at, finished_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)
ON CONFLICT (org, id) DO NOTHING"""

CHANGE_RUN: Final = """
UPDATE runs SET updated_at = ?5, result = coalesce(?6, result), resumed_by = coalesce(?7, resumed_by),
    finished_at = CASE WHEN ?8 THEN NULL WHEN status = ?4 THEN finished_at ELSE ?5 END, status = ?4
WHERE org = ?1 AND id = ?2 AND execution = ?3"""
"""A turn finished when its status first said that it is not under way, and again when that changes."""

INTERRUPTS_OF: Final = "SELECT key, body FROM interrupts WHERE execution = ?1"

ADD_INTERRUPT: Final = "INSERT INTO interrupts (org, execution, body) VALUES (?, ?, ?)"

CHANGE_INTERRUPT: Final = "UPDATE interrupts SET body = ?2 WHERE key = ?1"
"""One that was open before keeps its key, and so its place in the inbox."""

CLOSE_INTERRUPTS: Final = "DELETE FROM interrupts WHERE execution = ?1"

DROP_INTERRUPT: Final = "DELETE FROM interrupts WHERE key = ?1"

LATEST_RUN: Final = "SELECT id FROM runs WHERE execution = ?1 ORDER BY key DESC LIMIT 1"
"""The turn that no other one took over."""

_LENGTH: Final = "coalesce((SELECT max(pos) FROM journal WHERE execution = e.id), 0)"

_EXECUTION: Final = f"""
e.id, e.kind, e.resource_id, e.variation_id, e.user_id, e.thread_id,
(SELECT id FROM runs WHERE execution = e.id ORDER BY key LIMIT 1), {_LENGTH}, e.claimed_by"""

FIND_EXECUTION: Final = f"SELECT {_EXECUTION} FROM executions e WHERE e.id = ?1 AND e.org = ?2"

_RUN: Final = """
r.id, r.execution, r.user_id, r.fingerprint, r.status, r.parent_run_id, r.resumed_by, r.result, r.created_at,
r.updated_at, r.finished_at, e.kind, e.resource_id, e.thread_id, r.key"""

RUN_COLUMNS: Final = len(_RUN.split(","))

_RUNS: Final = "FROM runs r CROSS JOIN executions e ON e.id = r.execution WHERE r.org = ?1"
"""CROSS JOIN is SQLite's way to say that this is the order to join in."""

FIND_RUN: Final = f"SELECT {_RUN} {_RUNS} AND r.id = ?2"

FIND_TURN: Final = f"SELECT {_RUN}, {_EXECUTION} {_RUNS} AND r.id = ?2"

LIST_RUNS: Final = f"""
SELECT {_RUN} {_RUNS} AND r.key < ?2
AND (CAST(?3 AS text) IS NULL OR r.status = ?3)
AND (CAST(?4 AS text) IS NULL OR (e.kind = ?4 AND e.resource_id = ?5))
AND (CAST(?6 AS text) IS NULL OR r.user_id = ?6 OR (
    SELECT 1 FROM resources s JOIN grants g ON g.resource = s.key
    WHERE s.org = r.org AND s.kind = e.kind AND s.id = e.resource_id
    AND g.use AND g.subject IN (SELECT value FROM json_each(?7)) LIMIT 1
) = 1)
ORDER BY r.key DESC LIMIT ?8"""
"""A walk back along an index. PostgreSQL would rather make a table of all grants first, were the subquery an EXISTS."""

_INTERRUPT: Final = f"""
i.key, i.body, (SELECT id FROM runs WHERE execution = e.id ORDER BY key DESC LIMIT 1), {_EXECUTION}"""

LIST_INTERRUPTS: Final = f"""
SELECT {_INTERRUPT} FROM interrupts i CROSS JOIN executions e ON e.id = i.execution
WHERE i.org = ?1 AND i.key > ?2 ORDER BY i.key LIMIT ?3"""

LIST_INTERRUPTS_OF: Final = f"""
SELECT {_INTERRUPT} FROM json_each(?4) asked CROSS JOIN interrupts i ON i.execution = CAST(asked.value AS bigint)
CROSS JOIN executions e ON e.id = i.execution
WHERE i.org = ?1 AND i.key > ?2 ORDER BY i.key LIMIT ?3"""

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

_FIELDS: Final = attrs.fields(Interrupt)
_interrupt = msgspec.json.Decoder(list[Any]).decode


def to_json(value: Any) -> str:
    """A value as JSON text; an attrs value as an object of its fields."""
    return msgspec.json.encode(value).decode()


def interrupt_text(interrupt: Interrupt) -> str:
    """An interrupt as a JSON array of its fields, with defaults at the end left out: the id comes first."""
    values = [getattr(interrupt, field.name) for field in _FIELDS]
    while values[-1] == _FIELDS[len(values) - 1].default:
        values.pop()
    return to_json(values)


def to_interrupt(text: str) -> Interrupt:
    """The inverse of `interrupt_text`."""
    names = (field.name for field in _FIELDS)
    return msgspec.convert(dict(zip(names, _interrupt(text), strict=False)), Interrupt)


def spared(entries: Sequence[Entry], run: NewRun, new: NewExecution) -> Sequence[Entry]:
    """First entries without what the rows of their run and execution say: an empty run id tells that it is said there.

    Half of what a parked run takes would be that.
    """
    about = run_info(new.kind, new.resource_id, new.thread_id)
    match entries:
        case [Started(at=run.at, run_id=run.id, info=info) as started, *more] if _begins_with(info, about):
            own = {name: value for name, value in info.items() if name not in about}
            return [structs.replace(started, at=0, run_id="", info=own), *more]
    return entries


def is_spared(entry: Entry) -> bool:
    return type(entry) is Started and not entry.run_id


def unspared(entry: Entry, row: Row) -> Entry:
    """What `spared` made of an entry as it was, by the row that `ABOUT` finds."""
    assert type(entry) is Started  # noqa: S101  (nothing else is spared)
    at, run_id, *execution = row
    return structs.replace(entry, at=at, run_id=run_id, info={**run_info(*execution), **entry.info})


def _begins_with(info: Mapping[str, JSON], about: Mapping[str, JSON]) -> bool:
    return list(info.items())[: len(about)] == list(about.items())


def to_execution(org: str, row: Row) -> Execution:
    number, kind, resource_id, variation, *rest = row
    return Execution(ExecutionRef(org, number), kind, resource_id, from_key(variation), *rest)


def to_run(org: str, row: Row) -> RunRow:
    run_id, execution, user_id, fingerprint, status, parent, resumed_by, result, *rest = row
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


def to_turn(org: str, row: Row) -> tuple[RunRow, Execution]:
    return to_run(org, row[:RUN_COLUMNS]), to_execution(org, row[RUN_COLUMNS:])


def to_open_interrupt(org: str, row: Row) -> OpenInterrupt:
    key, body, run_id, *execution = row
    return OpenInterrupt(to_interrupt(body), run_id, to_execution(org, execution), key)


def _from_json(text: str | None) -> JSON:
    return None if text is None else msgspec.json.decode(text)
