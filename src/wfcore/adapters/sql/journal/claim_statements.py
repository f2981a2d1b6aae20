"""The SQL of workers and their claims on executions."""

from typing import Final

from wfcore.adapters.sql.schema.named_tables import executions, organizations, resources, runs, workers
from wfcore.adapters.sql.schema.statement import Dialect, Statement

ADD_WORKER: Final = Statement(
    lambda d: f"INSERT INTO {d[workers]} (host, pid, beats) VALUES ({d[1]}, {d[2]}, 0)", key="id"
)

PUT_WORKER: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[workers]} (id, host, pid, beats) VALUES ({d[1]}, {d[2]}, {d[3]}, 0)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid"""
    )
)

SEE_WORKER: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[workers]} (id, host, pid, beats) VALUES ({d[1]}, {d[2]}, {d[3]}, 1)
ON CONFLICT (id) DO UPDATE SET beats = {d[workers]}.beats + 1"""
    )
)

HOLDERS: Final = Statement(
    lambda d: (
        f"""
SELECT DISTINCT e.claimed_by, coalesce(w.host, ''), coalesce(w.pid, 0), coalesce(w.beats, 0)
FROM {d[executions]} e LEFT JOIN {d[workers]} w ON w.id = e.claimed_by
WHERE e.claimed_by IS NOT NULL ORDER BY e.claimed_by"""
    )
)

HELD_BY: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, e.id FROM {d[executions]} e JOIN {d[organizations]} o ON o.key = e.org
WHERE e.claimed_by = {d[1]} ORDER BY e.id"""
    )
)

RELEASE: Final = Statement(
    lambda d: f"UPDATE {d[executions]} SET claimed_by = NULL, wake_at = 0 WHERE claimed_by = {d[1]} AND org <> {d[2]}"
)
"""Those of all organizations but one."""

DROP_WORKER: Final = Statement(lambda d: f"DELETE FROM {d[workers]} WHERE id = {d[1]}")

# Limits of organizations and of workflows


HAS_LIMITS: Final = Statement(
    lambda d: (
        f"""
SELECT 1 WHERE EXISTS (SELECT 1 FROM {d[organizations]} WHERE max_concurrent_runs IS NOT NULL)
    OR EXISTS (SELECT 1 FROM {d[resources]} WHERE max_concurrent_runs IS NOT NULL)"""
    )
)
"""Whether any organization or workflow has a limit."""


def _is_unlimited(d: Dialect, org: str) -> str:
    """Whether claims of the organization with this key need no comparison with its limit."""
    return f"NOT EXISTS (SELECT 1 FROM {d[organizations]} WHERE key = {org} AND max_concurrent_runs IS NOT NULL)"


def _limited_workflow(d: Dialect, org: str, kind: str, resource: str) -> str:
    """The key of the workflow if it has a limit."""
    return f"""SELECT l.key FROM {d[resources]} l
    WHERE l.org = {org} AND l.kind = {kind} AND l.id = {resource} AND l.max_concurrent_runs IS NOT NULL"""


def is_unlimited(d: Dialect, org: str, kind: str, resource: str) -> str:
    """Whether claims of an execution of this resource need no comparison with a limit."""
    return f"({_is_unlimited(d, org)} AND NOT EXISTS ({_limited_workflow(d, org, kind, resource)}))"


def _not_full(d: Dialect, org: str) -> str:
    """Whether the organization with this key has not reached its limit. Claims are counted only if it has one."""
    return f"""({_is_unlimited(d, org)} OR {org} NOT IN (
    SELECT h.org FROM {d[executions]} h {d.join()} {d[organizations]} l ON l.key = h.org
    WHERE h.claimed_by IS NOT NULL AND l.max_concurrent_runs IS NOT NULL
    GROUP BY h.org, l.max_concurrent_runs HAVING count(*) >= l.max_concurrent_runs))"""


def _workflow_not_full(d: Dialect) -> str:
    """The same for the workflow of the execution `e`. Nothing is looked up for it if no workflow has a limit."""
    return f"""(NOT EXISTS (SELECT 1 FROM {d[resources]} WHERE max_concurrent_runs IS NOT NULL)
    OR NOT EXISTS ({_limited_workflow(d, "e.org", "e.kind", "e.resource_id")})
    OR (e.org, e.kind, e.resource_id) NOT IN (
    SELECT h.org, h.kind, h.resource_id FROM {d[executions]} h
    {d.join()} {d[resources]} l ON l.org = h.org AND l.kind = h.kind AND l.id = h.resource_id
    WHERE h.claimed_by IS NOT NULL AND l.max_concurrent_runs IS NOT NULL
    GROUP BY h.org, h.kind, h.resource_id, l.max_concurrent_runs HAVING count(*) >= l.max_concurrent_runs))"""


LOCK_LIMIT: Final = Statement(
    lambda d: (
        f"""
SELECT max_concurrent_runs FROM {d[organizations]} WHERE key = {d[1]} AND max_concurrent_runs IS NOT NULL
{d.locked("FOR NO KEY UPDATE SKIP LOCKED")}"""
    )
)
"""The limit of an organization. Until the end of the transaction no other one can claim its executions."""

COUNT_CLAIMS: Final = Statement(
    lambda d: f"SELECT count(*) FROM {d[executions]} WHERE claimed_by IS NOT NULL AND org = {d[1]}"
)
"""To be read after `LOCK_LIMIT`: a statement on PostgreSQL sees what was committed before it began."""

LOCK_WORKFLOW: Final = Statement(
    lambda d: (
        f"""
