"""The data of an execution: one `RunState`, its tree of `Frame`s, and what a visit of a node keeps.

Nothing here decides anything: the parts (`turns`, `nodes`, `attempts`, `interrupts`, `approvals`, `actions`, `rounds`,
`agent_loop`, `budget`, `children`) change these values in place. They have one owner, the `Machine`.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Optional

from msgspec import Struct, field

from wfcore.domain.expressions.expression import EvaluationBudget
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address, CallSlot, ComposeContext, Effect, OpenChild
from wfcore.domain.run.entries import Actor, Limits, Opened, Pinned
from wfcore.domain.run.events import Event
from wfcore.domain.run.flow import GraphFlow
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.records import Record
from wfcore.domain.run.state import Interrupt

Plans = Mapping[tuple[str, int, str], Plan]
"""The plans of children, by kind, id and variation of what was opened."""

NO_PLANS: Plans = {}

Message = Mapping[str, JSON]
"""One message (interface, Message)."""


class Phase(StrEnum):
    """Where an execution stands: its turn is `running` or `pausing`, it is parked (`interrupted` by waits for people,
    `paused` by hand), or it has ended. `turns` has the table.
    """

    queued = "queued"
    running = "running"
    pausing = "pausing"
    interrupted = "interrupted"
    paused = "paused"
    done = "done"
    error = "error"
    cancelled = "cancelled"


class NodeState(StrEnum):
    """Where a node stands in its current visit; `nodes` has the table."""

    idle = "idle"
    running = "running"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    skipped = "skipped"


class InterruptState(StrEnum):
    """Where an interrupt stands: open as an `approval` or a `connect`, or closed; `interrupts` has the table."""

    approval = "approval"
    connect = "connect"
    approved = "approved"
    denied = "denied"
    connected = "connected"
    cancelled = "cancelled"
    expired = "expired"
    withdrawn = "withdrawn"


class RoundState(StrEnum):
    """Where the visit of an agent with a context stands; `rounds` has the table.

    `composing` its context, `ready` for the next call of its model, `model`: that call is under way, `tools`: the calls
    that the model requested are.
    """

    composing = "composing"
    ready = "ready"
    model = "model"
    tools = "tools"
    answered = "answered"
    given_up = "given_up"


class Batch:
    """The calls of one action visit (several with `forEach`, one for each of `items`) and their results.

    `live` of them are under way; of several, `done` have a result. `definition` is the digest of the tool's definition
    for which they are approved, if their approval binds one, and `tool_name` the name of that tool. `slots` has what
    each call needs while it is in progress; it is empty if they need nothing.
    """

    __slots__ = ("calls", "definition", "done", "items", "live", "many", "next", "results", "slots", "tool_name")

    def __init__(self, calls: list[JSON], many: bool, items: list[JSON] | None = None) -> None:
        self.calls = calls
        self.items = items or []
        self.many = many
        self.done: set[int] = set()
        self.definition = self.tool_name = ""
        self.next = 0
        self.live = 0
        self.results: list[JSON] = [None] * len(calls)
        self.slots: list[CallSlot] = []

    def copy(self) -> "Batch":
        """An independent copy."""
        twin = Batch(self.calls, self.many, self.items)
        twin.done = self.done.copy()
        twin.definition, twin.tool_name = self.definition, self.tool_name
        twin.next, twin.live, twin.results, twin.slots = self.next, self.live, self.results.copy(), self.slots
        return twin


class AgentLoop:
    """One visit of an agent that has a context: the conversation since, and the round under way.

    `next` is the next step of the visit. Of the calls of the round, by step, `open` holds those without a result and
    `todo` those not yet requested. `unread` holds what the user has said meanwhile, for the next round. `before` is
    what the execution had spent when the context was composed, `allowances` how many times each budget can be spent.
    `request` is the request of the context.
    """

    __slots__ = (
        "allowances", "before", "context", "next", "open", "request", "results", "rounds", "state", "todo",
        "transcript", "unread",
    )  # fmt: skip

    def __init__(self, request: ComposeContext) -> None:
        self.request = request
        self.state = RoundState.composing
        self.context: Mapping[str, JSON] = {}
        self.before: Mapping[str, float] = {}
        self.transcript: list[Message] = []
        self.unread: list[Message] = []
        self.open: dict[int, Mapping[str, JSON]] = {}
        self.todo: deque[int] = deque()
        self.results: dict[int, Message] = {}
        self.next = 1
        self.allowances: Mapping[str, int] = {}
        self.rounds = 0

    def copy(self) -> "AgentLoop":
        """An independent copy."""
        twin = AgentLoop(self.request)
        for name in AgentLoop.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, list | dict | deque) else value)
        return twin


class Left:
    """What a visit left behind when its run ended before it, for a retry; all by step.

    `effects` were pending, or have failed for good; `waits` were open, each with the effect that was held; `children`
    were under way, or have failed with their node. `given` has the output that a user gave to the node instead, and
    the handle by which it is left. Without `began` the node has only this.
    """

    __slots__ = ("batch", "began", "children", "effects", "given", "loop", "timers", "waits")

    def __init__(self, *, began: bool = True) -> None:
        self.began = began
        self.batch: Batch | None = None
        self.loop: AgentLoop | None = None
        self.effects: dict[int, Effect] = {}
        self.waits: dict[int, tuple[Interrupt, Effect | None]] = {}
        self.timers: dict[int, int] = {}
        self.children: dict[int, Frame] = {}
        self.given: tuple[JSON, str | None] | None = None

    def has(self, step: int) -> bool:
        """Whether something is known of this step."""
        return step in self.effects or step in self.waits or step in self.children

    def copy(self) -> "Left":
        """An independent copy."""
        twin = Left(began=self.began)
        twin.batch = self.batch and self.batch.copy()
        twin.loop = self.loop and self.loop.copy()
        twin.effects, twin.waits, twin.timers = self.effects.copy(), self.waits.copy(), self.timers.copy()
        twin.children = {step: child.copy() for step, child in self.children.items()}
        twin.given = self.given
        return twin


class EvaluationState:
    """What checks of an evaluation read: the calls of tools that agents have requested, in the order of their results
    (`{"tool", "args"}` with `output` or `error`), and the cost of the agents without judges, None without a price.
    """

    __slots__ = ("calls", "cost")

    def __init__(self) -> None:
        self.calls: list[Mapping[str, JSON]] = []
        self.cost: float | None = None

    def copy(self) -> "EvaluationState":
        """An independent copy."""
        twin = EvaluationState()
        twin.calls, twin.cost = self.calls.copy(), self.cost
        return twin


class Place(Struct, frozen=True, gc=False):
    """Where a frame is. `within` is its name in entries, `path` the nodes from the root to it, `items` for each of them
    with a `forEach` the item, `wire` the fields of its events for both. Keys of effects begin with `prefix`, ids of
    messages with `label`, which, unlike keys, differ when a child is opened again.
    """

    within: Address = ()
    path: tuple[str, ...] = ()
    items: tuple[int | None, ...] = ()
    wire: Mapping[str, JSON] = field(default_factory=dict)
    prefix: str = ""
    label: str = ""


ROOT = Place()


class Frame:
    """One graph under way: that of the root, or of a child, which `opener` opened in the frame `outer` by `entry`.

    What `pending`, `timers` and `interrupts` hold is that of the frame and of the frames inside it; these three are
    never replaced by other objects. `waits` holds open interrupts by node and step, `held` by interrupt the effect
    that is requested after a good decision. `ends` are the nodes that led nowhere, `scope` is what expressions read.
    `handles` has the handle by which a node was left, where it has several; `left` what visits left behind.
    """

    __slots__ = (
        "batches", "children", "ends", "entry", "flow", "handles", "held", "interrupts", "left", "loops", "nodes",
        "opener", "outer", "outputs", "pending", "place", "plan", "scope", "timers", "visits", "waits",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        place: Place = ROOT,
        outer: Optional["Frame"] = None,
        opener: OpenChild | None = None,
        entry: Opened | None = None,
    ) -> None:
        self.plan, self.place = plan, place
        self.outer, self.opener, self.entry = outer, opener, entry
        self.flow = GraphFlow(plan)
        self.nodes = [NodeState.idle] * len(plan.nodes)
        self.visits = [0] * len(plan.nodes)
        self.outputs: dict[str, dict[str, JSON]] = {}
        self.scope: dict[str, JSON] = {}
        self.ends: dict[int, None] = {}
        self.pending: dict[Address, Effect] = {}
        self.timers: dict[Address, int] = {}
        self.interrupts: dict[str, Interrupt] = {}
        self.waits: dict[int, dict[int, str]] = {}
        self.held: dict[str, Effect] = {}
        self.batches: dict[int, Batch] = {}
        self.loops: dict[int, AgentLoop] = {}
        self.children: dict[Address, Frame] = {}
        self.handles: dict[int, str] = {}
        self.left: dict[int, Left] = {}

    def copy(self, outer: Optional["Frame"] = None) -> "Frame":
        """An independent copy of the frame and of those inside it, in the copy of the frame around it."""
        twin = Frame(self.plan, self.place, outer, self.opener, self.entry)
        twin.flow, twin.nodes, twin.visits = self.flow.copy(), self.nodes.copy(), self.visits.copy()
        twin.outputs, twin.ends = self.outputs.copy(), self.ends.copy()
        twin.scope = {**self.scope, "nodes": twin.outputs} if self.scope else {}
        twin.pending, twin.timers, twin.interrupts = self.pending.copy(), self.timers.copy(), self.interrupts.copy()
        twin.waits = {node: waits.copy() for node, waits in self.waits.items()}
        twin.held = self.held.copy()
        twin.batches = {node: batch.copy() for node, batch in self.batches.items()}
        twin.loops = {node: loop.copy() for node, loop in self.loops.items()}
        twin.children = {address: child.copy(twin) for address, child in self.children.items()}
        twin.handles = self.handles.copy()
        twin.left = {node: left.copy() for node, left in self.left.items()}
        return twin


LIMITS, NOBODY = Limits(), Actor("")


class RunState:
    """One execution. `phase` is where it stands; clock (`at`), bounds, usage and events are those of all frames.

    `sink` collects events while it is a list; with None they are only counted, in `seq`. `steps` is what all
    expressions that one entry leads to can take together. `interrupts` is the history of all interrupts by id. `broken`
    lists children that failed, and whose openers have not been notified yet. `pinned` is the variation of the root, and
    `is_draft` whether it is a draft, once a retry, a fork or a move has chosen another one; until then None. `reminded`
    has the turns before the current one after which the system only reminded approvers: what they wait for is still
    open. `evaluated` is kept for the run of an evaluation only. `requested_at` has the moments of requests (epoch
    milliseconds, by address) in a turn with debug events. `uses_slots`: a call has needed a slot.
    """

    __slots__ = (
        "at", "broken", "error", "evaluated", "id", "info", "interrupts", "is_draft", "length", "limits", "output",
        "phase", "pinned", "plans", "records", "reminded", "requested_at", "root", "run_id", "seq", "sink", "skipped",
        "starter", "steps", "turn_ends", "usage", "uses_slots", "visited",
    )  # fmt: skip

    def __init__(self, root: Frame, plans: Plans = NO_PLANS, sink: list[Event] | None = None) -> None:
        self.root, self.plans, self.sink = root, plans, sink
        self.phase = Phase.queued
        self.id = self.run_id = ""
        self.at = self.turn_ends = self.length = self.seq = self.visited = self.skipped = 0
        self.limits, self.starter = LIMITS, NOBODY
        self.info: dict[str, JSON] = {}
        self.output: JSON = None
        self.error: dict[str, JSON] | None = None
        self.usage: dict[str, float] = {}
        self.interrupts: dict[str, InterruptState] = {}
        self.records: list[Record] = []
        self.broken: list[tuple[Frame, dict[str, JSON]]] = []
        self.steps = EvaluationBudget()
        self.pinned: Pinned | None = None
        self.is_draft = self.uses_slots = False
        self.reminded: tuple[str, ...] = ()
        self.evaluated: EvaluationState | None = None
        self.requested_at: dict[Address, int] | None = None

    def copy(self) -> "RunState":
        """An independent copy without the events and records."""
        twin = RunState(self.root.copy(), self.plans)
        for name in COPIED:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict | EvaluationState) else value)
        return twin


COPIED = (
    "phase", "id", "run_id", "at", "turn_ends", "length", "seq", "visited", "skipped", "limits", "starter", "info",
    "output", "error", "usage", "interrupts", "pinned", "is_draft", "reminded", "evaluated",
    "requested_at", "uses_slots",
)  # fmt: skip


def pinned_of(run: RunState, frame: Frame) -> Pinned | None:
    """The variation that the frame runs; None for that of the execution."""
    if frame.entry is None:
        return run.pinned
    return frame.entry.kind, frame.entry.resource_id, frame.entry.variation_id


def moved_to(run: RunState, frame: Frame) -> Pinned | None:
    """The same once the root has another variation than the execution; before, entries name what a frame runs."""
    return pinned_of(run, frame) if run.pinned is not None else None


def find_frame(run: RunState, within: Address) -> Frame:
    """The frame of this name, which has to be there."""
    frame = run.root
    for end in range(4, len(within) + 1, 4):
        frame = frame.children[within[: end - 1]]
    return frame


def children_of(frame: Frame) -> list[Frame]:
    """All children under way in the frame, each after the one around it."""
    found = list(frame.children.values())
    for child in found:
        found += child.children.values()
    return found


def outward(frame: Frame | None) -> Iterator[Frame]:
    """The frame, and those around it up to the root."""
    while frame is not None:
        yield frame
        frame = frame.outer
