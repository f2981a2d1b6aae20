"""Calls of models under budgets: made while there is something left, else somebody is asked first whether to go on."""

from collections.abc import Mapping

from msgspec.structs import replace

from wfcore.domain.agents.budgets import budget_key, times_spent
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallModel
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.interrupts import budget_of
from wfcore.domain.run.machine.nodes import Nodes
from wfcore.domain.run.machine.visits import AgentLoop
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.records import UsageRecord


class Spending(Nodes):
    """A frame whose models may be called. Budgets of users and organizations are known to who performs the call: it
    fails with reason `budget`, and is asked about like those of the run and of the agent's visit.
    """

    __slots__ = ()

    def _spend(self, node: NodePlan, effect: CallModel, talk: AgentLoop | None = None) -> None:
        """Make this call; where the budget of the run or of this visit is spent, ask somebody first."""
        own = (self.info.get("config") or {}).get("budget")
        budgets: list[tuple[Mapping[str, JSON], Mapping[str, float]]] = [({**own, "of": "run"}, {})] if own else []
        budgets += [(talk.context.get("budget") or {}, talk.before)] if talk else []
        for budget, before in budgets:
            times = times_spent(budget, self.usage, before)
            if times >= effect.allowances.get(budget_key(budget), 1):
                self._ask_to_spend(node, effect, budget, times)
                return
        self._request(effect)

    def _ask_to_spend(self, node: NodePlan, effect: CallModel, budget: Mapping[str, JSON], times: int) -> None:
        self.drop(effect.address)
        waiting = budget_of(self._asker(node, effect.address[-1]), budget, self.length)
        self._ask(waiting, replace(effect, allowances={**effect.allowances, budget_key(budget): times + 1}))

    def _may_spend(self, node: NodePlan, effect: CallModel, decided: str) -> None:
        """Somebody has said whether to go on; if so, the rest of the visit may spend as much too."""
        if decided != "approved":
            self._fail(node, f"the budget of `{node.id}` is spent", "budget")
            return
        talk = self.talks.get(node.index)
        if talk is not None:
            talk.allowances = effect.allowances
        self._spend(node, effect, talk)

    def consume(self, index: int, usage: Mapping[str, JSON] | None) -> None:
        """Count what a call of this node's model cost, whatever came of it."""
        if not usage:
            return
        node = self.plan.nodes[index]
        for name, count in usage.items():
            if isinstance(count, int) or name == "cost":
                self.usage[name] = self.usage.get(name, 0) + count
        talk = self.talks.get(index)
        composed = {"contextDigest": talk.context["digest"]} if talk and "digest" in talk.context else {}
        self.emit(EventKind.usage, {"nodeId": node.id, "usage": usage, **composed})
        self.records.append(
            UsageRecord(
                usage.get("model"),
                node.data.get("agent_id"),
                node.id,
                usage.get("inputTokens", 0),
                usage.get("outputTokens", 0),
                usage.get("calls", 1),
                usage.get("durationMs", 0),
                self.path,
                self.at,
            )
        )
