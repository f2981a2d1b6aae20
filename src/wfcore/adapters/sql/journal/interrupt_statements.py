"""The SQL of interrupts and of the inbox."""

from typing import Final
from zlib import crc32

from wfcore.adapters.sql.journal.statements import execution_columns, first_run_time
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.named_tables import (
    approvers,
    closed_interrupts,
    executions,
    grants,
    interrupts,
    resources,
    runs,
)
from wfcore.adapters.sql.schema.statement import Dialect, Statement, row
from wfcore.adapters.sql.schema.usable import exists_for


def hash_of(interrupt_id: str) -> int:
    """By what an index finds an interrupt: 32 bits take less than its id, which most rows do not hold. Some ids share a
    hash.
    """
    return crc32(interrupt_id.encode()) - 2**31


def barred_subject(user_id: str) -> str:
    """The subject, of nobody, by which the interrupts are found that a user cannot decide."""
    return f"x:{user_id}"


INTERRUPTS_OF: Final = Statement(
    lambda d: (
        f"""
SELECT i.key, i.body, i.resource, r.id, r.created_at FROM {d[interrupts]} i {d.join()} {d[runs]} r
ON r.key = (SELECT key FROM {d[runs]} WHERE execution = {d[1]} ORDER BY key LIMIT 1) WHERE i.execution = {d[1]}"""
    )
)
"""The open interrupts of an execution, with the id and the time of its first run."""


def _resource(d: Dialect, execution: int, is_of_users: int) -> str:
    """The key of the execution's resource, if everybody who can use that is an approver."""
    return f"""CASE WHEN {d[is_of_users]} THEN (
    SELECT s.key FROM {d[executions]} e JOIN {d[resources]} s ON s.org = e.org AND s.kind = e.kind
    AND s.id = e.resource_id WHERE e.id = {d[execution]}) END"""


ADD_INTERRUPT: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[interrupts]} (org, execution, body, resource, expires_at, id_hash)
VALUES ({d[1]}, {d[2]}, {d[3]}, {_resource(d, 2, 4)}, {d[5]}, {d[6]})"""
    ),
    key="key",
)
"""An interrupt: organization, execution, body, whether everybody who can use the resource is an approver, deadline,
`hash_of` its id.
"""

CHANGE_INTERRUPT: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[interrupts]} SET body = {d[3]}, resource = {_resource(d, 2, 4)}, expires_at = {d[5]} WHERE key = {d[1]}"""
    )
)
"""An interrupt that was open before keeps its key, and so its position in the inbox."""

DROP_INTERRUPT: Final = Statement(lambda d: f"DELETE FROM {d[interrupts]} WHERE key = {d[1]}")

ADD_APPROVER: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[approvers]} (org, subject, closed, interrupt) VALUES {row(d, 4)} ON CONFLICT DO NOTHING"""
    )
)

ADD_CLOSED: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[closed_interrupts]} (key, org, execution, body, decision, decided_at, resource, expires_at, id_hash)
SELECT key, org, execution, {d[2]}, {d[3]}, CAST({d[4]} AS bigint), resource, expires_at, id_hash FROM {d[interrupts]}
WHERE key = {d[1]}"""
    )
)
"""An open interrupt with its last body, the decision and the time."""

CLOSE_APPROVERS: Final = Statement(lambda d: f"UPDATE {d[approvers]} SET closed = 1 WHERE interrupt = {d[1]}")

DROP_BARRED: Final = Statement(
    lambda d: f"DELETE FROM {d[approvers]} WHERE interrupt = {d[1]} AND subject >= 'x:' AND subject < 'x;'"
)
"""Who cannot decide an interrupt is of no use once it is closed."""

DROP_APPROVERS: Final = Statement(lambda d: f"DELETE FROM {d[approvers]} WHERE interrupt = {d[1]}")

TARGET: Final = Statement(lambda d: f"SELECT kind, resource_id, user_id FROM {d[executions]} WHERE id = {d[1]}")


def _interrupt(d: Dialect) -> str:
    return f"""
i.key, i.body, (SELECT id FROM {d[runs]} WHERE execution = e.id ORDER BY key DESC LIMIT 1),
{first_run_time(d)}, {execution_columns(d)}"""


LIST_INTERRUPTS: Final = Statement(
    lambda d: (
        f"""
SELECT {_interrupt(d)} FROM {d[interrupts]} i {d.join()} {d[executions]} e ON e.id = i.execution
WHERE i.org = {d[1]} AND i.key > {d[2]} ORDER BY i.key LIMIT {d[3]}"""
    )
)

LIST_INTERRUPTS_OF: Final = Statement(
    lambda d: (
        f"""
SELECT {_interrupt(d)} FROM {d.values(d[4])} {d.join()} {d[interrupts]} i ON i.execution = CAST(given.value AS bigint)
{d.join()} {d[executions]} e ON e.id = i.execution
WHERE i.org = {d[1]} AND i.key > {d[2]} ORDER BY i.key LIMIT {d[3]}"""
    )
)


