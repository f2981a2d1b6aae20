"""Budgets: what models may consume in a visit of an agent, in a run, or for somebody in a day or a month of UTC.

On the wire a budget is `{"maxTokens", "maxCost", "of", "period"}`, one of the limits at least. One that is spent can be
extended, each time by as much again.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import attrs

from wfcore.domain.kernel.json_type import JSON

Whose = Literal["user", "organization"]
Period = Literal["day", "month"]

NOTHING: Mapping[str, float] = {}


@attrs.frozen
class Budget:
    """So many tokens, and so much cost, for each user or for each organization. None: no matter how much."""

    of: Whose
    period: Period
    tokens: int | None = None
    cost: float | None = None

    def since(self, now: int) -> int:
        """When the period that goes on at `now` began, both in epoch milliseconds."""
        midnight = datetime.fromtimestamp(now / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        began = midnight if self.period == "day" else midnight.replace(day=1)
        return int(began.timestamp() * 1000)

    def to_wire(self) -> dict[str, JSON]:
        limits = {"maxTokens": self.tokens, "maxCost": self.cost}
        kept = {name: limit for name, limit in limits.items() if limit is not None}
        return {**kept, "of": self.of, "period": self.period}


def purse(budget: Mapping[str, JSON]) -> str:
    """Which of the budgets that hold for one call it is."""
    return f"{budget.get('of', 'agent')}/{budget.get('period', '')}"


def times_spent(budget: Mapping[str, JSON], spent: Mapping[str, float], before: Mapping[str, float] = NOTHING) -> int:
    """How many times what was spent since `before` (`inputTokens`, `outputTokens`, `cost`) has used the budget up."""
    since = {name: spent.get(name, 0) - before.get(name, 0) for name in ("inputTokens", "outputTokens", "cost")}
    used = {"maxTokens": since["inputTokens"] + since["outputTokens"], "maxCost": since["cost"]}
    return max((_times(used[name], budget[name]) for name in used if name in budget), default=0)


def _times(used: float, limit: float) -> int:
    return int(used // limit) if limit > 0 else 1
