"""The laws of the run machine with children and agents: random graphs, hostile models, any order."""

import sys
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from nested_worlds import NestedWorld, every_call_is_answered, frames, hostile, nested, opened_nodes
from test_run_laws import GARBAGE, observe, observe_frame, observe_loop
from worlds import GIVEN, LIMITS, World, structured, worlds

from wfcore.domain.run.entries import (
    Decision,
    Entry,
    Limits,
    Opened,
    Resumed,
    Sent,
    Started,
    Succeeded,
    TimePassed,
    decode_entry,
    encode_entry,
)
from wfcore.domain.run.events import TERMINAL, Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import Frame
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.replay import fold
from wfcore.domain.run.state import IllegalEntry
from wfcore.testing.histories import History, sketch

SOME = settings(max_examples=20)
MANY = settings(max_examples=1_000)
CALL = sketch("s -> call", call={"toolId": "core.workflow", "params": {"workflowId": 1}})
INSIDE = (1, 1, 0, 1)


@SOME
@given(worlds(structured()))
def test_a_child_behaves_as_if_it_stood_alone(world: World) -> None:
    """The same outcomes lead to the same events, but for the path, and to the same end."""
    alone = world.run()
    limits = replace(LIMITS, max_node_visits=LIMITS.max_node_visits + 2)
    machine = Machine(compile_plan(CALL), [], {("workflow", 1, "v"): alone.plan})
    watched = Machine(alone.plan, [])
    for entry in world.entries:
        if isinstance(entry, Started):
            machine.apply(replace(entry, limits=limits))
            machine.apply(Opened(entry.at, *INSIDE, "workflow", 1, "v", GIVEN))
        else:
            machine.apply(_moved_inside(entry, watched, machine))
        watched.apply(entry)
    assert (machine.status, machine.output, machine.ended) == (alone.status, alone.output, True)
    shown = [_bare(event) for event in machine.take_events() if "path" in event.data]
    assert shown == [_bare(event) for event in watched.take_events() if "nodeId" in event.data]


def _moved_inside(entry: Entry, alone: Machine, machine: Machine) -> Entry:
    if hasattr(entry, "within"):
        return replace(entry, within=INSIDE)
    if not isinstance(entry, Resumed):
        return entry
    names = {(i.node, i.visit): i.id for i in machine.interrupts.values()}
    old = alone.interrupts
    decisions = tuple(
        replace(d, interrupt_id=names[old[d.interrupt_id].node, old[d.interrupt_id].visit]) for d in entry.decisions
    )
    return replace(entry, decisions=decisions)


def _bare(event: Event) -> tuple[str, int, dict[str, Any]]:
    hidden = ("path", "interruptId")
    return str(event.kind), event.at, {name: value for name, value in event.data.items() if name not in hidden}


# Hostile models


@MANY
@given(hostile())
def test_a_model_gets_nothing_but_what_was_offered_and_approved(world: NestedWorld) -> None:
    """Whatever it says: only offered tools are ever pending, those that need approval only as they were approved;
    each of its calls has exactly one result; nothing comes after the terminal.
    """
    world.run(12)
    opened_nodes(world.events)
    every_call_is_answered(world.records)


@SOME
@given(nested())
def test_graphs_with_children_and_agents_come_to_an_end(world: NestedWorld) -> None:
    """Streams are whole, conversations are whole, and nothing is left in any frame."""
    machine = world.run()
    opened_nodes(world.events)
    every_call_is_answered(world.records)
    assert (machine.pending, machine.timers, machine.interrupts, machine.root.children) == ({}, {}, {}, {})
    root = machine.root
    assert (root.loops, root.batches, root.waits, root.held) == ({}, {}, {}, {})


# Folding


def watch(machine: Machine) -> list[Any]:
    """The whole state of all frames as plain values."""
    return [observe(machine), *(observed(frame) for frame in frames(machine))]


def observed(frame: Frame) -> dict[str, Any]:
    seen = observe_frame(frame)
    seen["loops"] = [(node, list(observe_loop(loop).items())) for node, loop in frame.loops.items()]
    return seen


ALL = nested() | hostile()


@SOME
@given(ALL, st.integers(0, 10**6))
def test_folding_is_the_same_however_a_journal_with_children_is_cut(world: NestedWorld, cut: int) -> None:
    """fold(a + b) = fold(fold(a), b), through JSON too; a copy shares nothing with what it was copied from."""
    held = world.run(60)
    entries = [decode_entry(encode_entry(entry)) for entry in world.entries]
    assert entries == world.entries
    whole = fold(held.plan, entries, plans=world.plans)
    first = fold(held.plan, entries[: cut % len(entries)], plans=world.plans)
    before = watch(first)
    second = first.copy()
    assert watch(second) == before
    for entry in entries[cut % len(entries) :]:
        second.apply(entry)
    assert watch(first) == before
    assert watch(second) == watch(whole) == watch(held)
    for entry in entries[cut % len(entries) :]:
        first.apply(entry)
    assert watch(first) == watch(whole)


