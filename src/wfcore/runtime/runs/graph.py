"""The graph of a run: what each node has done up to now (interface, Graph of a run)."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

import attrs

from wfcore.domain.graph.structure import NodeType, structure_of
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.trace import GraphTrace, ItemTrace, NodeTrace, VisitTrace, trace
from wfcore.ports.journal import Execution
from wfcore.ports.storage import Storage
from wfcore.runtime.common.run_views import cut
from wfcore.runtime.execution.plans import Plans

CUT: Final = 16_384
"""The most bytes of JSON of one value in a graph; of a larger one the graph has the beginning and an address."""


def path_text(path: Sequence[str]) -> str:
    """The node ids as one text, for `path_of`."""
    return ",".join(one.replace("%", "%25").replace(",", "%2C") for one in path)


def path_of(text: str) -> tuple[str, ...]:
    """The node ids of a text that separates them by commas. `%2C` is a comma of an id, `%25` a percent sign."""
    return tuple(one.replace("%2C", ",").replace("%25", "%") for one in text.split(",")) if text else ()


@attrs.frozen
class RunGraph:
    """The graph of one run, or of its child at `path`. `base` is the address of the run."""

    traced: GraphTrace
    path: tuple[str, ...]
    edge_ids: tuple[str, ...]
    base: str

    def to_wire(self) -> dict[str, JSON]:
        return {
            "runId": self.traced.run_id,
            "asOf": self.traced.seq,
            "nodes": [self._node(node) for node in self.traced.nodes],
            "edges": [{"id": name, "taken": self.traced.taken.get(index)} for index, name in enumerate(self.edge_ids)],
            "path": list(self.path),
        }

    def value(self, node_id: str, visit: int, field: str, item: int | None) -> JSON:
        """One whole value. NotFound when there is none."""
        for node in self.traced.nodes:
            for one in node.visits if node.plan.id == node_id else ():
                if one.visit == visit:
                    chosen = one if item is None else next((i for i in one.items or () if i.index == item), None)
                    if chosen is not None and (item is None or field in ("output", "error")):
                        value: JSON = getattr(chosen, field)
                        return value
        raise NotFound

    def _node(self, node: NodeTrace) -> dict[str, JSON]:
        items = node.visits[-1].items if node.visits else None
        return {
            "id": node.plan.id,
            "type": str(node.plan.kind),
            "status": node.status,
            "visits": [self._visit(node.plan.id, visit) for visit in node.visits],
            "items": None if items is None else [self._item(node, item) for item in items],
        }

    def _visit(self, node_id: str, visit: VisitTrace) -> dict[str, JSON]:
        place: dict[str, JSON] = {"nodeId": node_id, "visit": visit.visit}
        return {
            "visit": visit.visit,
            "attempts": visit.attempts,
            "input": self._cut(visit.input, {**place, "field": "input"}),
            "output": self._cut(visit.output, {**place, "field": "output"}),
            "error": visit.error,
            "startedAt": iso_ms(visit.started_at),
            "finishedAt": None if visit.finished_at is None else iso_ms(visit.finished_at),
            "usage": visit.usage,
        }

    def _item(self, node: NodeTrace, item: ItemTrace) -> dict[str, JSON]:
        visit = node.visits[-1].visit
        output = self._cut(item.output, {"nodeId": node.plan.id, "visit": visit, "field": "output", "item": item.index})
        return {
            "index": item.index, "status": item.status, "attempts": item.attempts, "output": output,
            "error": item.error,
        }  # fmt: skip

    def _cut(self, value: JSON, place: Mapping[str, JSON]) -> JSON:
        """The value, or the beginning of a large one."""
        query = urlencode({**place, **({"path": path_text(self.path)} if self.path else {})}, quote_via=quote)
        return cut(value, CUT, f"{self.base}/graph/value?{query}")


async def graph_of(
    storage: Storage, plans: Plans, execution: Execution, entries: Sequence[Entry], path: tuple[str, ...], base: str
) -> RunGraph:
    """The graph of an execution, or of the child at `path`. NotFound when no child was opened there."""
    org = execution.ref.org
    machine = Machine(await plans.of(execution, entries))
    await plans.load(org, entries, machine)
    traced = trace(machine, entries, path)
    if traced is None:
        raise NotFound
    started = execution.kind, execution.resource_id, execution.variation_id
    kind, number, variation_id = traced.opened or machine.pinned or started
    if kind != "workflow" or number is None or variation_id is None:
        return RunGraph(_without_start(traced), path, (), base)
    async with storage.reading(org) as work:
        variation = await work.workflows.variation(number, variation_id)
    edges = as_objects(structure_of(variation.workflow).get("edges") or ()) if variation else ()
    return RunGraph(traced, path, tuple(as_text(edge["id"]) for edge in edges), base)


def _without_start(traced: GraphTrace) -> GraphTrace:
    """The one node of a skill, of the assistant or of a single action."""
    return attrs.evolve(traced, nodes=[node for node in traced.nodes if node.plan.kind is not NodeType.START])
