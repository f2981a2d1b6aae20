"""Retries and forks over random graphs, outcomes and moments: nothing that was completed is done again."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import FAILED
from test_run_laws import Watcher, well_formed
from worlds import ANN, FATES, ORDERS, CompletingWorld, Structure, World, structured, tangled

from wfcore.domain.run.entries import Cancelled, Failed, Forked, Retried
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.rewind import differences
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.replay import fold
from wfcore.domain.run.state import RunStatus

SOME = settings(max_examples=60)
MOST_TURNS = 6
MOST_STEPS = 2_000 * MOST_TURNS
"""As many for each retry as for a run without one: the bound of node visits counts from the beginning of each."""


class RepairedWorld(CompletingWorld):
    """A world whose run is cancelled after some entries, and retried whenever it has failed or was cancelled."""

    def __init__(self, structure: Structure, fates: list[int], order: list[int], cancels: list[int]) -> None:
        super().__init__(structure, fates, order)
        self.cancels, self.turns = cancels, 1
        self.mended: Structure | None = None

    def run(self) -> Machine:
        self.start()
        for count in range(MOST_STEPS):
            if self.machine.ended:
                if self.machine.status is RunStatus.done or self.turns == MOST_TURNS:
                    return self.machine
                self.retry()
            elif len(self.entries) in self.cancels:
                self.apply(Cancelled(self.at, ANN))
            else:
                options = self.options()
                self.apply(options[self.order[count % len(self.order)] % len(options)])
        raise AssertionError("the run does not end")

    def retry(self) -> None:
        self.turns += 1
        self.apply(Retried(self.at, f"retry-{self.turns}", ANN))


@st.composite
def repaired_worlds(draw: st.DrawFn, graphs: st.SearchStrategy[Structure]) -> RepairedWorld:
    cancels = draw(st.lists(st.integers(1, 25), max_size=3))
    return RepairedWorld(draw(graphs), draw(FATES), draw(ORDERS), cancels)


def well_formed_parts(events: list[Event]) -> None:
    """The streams between two retries are well formed: a retry starts again what was under way."""
    begins = [n for n, event in enumerate(events) if event.kind == "run_started" and event.run_id.startswith("retry")]
    for first, last in pairwise([0, *begins, len(events)]):
        well_formed(events[first:last])


class RepairedWatcher(Watcher):
    """Also lets the reference retry: what did not end well can start again."""

    def __init__(self, world: RepairedWorld) -> None:
        super().__init__(world)
        world.retry = self.retry(world.retry)  # type: ignore[method-assign]

    def retry(self, before: Any) -> Any:
        def retried() -> None:
            known = self.known
            known.running.clear()
            known.void.clear()
            known.outcome = {node: outcome for node, outcome in known.outcome.items() if outcome != FAILED}
            before()

        return retried

    def rest(self) -> None:
        """A run that is cancelled while it is paused leaves nodes that are ready: its retry has to start them."""
        if self.world.machine.status is RunStatus.cancelled:
            assert not self.known.void
        else:
            super().rest()


@SOME
@given(repaired_worlds(tangled()))
def test_every_step_after_a_retry_is_one_that_the_definition_allows(world: RepairedWorld) -> None:
    """On graphs of any shape the result is that of the reference, whatever was cancelled and retried."""
    watcher = RepairedWatcher(world)
    assume(watcher.known.reducible)
    machine = world.run()
    well_formed_parts(world.events)
    if machine.status == RunStatus.done:
        assert machine.output == watcher.known.result()


@SOME
@given(repaired_worlds(structured()))
def test_a_journal_with_retries_leads_to_the_same_state(world: RepairedWorld) -> None:
    """Folded in one go, from its entries alone."""
    machine = world.run()
    folded = fold(compile_plan(world.structure), world.entries)
    assert (folded.status, folded.output, folded.run_id, folded.seq) == (
        machine.status, machine.output, machine.run_id, machine.seq,
    )  # fmt: skip
    assert dict(folded.pending) == dict(machine.pending)


# Other graphs


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Some changes of a graph, by name and two numbers that choose where."""
    number = st.integers(0, 30)
    names = st.sampled_from(["drop edge", "add edge", "add node", "drop node", "into edge", "data"])
    return draw(st.lists(st.tuples(names, number, number), min_size=1, max_size=3))


