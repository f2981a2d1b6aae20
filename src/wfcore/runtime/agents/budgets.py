"""Budgets of users and organizations: compared with the recorded usage before each model call."""

from typing import Final

from wfcore.domain.agents.budgets import Budget, budget_key, times_spent
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.cost import to_money
from wfcore.domain.run.effects import CallModel
from wfcore.ports.journal import Execution
from wfcore.ports.providers import ModelError
from wfcore.runtime.common.ports import Ports

DAY: Final = 86_400_000


class BudgetSpent(ModelError):
    """The call would exceed a budget: the run opens an interrupt. `info` has the budget and how often it is spent."""

    def __init__(self, budget: Budget, times: int) -> None:
        super().__init__(f"the budget of the {budget.of} is spent", retryable=False, reason="budget")
        self.info: dict[str, JSON] = {"budget": budget.to_wire(), "times": times}


class Budgets:
    """The operator's budgets. Concurrent calls do not count each other's usage."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def check(self, execution: Execution, effect: CallModel) -> None:
        """`BudgetSpent` for a budget that is spent as often as the run allows."""
        for budget in self._ports.settings.budgets:
            wire = budget.to_wire()
            times = times_spent(wire, await self._spent(execution, budget))
            if times >= effect.allowances.get(budget_key(wire), 1):
                raise BudgetSpent(budget, times)

    async def _spent(self, execution: Execution, budget: Budget) -> dict[str, float]:
        """The usage in the current period of the user who started the execution, or of the whole organization."""
        now, user = self._ports.clock.now(), execution.user_id if budget.of == "user" else None
        since, until = budget.since(now), now + DAY
        sums = await self._ports.journal.usage.sums(execution.ref.org, "model", since=since, until=until, user_id=user)
        return {
            "inputTokens": sum(one.input_tokens for one in sums),
            "outputTokens": sum(one.output_tokens for one in sums),
            "cost": to_money(sum(one.cost or 0 for one in sums)) or 0.0,
        }
