"""From a pinned variation to the plan that a run follows. Variations never change, so plans are kept by their id."""

import asyncio
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
        self._loading = asyncio.Lock()

    async def of(self, execution: Execution) -> Plan:
        """The plan of an execution's variation."""
        return await self.get(execution.ref.org, execution.resource_id or 0, execution.variation_id or "")

    async def get(self, org: str, workflow_id: int, variation_id: str) -> Plan:
        """The plan of a variation that may run. However many ask at once, it is read and compiled once."""
        key = (org, variation_id)
        plan = self._kept.get(key)
        if plan is not None:
            self._kept.move_to_end(key)
            return plan
        async with self._loading:
            if key in self._kept:
                return self._kept[key]
            async with self._storage.reading(org) as work:
                variation = await work.workflows.variation(workflow_id, variation_id)
            if variation is None:
                raise NotFound
            return self.keep(org, variation_id, variation.content)

    def keep(self, org: str, variation_id: str, content: Mapping[str, JSON]) -> Plan:
        """Compile the content of a variation, unless its plan is there."""
        key = (org, variation_id)
        plan = self._kept.get(key)
        if plan is None:
            plan = self._kept[key] = compile_plan(structure_of(content))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return plan