def _inbox(d: Dialect, table: "sa.Table") -> str:
    """The keys of interrupts of an organization as JSON, newest first: for some subjects as JSON, up to a limit, of
    some workflows as JSON or NULL. Of the open ones without those of other subjects as JSON, and without those whose
    deadline is not after a time.

    SQLite merges the two parts of the union in their order, so that equal keys cost nothing. Each source of closed ones
    has the limit too, because these only grow.
    """
    is_closed = table is closed_interrupts
    workflows = f"(SELECT CAST(value AS bigint) FROM {d.values(d[4])})"
    any_workflow = f"CAST({d[4]} AS text) IS NULL"
    named = f"""a.org = {d[1]} AND a.subject = given.value AND a.closed = {int(is_closed)}
AND ({any_workflow} OR EXISTS (
    SELECT 1 FROM {d[table]} o JOIN {d[executions]} e ON e.id = o.execution
    WHERE o.key = a.interrupt AND e.kind = 'workflow' AND e.resource_id IN {workflows}))"""
    mine = f"""
mine(resource) AS (
    SELECT DISTINCT s.key FROM {d.values(d[2])} {d.join()} {d[grants]} g ON g.subject = given.value AND g.use
    {d.join()} {d[resources]} s ON s.key = g.resource
    WHERE s.org = {d[1]} AND {exists_for(d, d[2])} AND ({any_workflow} OR s.kind = 'workflow' AND s.id IN {workflows})
)"""
    if is_closed:
        latest = f"SELECT a.interrupt FROM {d[approvers]} a WHERE {named} ORDER BY a.interrupt DESC LIMIT {d[3]}"
        of_mine = f"SELECT i.key FROM {d[table]} i WHERE i.resource = mine.resource ORDER BY i.key DESC LIMIT {d[3]}"
        key = f"x.org = {d[1]} AND x.subject = given.value AND x.closed = 1 AND x.interrupt"
        tables = f"WITH {mine}"
        parts = f"""
SELECT x.interrupt AS key FROM {d.for_each(d.values(d[2]), latest, d[approvers], key)}
UNION SELECT x.key FROM {d.for_each("mine", of_mine, d[table])}"""
    else:
        tables = f"""
WITH {mine}, others(key) AS (
    SELECT b.interrupt FROM {d.values(d[5])} {d.join()} {d[approvers]} b ON b.subject = given.value
    WHERE b.org = {d[1]} AND b.closed = 0
    UNION ALL SELECT key FROM {d[table]} WHERE org = {d[1]} AND expires_at <= {d[6]}
)"""
        parts = f"""
SELECT a.interrupt AS key FROM {d.values(d[2])} {d.join()} {d[approvers]} a ON {named}
WHERE a.interrupt NOT IN (SELECT key FROM others)
UNION SELECT i.key FROM mine {d.join()} {d[table]} i ON i.resource = mine.resource
WHERE i.key NOT IN (SELECT key FROM others)"""
    return f"{tables} SELECT {d.array('key')} FROM ({parts} ORDER BY 1 DESC LIMIT {d[3]}) AS listed"


def _at(d: Dialect, table: "sa.Table", decision: str) -> str:
    """Interrupts of an organization with these keys as JSON, newest first."""
    return f"""
SELECT {_interrupt(d)}, {decision} FROM {d.values(d[2])} {d.join()} {d[table]} i ON i.key = CAST(given.value AS bigint)
{d.join()} {d[executions]} e ON e.id = i.execution WHERE i.org = {d[1]} ORDER BY i.key DESC"""


def _deadlines(d: Dialect, table: "sa.Table") -> str:
    """The keys of those of these interrupts that have a deadline as JSON, the next one first; and the deadlines."""
    return f"""
SELECT {d.array("key")}, {d.array("expires_at")} FROM (
    SELECT i.key, i.expires_at FROM {d.values(d[2])} {d.join()} {d[table]} i ON i.key = CAST(given.value AS bigint)
    WHERE i.org = {d[1]} AND i.expires_at IS NOT NULL ORDER BY i.expires_at, i.key DESC
) AS listed"""


def _find(d: Dialect, table: "sa.Table", decision: str) -> str:
    """Interrupts of an organization with these hashes as JSON, and whether the target can be used: for some subjects as
    JSON, of a user id. Only of executions whose target can be used, or of which these subjects see an interrupt.
    """
    subjects = f"(SELECT value FROM {d.values(d[2])})"
    can_use = f"""
CASE WHEN e.resource_id IS NULL THEN e.user_id = {d[4]} ELSE EXISTS (
    SELECT 1 FROM {d[resources]} s {d.join()} {d[grants]} g ON g.resource = s.key AND g.use AND g.subject IN {subjects}
    WHERE s.org = e.org AND s.kind = e.kind AND s.id = e.resource_id AND {exists_for(d, d[2])}) END"""
    sees = " OR ".join(
        f"""EXISTS (
    SELECT 1 FROM {d[one]} o {d.join()} {d[approvers]} a ON a.interrupt = o.key AND a.subject IN {subjects}
    WHERE o.execution = e.id)"""
        for one in (interrupts, closed_interrupts)
    )
    return f"""
SELECT {_interrupt(d)}, {decision}, {can_use} FROM {d.values(d[3])}
{d.join()} {d[table]} i ON i.id_hash = CAST(given.value AS bigint) {d.join()} {d[executions]} e ON e.id = i.execution
WHERE i.org = {d[1]} AND ({can_use} OR {sees}) ORDER BY i.key"""


FIND_INTERRUPTS: Final = Statement(lambda d: _find(d, interrupts, "NULL, NULL"))
"""Open interrupts by their ids."""

FIND_CLOSED_INTERRUPTS: Final = Statement(lambda d: _find(d, closed_interrupts, "i.decision, i.decided_at"))
"""Those that were decided or have expired."""

INBOX: Final = Statement(lambda d: _inbox(d, interrupts))
CLOSED_INBOX: Final = Statement(lambda d: _inbox(d, closed_interrupts))
INTERRUPTS_AT: Final = Statement(lambda d: _at(d, interrupts, "NULL, NULL"))
CLOSED_AT: Final = Statement(lambda d: _at(d, closed_interrupts, "i.decision, i.decided_at"))
DEADLINES: Final = Statement(lambda d: _deadlines(d, interrupts))
CLOSED_DEADLINES: Final = Statement(lambda d: _deadlines(d, closed_interrupts))