SELECT max_concurrent_runs FROM {d[resources]} WHERE key = {d[1]} AND max_concurrent_runs IS NOT NULL
{d.locked("FOR NO KEY UPDATE SKIP LOCKED")}"""
    )
)
"""The same for the workflow with this key."""

COUNT_CLAIMS_OF_WORKFLOW: Final = Statement(
    lambda d: (
        f"""
SELECT count(*) FROM {d[executions]} e {d.join()} {d[resources]} l
    ON l.org = e.org AND l.kind = e.kind AND l.id = e.resource_id
WHERE e.claimed_by IS NOT NULL AND l.key = {d[1]}"""
    )
)

# Claims


def _limits(d: Dialect) -> str:
    """The columns of the execution `e` on its limits: its organization, the limit of that, and its limited workflow."""
    return f"""e.org, (SELECT max_concurrent_runs FROM {d[organizations]} WHERE key = e.org),
    ({_limited_workflow(d, "e.org", "e.kind", "e.resource_id")})"""


DUE: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, o.uuid, {_limits(d)} FROM {d[executions]} e JOIN {d[organizations]} o ON o.key = e.org
WHERE e.wake_at <= {d[1]} AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL AND e.org <> {d[3]}
    AND {_not_full(d, "e.org")} AND {_workflow_not_full(d)}
ORDER BY e.wake_at, e.id LIMIT {d[2]}
{d.locked("FOR UPDATE OF e SKIP LOCKED")}"""
    )
)
"""Executions that are due, of organizations and workflows below their limits, without one organization. Those that
another transaction has locked are skipped.
"""

_FREE: Final = "wake_at IS NOT NULL AND claimed_by IS NULL"

DUE_ORGANIZATIONS: Final = Statement(
    lambda d: (
        f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM {d[executions]} WHERE org > {d[2]} AND {_FREE}
    UNION ALL
    SELECT (SELECT min(org) FROM {d[executions]} WHERE org > w.org AND {_FREE}) FROM waiting w WHERE w.org IS NOT NULL
)
SELECT o.key, o.uuid FROM waiting w {d.join()} {d[organizations]} o ON o.key = w.org
WHERE EXISTS (SELECT 1 FROM {d[executions]} WHERE org = w.org AND wake_at <= {d[1]} AND {_FREE})
AND w.org <> {d[4]} AND {_not_full(d, "w.org")} LIMIT {d[3]}"""
    )
)
"""Organizations after one that have due executions, below their limits, without one: time, key, rows, key. Two look-ups
in the index for each.
"""

DUE_OF: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, {_limits(d)} FROM {d[executions]} e
WHERE e.org = {d[3]} AND e.wake_at <= {d[1]} AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL
    AND {_workflow_not_full(d)}
ORDER BY e.wake_at, e.id LIMIT {d[2]} {d.locked("FOR UPDATE OF e SKIP LOCKED")}"""
    )
)
"""The same as DUE for one organization."""

CLAIM: Final = Statement(
    lambda d: f"UPDATE {d[executions]} SET claimed_by = {d[2]}, epoch = epoch + 1{d.given()} WHERE id = {d[1]}",
    types="bigint bigint",
)


def claim_if_due(d: Dialect) -> str:
    """Claim an execution `e` that is due, free and without a limit: its id, the worker, the time, the organization."""
    return f"""
UPDATE {d[executions]} AS e SET claimed_by = {d[2]}, epoch = epoch + 1
WHERE id = {d[1]} AND org = {d[4]} AND wake_at <= {d[3]} AND claimed_by IS NULL
    AND {is_unlimited(d, "e.org", "e.kind", "e.resource_id")}"""


CLAIM_IF_DUE: Final = Statement(claim_if_due)

IS_DUE: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, {_limits(d)} FROM {d[executions]} e
WHERE e.id = {d[1]} AND e.org = {d[2]} AND e.wake_at <= {d[3]} AND e.claimed_by IS NULL
{d.locked("FOR UPDATE OF e SKIP LOCKED")}"""
    )
)

BEGIN_RUN: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[runs]} SET status = 'running', updated_at = {d[2]}{d.given()}
WHERE execution = {d[1]} AND status = 'queued'"""
    ),
    types="bigint bigint",
)

DUE_SINCE: Final = Statement(
    lambda d: (
        f"""
SELECT CASE WHEN wake_at > 0 THEN wake_at
    ELSE (SELECT coalesce(updated_at, created_at) FROM {d[runs]} WHERE execution = e.id ORDER BY key DESC LIMIT 1) END
FROM {d[executions]} e
WHERE wake_at <= {d[1]} AND wake_at IS NOT NULL AND claimed_by IS NULL
    AND {_not_full(d, "e.org")} AND {_workflow_not_full(d)}
ORDER BY wake_at, id LIMIT 1"""
    )
)

PROGRESS: Final = Statement(
    lambda d: (
        f"""
SELECT kind, resource_id, (SELECT status FROM {d[runs]} WHERE execution = e.id ORDER BY key DESC LIMIT 1),
    claimed_by, wake_at
FROM {d[executions]} e WHERE id = {d[1]} AND org = {d[2]}"""
    )
)

NEXT_WAKE: Final = Statement(
    lambda d: (
        f"""
SELECT wake_at FROM {d[executions]} e
WHERE wake_at IS NOT NULL AND claimed_by IS NULL AND {_not_full(d, "e.org")} AND {_workflow_not_full(d)}
ORDER BY wake_at LIMIT 1"""
    )
)
