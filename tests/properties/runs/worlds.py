"""Random graphs and a scripted world to run them in."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from wfcore.domain.run.entries import (
    Actor,
    Decision,
    Entry,
    Failed,
    Limits,
    Paused,
    Resumed,
    Started,
    Succeeded,
    TimePassed,
)
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.state import Interrupt

Structure = dict[str, Any]
ANN = Actor("ann")


# Random graphs. A node's `data.fate`, also its message, is how an approval ends; `data.model` is a condition in plain
# Python.


def action(**data: Any) -> Structure:
    return {"type": "action", "data": {"toolId": "tool", **data}}


@st.composite
def actions(draw: st.DrawFn) -> Structure:
    data: Structure = {}
    if draw(st.booleans()):
        data["retry"] = {"maxAttempts": draw(st.integers(1, 3)), "initialIntervalSeconds": 0.5}
    if draw(st.integers(0, 3)) == 0:
        data |= {
            "forEach": "input.items",
            "maxConcurrency": draw(st.integers(1, 3)),
            "params": {"x": "{{ item }}"},
        }
    if draw(st.integers(0, 4)) == 0:
        data |= {"concurrencyKey": "key", "concurrencyLimit": 2}
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return {"type": "action", "data": {"toolId": "core.transform", "params": {"value": 7}}}
    if kind == 1:
        return {"type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 2}}}
    return action(**data)


ESCALATED = {"remindAfterSeconds": 3, "escalateAfterSeconds": 7, "escalateTo": {"emails": ["boss@x.org"]}}


@st.composite
def approvals(draw: st.DrawFn) -> Structure:
    fate = draw(st.sampled_from(["approve", "deny", "expire"]))
    data: Structure = {"fate": fate, "message": fate, "requiredApprovals": draw(st.integers(1, 2))}
    if fate == "expire":
        data |= {"timeoutSeconds": 10, "onTimeout": draw(st.sampled_from(["approve", "deny", "error"]))}
        data |= draw(st.sampled_from([{}, {"remindAfterSeconds": 4}, ESCALATED]))
    return {"type": "humanApproval", "data": data}


def passes(name: str, count: int) -> Structure:
    """A condition that goes `again` until the action before it was visited a multiple of `count` times."""
    branch = {"handle": "again", "when": f"nodes.{name}.output % {count} != 0"}
    return {"type": "condition", "data": {"branches": [branch], "model": ["passes", name, count]}}


def whether(flag: str) -> Structure:
    branch = {"handle": "again", "when": f"input.{flag}"}
    return {"type": "condition", "data": {"branches": [branch], "model": ["flag", flag]}}


class Builder:
    """Puts a graph together block by block; every block has one way in and one way out, and may be nested."""

    def __init__(self, draw: st.DrawFn, *, loops: bool, people: bool) -> None:
        self.draw, self.people = draw, people
        self.blocks = ["step", "chain", "parallel", "choice"] + ["loop"] * loops
        self.nodes: list[Structure] = []
        self.edges: list[Structure] = []

    def node(self, node: Structure) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append({"id": name, **node})
        return name

    def edge(self, source: str, target: str, handle: str | None = None) -> None:
        edge = {"id": f"e{len(self.edges)}", "source": source, "target": target}
        self.edges.append(edge if handle is None else {**edge, "sourceHandle": handle})

    def block(self, depth: int) -> tuple[str, str]:
        kind = self.draw(st.sampled_from(self.blocks)) if depth else "step"
        return getattr(self, f"a_{kind}")(depth - 1)

    def a_step(self, depth: int) -> tuple[str, str]:
        if self.people and self.draw(st.integers(0, 3)) == 0:
            return self.a_review()
        name = self.node(self.draw(actions()))
        if self.draw(st.integers(0, 3)) == 0:
            self.edge(name, rescue := self.node(action()), "error")
            self.edge(rescue, after := self.node(action()))
            self.edge(name, after)
            return name, after
        return name, name

    def a_review(self) -> tuple[str, str]:
        name, after = self.node(self.draw(approvals())), self.node(action())
        for handle in self.draw(st.sets(st.sampled_from(["approved", "denied", "expired"]), min_size=1)):
            self.edge(name, after, handle)
        return name, after

    def a_chain(self, depth: int) -> tuple[str, str]:
        (first, middle), (other, last) = self.block(depth), self.block(depth)
        self.edge(middle, other)
        return first, last

    def a_parallel(self, depth: int) -> tuple[str, str]:
        first, last = self.node(action()), self.node(action())
        for _ in range(self.draw(st.integers(2, 3))):
            entry, leave = self.block(depth)
            self.edge(first, entry)
            self.edge(leave, last)
        return first, last

    def a_choice(self, depth: int) -> tuple[str, str]:
        first, last = self.node(whether(self.draw(st.sampled_from(["yes", "no"])))), self.node(action())
        for handle in ("again", "else"):
            entry, leave = self.block(depth)
            self.edge(first, entry, handle)
            self.edge(leave, last)
        return first, last

    def a_loop(self, depth: int) -> tuple[str, str]:
        entry, leave = self.block(depth)
        self.edge(leave, tick := self.node(action()))
        self.edge(tick, check := self.node(passes(tick, self.draw(st.integers(1, 3)))))
        self.edge(check, entry, "again")
        self.edge(check, after := self.node(action()), "else")
        return entry, after


@st.composite
def structured(draw: st.DrawFn, *, loops: bool = True, people: bool = True) -> Structure:
    """Nested blocks: sequences, parallel parts with joins, choices, cycles, rescued errors, approvals."""
    builder = Builder(draw, loops=loops, people=people)
    start = builder.node({"type": "start"})
    builder.edge(start, builder.block(3)[0])
    return {"nodes": builder.nodes, "edges": draw(st.permutations(builder.edges))}


@st.composite
def tangled(draw: st.DrawFn) -> Structure:
    """Any shape: joins and parallel parts anywhere, edges back from conditions and approvals, loops sharing
    nodes.
    """
    count = draw(st.integers(2, 9))
    nodes: list[Structure] = [{"id": "n0", "type": "start"}]
    for index in range(1, count):
        once = {"handle": "again", "when": f"!has(nodes.n{index}.output)"}
        check = {"type": "condition", "data": {"branches": [once]}}
        nodes.append({"id": f"n{index}", **draw(actions() | st.just(check) | approvals())})
    pairs = [(draw(st.integers(0, index - 1)), index) for index in range(1, count)]
    pairs += draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, count - 1)), max_size=count))
    edges = []
    for source, target in pairs:
        kind = nodes[source]["type"]
        if source >= target and kind not in ("condition", "humanApproval"):
            continue
        handles = {
            "condition": ["again"] if source >= target else ["again", "else"],
            "humanApproval": ["denied"] if source >= target else ["approved", "denied", "expired"],
            "action": [None, None, "error"],
            "start": [None],
        }[kind]
        edge = {"id": f"e{len(edges)}", "source": f"n{source}", "target": f"n{target}"}
        handle = draw(st.sampled_from(handles))
        edges.append(edge if handle is None else {**edge, "sourceHandle": handle})
    return {"nodes": nodes, "edges": draw(st.permutations(edges))}


# A scripted world.

GIVEN = {"items": [1, 2, 3], "yes": True, "no": False}
LIMITS = Limits(max_node_visits=300)


class World:
    """Lets things happen to a machine: `fates` says which attempts fail (0), `order` what ends next."""

    def __init__(self, structure: Structure, fates: Sequence[int], order: Sequence[int]) -> None:
        self.structure, self.fates, self.order = structure, fates, order
        self.machine = Machine(compile_plan(structure), [])
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self.at = 1_000_000
        self.watch: Callable[[Event], None] = lambda event: None
        self.rest: Callable[[], None] = lambda: None

    def fails(self, node: int, attempt: int, at: int) -> bool:
        return self.fates[(node * 5 + attempt * 3 + at) % len(self.fates)] == 0

    def apply(self, entry: Entry) -> None:
        self.machine.apply(entry)
        self.entries.append(entry)
        for event in self.machine.take_events():
            self.events.append(event)
            self.watch(event)
        self.rest()

    def start(self) -> None:
        self.apply(Started(self.at, "run-1", ANN, GIVEN, {}, LIMITS))

    def run(self) -> Machine:
        self.start()
        for count in range(2_000):
            if self.machine.ended:
                return self.machine
            options = self.options()
            self.apply(options[self.order[count % len(self.order)] % len(options)])
        raise AssertionError("the run does not end")

    def options(self) -> list[Entry]:
        machine = self.machine
        found: list[Entry] = []
        if machine.turn_open:
            found += [self.outcome(address) for address in sorted(machine.pending)]
            found += [TimePassed(due) for due in machine.timers.values()]
        found += [self.answer(interrupt) for interrupt in machine.interrupts.values()]
        if machine.paused and not machine.turn_open:
            found.append(Resumed(self.at, f"run-{len(self.entries) + 1}", ANN))
        if machine.turn_open and not machine.paused and len(self.entries) in self.order:
            found.append(Paused(self.at, ANN))
        return found

    def outcome(self, address: tuple[int, int, int]) -> Entry:
        attempt = self.machine.pending[address].attempt
        if self.fails(address[0], attempt, address[2]):
            return Failed(self.at, *address, attempt, "broken")
        return Succeeded(self.at, *address, attempt, address[1])

    def answer(self, interrupt: Interrupt) -> Entry:
        turn = f"run-{len(self.entries) + 1}"
        fate = interrupt.message
        if fate == "expire":
            assert interrupt.expires_at
            self.at = max(self.at, interrupt.expires_at)
            return TimePassed(self.at) if self.machine.turn_open else Resumed(self.at, turn)
        by = Actor(f"approver {len(interrupt.answers)}")
        return Resumed(self.at, turn, by, (Decision(interrupt.id, fate),))


class CompletingWorld(World):
    """A world that is held against the law: an effect with a result is not requested again."""

    def __init__(self, structure: Structure, fates: list[int], order: list[int]) -> None:
        super().__init__(structure, fates, order)
        self.completed: set[str] = set()

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Succeeded):
            address = (*entry.within, entry.node, entry.visit, entry.step)
            self.completed.add(self.machine.pending[address].key)
        super().apply(entry)
        assert self.completed.isdisjoint(effect.key for effect in self.machine.pending.values())


FATES = st.lists(st.integers(0, 4), min_size=1, max_size=9)
ORDERS = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@st.composite
def worlds(draw: st.DrawFn, graphs: st.SearchStrategy[Structure]) -> World:
    return World(draw(graphs), draw(FATES), draw(ORDERS))
