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
    """The call would exceed a budget: the run opens an interrupt.

    `info` has the budget, how often it is spent, and since when: the start of the period in epoch milliseconds.
    """

    def __init__(self, budget: Budget, times: int, since: int) -> None:
        super().__init__(f"the budget of the {budget.of} is spent", retryable=False, reason="budget")
        self.info: dict[str, JSON] = {"budget": budget.to_wire(), "times": times, "since": since}


class Budgets:
    """The operator's budgets. Concurrent calls do not count each other's usage."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def check(self, execution: Execution, effect: CallModel) -> None:
        """`BudgetSpent` for a budget that is spent as often as the run allows."""
        for budget in self._ports.settings.budgets:
            now = self._ports.clock.now()
            wire, since = budget.to_wire(), budget.since(now)
            times = times_spent(wire, await self._spent(execution, budget, since, now + DAY))
            if times >= effect.allowances.get(budget_key(wire, since), 1):
                raise BudgetSpent(budget, times, since)

    async def _spent(self, execution: Execution, budget: Budget, since: int, until: int) -> dict[str, float]:
        """The usage in a period of the user who started the execution, or of the whole organization."""
        user = execution.user_id if budget.of == "user" else None
        sums = await self._ports.journal.usage.sums(execution.ref.org, "model", since=since, until=until, user_id=user)
        return {
            "inputTokens": sum(one.input_tokens for one in sums),
            "outputTokens": sum(one.output_tokens for one in sums),
            "cost": to_money(sum(one.cost or 0 for one in sums)) or 0.0,
        }
