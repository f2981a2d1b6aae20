"""The usage of models, call by call, from the records of runs."""

from collections.abc import Iterable, Mapping

import attrs

from wfcore.domain.projections.cost import Price, cost_of
from wfcore.domain.run.records import UsageRecord


@attrs.frozen
class UsageRow:
    """The usage of one completion. `at` is in epoch milliseconds; `cost` in billionths of the unit of money, None for
    a model without a price.
    """

    at: int
    model: str | None
    skill_id: int | None
    workflow_id: int | None
    input_tokens: int
    output_tokens: int
    calls: int
    duration_ms: int
    cost: int | None


def usage_rows(
    records: Iterable[object], kind: str, resource_id: int | None, prices: Mapping[str, Price]
) -> list[UsageRow]:
    """The usage in these records, including those within frames, of an execution of this kind and resource.

    A call without a skill of its own counts for the skill that runs.
    """
    target = {kind: resource_id}
    return [_row(record, target, prices) for record in records if isinstance(record, UsageRecord)]


def _row(record: UsageRecord, target: Mapping[str, int | None], prices: Mapping[str, Price]) -> UsageRow:
    skill = target.get("skill") if record.skill_id is None else record.skill_id
    cost = cost_of(prices, record.model, record.input_tokens, record.output_tokens)
    return UsageRow(record.at, record.model, skill, target.get("workflow"), record.input_tokens, record.output_tokens,
                    record.calls, record.duration_ms, cost)  # fmt: skip
