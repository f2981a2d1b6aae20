"""The verdicts of evaluations, in a table."""

import json
from collections.abc import Sequence
from typing import Any, Final

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.named_tables import executions, organizations, verdicts
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import CommitTransaction, Store
from wfcore.domain.projections.verdict_rows import VerdictRow

PUT_VERDICT: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[verdicts]} (execution, org, skill_id, content, evaluation_id, case_id, run_id, at, passed, body)
SELECT id, org, {d[2]}, {d[3]}, {d[4]}, {d[5]}, {d[6]}, {d[7]}, {d[8]}, {d[9]}
FROM {d[executions]} WHERE id = {d[1]}
ON CONFLICT (execution) DO UPDATE SET run_id = {d[6]}, at = {d[7]}, passed = {d[8]}, body = {d[9]}"""
    )
)

LATEST: Final = Statement(
    lambda d: (
        f"""
SELECT skill_id, content, evaluation_id, case_id, run_id, at, passed, body FROM {d[verdicts]}
WHERE execution IN (
    SELECT max(execution) FROM {d[verdicts]}
    WHERE org = (SELECT key FROM {d[organizations]} WHERE uuid = {d[1]}) AND skill_id = {d[2]} AND content = {d[3]}
    GROUP BY case_id)"""
    )
)
"""One scan of an index by content, and a look-up for each case."""


class SqlVerdicts:
    """Implements the port `VerdictRows` on an open database."""

    def __init__(self, database: Store) -> None:
        self._database = database

    async def latest(self, org: str, skill_id: int, content: str) -> list[VerdictRow]:
        rows = await self._database.look_up(LATEST, org, skill_id, content)
        return sorted(map(_to_verdict, rows), key=lambda row: row.case_id)


def _to_verdict(row: Sequence[Any]) -> VerdictRow:
    *values, passed, body = row
    skill, content, evaluation, case, run, at = values
    is_passed = None if passed is None else bool(passed)
    return VerdictRow(skill, content, evaluation, case, run, at, is_passed, json.loads(body))


def put_verdict(transaction: CommitTransaction, execution: int, row: VerdictRow) -> None:
    """Write the verdict of an execution, within the journal's transaction."""
    passed = None if row.passed is None else int(row.passed)
    about = row.skill_id, row.content, row.evaluation_id, row.case_id, row.run_id, row.at
    transaction.executemany(PUT_VERDICT, [(execution, *about, passed, to_json(row.body))])
