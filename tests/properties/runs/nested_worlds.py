"""Worlds with children and agents: a scripted world whose models say anything at all."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from worlds import ANN, FATES, GIVEN, ORDERS, Structure, World, structured

from wfcore.domain.graph.structure import NodeType
from wfcore.domain.run.effects import Address, CallTool, ComposeContext, OpenChild
from wfcore.domain.run.entries import (
    Actor,
    Cancelled,
    Decision,
    Entry,
    Failed,
    Opened,
    Resumed,
    Sent,
    Succeeded,
    TimePassed,
)
from wfcore.domain.run.events import TERMINAL, Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import Frame, children_of
from wfcore.domain.run.plan import Plan, compile_plan, skill_plan
from wfcore.domain.run.records import MessageRecord, Record
from wfcore.domain.run.state import Interrupt
from wfcore.testing.histories import place

OFFERED = {"look": "web.look", "pay": "bank.pay"}
SKILL, WORKFLOW = 9, 1
CONTEXT = {
    "model": "m",
    "tools": [
        {"name": "look", "toolId": "web.look", "kind": "tool"},
        {"name": "pay", "toolId": "bank.pay", "kind": "tool", "requiresApproval": True},
        {"name": "expert", "toolId": "skill.9", "kind": "skill", "resourceId": SKILL},
        {"name": "flow", "toolId": "workflow.1", "kind": "workflow", "resourceId": WORKFLOW, "requiresApproval": True},
    ],
    "budget": {"maxTokens": 400},
}

# What models say

JUNK = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
GOOD = st.sampled_from(["look", "pay", "expert", "flow"])
BAD = st.sampled_from(["web.look", "bank.pay", "core.http", "", "x" * 300])
ARGS = st.dictionaries(st.sampled_from(["amount", "message", "toolId"]), JUNK, max_size=2)
IDS = st.sampled_from(["a", "b", "call-3"])
CALL = st.fixed_dictionaries({"id": IDS, "name": GOOD, "args": ARGS})
ODD = st.fixed_dictionaries({"id": IDS | JUNK, "name": GOOD | BAD | JUNK, "args": ARGS | JUNK}) | JUNK
ROUND = st.fixed_dictionaries({"text": JUNK, "toolCalls": st.lists(CALL, min_size=1, max_size=3)})
ODDER = st.fixed_dictionaries({"text": JUNK, "toolCalls": st.lists(CALL | ODD, min_size=1, max_size=4) | JUNK})
SAID = ROUND | ROUND | ODDER | st.text(max_size=5) | st.dictionaries(st.sampled_from(["text", "x"]), JUNK)


class NestedWorld(World):
    """Opens children, composes contexts, answers whatever waits; after a while it cancels the run."""

    def __init__(
        self, root: Plan, children: Mapping[int, Plan], fates: Sequence[int], order: Sequence[int], said: Sequence[Any]
    ) -> None:
        super().__init__({"nodes": [{"id": "s", "type": "start"}], "edges": []}, fates, order)
        self.plans = {(kind, number, "v"): plan for number, plan in children.items() for kind in ("workflow", "skill")}
        self.machine = Machine(root, [], self.plans)
        self.said = said
        self.records: list[Record] = []
        self.approved: set[str] = set()
        self.rest = self.look

    def run(self, most: int = 150) -> Machine:
        self.start()
        for count in range(most):
            if not self.machine.ended:
                options = self.options()
                self.apply(options[self.order[count % len(self.order)] % len(options)])
        if not self.machine.ended:
            self.apply(Cancelled(self.at, ANN))
        return self.machine

    def fate(self, address: Address = ()) -> int:
        return self.fates[(sum(address) + len(self.entries)) % len(self.fates)]

    def options(self) -> list[Entry]:
        machine = self.machine
        if not machine.turn_open:
            return super().options()
        sent = [e for e in machine.pending.values() if isinstance(e, CallTool) and not e.sent and self.fate() == 2]
        return [*super().options(), *(Sent(self.at, *place(effect), effect.address[:-3]) for effect in sent)]

    def outcome(self, address: Address) -> Entry:
        effect, within = self.machine.pending[address], address[:-3]
        at = self.at, *place(effect)
        match effect, self.fate(address):
            case OpenChild(), 1:
                return Failed(*at, "not yours", "failed", False, within)
            case OpenChild(kind=kind, resource_id=number), _:
                return Opened(*at, kind, number, "v", GIVEN, None, within)
            case ComposeContext(), _:
                return Succeeded(*at, CONTEXT, None, within)
            case CallTool(), 1:
                return Failed(*at, "connect", "connection_required", True, within, {"provider": "mail"})
            case CallTool(), fate:
                bad = Failed(*at, "broken", "failed", True, within)
                return bad if fate == 0 else Succeeded(*at, address[-2], None, within)
        said = self.said[(address[-1] + len(self.entries)) % len(self.said)]
        return Succeeded(*at, said, {"inputTokens": 30, "model": "m"}, within)

    def answer(self, interrupt: Interrupt) -> Entry:
        node = frame_of(self.machine, interrupt.within).plan.nodes[interrupt.node]
        if node.kind is NodeType.HUMAN_APPROVAL and interrupt.message == "expire":
            assert interrupt.expires_at
            self.at = max(self.at, interrupt.expires_at)
            turn = f"run-{len(self.entries) + 1}"
            return TimePassed(self.at) if self.machine.turn_open else Resumed(self.at, turn)
        yes = self.fate() % 2 == 0
        decision = {"approval": ("deny", "approve"), "connect": ("cancelled", "connected")}[interrupt.type][yes]
        by = Actor(f"approver {len(interrupt.answers)}")
        if decision == "approve":
            self.approved.add(interrupt.id)
        return Resumed(self.at, f"run-{len(self.entries) + 1}", by, (Decision(interrupt.id, decision),))

    def look(self) -> None:
        """What holds at every moment."""
        self.records += self.machine.take_records()
        contained(self.machine)
        for effect in self.machine.pending.values():
            if isinstance(effect, CallTool) and effect.agent:
                self.is_allowed(effect)

    def is_allowed(self, effect: CallTool) -> None:
        """A model's call is one that was offered and, where somebody has to, was approved as it is."""
        assert effect.tool in OFFERED.values()
        if effect.tool == "bank.pay":
            step = effect.address
            shown = [
                event.data["interruptId"]
                for event in self.events
                if event.kind == "interrupt"
                and event.data["type"] == "approval"
                and event.data.get("toolCallId") == effect.call_id
                and event.data.get("arguments") == effect.params
            ]
            assert self.approved.intersection(shown), step


