"""The run machine against the reference, over random graphs, outcomes and orders of completion; its laws."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import FAILED, Outcome, Reference, interpret
from worlds import ANN, FATES, GIVEN, ORDERS, Structure, World, structured, tangled, worlds

from wfcore.domain.run.entries import (
    Cancelled,
    Decision,
    Entry,
    Failed,
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
from wfcore.domain.run.flow import GraphFlow
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.state import AgentLoop, Batch, Frame, Left, RunState
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.replay import fold, step
from wfcore.domain.run.state import IllegalEntry, RunStatus

SOME = settings(max_examples=25)

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
            paused = self.world.machine.paused
            assert paused or self.known.ready() == [], "the machine rests though nodes are ready"
        assert not self.known.void


@SOME
@given(worlds(tangled()))
def test_every_step_is_one_that_the_definition_allows(world: World) -> None:
    """On graphs of any shape the machine starts, skips and re-arms what the reference does, and leaves
    nothing out.
    """
    watcher = Watcher(world)
    assume(watcher.known.reducible)
    machine = world.run()
    well_formed(world.events)
    if machine.status == RunStatus.done:
        assert machine.output == watcher.known.result()


@SOME
@given(tangled(), st.booleans())
def test_only_runs_of_plans_that_need_a_driver_stay_open(structure: Structure, calls: bool) -> None:
    """After the first entry, the turn of any other run has ended."""
    actions = [node for node in structure["nodes"] if node["type"] == "action"]
    for node in actions if not calls else ():
        node["data"] = {"toolId": "core.transform", "params": {"value": 7}}
    plan = compile_plan(structure)
    machine = Machine(plan)
    machine.apply(Started(1, "run", ANN, GIVEN, {}))
    assert plan.needs_driver or not machine.turn_open


@SOME
@given(worlds(structured()))
def test_nested_blocks_do_what_the_reference_says(world: World) -> None:
    """Status, output and the number of visits of every node are those of an interpreter without order."""
    Watcher(world)
    machine = world.run()
    status, output, starts = interpret(world.structure, naive(world))
    assert (str(machine.status), plain(machine.output)) == (status, output)
    if status == "done":
        visits = {node.id: machine.root.visits[node.index] for node in machine.plan.nodes}
        assert visits == starts
    well_formed(world.events)


def naive(world: World) -> Callable[[str, int, Mapping[str, Any]], Outcome]:
    """The outcome of one visit, computed without the machine."""
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


@SOME
@given(structured(loops=False, people=False), FATES, ORDERS, ORDERS)
def test_the_order_of_completion_does_not_matter(
    structure: Structure, fates: list[int], one: list[int], other: list[int]
) -> None:
    """Without cycles and people, status and output are the same whichever effect ends first."""
    machines = [World(structure, fates, order).run() for order in (one, other)]
    assert machines[0].status == machines[1].status
    assert machines[0].output == machines[1].output


@SOME
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
        elif event.kind in (EventKind.node_finished, EventKind.node_failed) or "reason" in event.data:
            open_nodes.remove(node)
    assert events[-1].data.get("status") != "done" or not open_nodes


# The laws of folding.


HIDDEN = ("root", "plans", "sink", "records", "steps")


def observe(machine: Machine) -> dict[str, Any]:
    """The whole state, without the frames in the root, as plain values, in an order that shows."""
    state = {name: _settled(getattr(machine.state, name)) for name in RunState.__slots__ if name not in HIDDEN}
    return {**state, "root": observe_frame(machine.root)}


def observe_frame(frame: Frame) -> dict[str, Any]:
    """One frame, without those inside it, as plain values."""
    seen = {
        name: getattr(frame, name) for name in Frame.__slots__ if name not in ("plan", "outer", "children", "loops")
    }
    seen["flow"] = {
        name: list(getattr(frame.flow, name).items()) if name == "edges" else list(getattr(frame.flow, name))
        for name in GraphFlow.__slots__
        if name != "plan"
    }
    seen["batches"] = {
        node: {name: getattr(batch, name) for name in Batch.__slots__} for node, batch in frame.batches.items()
    }
    seen["left"] = {node: observe_left(left) for node, left in frame.left.items()}
    return {name: _settled(value) for name, value in seen.items()}


def observe_left(left: Left) -> dict[str, Any]:
    """What a visit left behind, with all frames in it, as plain values."""
    seen = {name: getattr(left, name) for name in Left.__slots__}
    seen["batch"] = left.batch and {name: getattr(left.batch, name) for name in Batch.__slots__}
    seen["loop"] = left.loop and observe_loop(left.loop)
    seen["children"] = {step: _observe_tree(child) for step, child in left.children.items()}
    return seen


def observe_loop(loop: AgentLoop) -> dict[str, Any]:
    """One visit of an agent as plain values."""
    return {name: repr(getattr(loop, name)) for name in AgentLoop.__slots__}


def _observe_tree(frame: Frame) -> dict[str, Any]:
    inside = {address: _observe_tree(child) for address, child in frame.children.items()}
    loops = {node: observe_loop(loop) for node, loop in frame.loops.items()}
    return {**observe_frame(frame), "loops": loops, "children": inside}


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _settled(item)) for key, item in value.items()]
    return [_settled(item) for item in value] if isinstance(value, list | tuple) else value


WORLDS = worlds(structured() | tangled())


@SOME
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


@SOME
@given(WORLDS)
def test_steps_leave_the_state_before_them_alone(world: World) -> None:
    """step is a fold of one: the same states, and events for who watches, and the given state untouched."""
    world.run()
    state = Machine(world.machine.plan)
    events: list[Event] = []
    for entry in world.entries:
        before = observe(state)
        after = step(state, entry)
        watched = state.copy()
        watched.sink = []
        watched.apply(entry)
        assert observe(state) == before
        assert observe(after) == observe(watched)
        state = after
        events += watched.take_events()
    assert observe(state) == observe(world.machine)
    assert events == world.events


@SOME
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
DECISIONS = st.builds(Decision, st.sampled_from(["int_1", "open"]), st.sampled_from(["approve", "deny", "yes"]))
GARBAGE = st.one_of(
    st.builds(Succeeded, st.just(5), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.none()),
    st.builds(Failed, st.just(5), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.just("x"), retryable=st.booleans()),
    st.builds(Said, st.just(5), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.just("x")),
    st.builds(Started, st.just(5), st.just("x"), st.just(ANN), st.none(), st.just({})),
    st.builds(TimePassed, st.integers(0, 10**14)),
    st.builds(Paused, st.just(5), st.just(ANN)),
    st.builds(Cancelled, st.just(5), st.just(ANN)),
    st.builds(Resumed, st.just(5), st.just("x"), st.none() | st.just(ANN)),
    st.builds(
        Resumed, st.just(5), st.just("x"), st.none() | st.just(ANN),
        st.lists(DECISIONS, min_size=1, max_size=3).map(tuple),
    ),
)  # fmt: skip


@SOME
@given(WORLDS, st.lists(GARBAGE, min_size=1, max_size=30))
def test_an_illegal_entry_changes_nothing(world: World, garbage: list[Entry]) -> None:
    """In every state of a run, whatever arrives either is legal or raises IllegalEntry and leaves the state
    whole.
    """
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
    decisions = tuple(Decision(name, d.decision) if d.interrupt_id == "open" else d for d in entry.decisions)
    return Resumed(entry.at, entry.run_id, entry.by, decisions)


@SOME
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
