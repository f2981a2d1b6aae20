"""Moves of parked runs over random graphs, outcomes and moments: what waits stays, and nothing is done twice."""

from copy import deepcopy
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_repair_laws import changed, changes, is_start_first, reaches_all
from test_run_laws import Watcher, well_formed
from worlds import ANN, FATES, ORDERS, CompletingWorld, Structure, structured, tangled

from wfcore.domain.run.entries import Entry, Moved
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Plan, compile_plan
from wfcore.domain.run.replay import fold
from wfcore.domain.run.state import IllegalEntry, RunStatus

SOME = settings(max_examples=80)


class MovingWorld(CompletingWorld):
    """A world whose run moves to another graph whenever it is parked, if it fits; `moved` counts how often."""

    def __init__(self, structure: Structure, fates: list[int], order: list[int], others: list[Structure]) -> None:
        super().__init__(structure, fates, order)
        self.plans: dict[tuple[str, int, str], Plan] = {
            ("workflow", 1, f"v{count}"): compile_plan(other) for count, other in enumerate(others)
        }
        self.machine.plans = self.plans
        self.moved = 0
        self.misfits: list[Any] = []

    def options(self) -> list[Entry]:
        if not self.machine.turn_open:
            self.move()
        return super().options()

    def move(self) -> None:
        key = list(self.plans)[self.moved % len(self.plans)]
        machine, before = self.machine, shown(self.machine)
        if machine.plan is self.plans[key]:
            return
        try:
            machine.check(Moved(self.at, ANN, key))
        except IllegalEntry as refused:
            self.misfits += refused.info["differences"]
        else:
            self.apply(Moved(self.at, ANN, key))
            self.moved += 1
        assert shown(machine) == before


def shown(machine: Machine) -> Any:
    """What clients and drivers see of a parked run, beside the positions of nodes."""
    effects = [(effect.key, effect.attempt, effect.not_before) for effect in machine.pending.values()]
    waits = [(name, one.node_id, one.visit, one.answers) for name, one in machine.interrupts.items()]
    rest = machine.status, machine.run_id, machine.seq, machine.nodes
    return deepcopy((effects, waits, list(machine.timers.values()), machine.next_due(), *rest))


@st.composite
def shuffled(draw: st.DrawFn, graphs: st.SearchStrategy[Structure]) -> MovingWorld:
    """A world that moves between orders of the nodes and edges of one graph."""
    graph = draw(graphs)
    orders = [
        {"nodes": [graph["nodes"][0], *draw(st.permutations(graph["nodes"][1:]))], "edges": graph["edges"]}
        for _ in range(2)
    ]
    return MovingWorld(graph, draw(FATES), draw(ORDERS), orders)


@SOME
@given(shuffled(structured() | tangled()))
def test_a_move_to_the_same_graph_changes_nothing(world: MovingWorld) -> None:
    """Whatever the positions of its nodes are: it always fits, and the run goes on as the definition allows."""
    watcher = Watcher(world)
    assume(watcher.known.reducible)
    machine = world.run()
    assert world.misfits == []
    well_formed(world.events)
    if machine.status is RunStatus.done:
        assert machine.output == watcher.known.result()
    folded = fold(compile_plan(world.structure), world.entries, plans=world.plans)
    assert shown(folded) == shown(machine)
    assert (folded.output, folded.pinned) == (machine.output, machine.pinned)


@st.composite
def mended(draw: st.DrawFn, graphs: st.SearchStrategy[Structure]) -> MovingWorld:
    graph = draw(graphs)
    other = changed(graph, draw(changes()))
    assume(is_start_first(other) and reaches_all(other))
    nodes = [other["nodes"][0], *draw(st.permutations(other["nodes"][1:]))]
    return MovingWorld(graph, draw(FATES), draw(ORDERS), [{**other, "nodes": nodes}])


@settings(max_examples=150)
@given(mended(structured() | tangled()))
def test_what_fits_goes_on_and_repeats_nothing(world: MovingWorld) -> None:
    """A run that was moved to another graph ends without an illegal move; one that does not fit is as it was."""
    machine = world.run()
    well_formed(world.events)
    folded = fold(compile_plan(world.structure), world.entries, plans=world.plans)
    assert (folded.status, folded.output, folded.seq) == (machine.status, machine.output, machine.seq)