@SOME
@given(ALL)
def test_copies_with_children_give_the_same_events(world: NestedWorld) -> None:
    """A copy of each state of a run with children goes on as the state itself."""
    world.run(60)
    state = Machine(world.machine.plan, None, world.plans)
    events: list[Event] = []
    for entry in world.entries:
        state = state.copy()
        state.sink = []
        state.apply(entry)
        events += state.take_events()
    assert events == world.events
    assert [event.kind in TERMINAL for event in events][-1]


@SOME
@given(ALL, st.lists(GARBAGE, min_size=1, max_size=20), st.integers(0, 3))
def test_an_illegal_entry_changes_nothing_in_any_frame(world: NestedWorld, garbage: list[Entry], aim: int) -> None:
    """Aimed at the frames there are, whatever arrives is legal or raises and leaves every frame whole."""
    world.run(25)
    state = Machine(world.machine.plan, None, world.plans)
    for position, entry in enumerate(world.entries):
        before, twin = watch(state), state.copy()
        for odd in _odd(garbage[position % len(garbage)], state, aim):
            try:
                twin.apply(odd)
            except IllegalEntry:
                assert watch(twin) == before
            else:
                twin = state.copy()
        assert watch(state) == before
        state.apply(entry)


def _odd(entry: Entry, state: Machine, aim: int) -> Iterator[Entry]:
    """The entry, moved into a frame; and answers that fit an effect or interrupt in all but one thing."""
    inside = [frame.place.within for frame in frames(state)]
    yield replace(entry, within=inside[aim % len(inside)]) if hasattr(entry, "within") else entry
    for address, effect in list(state.pending.items())[:2]:
        node, visit, number = address[-3:]
        for attempt, within in ((effect.attempt + 1, address[:-3]), (effect.attempt, (*address[:-3], 1, 1, 0, 1))):
            yield Sent(5, node, visit, number, attempt, within)
            yield Opened(5, node, visit, number, attempt, "skill", 9, "v", None, None, within)
        yield Opened(5, node, visit, number, effect.attempt, "workflow", 77, "v", None, None, address[:-3])
    for name, interrupt in list(state.interrupts.items())[:1]:
        wrong = "connected" if interrupt.type == "approval" else "approve"
        yield Resumed(5, "x", Started(0, "", state.starter, None, {}).by, (Decision(name, wrong),))


@SOME
@given(ALL)
def test_keys_of_all_frames_are_unique_and_outlive_attempts(world: NestedWorld) -> None:
    """One address, one key; two effects of different steps never share one; all are ASCII."""
    world.run(60)
    state = Machine(world.machine.plan, None, world.plans)
    keys: dict[tuple[int, ...], str] = {}
    for entry in world.entries:
        state.apply(entry)
        for address, effect in state.pending.items():
            timeless = tuple(part for position, part in enumerate(address) if position % 4 != 3)
            assert keys.setdefault(timeless, effect.key) == effect.key
            assert effect.key.isascii()
    assert len(set(keys.values())) == len(keys)


# Growth


def test_many_children_cost_as_much_as_each() -> None:
    """Twice as many children and rounds take about twice as many calls of functions."""
    counts = [_calls_of(_crowd, size) for size in (40, 80)]
    assert counts[1] / counts[0] < 2.2
    counts = [_calls_of(_long_conversation, size) for size in (40, 80)]
    assert counts[1] / counts[0] < 2.2


def _crowd(size: int) -> None:
    call = {"toolId": "core.workflow", "params": {"workflowId": 1}, "forEach": "input", "maxConcurrency": size}
    wait = {"toolId": "core.wait", "params": {"seconds": 1}}
    history = History(
        sketch("s -> call", call=call), list(range(size)), children={1: sketch("s -> a", "s -> w", w=wait)}
    )
    for effect in list(history.machine.pending.values()):
        history.apply(Opened(history.at, *effect.address, 1, "workflow", 1, "v", {}))
    for address in list(history.machine.pending):
        history.apply(decode_entry(encode_entry(_done(history, address))))
    history.apply(TimePassed(history.at + 1000))
    assert history.machine.output == [{"a": 1, "w": {"seconds": 1}}] * size


def _long_conversation(size: int) -> None:
    reply = {"text": "", "toolCalls": [{"id": "c", "name": "look", "args": {}}]}
    context = {"tools": [{"name": "look", "toolId": "look", "kind": "tool"}]}
    limits = Limits(max_agent_rounds=size + 1)
    history = History(sketch("s -> a", a={"type": "agent", "agent_id": 1}), limits=limits).succeed("a", context)
    for _ in range(size):
        history.succeed("a", reply).succeed("a", "x")
    assert history.succeed("a", "bye").machine.output == "bye"


def _done(history: History, address: tuple[int, ...]) -> Entry:
    node, visit, number = address[-3:]
    return Succeeded(history.at, node, visit, number, 1, 1, None, address[:-3])


def _calls_of(work: Any, size: int) -> int:
    count = 0

    def note(frame: Any, event: str, given: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work(size)
    finally:
        sys.setprofile(None)
    return count
