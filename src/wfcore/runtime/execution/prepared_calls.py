"""Calls with constant arguments, prepared once for all runs of a plan."""

from collections.abc import Callable, Collection
from weakref import ref

from wfcore.domain.run.machine.entries.straight import params_of
from wfcore.domain.run.plan import Plan
from wfcore.runtime.tools.calls import Begin, PlainCall

PlainCalls = Callable[[str], PlainCall | None]
"""By id of a tool: what calls it, if it needs nothing but its arguments."""


class PreparedCalls(dict[int, Begin | None]):
    """By position of a node of one plan, an action with constant arguments: what begins its call, if that needs nothing
    but the arguments and no announcement. Else None, and it is looked up again the next time.
    """

    def __init__(self, plan: "ref[Plan]", plain_call: PlainCalls, harmless: Collection[str]) -> None:
        self._plan = plan
        self._plain_call = plain_call
        self._harmless = harmless

    def __missing__(self, index: int) -> Begin | None:
        plan = self._plan()
        if plan is None:
            return None
        node = plan.nodes[index]
        if node.timeout is not None or node.tool not in self._harmless:
            return None
        call = self._plain_call(node.tool)
        if call is None:
            return None
        begin = self[index] = call.prepared(params_of(node).value)
        return begin


class PreparedPlans:
    """The prepared calls of the plans that are run here, as long as there are these plans."""

    def __init__(self, plain_call: PlainCalls) -> None:
        self._plain_call = plain_call
        self._kept: dict[int, PreparedCalls] = {}
        """By the identity of the plan."""

    def of(self, plan: Plan, harmless: Collection[str]) -> PreparedCalls:
        """The calls of a plan; `harmless` are the tools that need no announcement, as far as they are known."""
        key = id(plan)
        kept = self._kept.get(key)
        if kept is None:
            weak = ref(plan, lambda _: self._kept.pop(key, None))
            kept = self._kept[key] = PreparedCalls(weak, self._plain_call, harmless)
        return kept