def frame_of(machine: Machine, within: Address) -> Frame:
    return next(frame for frame in frames(machine) if frame.place.within == within)


def frames(machine: Machine) -> list[Frame]:
    """The frames under way, each after the one around it."""
    return [machine.root, *children_of(machine.root)]


def contained(machine: Machine) -> None:
    """Each frame waits for what those inside it wait for and for its own, and for nothing else."""
    for frame in frames(machine):
        inside = [address for child in frame.children.values() for address in child.pending]
        own = [address for address in frame.pending if address[:-3] == frame.place.within]
        assert sorted(frame.pending) == sorted(inside + own)
        timers = [address for child in frame.children.values() for address in child.timers]
        assert set(timers) <= set(frame.timers)
        inner = {name for child in frame.children.values() for name in child.interrupts}
        mine = {name for waiting in frame.waits.values() for name in waiting.values()}
        assert set(frame.interrupts) == inner | mine


def opened_nodes(events: Sequence[Event]) -> None:
    """Streams are whole: numbered without gaps, one terminal, and that last; no node of a frame starts twice."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.run_id, []).append(event)
    for stream in streams.values():
        assert [event.seq for event in stream] == list(range(1, len(stream) + 1))
        assert [event.kind in TERMINAL for event in stream] == [False] * (len(stream) - 1) + [True]
    assert all(event.data.get("path") != [] for event in events)


def every_call_is_answered(records: Sequence[Record]) -> None:
    """Behind each answer that requests calls stands one tool message for each of them, by its id."""
    said = [record for record in records if isinstance(record, MessageRecord)]
    assert len({record.id for record in said}) == len(said)
    answered = {record.id: record.tool_call_id for record in said if record.type == "tool"}
    for record in said:
        if record.type == "ai":
            visit, step = record.id.rpartition(":")[0].rsplit(".", 1)
            for number, call in enumerate(record.tool_calls, int(step) + 1):
                assert answered.pop(f"{visit}.{number}") == call["id"]
    assert answered == {}


# Random worlds


@st.composite
def nested(draw: st.DrawFn) -> NestedWorld:
    """Graphs in which some actions call workflows and some are agents, two levels deep."""
    leaf = draw(structured())
    flow = compile_plan(_mixed(draw, draw(structured()), 2))
    root = compile_plan(_mixed(draw, draw(structured()), WORKFLOW))
    children = {WORKFLOW: flow, 2: compile_plan(leaf), SKILL: skill_plan(SKILL)}
    return NestedWorld(root, children, draw(FATES), draw(ORDERS), draw(st.lists(SAID, min_size=2, max_size=6)))


def _mixed(draw: st.DrawFn, structure: Structure, workflow: int) -> Structure:
    mixed = copy.deepcopy(structure)
    for node in mixed["nodes"]:
        data = node.get("data", {})
        if data.get("toolId") == "tool":
            kind = draw(st.integers(0, 3))
            if kind == 0:
                data |= {"toolId": "core.workflow", "params": {"workflowId": workflow}}
            elif kind == 1:
                node["type"] = "agent"
                node["data"] = {"agent_id": 7, "message": "go", "retry": data.get("retry") or {"maxAttempts": 1}}
    return mixed


@st.composite
def hostile(draw: st.DrawFn) -> NestedWorld:
    """A skill alone with a model that says anything."""
    children = {WORKFLOW: skill_plan(3), SKILL: skill_plan(SKILL)}
    said = draw(st.lists(SAID, min_size=2, max_size=5))
    return NestedWorld(skill_plan(7), children, draw(FATES), draw(ORDERS), said)
