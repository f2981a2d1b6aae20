"""The run machine against the reference, over random graphs, outcomes and orders of completion; and its laws."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from reference import FAILED, Outcome, Reference, interpret

from wfcore.domain.run.entries import (
    Actor,
    Cancelled,
    Decision,
    Entry,
    Failed,
    Limits,
    Paused,
    Resumed,
    Said,
    Started,
    Succeeded,
    TimePassed,
    decode_entry,
    encode_entry,
)
from wfcore.domain.run.events import TERMINAL, Event, EventKind
from wfcore.domain.run.flow import Flow
from wfcore.domain.run.machine import Batch, Machine
from wfcore.domain.run.plan import Plan, compile_plan
from wfcore.domain.run.replay import fold, step
from wfcore.domain.run.state import IllegalEntry, Interrupt, RunStatus

Structure = dict[str, Any]
ANN = Actor("ann")
HUNDRED = settings(max_examples=100, deadline=None)


# Random graphs. A node's `data.fate` tells how an approval ends; `data.model` is a condition in plain Python.


def action(**data: Any) -> Structure:
    return {"type": "action", "data": {"toolId": "tool", **data}}


@st.composite
def actions(draw: st.DrawFn) -> Structure:
    data: Structure = {}
    if draw(st.booleans()):
        data["retry"] = {"maxAttempts": draw(st.integers(1, 3)), "initialIntervalSeconds": 0.5}
    if draw(st.integers(0, 3)) == 0:
        data |= {"forEach": "input.items", "maxConcurrency": draw(st.integers(1, 3)), "params": {"x": "{{ item }}"}}
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return {"type": "action", "data": {"toolId": "core.transform", "params": {"value": 7}}}
    if kind == 1:
        return {"type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 2}}}
    return action(**data)


@st.composite
def approvals(draw: st.DrawFn) -> Structure:
    fate = draw(st.sampled_from(["approve", "deny", "expire"]))
    data: Structure = {"fate": fate, "requiredApprovals": draw(st.integers(1, 2))}
    if fate == "expire":
        data |= {"timeoutSeconds": 10, "onTimeout": draw(st.sampled_from(["approve", "deny", "error"]))}
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
    """Nested blocks: sequences, parallel parts with their joins, choices, cycles, rescued errors, approvals."""
    builder = Builder(draw, loops=loops, people=people)
    start = builder.node({"type": "start"})
    builder.edge(start, builder.block(3)[0])
    return {"nodes": builder.nodes, "edges": draw(st.permutations(builder.edges))}


@st.composite
def tangled(draw: st.DrawFn) -> Structure:
    """Any shape: joins and parallel parts anywhere, edges back from conditions and approvals, loops sharing nodes."""
    count = draw(st.integers(2, 9))
    nodes: list[Structure] = [{"id": "n0", "type": "start"}]
    for index in range(1, count):
        once = {"handle": "again", "when": f"!has(nodes.n{index}.output)"}
        asks = {"type": "condition", "data": {"branches": [once]}}
        nodes.append({"id": f"n{index}", **draw(actions() | st.just(asks) | approvals())})
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
    """Lets things happen to a machine: `fates` says which attempts fail (0), `order` which effect ends next."""

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

    def run(self) -> Machine:
        self.apply(Started(self.at, "run-1", ANN, GIVEN, {}, LIMITS))
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
        return found + [self.answer(interrupt) for interrupt in machine.interrupts.values()]

    def outcome(self, address: tuple[int, int, int]) -> Entry:
        attempt = self.machine.pending[address].attempt
        if self.fails(address[0], attempt, address[2]):
            return Failed(self.at, *address, attempt, "broken")
        return Succeeded(self.at, *address, attempt, address[1])

    def answer(self, interrupt: Interrupt) -> Entry:
        turn = f"run-{len(self.entries) + 1}"
        fate = self.machine.plan.nodes[interrupt.node].data["fate"]
        if fate == "expire":
            assert interrupt.expires_at
            self.at = max(self.at, interrupt.expires_at)
            return TimePassed(self.at) if self.machine.turn_open else Resumed(self.at, turn)
        by = Actor(f"approver {len(interrupt.answers)}")
        return Resumed(self.at, turn, by, (Decision(interrupt.id, fate),))


FATES = st.lists(st.integers(0, 4), min_size=1, max_size=9)
ORDERS = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@st.composite
def worlds(draw: st.DrawFn, graphs: st.SearchStrategy[Structure]) -> World:
    return World(draw(graphs), draw(FATES), draw(ORDERS))


# The reference watches.


class Watcher:
    """Holds every event of a machine against the reference."""

    def __init__(self, world: World) -> None:
        self.world, self.known = world, Reference(world.structure)
        world.watch, world.rest = self.see, self.rest

    def see(self, event: Event) -> None:
        node = event.data.get("nodeId")
        if event.kind == EventKind.node_started:
            self.known.begin(node)
        elif event.kind == EventKind.node_finished:
            self.known.finish(node, self.handle(node, event.data["output"]), event.data["output"])
        elif event.kind == EventKind.node_failed and not self.known.fail(node):
            assert self.world.machine.status == RunStatus.error
        elif event.kind == EventKind.node_skipped:
            self.known.skip(node)

    def handle(self, node: str, output: Any) -> str | None:
        kind, data = self.known.data[node]["type"], self.known.data[node].get("data", {})
        if kind == "condition":
            return output["handle"]
        if kind != "humanApproval":
            return None
        if output["decision"] != "expired":
            return {"approve": "approved", "deny": "denied"}[output["decision"]]
        if any(edge.source == node and edge.handle == "expired" for edge in self.known.edges):
            return "expired"
        return {"approve": "approved", "deny": "denied"}[data["onTimeout"]]

    def rest(self) -> None:
        if self.world.machine.status != RunStatus.error:
            assert self.known.ready() == [], "the machine rests though nodes are ready"
        assert not self.known.void


@HUNDRED
@given(worlds(tangled()))
def test_every_step_is_one_that_the_definition_allows(world: World) -> None:
    """On graphs of any shape the machine starts, skips and re-arms what the reference does, and leaves nothing out."""
    watcher = Watcher(world)
    assume(watcher.known.reducible)
    machine = world.run()
    well_formed(world.events)
    if machine.status == RunStatus.done:
        assert machine.output == watcher.known.result()


@HUNDRED
@given(worlds(structured()))
def test_nested_blocks_do_what_the_reference_says(world: World) -> None:
    """Status, output and the number of visits of every node are those of an interpreter that knows no order."""
    Watcher(world)
    machine = world.run()
    status, output, starts = interpret(world.structure, naive(world))
    assert (str(machine.status), plain(machine.output)) == (status, output)
    if status == "done":
        visits = {node.id: machine.visits[node.index] for node in machine.plan.nodes}
        assert visits == starts
    well_formed(world.events)


def naive(world: World) -> Callable[[str, int, Mapping[str, Any]], Outcome]:
    """The outcome of one visit, told without the machine."""
    position = {node["id"]: index for index, node in enumerate(world.structure["nodes"])}

    def outcome(name: str, visit: int, outputs: Mapping[str, Any]) -> Outcome:
        node = world.structure["nodes"][position[name]]
        data = node.get("data", {})
        if node["type"] == "start":
            return None, GIVEN
        if node["type"] == "condition":
            what, of, *count = data["model"]
            again = GIVEN[of] if what == "flag" else outputs[of] % count[0] != 0
            handle = "again" if again else "else"
            return handle, {"handle": handle}
        if node["type"] == "humanApproval":
            return decided(world.structure, node)
        return performed(position[name], data, visit)

    def performed(index: int, data: Mapping[str, Any], visit: int) -> Outcome:
        if data["toolId"] != "tool":
            return None, 7 if data["toolId"] == "core.transform" else {"seconds": 2}
        tries = range(1, data.get("retry", {}).get("maxAttempts", 1) + 1)
        items = range(3 if "forEach" in data else 1)
        if any(all(world.fails(index, attempt, item) for attempt in tries) for item in items):
            return FAILED, None
        return None, [visit] * 3 if "forEach" in data else visit

    return outcome


def decided(structure: Structure, node: Structure) -> Outcome:
    fate, data = node["data"]["fate"], node["data"]
    if fate != "expire":
        return {"approve": "approved", "deny": "denied"}[fate], fate
    if any(e["source"] == node["id"] and e.get("sourceHandle") == "expired" for e in structure["edges"]):
        return "expired", "expired"
    return {"approve": "approved", "deny": "denied", "error": FAILED}[data["onTimeout"]], "expired"


def plain(value: Any) -> Any:
    """Outputs without what only the machine knows: who decided and when."""
    if isinstance(value, dict):
        if "decidedAt" in value:
            return value["decision"]
        return {key: plain(item) for key, item in value.items()}
    return value


@HUNDRED
@given(structured(loops=False, people=False), FATES, ORDERS, ORDERS)
def test_the_order_of_completion_does_not_matter(
    structure: Structure, fates: list[int], one: list[int], other: list[int]
) -> None:
    """Without cycles and people, status and output are the same whichever effect ends first."""
    machines = [World(structure, fates, order).run() for order in (one, other)]
    assert machines[0].status == machines[1].status
    assert machines[0].output == machines[1].output


@HUNDRED
@given(worlds(tangled()))
def test_any_graph_at_all_comes_to_an_end(world: World) -> None:
    """Cycles entered at several places too: no exception, an end within bounds, well-formed streams."""
    world.run()
    well_formed(world.events)


def well_formed(events: Sequence[Event]) -> None:
    """Per run: numbered from 1 without gaps, opened by run_started, exactly one terminal, and that last."""
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    for stream in runs.values():
        assert [event.seq for event in stream] == list(range(1, len(stream) + 1))
        assert stream[0].kind == EventKind.run_started
        assert [event.kind in TERMINAL for event in stream] == [False] * (len(stream) - 1) + [True]
    open_nodes: set[str] = set()
    for event in events:
        node = event.data.get("nodeId")
        if event.kind == EventKind.node_started:
            assert node not in open_nodes
            open_nodes.add(node)
        elif event.kind in (EventKind.node_finished, EventKind.node_failed):
            open_nodes.remove(node)
        elif event.kind == EventKind.node_skipped and "reason" in event.data:
            open_nodes.remove(node)
    assert events[-1].kind != EventKind.done or not open_nodes


# The laws of folding.


def observe(machine: Machine) -> dict[str, Any]:
    """The whole state as plain values, in an order that shows."""
    seen = {name: getattr(machine, name) for name in Machine.__slots__ if name not in ("plan", "sink")}
    seen["flow"] = {
        name: list(getattr(machine.flow, name).items()) if name == "edges" else list(getattr(machine.flow, name))
        for name in Flow.__slots__
        if name != "plan"
    }
    seen["batches"] = {
        node: {name: getattr(batch, name) for name in Batch.__slots__} for node, batch in machine.batches.items()
    }
    return {name: _settled(value) for name, value in seen.items()}


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _settled(item)) for key, item in value.items()]
    return [_settled(item) for item in value] if isinstance(value, list | tuple) else value


WORLDS = worlds(structured() | tangled())


@HUNDRED
@given(WORLDS, st.integers(0, 10**6))
def test_folding_is_the_same_however_the_journal_is_cut(world: World, cut: int) -> None:
    """fold(a + b) = fold(fold(a), b), also when the entries went through JSON, and held = folded."""
    held = world.run()
    entries = [decode_entry(encode_entry(entry)) for entry in world.entries]
    assert entries == world.entries
    plan = held.plan
    whole = fold(plan, entries)
    first = fold(plan, entries[: cut % len(entries)])
    before = observe(first)
    second = first.copy()
    for entry in entries[cut % len(entries) :]:
        second.apply(entry)
    assert observe(first) == before
    assert observe(second) == observe(whole) == observe(held)


@HUNDRED
@given(WORLDS)
def test_steps_leave_the_state_before_them_alone(world: World) -> None:
    """step is a fold of one: the same states and events, and the given state untouched."""
    world.run()
    state = Machine(world.machine.plan)
    events: list[Event] = []
    for entry in world.entries:
        before = observe(state)
        result = step(state, entry)
        assert observe(state) == before
        state = result.state
        events += result.events
    assert observe(state) == observe(world.machine)
    assert events == world.events


@HUNDRED
@given(WORLDS)
def test_numbers_do_not_depend_on_anybody_watching(world: World) -> None:
    """Without a sink the events are only counted, and counted alike; keys are unique and outlive attempts."""
    watched = Machine(compile_plan(world.structure), [])
    alone = Machine(watched.plan)
    keys: dict[tuple[int, int, int], str] = {}
    world.run()
    for entry in world.entries:
        watched.apply(entry)
        alone.apply(entry)
        assert watched.seq == alone.seq
        for address, effect in alone.pending.items():
            assert keys.setdefault(address, effect.key) == effect.key
    assert len(set(keys.values())) == len(keys)


NUMBERS = st.integers(-1, 4)
GARBAGE = st.one_of(
    st.builds(Succeeded, st.just(5), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.none()),
    st.builds(Failed, st.just(5), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.just("x"), st.just("x"), st.booleans()),
    st.builds(Said, st.just(5), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.just("x")),
    st.builds(Started, st.just(5), st.just("x"), st.just(ANN), st.none(), st.just({})),
    st.builds(TimePassed, st.integers(0, 10**14)),
    st.builds(Paused, st.just(5), st.just(ANN)),
    st.builds(Cancelled, st.just(5), st.just(ANN)),
    st.builds(Resumed, st.just(5), st.just("x"), st.none() | st.just(ANN)),
    st.builds(
        Resumed, st.just(5), st.just("x"), st.none() | st.just(ANN),
        st.lists(st.builds(Decision, st.sampled_from(["int_1", "open"]), st.sampled_from(["approve", "deny", "yes"])),
                 min_size=1, max_size=3).map(tuple),
    ),
)  # fmt: skip


@HUNDRED
@given(WORLDS, st.lists(GARBAGE, min_size=1, max_size=30))
def test_an_illegal_entry_changes_nothing(world: World, garbage: list[Entry]) -> None:
    """In every state of a run, whatever arrives either is legal or raises IllegalEntry and leaves the state whole."""
    world.run()
    state = Machine(world.machine.plan)
    for position, entry in enumerate([*world.entries, None]):
        odd = _aimed(garbage[position % len(garbage)], state)
        before, twin = observe(state), state.copy()
        try:
            twin.apply(odd)
        except IllegalEntry:
            assert observe(twin) == before
        else:
            assert not state.ended
            assert (state.length == 0) == isinstance(odd, Started)
        assert observe(state) == before
        if entry:
            state.apply(entry)


def _aimed(entry: Entry, state: Machine) -> Entry:
    """Point a resume at an interrupt that is open, so that it is not always refused for the same reason."""
    if not isinstance(entry, Resumed) or not state.interrupts:
        return entry
    name = next(iter(state.interrupts))
    decisions = tuple(
        Decision(name, d.decision) if d.interrupt_id == "open" else d for d in entry.decisions
    )
    return Resumed(entry.at, entry.run_id, entry.by, decisions)


@HUNDRED
@given(WORLDS)
def test_ends_run_foretells(world: World) -> None:
    """Whether a failure ends the run is known before it is recorded."""
    world.run()
    state = Machine(world.machine.plan)
    for entry in world.entries:
        foretold = isinstance(entry, Failed) and state.ends_run(entry)
        state.apply(entry)
        if isinstance(entry, Failed) and state.status != RunStatus.running:
            assert foretold == (state.status == RunStatus.error) or "visits" in str(state.error)
        assert not foretold or state.status == RunStatus.error
