"""The SQL of workers and their claims on executions."""

from typing import Final

from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.schema.tables import executions, organizations, runs, workers

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
    lambda d: f"UPDATE {d[executions]} SET claimed_by = NULL, wake_at = 0 WHERE claimed_by = {d[1]}"
)

DROP_WORKER: Final = Statement(lambda d: f"DELETE FROM {d[workers]} WHERE id = {d[1]}")

DUE: Final = Statement(
    lambda d: (
        f"""
SELECT e.id, o.uuid FROM {d[executions]} e JOIN {d[organizations]} o ON o.key = e.org
WHERE e.wake_at <= {d[1]} AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL ORDER BY e.wake_at, e.id LIMIT {d[2]}
{d.locked("FOR UPDATE OF e SKIP LOCKED")}"""
    )
)
"""Executions that are due. Those that another transaction has locked are skipped."""

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
WHERE EXISTS (SELECT 1 FROM {d[executions]} WHERE org = w.org AND wake_at <= {d[1]} AND {_FREE}) LIMIT {d[3]}"""
    )
)
"""Organizations after one that have due executions: time, key, limit. Two look-ups in the index for each."""

DUE_OF: Final = Statement(
    lambda d: (
        f"""
SELECT e.id FROM {d[executions]} e
WHERE e.org = {d[3]} AND e.wake_at <= {d[1]} AND e.wake_at IS NOT NULL AND e.claimed_by IS NULL
ORDER BY e.wake_at, e.id LIMIT {d[2]} {d.locked("FOR UPDATE OF e SKIP LOCKED")}"""
    )
)
"""The same as DUE for one organization."""

CLAIM: Final = Statement(
    lambda d: f"UPDATE {d[executions]} SET claimed_by = {d[2]}, epoch = epoch + 1 WHERE id = {d[1]}"
)

CLAIM_IF_DUE: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[executions]} SET claimed_by = {d[2]}, epoch = epoch + 1
WHERE id = {d[1]} AND org = {d[4]} AND wake_at <= {d[3]} AND claimed_by IS NULL"""
    )
)

BEGIN_RUN: Final = Statement(
    lambda d: (
        f"""
UPDATE {d[runs]} SET status = 'running', updated_at = {d[2]} WHERE execution = {d[1]} AND status = 'queued'"""
    )
)

DUE_SINCE: Final = Statement(
    lambda d: (
        f"""
SELECT CASE WHEN wake_at > 0 THEN wake_at
    ELSE (SELECT coalesce(updated_at, created_at) FROM {d[runs]} WHERE execution = e.id ORDER BY key DESC LIMIT 1) END
FROM {d[executions]} e
WHERE wake_at <= {d[1]} AND wake_at IS NOT NULL AND claimed_by IS NULL ORDER BY wake_at, id LIMIT 1"""
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
    lambda d: f"SELECT min(wake_at) FROM {d[executions]} WHERE wake_at IS NOT NULL AND claimed_by IS NULL"
)
