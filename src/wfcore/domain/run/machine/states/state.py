"""The data of an execution: one `RunState`, its tree of `Frame`s, and what a visit of a node keeps.

Nothing here decides anything: the parts (`turns`, `nodes`, `attempts`, `interrupts`, `approvals`, `actions`, `rounds`,
`agent_loop`, `budget`, `children`) change these values in place. They have one owner, the `Machine`.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from copy import copy
from enum import StrEnum
from typing import Optional

from msgspec import Struct, field, structs

from wfcore.domain.expressions.expression import EvaluationBudget
from wfcore.domain.kernel.json_type import JSON, Number
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


class Batch(Struct, eq=False, array_like=True):
    """The calls of one action visit (several with `forEach`, one for each of `items`) and their results.

    `live` of them are under way; of several, `done` have a result. `definition` is the digest of the tool's definition
    for which they are approved, if their approval binds one, and `tool_name` the name of that tool. `slots` has what
    each call needs while it is in progress; it is empty if they need nothing.
    """

    calls: list[JSON]
    many: bool
    items: list[JSON] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    definition: str = ""
    tool_name: str = ""
    next: int = 0
    live: int = 0
    results: list[JSON] = field(default_factory=list)
    slots: list[CallSlot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = self.results or [None] * len(self.calls)

    def copy(self) -> "Batch":
        """An independent copy."""
        return structs.replace(self, done=self.done.copy(), results=self.results.copy())


class AgentLoop(Struct, eq=False, array_like=True):
    """One visit of an agent that has a context: the conversation since, and the round under way.

    `next` is the next step of the visit. Of the calls of the round, by step, `open` holds those without a result and
    `todo` those not yet requested. `unread` holds what the user has said meanwhile, for the next round. `spent` is
    what the models of the visit and of the frames inside it have consumed, `allowances` how many times each budget can
    be spent. `request` is the request of the context.
    """

    request: ComposeContext
    state: RoundState = RoundState.composing
    context: Mapping[str, JSON] = field(default_factory=dict)
    spent: dict[str, Number] = field(default_factory=dict)
    transcript: list[Message] = field(default_factory=list)
    unread: list[Message] = field(default_factory=list)
    open: dict[int, Mapping[str, JSON]] = field(default_factory=dict)
    todo: deque[int] = field(default_factory=deque)
    results: dict[int, Message] = field(default_factory=dict)
    next: int = 1
    allowances: Mapping[str, int] = field(default_factory=dict)
    rounds: int = 0

    def copy(self) -> "AgentLoop":
        """An independent copy."""
        twin = copy(self)
        for name in AgentLoop.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, list | dict | deque):
                setattr(twin, name, value.copy())
        return twin


class Left(Struct, eq=False, array_like=True):
    """What a visit left behind when its run ended before it, for a retry; all by step.

    `effects` were pending, or have failed for good; `waits` were open, each with the effect that was held; `children`
    were under way, or have failed with their node. `given` has the output that a user gave to the node instead, and
    the handle by which it is left. Without `began` the node has only this.
    """

    began: bool = True
    batch: Batch | None = None
    loop: AgentLoop | None = None
    effects: dict[int, Effect] = field(default_factory=dict)
    waits: dict[int, tuple[Interrupt, Effect | None]] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)
    children: dict[int, "Frame"] = field(default_factory=dict)
    given: tuple[JSON, str | None] | None = None

    def has(self, step: int) -> bool:
        """Whether something is known of this step."""
        return step in self.effects or step in self.waits or step in self.children

    def copy(self) -> "Left":
        """An independent copy."""
        batch, loop = self.batch and self.batch.copy(), self.loop and self.loop.copy()
        children = {step: child.copy() for step, child in self.children.items()}
        return Left(
            self.began, batch, loop, self.effects.copy(), self.waits.copy(), self.timers.copy(), children, self.given
        )


class EvaluationState(Struct, eq=False, array_like=True):
    """What checks of an evaluation read: the calls of tools that agents have requested, in the order of their results
    (`{"tool", "args"}` with `output` or `error`), and the cost of the agents without judges, None without a price.
    """

    calls: list[Mapping[str, JSON]] = field(default_factory=list)
    cost: Number | None = None

    def copy(self) -> "EvaluationState":
        """An independent copy."""
        return EvaluationState(self.calls.copy(), self.cost)


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

    plan: Plan
    place: Place
    outer: Optional["Frame"]
    opener: OpenChild | None
    entry: Opened | None
    flow: GraphFlow
    nodes: list[NodeState]
    visits: list[int]
    outputs: dict[str, dict[str, JSON]]
    scope: dict[str, JSON]
    ends: dict[int, None]
    pending: dict[Address, Effect]
    timers: dict[Address, int]
    interrupts: dict[str, Interrupt]
    waits: dict[int, dict[int, str]]
    held: dict[str, Effect]
    batches: dict[int, Batch]
    loops: dict[int, AgentLoop]
    children: dict[Address, "Frame"]
    handles: dict[int, str]
    left: dict[int, Left]

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
        self.outputs = {}
        self.scope = {}
        self.ends = {}
        self.pending = {}
        self.timers = {}
        self.interrupts = {}
        self.waits = {}
        self.held = {}
        self.batches = {}
        self.loops = {}
        self.children = {}
        self.handles = {}
        self.left = {}

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
    milliseconds, by address) in a turn with debug events. `uses_slots`: a call has needed a slot. `snapshot` is
    the length of the journal at the latest snapshot (`snapshots`), 0 before.
    """

    __slots__ = (
        "at", "broken", "error", "evaluated", "id", "info", "interrupts", "is_draft", "length", "limits", "output",
        "phase", "pinned", "plans", "records", "reminded", "requested_at", "root", "run_id", "seq", "sink", "skipped",
        "snapshot", "starter", "steps", "turn_ends", "usage", "uses_slots", "visited",
    )  # fmt: skip

    at: int
    broken: list[tuple[Frame, dict[str, JSON]]]
    error: dict[str, JSON] | None
    evaluated: EvaluationState | None
    id: str
    info: dict[str, JSON]
    interrupts: dict[str, InterruptState]
    is_draft: bool
    length: int
    limits: Limits
    output: JSON
    phase: Phase
    pinned: Pinned | None
    plans: Plans
    records: list[Record]
    reminded: tuple[str, ...]
    requested_at: dict[Address, int] | None
    root: Frame
    run_id: str
    seq: int
    sink: list[Event] | None
    skipped: int
    snapshot: int
    starter: Actor
    steps: EvaluationBudget
    turn_ends: int
    usage: dict[str, Number]
    uses_slots: bool
    visited: int

    def __init__(self, root: Frame, plans: Plans = NO_PLANS, sink: list[Event] | None = None) -> None:
        self.root, self.plans, self.sink = root, plans, sink
        self.phase = Phase.queued
        self.id = self.run_id = ""
        self.at = self.turn_ends = self.length = self.seq = self.visited = self.skipped = self.snapshot = 0
        self.limits, self.starter = LIMITS, NOBODY
        self.info = {}
        self.output = None
        self.error = None
        self.usage = {}
        self.interrupts = {}
        self.records = []
        self.broken = []
        self.steps = EvaluationBudget()
        self.pinned = None
        self.is_draft = self.uses_slots = False
        self.reminded = ()
        self.evaluated = None
        self.requested_at = None

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
    "requested_at", "snapshot", "uses_slots",
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
