"""The statements of lists of runs: each filter adds a condition that an index serves."""

from typing import Any, Final

from wfcore.adapters.sql.journal.statements import LIST_RUNS, to_json
from wfcore.adapters.sql.repositories.row_values import to_key
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import RunFilter

Statement = tuple[str, tuple[Any, ...]]
"""The text with numbered parameters, and their values from the first."""

_CONDITIONS: Final = {
    "status": "r.status = {0} AND r.status <> 'done'",
    "kind": "r.kind = {0}",
    "resource_id": "r.resource_id = {0}",
    "thread_id": "r.execution IN (SELECT id FROM wfcore_executions WHERE org = ?1 AND thread_id = {0})",
    "started_by": "r.user_id = {0} AND r.started_by <> 'system'",
    "origin": "r.origin = {0} AND r.origin <> 'api'",
    "variation_id": """r.key IN (
        SELECT x.key FROM wfcore_executions y JOIN wfcore_runs x ON x.execution = y.id
        WHERE y.variation_id = {0} AND x.variation_id IS NULL
        UNION ALL SELECT key FROM wfcore_runs WHERE variation_id = {0})""",
    "since": "r.created_at >= {0}",
    "until": "r.created_at < {0}",
}
"""Conditions of the filters. The second half of `status` and `origin` is that of their partial indexes."""

_COMMON: Final = {"status": "done", "origin": "api"}
"""Values that most runs have: the partial indexes leave them out."""

_VISIBLE: Final = """(CASE WHEN r.resource_id IS NULL THEN e.user_id = {0} ELSE (
    SELECT 1 FROM wfcore_resources s JOIN wfcore_grants g ON g.resource = s.key
    WHERE s.org = r.org AND s.kind = r.kind AND s.id = r.resource_id
    AND g.use AND g.subject IN (SELECT value FROM json_each({1})) LIMIT 1
) = 1 END)"""
"""With EXISTS instead of the scalar subquery, PostgreSQL would read all grants first."""

_COUNT: Final = """
SELECT r.status, r.kind, r.resource_id, r.created_at / 3600000, count(*)
FROM wfcore_runs r CROSS JOIN wfcore_executions e ON e.id = r.execution
WHERE r.org = ?1 AND r.created_at >= ?2 AND r.created_at < ?3 AND {} GROUP BY 1, 2, 3, 4"""


def list_runs(org: int | None, limit: int, before: int, where: RunFilter, principal: Principal | None) -> Statement:
    """The statement that lists runs, latest start first."""
    text, values = [LIST_RUNS, "AND r.key < ?2"], list[Any]((org, before))
    for name, condition in _CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            plain = value == _COMMON.get(name)
            values.append(to_key(value) if name == "variation_id" else value)
            text.append(f"AND {(condition.partition(' AND ')[0] if plain else condition).format(f'?{len(values)}')}")
    if principal:
        text.append(f"AND {_VISIBLE.format(f'?{len(values) + 1}', f'?{len(values) + 2}')}")
        values += [principal.user_id, to_json(sorted(principal.subjects))]
    values.append(limit)
    return " ".join([*text, f"ORDER BY r.key DESC LIMIT ?{len(values)}"]), tuple(values)


def count_runs(org: int | None, since: int, until: int, principal: Principal) -> Statement:
    """The statement that counts runs by status, target and hour."""
    subjects = to_json(sorted(principal.subjects))
    return _COUNT.format(_VISIBLE.format("?4", "?5")), (org, since, until, principal.user_id, subjects)
