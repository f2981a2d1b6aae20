"""The state of an execution, and how its nodes and turns end.

`Execution` holds everything that folding a journal leads to. What is here changes the state and tells it as events;
what starts a node is in `nodes`, what an entry means is in `machine`.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from wfcore.domain.errors import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, Effect
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.flow import Flow
from wfcore.domain.run.interrupts import (
    interrupt_id,
    interrupt_to_wire,
)
from wfcore.domain.run.plan import NodePlan, Plan
from wfcore.domain.run.state import (
    NODE_MOVES,
    RUN_MOVES,
    Interrupt,
    NodeStatus,
    RunStatus,
)


class Batch:
    """The calls of one action visit (several with `forEach`) and what came of them."""

    __slots__ = ("calls", "live", "many", "next", "results")

    def __init__(self, calls: list[JSON], many: bool) -> None:
        self.calls = calls
        self.many = many
        self.next = 0
        self.live = 0
        self.results: list[JSON] = [None] * len(calls)

    def copy(self) -> "Batch":
        twin = Batch(self.calls, self.many)
        twin.next, twin.live, twin.results = self.next, self.live, self.results.copy()
        return twin


class Execution:
    """One execution in memory. `sink` collects events while it is a list; with None they are only counted."""

    __slots__ = (
        "at",
        "batches",
        "ended",
        "ends",
        "error",
        "flow",
        "info",
        "interrupts",
        "length",
        "limits",
        "nodes",
        "output",
        "paused",
        "pending",
        "plan",
        "root",
        "run_id",
        "scope",
        "seq",
        "sink",
        "skipped",
        "starter",
        "status",
        "statuses",
        "timers",
        "turn_began",
        "turn_open",
        "usage",
        "visited",
        "visits",
    )  # fmt: skip

    def __init__(self, plan: Plan, sink: list[Event] | None = None) -> None:
        self.plan = plan
        self.sink = sink
        self.flow = Flow(plan)
        self.statuses = [NodeStatus.idle] * len(plan.nodes)
        self.visits = [0] * len(plan.nodes)
        self.visited = self.skipped = 0
        self.nodes: dict[str, dict[str, JSON]] = {}
        self.scope: dict[str, JSON] = {}
        self.info: dict[str, JSON] = {}
        self.pending: dict[Address, Effect] = {}
        self.batches: dict[int, Batch] = {}
        self.interrupts: dict[str, Interrupt] = {}
        self.timers: dict[Address, int] = {}
        self.ends: dict[int, None] = {}
        self.status = RunStatus.queued
        self.ended = False
        self.turn_open = False
        self.paused = False
        self.length = self.seq = self.at = self.turn_began = 0
        self.root = self.run_id = ""
        self.limits = e.Limits()
        self.starter = e.Actor("")
        self.output: JSON = None
        self.error: dict[str, JSON] | None = None
        self.usage: dict[str, int] = {}

    def copy(self) -> Self:
        """An independent twin without the events."""
        twin = object.__new__(type(self))
        for name in Execution.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, list | dict | Flow) else value)
        twin.sink = None
        twin.batches = {node: batch.copy() for node, batch in self.batches.items()}
        twin.scope = {**self.scope, "nodes": twin.nodes} if self.scope else {}
        return twin

    # The ends of nodes and of runs

    def _finish(self, node: NodePlan, output: JSON, handle: str | None = None) -> None:
        self._turn_node(node.index, "finish")
        self.nodes[node.id] = {"output": output}
        if self.sink is None:
            self.seq += 1
        else:
            self._emit(EventKind.node_finished, {"nodeId": node.id, "output": output})
        taken, untaken = node.route(handle)
        if not taken and not self.flow.holds_taken(node.index):
            self.ends[node.index] = None
        if void := self.flow.leave(node.index, taken, untaken):
            self._void(void)

    def _fail(self, node: NodePlan, message: str, reason: str, *, ends_run: bool = True) -> None:
        self._forget(node.index)
        self._turn_node(node.index, "fail")
        error = self._error(node, message, reason)
        self._emit(EventKind.node_failed, {"nodeId": node.id, "error": error})
        if ends_run and not node.catches:
            self.error = error
            self._close("fail", EventKind.error, {"error": error})
        else:
            self._void(self.flow.leave(node.index, *node.route("error")))

    def _void(self, members: Sequence[int]) -> None:
        """These nodes start anew with their cycle: what they were doing is given up."""
        for index in members:
            if self.statuses[index] in (NodeStatus.running, NodeStatus.waiting):
                self._emit(EventKind.node_skipped, {"nodeId": self.plan.nodes[index].id, "reason": "superseded"})
                self._forget(index)
            self._turn_node(index, "rearm")
            self.ends.pop(index, None)

    def _forget(self, index: int) -> None:
        """Drop whatever this visit of the node still waits for."""
        visit = self.visits[index]
        batch = self.batches.pop(index, None)
        for step in range(batch.next if batch else 1):
            self.pending.pop((index, visit, step), None)
            self.timers.pop((index, visit, step), None)
        if self.statuses[index] is NodeStatus.waiting:
            self.interrupts.pop(interrupt_id(self.root, self.plan.nodes[index].id, visit), None)

    def _break_bound(self, message: str, bound: str) -> None:
        self._end_in_error(message, {"reason": "bound", "bound": bound})

    def _end_in_error(self, message: str, info: Mapping[str, JSON]) -> None:
        self.error = _envelope(message, self.run_id, info)
        self._close("fail", EventKind.error, {"error": self.error})

    def _error(self, node: NodePlan, message: str, reason: str) -> dict[str, JSON]:
        return _envelope(message, self.run_id, {"nodeId": node.id, "reason": reason})

    def _collect(self) -> JSON:
        """The output: that of the nodes that ran and led nowhere; one alone, or several by node id."""
        nodes = self.plan.nodes
        if len(self.ends) == 1:
            return self.nodes[nodes[next(iter(self.ends))].id]["output"]
        return {nodes[index].id: self.nodes[nodes[index].id]["output"] for index in sorted(self.ends)} or None

    def _park(self) -> None:
        """End the open turn as interrupted."""
        waiting = [interrupt_to_wire(interrupt) for interrupt in self.interrupts.values()]
        self._emit(EventKind.done, {"status": "interrupted", "output": None, "interrupts": waiting})
        self.turn_open = False

    def _close(self, move: str, kind: EventKind, data: Mapping[str, JSON]) -> None:
        """End the execution for good. A turn that has ended already shows nothing more."""
        self._move(move)
        if self.turn_open:
            self._emit(kind, data)
        self.turn_open = False
        self.pending, self.timers, self.interrupts, self.batches = {}, {}, {}, {}
        self.flow.ready.clear()

    def _move(self, move: str) -> None:
        self.status = RUN_MOVES[self.status][move]
        self.ended = self.status.ended

    def _turn_node(self, index: int, move: str) -> None:
        self.statuses[index] = NODE_MOVES[self.statuses[index]][move]

    def _emit(self, kind: EventKind, data: Mapping[str, JSON]) -> None:
        self.seq += 1
        if self.sink is not None:
            self.sink.append(Event(kind, self.run_id, self.seq, self.at, data))


def _envelope(message: str, request_id: str, info: Mapping[str, JSON]) -> dict[str, JSON]:
    """What stands inside the error envelope; a run's errors carry the run id as their request id."""
    return {
        "code": "INTERNAL_ERROR",
        "status": "INTERNAL",
        "message": message,
        "requestId": request_id,
        "info": dict(info),
    }
