"""The usage of models and the verdicts of evaluations, in memory."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import attrs

from wfcore.domain.projections.usage import UsageRow
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.ports.journal import Execution, ExecutionRef
from wfcore.ports.repositories.usage import GroupBy, UsageSum


@attrs.frozen
class _Call:
    """One row, and its execution."""

    execution: Execution
    row: UsageRow
    origin: str


_KEYS: Mapping[GroupBy, Callable[[_Call], int | str | None]] = {
    "model": lambda call: call.row.model,
    "skill": lambda call: call.row.skill_id,
    "workflow": lambda call: call.row.workflow_id,
    "user": lambda call: call.execution.user_id,
    "origin": lambda call: call.origin,
    "day": lambda call: datetime.fromtimestamp(call.row.at // 1000, UTC).date().isoformat(),
}


class MemoryUsage:
    """Implements the port `UsageRows` in a list."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(self, execution: Execution, rows: Iterable[UsageRow], origin: str) -> None:
        """Add the rows of an execution whose first turn has this origin."""
        self._calls += [_Call(execution, row, origin) for row in rows]

    async def sums(
        self, org: str, group_by: GroupBy, *, since: int, until: int, user_id: str | None = None
    ) -> list[UsageSum]:
        groups: dict[int | str | None, UsageSum] = {}
        for call in self._calls:
            own = call.execution.ref.org == org and user_id in (None, call.execution.user_id)
            if own and since <= call.row.at < until:
                key = _KEYS[group_by](call)
                groups[key] = _added(groups.get(key) or UsageSum(None if key is None else str(key)), call.row)
        return [groups[key] for key in sorted(groups, key=lambda key: (key is not None, key or 0))]


def _added(so_far: UsageSum, row: UsageRow) -> UsageSum:
    return UsageSum(
        so_far.key,
        so_far.calls + row.calls,
        so_far.input_tokens + row.input_tokens,
        so_far.output_tokens + row.output_tokens,
        so_far.duration_ms + row.duration_ms,
        so_far.cost if row.cost is None else (so_far.cost or 0) + row.cost,
    )


class MemoryVerdicts:
    """Implements the port `VerdictRows`; one verdict for each execution."""

    def __init__(self) -> None:
        self._verdicts: dict[ExecutionRef, VerdictRow] = {}

    def put(self, execution: Execution, row: VerdictRow) -> None:
        self._verdicts[execution.ref] = row

    def delete(self, execution: ExecutionRef) -> None:
        self._verdicts.pop(execution, None)

    async def latest(self, org: str, skill_id: int, content: str) -> list[VerdictRow]:
        found = {
            row.case_id: row
            for ref, row in sorted(self._verdicts.items(), key=lambda item: item[0].id)
            if (ref.org, row.skill_id, row.content) == (org, skill_id, content)
        }
        return [found[case_id] for case_id in sorted(found)]
