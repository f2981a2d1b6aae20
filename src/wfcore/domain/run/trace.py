"""What each node of a run has done: its visits, attempts, inputs and outputs, read off the journal (Graph of a run).

The trace follows one graph: that of the root, or of the child at a path of nodes, of which the last opened one counts.
Inputs are the rendered parameters, which the machine keeps only while a visit lasts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.expressions.expression import Expression, ExpressionError, Scope
from wfcore.domain.expressions.templates import Template
from wfcore.domain.graph.structure import NodeType
from wfcore.domain.json.values import given
from wfcore.domain.kernel.json_readers import as_integer, as_list, as_number, as_object, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.flow import NOT_TAKEN, TAKEN
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import Batch, Frame, NodeState, find_frame
from wfcore.domain.run.plan import EdgePlan, NodePlan, Plan
from wfcore.domain.run.state import NodeStatus

Items = tuple[int | None, ...]

_ENDS: Final[Mapping[EventKind, NodeStatus]] = {EventKind.node_finished: "done", EventKind.node_failed: "error"}
_HANDLES: Final = {"approve": "approved", "deny": "denied", "expired": "expired"}


@attrs.define
class ItemTrace:
    """One item of a `forEach`, in list order."""

    index: int
    status: NodeStatus = "pending"
    attempts: int = 0
    output: JSON = None
    error: str | None = None


@attrs.define
class VisitTrace:
    """One visit of a node. Times are in epoch milliseconds. `items` is None without `forEach`.

    `carried` counts the attempts of the turns before a retry.
    """

    visit: int
    started_at: int
    finished_at: int | None = None
    attempts: int = 0
    carried: int = 0
    input: JSON = None
    output: JSON = None
    error: JSON = None
    usage: dict[str, JSON] | None = None
    items: list[ItemTrace] | None = None


@attrs.define
class NodeTrace:
    """One node: its status now, and all its visits."""

    plan: NodePlan
    status: NodeStatus = "pending"
    visits: list[VisitTrace] = attrs.field(factory=list)


@attrs.frozen
class GraphTrace:
    """One graph of a run. `taken` has the edges that are decided, by position.

    `opened` is the kind, id and variation of a child; None for the root.
    """

    nodes: Sequence[NodeTrace]
    taken: Mapping[int, bool]
    run_id: str
    seq: int
    opened: tuple[str, int, str] | None = None


def trace(machine: Machine, entries: Iterable[e.Entry], path: tuple[str, ...] = ()) -> GraphTrace | None:
    """Apply the entries to a new machine that has the plans of all children; None when nothing was opened at `path`."""
    machine.sink = []
    tracer = _Tracer(machine, path)
    for entry in entries:
        if isinstance(entry, e.Opened):
            tracer.open(entry)
        if isinstance(entry, e.Forked):
            tracer.fork()
        here = tracer.has(entry)
        machine.apply(entry)
        if isinstance(entry, e.Retried | e.Forked | e.Moved):
            tracer.move()
        tracer.record(entry if here else None, machine.take_events())
    machine.take_records()
    return tracer.result()


class _Tracer:
    def __init__(self, machine: Machine, path: tuple[str, ...]) -> None:
        self._machine = machine
        self._path = path
        self._followed = False
        self._items: Items = ()
        self._opened: tuple[str, int, str] | None = None
        self._nodes: list[NodeTrace] = []
        self._positions: dict[str, int] = {}
        self._children: dict[tuple[str, JSON], Plan] = {}
        if not path:
            self._follow((), machine.plan)

    def _follow(self, items: Items, plan: Plan) -> None:
        self._followed, self._items = True, items
        self._nodes = [NodeTrace(node) for node in plan.nodes]
        self._positions = {node.id: node.index for node in plan.nodes}

    def open(self, entry: e.Opened) -> None:
        """A child is about to be opened."""
        outer = find_frame(self._machine.state, entry.within)
        node = outer.plan.nodes[entry.node]
        item = entry.step if node.for_each is not None else None
        child = self._machine.plans[entry.kind, entry.resource_id, entry.variation_id]
        if outer.place.path == self._path and outer.place.items == self._items:
            self._children[node.id, item] = child
        if (*outer.place.path, node.id) == self._path:
            self._follow((*outer.place.items, item), child)
            self._opened = entry.kind, entry.resource_id, entry.variation_id

    def has(self, entry: e.Entry) -> bool:
        """Whether the entry, which is about to be applied, is an outcome in the graph that is followed."""
        if not self._followed or not isinstance(entry, e.Succeeded | e.Failed | e.Opened):
            return False
        place = find_frame(self._machine.state, entry.within).place
        return place.path == self._path and place.items == self._items

    def fork(self) -> None:
        """The execution begins: what is open now goes on in the source, not here."""
        for node in self._nodes:
            if node.status in ("running", "waiting"):
                node.status = "pending"

    def move(self) -> None:
        """The root is on the plan of the machine now, which can be another one: its nodes keep what they have done."""
        before = {node.plan.id: node for node in self._nodes}
        if self._path:
            return
        self._follow((), self._machine.plan)
        for node, state in zip(self._nodes, self._machine.root.nodes, strict=True):
            if known := before.get(node.plan.id):
                node.visits, node.status = known.visits, known.status
                if state is NodeState.idle:
                    node.status = "pending"

    def record(self, outcome: e.Entry | None, events: Iterable[Event]) -> None:
        """Record what an entry, which was applied, has led to; `outcome` is one in the graph that is followed."""
        for event in events:
            if "nodeId" in event.data and self._is_here(event.data):
                self._record_event(event)
            elif event.kind is EventKind.node_failed:
                self._record_failed_child(event.data)
        if isinstance(outcome, e.Succeeded | e.Failed | e.Opened):
            self._record_outcome(outcome)
        self._record_inputs()

    def _is_here(self, data: Mapping[str, JSON]) -> bool:
        path = tuple(as_list(data.get("path") or ()))
        return path == self._path and tuple(as_list(data.get("items") or (None,) * len(path))) == self._items

    def _record_event(self, event: Event) -> None:
        node = self._nodes[self._positions[as_text(event.data["nodeId"])]]
        last = node.visits[-1] if node.visits else None
        if event.kind is EventKind.node_started:
            node.status = "running"
            if last is not None and last.visit == event.data["visit"]:
                last.finished_at, last.error, last.carried = None, None, last.attempts  # a retry goes on with the visit
                return
            node.visits.append(VisitTrace(as_integer(event.data["visit"]), event.at))
        elif event.kind is EventKind.node_skipped:
            superseded = "reason" in event.data
            node.status = "pending" if superseded else "skipped"
            if superseded and last is not None:
                last.finished_at = event.at
        elif event.kind is EventKind.interrupt:
            node.status = "waiting"
        elif event.kind in _ENDS and last is not None:
            node.status, last.finished_at = _ENDS[event.kind], event.at
            last.output, last.error = event.data.get("output"), event.data.get("error")
            last.attempts = max(last.attempts, last.carried + 1)
        elif event.kind is EventKind.usage and last is not None:
            last.usage = sum_of(last.usage or {}, as_object(event.data["usage"]))

    def _record_outcome(self, entry: e.Succeeded | e.Failed | e.Opened) -> None:
        node = self._nodes[entry.node]
        found = next((one for one in node.visits if one.visit == entry.visit), None)
        if found is None or entry.step < 0:  # no call: the definition was read for an approval
            return
        found.attempts = max(found.attempts, entry.attempt)
        if found.items is None or entry.step >= len(found.items):
            return
        item = found.items[entry.step]
        item.attempts = max(item.attempts, entry.attempt)
        if isinstance(entry, e.Succeeded):
            item.status, item.output, item.error = "done", entry.output, None
        elif isinstance(entry, e.Failed):
            item.status, item.error = "error", entry.message

    def _record_failed_child(self, data: Mapping[str, JSON]) -> None:
        """A node of a child has failed: if that ends the child, the item fails for which it was opened."""
        path, items = as_list(data.get("path") or ()), as_list(data.get("items") or ())
        if not items or tuple(path[:-1]) != self._path or tuple(items[:-1]) != self._items:
            return
        visit = self._nodes[self._positions[as_text(path[-1])]].visits[-1]
        plan = self._children.get((as_text(path[-1]), items[-1]))
        if visit.items is not None and plan is not None and not _catches(plan, as_text(data["nodeId"])):
            item = visit.items[as_integer(items[-1])]
            item.status, item.error = "error", as_text(as_object(data["error"])["message"])

    def _frame(self) -> Frame | None:
        """The frame, while it is under way; None after its end."""
        frame = self._machine.root
        for depth in range(1, len(self._path) + 1):
            places = {child.place.path: child for child in frame.children.values()
                      if child.place.items == self._items[:depth]}  # fmt: skip
            found = places.get(self._path[:depth])
            if found is None:
                return None
            frame = found
        return frame if self._followed else None

    def _record_inputs(self) -> None:
        """Keep what the visits under way work on, and what their node waits for."""
        frame = self._frame()
        if frame is None:
            return
        for node in self._nodes:
            if not node.visits or node.visits[-1].visit != frame.visits[node.plan.index]:
                continue
            visit = node.visits[-1]
            if batch := frame.batches.get(node.plan.index):
                _keep_batch(visit, batch, node.status)
            if visit.input is None:
                visit.input = _input_of(node.plan, frame, visit)
            if node.status in ("running", "waiting"):
                node.status = str(frame.nodes[node.plan.index])  # type: ignore[assignment]

    def result(self) -> GraphTrace | None:
        if not self._followed:
            return None
        frame = self._frame()
        for node in self._nodes:
            if node.status in ("running", "waiting") and (self._machine.ended or frame is None):
                node.status = "cancelled"
            for visit in node.visits:
                _complete_items(node, visit)
        taken = {edge.index: value for node in self._nodes for edge, value in _decided(node, frame)}
        return GraphTrace(self._nodes, taken, self._machine.run_id, self._machine.seq, self._opened)


def _input_of(node: NodePlan, frame: Frame, visit: VisitTrace) -> JSON:
    """What the visit works on, as far as the frame still shows it."""
    if node.kind is NodeType.START:
        return frame.scope.get("input")
    for name in frame.waits.get(node.index, {}).values():
        found = frame.interrupts.get(name)
        if found is not None and node.kind is NodeType.HUMAN_APPROVAL:
            return {"message": found.message}
    within = frame.place.within
    effect = frame.pending.get((*within, node.index, visit.visit, 0))
    match effect:
        case CallTool():
            return effect.params
        case ComposeContext():
            return {"message": effect.message}
        case CallModel():
            return {"messages": list(effect.messages)} if effect.messages else None
    if node.params is not None and visit.finished_at is not None:
        try:
            return _rendered(node.params, node.for_each, frame.scope)
        except ExpressionError:
            return None
    return None


def _catches(plan: Plan, name: str) -> bool:
    """Whether this node has `error` edges."""
    return any(node.catches for node in plan.nodes if node.id == name)


def _rendered(params: Template, for_each: Expression | None, scope: Scope) -> JSON:
    """The parameters of a node that called nothing: of each item with `forEach`."""
    if for_each is None:
        return params.render(scope)
    items = for_each.evaluate(scope)
    return [params.render({**scope, "item": item}) for item in items] if isinstance(items, list) else None


def _keep_batch(visit: VisitTrace, batch: Batch, status: NodeStatus) -> None:
    """Keep the calls of an action, and the results so far."""
    if not batch.many:
        visit.input = batch.calls[0]
        return
    visit.input = list(batch.calls)
    if visit.items is None:
        visit.items = [ItemTrace(index) for index in range(len(batch.calls))]
    for item, result in zip(visit.items, batch.results, strict=True):
        if result is not None:
            item.status, item.output, item.error = "done", result, None
        elif item.index < batch.next and item.status in ("pending", "error"):
            item.status = "running" if status == "running" else "waiting"


def _complete_items(node: NodeTrace, visit: VisitTrace) -> None:
    """Give the items the end of their visit."""
    if visit.items is None and node.plan.for_each is not None and isinstance(visit.output, list):
        visit.items = [ItemTrace(index) for index in range(len(visit.output))]
    ended = visit.finished_at is not None or node.status == "cancelled"
    for item in visit.items or ():
        if isinstance(visit.output, list) and item.index < len(visit.output):
            item.status, item.output, item.error = "done", visit.output[item.index], None
            item.attempts = max(item.attempts, 1)
        elif ended and item.status in ("running", "waiting"):
            item.status = "cancelled"


def _decided(node: NodeTrace, frame: Frame | None) -> Iterable[tuple[EdgePlan, bool]]:
    """The edges of a node that has ended, and whether each was taken."""
    if node.status not in ("done", "error", "skipped"):
        return
    taken: Sequence[EdgePlan] = ()
    if node.status != "skipped" and node.visits:
        taken = node.plan.route(_handle_of(node))[0]
    for edge in node.plan.outgoing:
        held = edge.leaves >= 0 and frame is not None and frame.flow.edges.get(edge.index) not in (TAKEN, NOT_TAKEN)
        if not held:
            yield edge, edge in taken


def _handle_of(node: NodeTrace) -> str | None:
    """The handle by which the last visit was left."""
    if node.status == "error":
        return "error"
    output = node.visits[-1].output
    if node.plan.kind is NodeType.CONDITION and isinstance(output, dict):
        return str(output["handle"])
    if node.plan.kind is not NodeType.HUMAN_APPROVAL or not isinstance(output, dict):
        return None
    handle = _HANDLES.get(output["decision"])
    if handle == "expired" and not node.plan.route("expired")[0]:
        on_timeout = given(node.plan.approval.on_timeout) or "deny"
        return _HANDLES.get(on_timeout)
    return handle


def sum_of(before: Mapping[str, JSON], more: Mapping[str, JSON]) -> dict[str, JSON]:
    """Both together: numbers are added, other values are those of the later one."""
    total = {**before, **more}
    for name, value in more.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and name in before:
            total[name] = as_number(before[name]) + value
    return total
