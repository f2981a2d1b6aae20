"""Budgets: bounds of the tokens and the cost of models.

A budget bounds a visit of an agent node, a run, or each user or organization in a day or a month (UTC). On the wire it
is `{"maxTokens", "maxCost", "of", "period"}`, with at least one of the limits. A budget that is used up can be
extended, each time by the same amount.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal

import attrs

from wfcore.domain.kernel.json_readers import as_number
from wfcore.domain.kernel.json_type import JSON

BILLION: Final = 10**9

Whose = Literal["user", "organization"]
Period = Literal["day", "month"]


@attrs.frozen
class Budget:
    """The most tokens and the highest cost for each user or for each organization; None means no limit."""

    of: Whose
    period: Period
    tokens: int | None = None
    cost: float | None = None

    def since(self, now: int) -> int:
        """The start of the period that contains `now`, both in epoch milliseconds."""
        midnight = datetime.fromtimestamp(now / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        began = midnight if self.period == "day" else midnight.replace(day=1)
        return int(began.timestamp() * 1000)

    def to_wire(self) -> dict[str, JSON]:
        limits = {"maxTokens": self.tokens, "maxCost": self.cost}
        kept = {name: limit for name, limit in limits.items() if limit is not None}
        return {**kept, "of": self.of, "period": self.period}


def budget_key(budget: Mapping[str, JSON], since: int | None = None) -> str:
    """The key of a budget, unique among the budgets of one call.

    `since`: the start of the period in which it is spent, in epoch milliseconds, so that each period has its own key.
    """
    began = "" if since is None else f"/{since}"
    return f"{budget.get('of', 'agent')}/{budget.get('period', '')}{began}"


def times_spent(budget: Mapping[str, JSON], spent: Mapping[str, float]) -> int:
    """How many times a consumption (`inputTokens`, `outputTokens`, `cost`) has used up the budget."""
    used = {"maxTokens": spent.get("inputTokens", 0) + spent.get("outputTokens", 0), "maxCost": spent.get("cost", 0)}
    return max((_times(used[name], as_number(budget[name])) for name in used if name in budget), default=0)


def _times(used: float, limit: float) -> int:
    """Counted in whole billionths, as costs are stored: sums of floats are slightly too high or too low."""
    return round(used * BILLION) // max(round(limit * BILLION), 1) if limit > 0 else 1
