"""Budgets of users and organizations: looked at before each call of a model, in what the journal says was consumed."""

from typing import Final

from wfcore.domain.agents.budgets import Budget, purse, times_spent
from wfcore.domain.agents.prices import to_money
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallModel
from wfcore.ports.journal import Execution
from wfcore.ports.providers import ModelError
from wfcore.runtime.common.ports import Ports

DAY: Final = 86_400_000


class BudgetSpent(ModelError):
    """The call would go beyond a budget: the run asks whether to go on. `info` tells which, and how often it is
    spent.
    """

    def __init__(self, budget: Budget, times: int) -> None:
        super().__init__(f"the budget of the {budget.of} is spent", retryable=False, reason="budget")
        self.info: dict[str, JSON] = {"budget": budget.to_wire(), "times": times}


class Budgets:
    """The budgets that the operator has set. Calls under way at the same time do not know of each other."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def check(self, execution: Execution, effect: CallModel) -> None:
        """`BudgetSpent` for one that is spent as often as it may be."""
        for budget in self._ports.settings.budgets:
            wire = budget.to_wire()
            times = times_spent(wire, await self._spent(execution, budget))
            if times >= effect.allowances.get(purse(wire), 1):
                raise BudgetSpent(budget, times)

    async def _spent(self, execution: Execution, budget: Budget) -> dict[str, float]:
        """In the period that goes on, by the user who started the execution or by everybody."""
        now, user = self._ports.clock.now(), execution.user_id if budget.of == "user" else None
        since, until = budget.since(now), now + DAY
        sums = await self._ports.journal.usage.sums(execution.ref.org, "model", since=since, until=until, user_id=user)
        return {
            "inputTokens": sum(one.input_tokens for one in sums),
            "outputTokens": sum(one.output_tokens for one in sums),
            "cost": to_money(sum(one.cost or 0 for one in sums)) or 0.0,
        }
