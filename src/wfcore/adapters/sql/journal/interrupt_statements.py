"""The SQL of interrupts and of the inbox."""

from typing import Final

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


def subject_of(interrupt_id: str) -> str:
    """The subject, of nobody, by which an interrupt with named approvers is found."""
    return f"i:{interrupt_id}"


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
INSERT INTO {d[interrupts]} (org, execution, body, resource) VALUES ({d[1]}, {d[2]}, {d[3]}, {_resource(d, 2, 4)})"""
    ),
    key="key",
)
"""An interrupt: organization, execution, body, and whether everybody who can use the resource is an approver."""

CHANGE_INTERRUPT: Final = Statement(
    lambda d: f"UPDATE {d[interrupts]} SET body = {d[3]}, resource = {_resource(d, 2, 4)} WHERE key = {d[1]}"
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
INSERT INTO {d[closed_interrupts]} (key, org, execution, body, decision, decided_at, resource)
SELECT key, org, execution, {d[2]}, {d[3]}, CAST({d[4]} AS bigint), resource FROM {d[interrupts]} WHERE key = {d[1]}"""
    )
)
"""An open interrupt with its last body, the decision and the time."""

CLOSE_APPROVERS: Final = Statement(lambda d: f"UPDATE {d[approvers]} SET closed = 1 WHERE interrupt = {d[1]}")

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


def _inbox(d: Dialect, table: "sa.Table", decision: str) -> str:
    """Interrupts of an organization, for some subjects as JSON, before a key, up to a limit, of a workflow or NULL.

    The expressions of `found.key` keep PostgreSQL from reading all interrupts in the order of their keys, or all
    executions of the workflow.
    """
    closed = int(table is closed_interrupts)
    return f"""
WITH mine(resource) AS (
    SELECT DISTINCT s.key FROM {d[grants]} g JOIN {d[resources]} s ON s.key = g.resource
    WHERE g.subject IN (SELECT value FROM {d.values(d[2])}) AND g.use AND {exists_for(d, d[2])}
), found(key) AS (
    SELECT a.interrupt FROM {d.values(d[2])} {d.join()} {d[approvers]} a ON a.subject = given.value
    WHERE a.org = {d[1]} AND a.closed = {closed} AND a.interrupt < {d[3]}
    UNION SELECT i.key FROM mine {d.join()} {d[table]} i ON i.resource = mine.resource
    WHERE i.org = {d[1]} AND i.key < {d[3]}
)
SELECT {_interrupt(d)}, {decision} FROM found {d.join()} {d[table]} i ON i.key = found.key
{d.join()} {d[executions]} e ON e.id = i.execution
WHERE CAST({d[5]} AS bigint) IS NULL
OR CASE WHEN found.key > 0 THEN e.kind = 'workflow' AND e.resource_id = CAST({d[5]} AS bigint) END
ORDER BY found.key + 0 DESC LIMIT {d[4]}"""


def _find(d: Dialect, table: "sa.Table", decision: str) -> str:
    """An interrupt of an organization, for some subjects as JSON, by its own subject, of a usable resource."""
    return f"""
SELECT {_interrupt(d)}, {decision} FROM {d[approvers]} a {d.join()} {d[table]} i ON i.key = a.interrupt
{d.join()} {d[executions]} e ON e.id = i.execution
{d.join()} {d[resources]} s ON s.org = e.org AND s.kind = e.kind AND s.id = e.resource_id
WHERE a.org = {d[1]} AND a.subject = {d[3]} AND a.closed = {int(table is closed_interrupts)} AND {exists_for(d, d[2])}
AND EXISTS (SELECT 1 FROM {d[grants]} g WHERE g.resource = s.key AND g.use
    AND g.subject IN (SELECT value FROM {d.values(d[2])}))"""


FIND_INTERRUPT: Final = Statement(lambda d: _find(d, interrupts, "NULL, NULL"))
"""An open interrupt with named approvers."""

FIND_CLOSED_INTERRUPT: Final = Statement(lambda d: _find(d, closed_interrupts, "i.decision, i.decided_at"))
"""One that was decided or has expired."""

INBOX: Final = Statement(lambda d: _inbox(d, interrupts, "NULL, NULL"))
"""Open interrupts."""

CLOSED_INBOX: Final = Statement(lambda d: _inbox(d, closed_interrupts, "i.decision, i.decided_at"))
"""Those that were decided or have expired."""
