"""The usage of models, in a table."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wfcore.adapters.sql.store import CommitTransaction, Store
from wfcore.domain.projections.usage import UsageRow
from wfcore.ports.repositories.usage import GroupBy, UsageSum

ADD_USAGE: Final = """
INSERT INTO wfcore_usage
    (org, at, model, skill_id, workflow_id, user_id, input_tokens, output_tokens, calls, duration_ms, cost)
SELECT org, ?2, ?3, ?4, ?5, user_id, ?6, ?7, ?8, ?9, ?10
FROM wfcore_executions WHERE id = ?1"""

_KEYS: Final[Mapping[GroupBy, str]] = {
    "model": "model",
    "skill": "skill_id",
    "workflow": "workflow_id",
    "user": "user_id",
    "day": "date(at / 1000, 'unixepoch')",
}

_COUNTED: Final = ", ".join(
    f"CAST(sum({name}) AS bigint)" for name in ("calls", "input_tokens", "output_tokens", "duration_ms", "cost")
)

_SUMS: Final = """
SELECT {key}, {sums}
FROM wfcore_usage
WHERE org = (SELECT key FROM wfcore_organizations WHERE uuid = :org) AND at >= :since AND at < :until {narrowed}
GROUP BY 1 ORDER BY 1 NULLS FIRST"""


class SqlUsage:
    """Implements the port `UsageRows` on an open database."""

    def __init__(self, database: Store) -> None:
        self._database = database

    async def sums(
        self, org: str, group_by: GroupBy, *, since: int, until: int, user_id: str | None = None
    ) -> list[UsageSum]:
        values = {"org": org, "since": since, "until": until} | ({} if user_id is None else {"user": user_id})
        statement = sums_statement(group_by, of_user=user_id is not None)
        async with self._database.reading() as connection:
            rows = await connection.scan(statement, values)
        return [UsageSum(None if key is None else str(key), *counted) for key, *counted in rows]


def sums_statement(group_by: GroupBy, *, of_user: bool) -> str:
    """The statement for `sums`: one scan of an index by time, of the user if `of_user`."""
    return _SUMS.format(key=_KEYS[group_by], sums=_COUNTED, narrowed="AND user_id = :user" if of_user else "")


def add_usage(transaction: CommitTransaction, execution: int, rows: Sequence[UsageRow]) -> None:
    """Add rows of an execution, within the journal's transaction."""
    transaction.executemany(ADD_USAGE, [_values(execution, row) for row in rows])


def _values(execution: int, row: UsageRow) -> tuple[Any, ...]:
    spent = (row.input_tokens, row.output_tokens, row.calls, row.duration_ms, row.cost)
    return (execution, row.at, row.model, row.skill_id, row.workflow_id, *spent)
