"""The usage of models, in a list."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import attrs

from wfcore.domain.agents.prices import Price, cost_of
from wfcore.domain.run.records import UsageRecord
from wfcore.ports.journal import Execution
from wfcore.ports.usage import GroupBy, UsageSum


@attrs.frozen
class _Call:
    """The usage of one record, and its execution."""

    execution: Execution
    record: UsageRecord
    cost: int | None

    def skill(self) -> int | None:
        own = self.record.skill_id
        return own if own is not None else self._target("skill")

    def workflow(self) -> int | None:
        return self._target("workflow")

    def _target(self, kind: str) -> int | None:
        return self.execution.resource_id if self.execution.kind == kind else None


_KEYS: Mapping[GroupBy, Callable[[_Call], int | str | None]] = {
    "model": lambda call: call.record.model,
    "skill": _Call.skill,
    "workflow": _Call.workflow,
    "user": lambda call: call.execution.user_id,
    "day": lambda call: datetime.fromtimestamp(call.record.at // 1000, UTC).date().isoformat(),
}


class MemoryUsage:
    """Implements the port `UsageRows` in a list."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._calls: list[_Call] = []

    def add(self, execution: Execution, records: Iterable[UsageRecord]) -> None:
        for record in records:
            cost = cost_of(self._prices, record.model, record.input_tokens, record.output_tokens)
            self._calls.append(_Call(execution, record, cost))

    async def sums(
        self, org: str, group_by: GroupBy, *, since: int, until: int, user_id: str | None = None
    ) -> list[UsageSum]:
        groups: dict[int | str | None, UsageSum] = {}
        for call in self._calls:
            own = call.execution.ref.org == org and user_id in (None, call.execution.user_id)
            if own and since <= call.record.at < until:
                key = _KEYS[group_by](call)
                groups[key] = _added(groups.get(key) or UsageSum(None if key is None else str(key)), call)
        return [groups[key] for key in sorted(groups, key=lambda key: (key is not None, key or 0))]


def _added(so_far: UsageSum, call: _Call) -> UsageSum:
    record = call.record
    return UsageSum(
        so_far.key,
        so_far.calls + record.calls,
        so_far.input_tokens + record.input_tokens,
        so_far.output_tokens + record.output_tokens,
        so_far.duration_ms + record.duration_ms,
        so_far.cost if call.cost is None else (so_far.cost or 0) + call.cost,
    )