def changed(structure: Structure, how: list[tuple[str, int, int]]) -> Structure:
    """The structure after these changes."""
    other = deepcopy(structure)
    for count, (name, one, two) in enumerate(how):
        nodes, edges = other["nodes"], other["edges"]
        source, target = nodes[one % len(nodes)]["id"], nodes[1 + two % (len(nodes) - 1)]["id"]
        new = {"id": f"new{count}", "type": "action", "data": {"toolId": "tool", "params": {}}}
        if name == "drop edge" and edges:
            edges.pop(one % len(edges))
        elif name == "add edge" and source != target:
            edges.append({"id": f"edge{count}", "source": source, "target": target})
        elif name == "add node":
            nodes.append(new)
            edges.append({"id": f"edge{count}", "source": source, "target": new["id"]})
        elif name == "drop node" and len(nodes) > 2:
            other["nodes"] = [node for node in nodes if node["id"] != target]
            other["edges"] = [edge for edge in edges if target not in (edge["source"], edge["target"])]
        elif name == "into edge" and edges:
            nodes.append(new)
            edge = edges[one % len(edges)]
            edges.append({"id": f"edge{count}", "source": new["id"], "target": edge["target"]})
            edge["target"] = new["id"]
        elif name == "data" and nodes[one % len(nodes)]["type"] == "action":
            nodes[one % len(nodes)]["data"]["params"] = {"n": two}
    return other


def reaches_all(structure: Structure) -> bool:
    """Whether the start reaches every node."""
    found = [structure["nodes"][0]["id"]]
    for node in found:
        found += [e["target"] for e in structure["edges"] if e["source"] == node and e["target"] not in found]
    return len(set(found)) == len(structure["nodes"])


def is_start_first(structure: Structure) -> bool:
    return structure["nodes"][0]["type"] == "start"


@settings(max_examples=150)
@given(repaired_worlds(tangled()), changes())
def test_what_fits_goes_on_and_repeats_nothing(world: RepairedWorld, how: list[tuple[str, int, int]]) -> None:
    """If the journal fits a graph, the retry on it ends without an illegal move, and no completed effect is repeated;
    a refused retry has differences, and has moved nothing.
    """
    mended = changed(world.structure, how)
    assume(is_start_first(mended) and reaches_all(mended))
    pinned = "workflow", 1, "mended"
    plan = compile_plan(mended)
    plain = world.retry

    def retry() -> None:
        machine = world.machine
        if machine.pinned is not None or differences(machine.root, plan):
            plain()
            return
        machine.plans = {pinned: plan}
        world.turns += 1
        world.apply(Retried(world.at, f"retry-{world.turns}", ANN, pinned))

    world.retry = retry  # type: ignore[method-assign]
    machine = world.run()
    folded = fold(compile_plan(world.structure), world.entries, plans={pinned: plan})
    assert (folded.status, folded.output) == (machine.status, machine.output)
    well_formed_parts(world.events)


@SOME
@given(repaired_worlds(tangled()), st.integers(0, 20), st.integers(0, 20))
def test_a_fork_leaves_its_source_and_repeats_only_what_follows(world: RepairedWorld, cut: int, chosen: int) -> None:
    """It goes on from any moment before any node; its effects have keys of their own."""
    world.run()
    entries = world.entries[: 1 + cut % len(world.entries)]
    machine = fold(compile_plan(world.structure), entries)
    names = [node.id for node in machine.plan.nodes if machine.root.visits[node.index]]
    fork = World(world.structure, world.fates, world.order)
    fork.machine = Machine(compile_plan(world.structure), [])
    for entry in entries:
        fork.machine.apply(entry)
    fork.machine.take_events()
    fork.at = world.at
    fork.apply(Forked(world.at, "fork", ANN, "own", (names[chosen % len(names)],)))
    for count in range(2_000):
        if fork.machine.ended:
            break
        assert all(effect.key.startswith("own:") for effect in fork.machine.pending.values())
        options = fork.options()
        fork.apply(options[world.order[count % len(world.order)] % len(options)])
    assert fork.machine.ended
    well_formed(fork.events)
    assert all(not isinstance(entry, Failed) or entry.at <= fork.at for entry in fork.entries)
