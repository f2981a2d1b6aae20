"""From a pinned variation to the plan that a run follows. Variations never change, so plans are kept by their id."""

from collections import OrderedDict
from collections.abc import Mapping

from wfcore.domain.errors import JSON, NotFound
from wfcore.domain.graph import compile_agent_selection
from wfcore.domain.run.plan import Plan, compile_plan
from wfcore.ports.journal import Execution
from wfcore.ports.storage import Storage

KEPT = 256
"""Plans kept in memory by one process, those used last."""


def structure_of(content: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The graph of a workflow's content; an `agentSelection` alone stands for the graph it compiles to."""
    selection = content.get("agentSelection")
    if selection and not (content.get("workflowStructure") or {}).get("nodes"):
        return compile_agent_selection(selection)
    return content.get("workflowStructure") or {"nodes": [], "edges": []}


class Plans:
    """The plans of one process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[tuple[str, str], Plan] = OrderedDict()

    async def of(self, execution: Execution) -> Plan:
        """The plan of an execution's variation."""
        variation_id = execution.variation_id or ""
        found = self._kept.get((execution.ref.org, variation_id))
        if found is not None:
            self._kept.move_to_end((execution.ref.org, variation_id))
            return found
        async with self._storage.reading(execution.ref.org) as work:
            variation = await work.workflows.variation(execution.resource_id or 0, variation_id)
        if variation is None:
            raise NotFound
        return self.keep(execution.ref.org, variation_id, variation.content)

    def kept(self, org: str, variation_id: str) -> Plan | None:
        """The plan of a variation, if it is there."""
        return self._kept.get((org, variation_id))

    def keep(self, org: str, variation_id: str, content: Mapping[str, JSON]) -> Plan:
        """Compile the content of a variation, unless its plan is there."""
        key = (org, variation_id)
        plan = self._kept.get(key)
        if plan is None:
            plan = self._kept[key] = compile_plan(structure_of(content))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return plan
