"""The state of an execution, frame by frame, and how its nodes and turns end.

A `Frame` holds everything that folding a journal leads to. What is here changes the state and tells it as events;
what starts a node is in `nodes` and `agents`, what sets a child apart in `frames`, what an entry means in `machine`.
"""

from collections.abc import Mapping, Sequence

from wfcore.domain.expressions.expression import EvaluationBudget
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, Effect
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.flow import Flow
from wfcore.domain.run.machine.interrupts import interrupt_to_wire
from wfcore.domain.run.machine.visits import AgentLoop, Batch
from wfcore.domain.run.plan import NodePlan, Plan
from wfcore.domain.run.records import Record
from wfcore.domain.run.state import (
    NODE_MOVES,
    RUN_MOVES,
    Interrupt,
    NodeStatus,
    RunStatus,
)


class Frame:
    """One graph under way. The root's is the whole execution, with which a child's shares all but what is its `OWN`.
    What `pending`, `timers` and `interrupts` hold is that of the frame and of the frames inside it.

    `sink` collects events while it is a list; with None they are only counted. `steps` is what all expressions that one
    entry leads to may take together. `asks` tells by node and step which
    interrupts are open, `asked` names all that ever were, `held` by interrupt which effect waits for its answer. Keys
    of effects begin with `prefix`, ids of messages with `label`: unlike keys they differ when a child is opened again.
    """

    __slots__ = (
        "asked",
        "asks",
        "at",
        "batches",
        "children",
        "ended",
        "ends",
        "error",
        "flow",
        "held",
        "info",
        "interrupts",
        "items",
        "label",
        "length",
        "limits",
        "nodes",
        "output",
        "path",
        "paused",
        "pending",
        "plan",
        "prefix",
        "records",
        "root",
        "run_id",
        "scope",
        "seq",
        "sink",
        "skipped",
        "starter",
        "status",
        "statuses",
        "steps",
        "talks",
        "timers",
        "turn_began",
        "turn_open",
        "usage",
        "visited",
        "visits",
        "within",
    )  # fmt: skip

    OWN = (
        "asks", "batches", "ends", "flow", "held", "interrupts", "items", "label", "nodes", "path", "pending", "plan",
        "prefix", "scope", "statuses", "talks", "timers", "visits", "within",
    )  # fmt: skip
    """What each frame has for itself, beside its children."""

    asked: dict[str, None]
    at: int
    ended: bool
    error: dict[str, JSON] | None
    info: dict[str, JSON]
    length: int
    limits: e.Limits
    output: JSON
    paused: bool
    records: list[Record]
    root: str
    run_id: str
    seq: int
    sink: list[Event] | None
    skipped: int
    starter: e.Actor
    status: RunStatus
    steps: EvaluationBudget
    turn_began: int
    turn_open: bool
    usage: dict[str, float]
    visited: int

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.flow = Flow(plan)
        self.statuses = [NodeStatus.idle] * len(plan.nodes)
        self.visits = [0] * len(plan.nodes)
        self.nodes: dict[str, dict[str, JSON]] = {}
        self.scope: dict[str, JSON] = {}
        self.pending: dict[Address, Effect] = {}
        self.batches: dict[int, Batch] = {}
        self.talks: dict[int, AgentLoop] = {}
        self.interrupts: dict[str, Interrupt] = {}
        self.asks: dict[int, dict[int, str]] = {}
        self.held: dict[str, Effect] = {}
        self.timers: dict[Address, int] = {}
        self.ends: dict[int, None] = {}
        self.children: dict[Address, Frame] = {}
        self.within: Address = ()
        self.path: tuple[str, ...] = ()
        self.items: tuple[int | None, ...] = ()
        self.prefix = self.label = ""

    def _become(self, frame: "Frame") -> None:
        """Take over a copy of what another frame has for itself, but for its children."""
        for name in Frame.OWN:
            value = getattr(frame, name)
            setattr(self, name, value.copy() if isinstance(value, list | dict | Flow) else value)
        self.batches = {node: batch.copy() for node, batch in frame.batches.items()}
        self.talks = {node: talk.copy() for node, talk in frame.talks.items()}
        self.asks = {node: waiting.copy() for node, waiting in frame.asks.items()}
        self.scope = {**frame.scope, "nodes": self.nodes} if frame.scope else {}
        self.children = {}

    # What the frame waits for

    def _address(self, index: int, visit: int, step: int) -> Address:
        place = (index, visit, step)
        return self.within + place

    def expect(self, effect: Effect) -> None:
        self.pending[effect.address] = effect

    def drop(self, address: Address) -> None:
        self.pending.pop(address, None)

    def set_timer(self, address: Address, due: int) -> None:
        self.timers[address] = due

    def unset_timer(self, address: Address) -> None:
        self.timers.pop(address, None)

    def set_interrupt(self, interrupt: Interrupt) -> None:
        self.interrupts[interrupt.id] = interrupt

    def unset_interrupt(self, name: str) -> None:
        self.interrupts.pop(name, None)

    # The ends of nodes and of runs

    def _finish(self, node: NodePlan, output: JSON, handle: str | None = None) -> None:
        index = node.index
        self._turn_node(index, "finish")
        self.nodes[node.id] = {"output": output}
        if self.sink is None:
            self.seq += 1
        else:
            self.emit(EventKind.node_finished, {"nodeId": node.id, "output": output})
        taken, untaken = node.route(handle)
        if not taken and not self.flow.holds_taken(index):
            self.ends[index] = None
        if void := self.flow.leave(index, taken, untaken):
            self._void(void)

    def _fail(self, node: NodePlan, message: str, reason: str, *, ends_run: bool = True) -> None:
        self._forget(node.index)
        self._turn_node(node.index, "fail")
        error = self._error(node, message, reason)
        self.emit(EventKind.node_failed, {"nodeId": node.id, "error": error})
        if ends_run and not node.catches:
            self._break(error)
        else:
            self._void(self.flow.leave(node.index, *node.route("error")))

    def _void(self, members: Sequence[int]) -> None:
        """These nodes start anew with their cycle: what they were doing is given up."""
        for index in members:
            if self.statuses[index] in (NodeStatus.running, NodeStatus.waiting):
                self.emit(EventKind.node_skipped, {"nodeId": self.plan.nodes[index].id, "reason": "superseded"})
                self._forget(index)
            self._turn_node(index, "rearm")
            self.ends.pop(index, None)

    def _forget(self, index: int) -> None:
        """Drop whatever this visit of the node still waits for."""
        visit = self.visits[index]
        batch, talk = self.batches.pop(index, None), self.talks.pop(index, None)
        if talk is not None:
            self._break_off(index, talk)
        for step in range(talk.next if talk else batch.next if batch else 1):
            address = self._address(index, visit, step)
            self.drop(address)
            self.unset_timer(address)
            if address in self.children:
                self.children[address].give_up()
        for name in self.asks.pop(index, {}).values():
            self.unset_interrupt(name)
            self.held.pop(name, None)

    def _break_off(self, index: int, talk: AgentLoop) -> None:
        """An agent is given up in the middle of a round."""

    def give_up(self) -> None:
        """Drop whatever goes on in the frame and in those inside it."""
        for child in list(self.children.values()):
            child.give_up()
        for index, talk in self.talks.items():
            self._break_off(index, talk)
        self.batches, self.talks, self.asks, self.held = {}, {}, {}, {}
        self.flow.ready.clear()

    def time_out(self) -> None:
        """The frame is a child, and took longer than its opener allows."""

    def _break(self, error: dict[str, JSON]) -> None:
        """A node failed and nothing catches it."""
        self.error = error
        self._close("fail", EventKind.error, {"error": error})

    def break_bound(self, message: str, bound: str) -> None:
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
        self.emit(EventKind.done, {"status": "interrupted", "output": None, "interrupts": waiting})
        self.turn_open = False

    def _close(self, move: str, kind: EventKind, data: Mapping[str, JSON]) -> None:
        """End the execution for good. A turn that has ended already shows nothing more."""
        self._move(move)
        if self.turn_open:
            self.emit(kind, data)
        self.turn_open = False
        self.give_up()
        self.pending, self.timers, self.interrupts = {}, {}, {}

    def _move(self, move: str) -> None:
        self.status = RUN_MOVES[self.status][move]
        self.ended = self.status.ended

    def _turn_node(self, index: int, move: str) -> None:
        self.statuses[index] = NODE_MOVES[self.statuses[index]][move]

    def emit(self, kind: EventKind, data: Mapping[str, JSON]) -> None:
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
