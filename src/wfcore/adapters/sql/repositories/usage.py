"""The usage of models, in a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wfcore.adapters.sql.schema.named_tables import executions, organizations, runs, usage
from wfcore.adapters.sql.schema.statement import Dialect, Statement
from wfcore.adapters.sql.store import CommitTransaction, Store
from wfcore.domain.projections.usage import UsageRow
from wfcore.ports.repositories.usage import GroupBy, UsageSum

ADD_USAGE: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[usage]}
    (org, at, model, skill_id, workflow_id, user_id, input_tokens, output_tokens, calls, duration_ms, cost,
     origin)
SELECT org, {d[2]}, {d[3]}, {d[4]}, {d[5]}, user_id, {d[6]}, {d[7]}, {d[8]}, {d[9]}, {d[10]},
    coalesce(nullif((SELECT origin FROM {d[runs]} WHERE execution = {d[1]} ORDER BY key LIMIT 1), ''), 'api')
FROM {d[executions]} WHERE id = {d[1]}"""
    )
)

_KEYS: Final[Mapping[GroupBy, Callable[[Dialect], str]]] = {
    "model": lambda _: "model",
    "skill": lambda _: "skill_id",
    "workflow": lambda _: "workflow_id",
    "user": lambda _: "user_id",
    "day": lambda d: d.day("at / 1000"),
    "origin": lambda _: "origin",
}

_COUNTED: Final = ", ".join(
    f"CAST(sum({name}) AS bigint)" for name in ("calls", "input_tokens", "output_tokens", "duration_ms", "cost")
)


def _sums(group_by: GroupBy, *, of_user: bool) -> Statement:
    return Statement(
        lambda d: (
            f"""
SELECT {_KEYS[group_by](d)}, {_COUNTED}
FROM {d[usage]}
WHERE org = (SELECT key FROM {d[organizations]} WHERE uuid = {d["org"]}) AND at >= {d["since"]} AND at < {d["until"]}
{f"AND user_id = {d['user']}" if of_user else ""}
GROUP BY 1 ORDER BY 1 NULLS FIRST"""
        )
    )


SUMS: Final = {(group_by, of_user): _sums(group_by, of_user=of_user) for group_by in _KEYS for of_user in (False, True)}
"""The statements for `sums`, by the key and by whether they are of one user: one scan of an index by time."""


class SqlUsage:
    """Implements the port `UsageRows` on an open database."""

    def __init__(self, database: Store) -> None:
        self._database = database

    async def sums(
        self, org: str, group_by: GroupBy, *, since: int, until: int, user_id: str | None = None
    ) -> list[UsageSum]:
        values = {"org": org, "since": since, "until": until} | ({} if user_id is None else {"user": user_id})
        statement = SUMS[group_by, user_id is not None]
        async with self._database.reading() as connection:
            rows = await connection.scan(statement, values)
        return [UsageSum(None if key is None else str(key), *counted) for key, *counted in rows]


def add_usage(transaction: CommitTransaction, execution: int, rows: Sequence[UsageRow]) -> None:
    """Add rows of an execution, within the journal's transaction."""
    transaction.executemany(ADD_USAGE, [_values(execution, row) for row in rows])


def _values(execution: int, row: UsageRow) -> tuple[Any, ...]:
    spent = (row.input_tokens, row.output_tokens, row.calls, row.duration_ms, row.cost)
    return (execution, row.at, row.model, row.skill_id, row.workflow_id, *spent)
